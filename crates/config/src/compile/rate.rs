//! Compilation of `mcp.rate_limits`: the rate limits of servers.

use mcpmon_model::NameGlob;
use mcpmon_policy::{RateLimit, RateLimits};

use crate::{
    load::{KeyMistake, KeyPath},
    raw,
};

/// Compiles `mcp.rate_limits`.
pub(super) fn limits(raw: &raw::RateLimits, mistakes: &mut Vec<KeyMistake>) -> RateLimits {
    let section = KeyPath::root().key("mcp").key("rate_limits");
    let mut limit = |path: KeyPath, keys: [&str; 2], per_minute: u32, burst: u32| {
        for (key, value) in keys.into_iter().zip([per_minute, burst]) {
            if value == 0 {
                mistakes.push(KeyMistake::new(
                    path.key(key),
                    "no call could pass: expected at least 1 (`mcp.server_policy` refuses a server)",
                ));
            }
        }
        RateLimit { per_minute, burst }
    };
    let default = limit(
        section.clone(),
        ["default_rpm", "default_burst"],
        raw.default_rpm,
        raw.default_burst,
    );
    let per_server = raw.per_server.iter().map(|(glob, entry)| {
        let path = section.key("per_server").key(glob);
        let burst = entry.burst.unwrap_or(raw.default_burst);
        let limit = match entry.burst {
            Some(_) => limit(path, ["calls_per_minute", "burst"], entry.calls_per_minute, burst),
            None => limit(
                path,
                ["calls_per_minute", "calls_per_minute"],
                entry.calls_per_minute,
                burst.max(1),
            ),
        };
        (NameGlob::new(glob), limit)
    });
    RateLimits {
        enabled: raw.enabled,
        default,
        per_server: per_server.collect(),
        on_top: None,
    }
}

//! `mcp.rate_limits`: how often servers may be called.

use std::time::Duration;

use mcpmon_model::{NameGlob, ServerId};

use super::is_listed;

/// The rate limits of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// True if calls are limited.
    pub enabled: bool,
    /// The limit for a server that has no entry.
    pub default: RateLimit,
    /// Limits by glob over server ids.
    pub per_server: Vec<(NameGlob, RateLimit)>,
    /// The limits of a second policy, which must also allow a call.
    pub on_top: Option<Box<Self>>,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Calls a minute; 0 allows none.
    pub per_minute: u32,
    /// Calls at once, at least 1.
    pub burst: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            enabled: true,
            default: RateLimit {
                per_minute: 600,
                burst: 60,
            },
            per_server: Vec::new(),
            on_top: None,
        }
    }
}

impl RateLimits {
    /// Returns the limit for `server`: the entry with exactly its name, else the strictest entry that matches it, else
    /// the default; `None` if calls are not limited. With a second policy, the smaller numbers apply.
    pub fn of(&self, server: &ServerId) -> Option<RateLimit> {
        let on_top = self.on_top.as_ref().and_then(|on_top| on_top.of(server));
        match (self.own(server), on_top) {
            (Some(own), Some(on_top)) => Some(RateLimit {
                per_minute: own.per_minute.min(on_top.per_minute),
                burst: own.burst.min(on_top.burst),
            }),
            (own, on_top) => own.or(on_top),
        }
    }

    fn own(&self, server: &ServerId) -> Option<RateLimit> {
        if !self.enabled {
            return None;
        }
        let mut matching = self
            .per_server
            .iter()
            .filter(|(glob, _)| is_listed(std::slice::from_ref(glob), server));
        let named = self
            .per_server
            .iter()
            .find(|(glob, _)| glob.as_str() == server.as_str());
        let strictest = named.or_else(|| {
            matching
                .by_ref()
                .min_by_key(|(_, limit)| (limit.per_minute, limit.burst))
        });
        Some(strictest.map_or(self.default, |(_, limit)| *limit))
    }
}

impl RateLimit {
    /// Returns the time in which an empty bucket fills; at most a day, which is longer than a session.
    pub fn refill(self) -> Duration {
        const DAY: Duration = Duration::from_hours(24);
        match self.per_minute {
            0 => DAY,
            rate => Duration::from_millis(u64::from(self.burst) * 60_000 / u64::from(rate)).min(DAY),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("weather" => Some((10, 3)); "its own entry")]
    #[test_case("web-search" => Some((5, 9)); "the strictest of the globs")]
    #[test_case("web-fetch" => Some((30, 30)); "one glob")]
    #[test_case("files" => Some((600, 60)); "no entry")]
    fn limits_of_servers(server: &str) -> Option<(u32, u32)> {
        let limit = |glob: &str, per_minute, burst| (NameGlob::new(glob), RateLimit { per_minute, burst });
        let limits = RateLimits {
            per_server: vec![
                limit("w*r", 1, 1),
                limit("weather", 10, 3),
                limit("web-*", 30, 30),
                limit("*-search", 5, 9),
            ],
            ..RateLimits::default()
        };
        let limit = limits.of(&ServerId::new(server).expect("an id"))?;
        Some((limit.per_minute, limit.burst))
    }

    #[test]
    fn nothing_is_limited_where_limits_are_off() {
        let limits = RateLimits {
            enabled: false,
            ..RateLimits::default()
        };
        assert_eq!(limits.of(&ServerId::new("a").expect("an id")), None);
    }
}

//! Compilation of the settings outside the policy: the store and its sinks, metrics, body storage, listing of remote
//! servers.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use mcpmon_policy::ProxyMode;
use mcpmon_store::SectionFaults;

use crate::{
    load::{KeyMistake, KeyPath},
    raw,
    settings::{BodyStorageSettings, DiscoverySettings, RecordSettings},
};

/// Smallest `record.max_size`: SQLite's own files take part of it.
const MIN_STORE: u64 = 1 << 20;

/// Compiles the `record` section.
pub(super) fn record(raw: &raw::Record, mistakes: &mut Vec<KeyMistake>) -> RecordSettings {
    let mut faults = SectionFaults::default();
    let path = faults.file("path", &raw.store.path);
    let sinks = raw.sinks.check(&mut faults);
    let retention = raw.store.retention.0.0;
    if retention.is_zero() {
        faults.push(
            "retention",
            "no event would be kept: expected a duration over 0, for example `30d`",
        );
    }
    let max_size = raw.store.max_size.0.0;
    if max_size < MIN_STORE {
        faults.push("max_size", "too small for a database: expected at least `1MiB`");
    }
    let section = KeyPath::root().key("record");
    let faults = faults.into_iter();
    mistakes.extend(faults.map(|(key, message)| KeyMistake::new(section.key(key), message)));
    RecordSettings {
        path,
        sinks,
        retention,
        max_size,
    }
}

/// Compiles the `metrics` section.
pub(super) fn metrics(raw: &raw::Metrics, mistakes: &mut Vec<KeyMistake>) -> Option<SocketAddr> {
    if raw.listen.is_empty() {
        return None;
    }
    let path = KeyPath::root().key("metrics").key("listen");
    let address: SocketAddr = match raw.listen.parse() {
        Ok(address) => address,
        Err(error) => {
            let message = format!("`{}` is no address such as `127.0.0.1:9484`: {error}", raw.listen);
            mistakes.push(KeyMistake::new(path, message));
            return None;
        }
    };
    if !address.ip().to_canonical().is_loopback() && !raw.allow_remote {
        let message = "no loopback address, and nothing asks who reads there: names of servers and rules would be \
                       served to every host that reaches it. To allow that, set `allow_remote: true`";
        mistakes.push(KeyMistake::new(path, message));
    }
    Some(address)
}

/// Shortest interval between two rounds, because other people's servers are asked.
const MIN_DISCOVERY: Duration = Duration::from_secs(10);

/// Compiles `mcp.discovery`.
pub(super) fn discovery(raw: &raw::Discovery, mistakes: &mut Vec<KeyMistake>) -> DiscoverySettings {
    let interval = raw.interval.0.0;
    if interval < MIN_DISCOVERY {
        let path = KeyPath::root().key("mcp").key("discovery").key("interval");
        mistakes.push(KeyMistake::new(
            path,
            "servers would be asked without a pause: expected at least `10s`; `enabled: false` asks none",
        ));
    }
    DiscoverySettings {
        enabled: raw.enabled,
        interval,
    }
}

/// Largest `max_body`: no longer body is judged.
const MAX_BODY: u64 = 64 << 20;

/// Compiles the section. Returns `None` if no bodies are to be stored; mistakes are reported nevertheless.
pub(super) fn bodies(config: &raw::Config, mistakes: &mut Vec<KeyMistake>) -> Option<BodyStorageSettings> {
    let raw = &config.llm_storage;
    let section = KeyPath::root().key("llm_storage");
    let key_file = Some(PathBuf::from(&raw.key_file)).filter(|path| !path.as_os_str().is_empty());
    if key_file.as_ref().is_some_and(|path| path.is_relative()) {
        let message = "expected an absolute path: a daemon has no working directory to speak of";
        mistakes.push(KeyMistake::new(section.key("key_file"), message));
    }
    let max_body = raw.max_body.0.0;
    if !(1..=MAX_BODY).contains(&max_body) {
        let message = "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`";
        mistakes.push(KeyMistake::new(section.key("max_body"), message));
    }
    let retention = raw.retention.0.0;
    if retention.is_zero() {
        let message = "no body would be kept: expected a duration over 0, for example `7d`";
        mistakes.push(KeyMistake::new(section.key("retention"), message));
    }
    let is_wanted = raw.store_bodies || config.proxy.mode == ProxyMode::McpOnly;
    is_wanted.then_some(BodyStorageSettings {
        key_file,
        max_body: usize::try_from(max_body.min(MAX_BODY)).unwrap_or(usize::MAX),
        retention,
    })
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn compiled(text: &str) -> (Option<BodyStorageSettings>, Vec<String>) {
        let raw: raw::Config = serde_json::from_str(text).expect("a configuration");
        let mut mistakes = Vec::new();
        let settings = bodies(&raw, &mut mistakes);
        (
            settings,
            mistakes.into_iter().map(|finding| finding.message).collect(),
        )
    }

    #[test_case(r#"{"jsonl": "/e", "format": "ocsf", "jsonl_max_size": "64KiB", "jsonl_keep": 999}"# => ""; "every key of the file")]
    #[test_case(r#"{"format": "ocsf"}"# => "no file is written that would have this form: set `jsonl` too"; "a form of no file")]
    #[test_case(r#"{"jsonl": "/e", "jsonl_max_size": "1KiB"}"# => "a file would hold a few events only: expected at least `64KiB`"; "a small file")]
    #[test_case(r#"{"jsonl": "/e", "jsonl_keep": 0}"# => "expected a number of files from 1 to 999, which are kept beside the one that is written to"; "no files")]
    fn mistakes_about_the_file(section: &str) -> String {
        let raw: raw::Config =
            serde_json::from_str(&format!(r#"{{"record": {section}}}"#)).expect("a configuration");
        let mut mistakes = Vec::new();
        record(&raw.record, &mut mistakes);
        let messages = mistakes.into_iter().map(|finding| finding.message);
        messages.collect::<Vec<_>>().join("\n")
    }

    #[test_case("{}" => false; "by default nothing")]
    #[test_case(r#"{"llm_storage": {"store_bodies": true}}"# => true; "what is asked for")]
    #[test_case(r#"{"proxy": {"mode": "mcp-only"}}"# => true; "what the mode implies")]
    #[test_case(r#"{"llm_storage": {"key_file": "/etc/mcpmon/bodies.key"}}"# => false; "a key alone asks for nothing")]
    fn is_kept(text: &str) -> bool {
        compiled(text).0.is_some()
    }

    #[test]
    fn the_keys_mean_what_they_say() {
        let (settings, mistakes) = compiled(
            r#"{"llm_storage": {"store_bodies": true, "key_file": "/k", "max_body": "2KiB", "retention": "1h"}}"#,
        );
        let expected = BodyStorageSettings {
            key_file: Some(PathBuf::from("/k")),
            max_body: 2048,
            retention: Duration::from_hours(1),
        };
        assert_eq!((settings, mistakes), (Some(expected), Vec::new()));
    }

    #[test_case(r#"{"key_file": "bodies.key"}"# => "expected an absolute path: a daemon has no working directory to speak of"; "a relative key")]
    #[test_case(r#"{"max_body": "0B"}"# => "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`"; "nothing of a body")]
    #[test_case(r#"{"max_body": "65MiB"}"# => "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`"; "more than passes")]
    #[test_case(r#"{"retention": "0s"}"# => "no body would be kept: expected a duration over 0, for example `7d`"; "for no time")]
    fn mistakes(section: &str) -> String {
        compiled(&format!(r#"{{"llm_storage": {section}}}"#)).1.join("\n")
    }
}

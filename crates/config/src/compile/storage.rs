//! Storage of the LLM proxy's bodies: `llm_storage`.

use std::path::PathBuf;

use mcpmon_policy::ProxyMode;

use super::Finding;
use crate::{load::KeyPath, raw, settings::BodyStorageSettings};

/// Largest `max_body`: no body that is judged is longer.
const LARGEST: u64 = 64 << 20;

/// Compiles the section; `None` where nothing is to be kept. Mistakes are told all the same.
pub(super) fn compile(config: &raw::Config, findings: &mut Vec<Finding>) -> Option<BodyStorageSettings> {
    let raw = &config.llm_storage;
    let section = KeyPath::root().key("llm_storage");
    let key_file = Some(PathBuf::from(&raw.key_file)).filter(|path| !path.as_os_str().is_empty());
    if key_file.as_ref().is_some_and(|path| path.is_relative()) {
        let message = "expected an absolute path: a daemon has no working directory to speak of";
        findings.push(Finding::new(section.key("key_file"), message));
    }
    let max_body = raw.max_body.0.0;
    if !(1..=LARGEST).contains(&max_body) {
        let message = "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`";
        findings.push(Finding::new(section.key("max_body"), message));
    }
    let retention = raw.retention.0.0;
    if retention.is_zero() {
        let message = "no body would be kept: expected a duration over 0, for example `7d`";
        findings.push(Finding::new(section.key("retention"), message));
    }
    let is_wanted = raw.store_bodies || config.proxy.mode == ProxyMode::McpOnly;
    is_wanted.then_some(BodyStorageSettings {
        key_file,
        max_body: usize::try_from(max_body.min(LARGEST)).unwrap_or(usize::MAX),
        retention,
    })
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn compiled(text: &str) -> (Option<BodyStorageSettings>, Vec<String>) {
        let raw: raw::Config = serde_json::from_str(text).expect("a configuration");
        let mut findings = Vec::new();
        let settings = compile(&raw, &mut findings);
        (
            settings,
            findings.into_iter().map(|finding| finding.message).collect(),
        )
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
        let (settings, findings) = compiled(
            r#"{"llm_storage": {"store_bodies": true, "key_file": "/k", "max_body": "2KiB", "retention": "1h"}}"#,
        );
        let expected = BodyStorageSettings {
            key_file: Some(PathBuf::from("/k")),
            max_body: 2048,
            retention: std::time::Duration::from_hours(1),
        };
        assert_eq!((settings, findings), (Some(expected), Vec::new()));
    }

    #[test_case(r#"{"key_file": "bodies.key"}"# => "expected an absolute path: a daemon has no working directory to speak of"; "a relative key")]
    #[test_case(r#"{"max_body": "0B"}"# => "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`"; "nothing of a body")]
    #[test_case(r#"{"max_body": "65MiB"}"# => "expected a size from `1B` to `64MiB`; to keep nothing, set `store_bodies: false`"; "more than passes")]
    #[test_case(r#"{"retention": "0s"}"# => "no body would be kept: expected a duration over 0, for example `7d`"; "for no time")]
    fn mistakes(section: &str) -> String {
        compiled(&format!(r#"{{"llm_storage": {section}}}"#)).1.join("\n")
    }
}

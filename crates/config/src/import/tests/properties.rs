//! Properties of imports: the result is valid, whatever the original contains.

use std::path::PathBuf;

use proptest::prelude::*;

use super::super::{ImportedTool, import};
use crate::{Source, Sources, load_sources};

/// Keys that are known at some place, and some that are not known anywhere.
const KEYS: [&str; 56] = [
    "sandbox",
    "mcp",
    "mcp_rules",
    "inspection",
    "servers",
    "id",
    "type",
    "command",
    "args",
    "url",
    "tls_fingerprint",
    "env_allow",
    "server_policy",
    "allowed_servers",
    "denied_servers",
    "tool_policy",
    "allowed_tools",
    "denied_tools",
    "server",
    "tool",
    "content_hash",
    "version_pinning",
    "on_change",
    "rate_limits",
    "default_rpm",
    "per_server",
    "calls_per_minute",
    "burst",
    "cross_server",
    "read_then_send",
    "window",
    "max_calls",
    "shadow_tool",
    "similarity_threshold",
    "detection",
    "builtin",
    "custom_patterns",
    "name",
    "pattern",
    "severity",
    "defaults",
    "decision",
    "blocked_tools",
    "rules",
    "match",
    "tool_name_any",
    "tool_name_regex",
    "argument_patterns",
    "value_limits",
    "argument",
    "max",
    "proxy",
    "mode",
    "port",
    "registry",
    "alert_on_change",
];

const VALUES: [&str; 22] = [
    "true",
    "false",
    "1",
    "-1",
    "0.5",
    "1e300",
    "null",
    "\"\"",
    "\"*\"",
    "\"block\"",
    "BLOCK",
    "allowlist",
    "\"sha256:ab\"",
    "\"(?!x)\"",
    "\"[\"",
    "\"30s\"",
    "\"1m30s\"",
    "\"https://example.com\"",
    "\"a\\nb\"",
    "\"\\u2028\"",
    "npx",
    "[]",
];

fn value() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(VALUES.as_slice()).prop_map(str::to_owned);
    leaf.prop_recursive(6, 60, 6, |inner| {
        let key = proptest::sample::select(KEYS.as_slice());
        let members = proptest::collection::btree_map(key, inner.clone(), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            members.prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                format!("{{{}}}", members.join(", "))
            }),
        ]
    })
}

fn usable(from: ImportedTool, text: &str) -> Result<(), TestCaseError> {
    let imported = match import(from, "a\nname", text) {
        Ok(imported) => imported,
        // A file with only the other tool's keys at its root counts as that tool's.
        Err(invalid) if invalid.to_string().contains("did you mean `--from") => return Ok(()),
        Err(invalid) => return Err(TestCaseError::fail(format!("not converted: {invalid}: {text}"))),
    };
    let sources = Sources::of_parts(vec![(
        Source::File(PathBuf::from("imported.yaml")),
        imported.text.clone(),
    )]);
    let loaded = load_sources(&sources.expect("a part"));
    prop_assert!(loaded.is_ok(), "{}\n{}", loaded.unwrap_err(), imported.text);
    Ok(())
}

proptest! {
    #[test]
    fn what_is_imported_can_be_used(value in value(), root in proptest::sample::select(["", "sandbox", "mcp_rules", "mcp", "sandbox: {mcp"].as_slice())) {
        let text = match root {
            "" => value,
            "sandbox: {mcp" => format!("sandbox: {{mcp: {value}}}"),
            root => format!("{root}: {value}"),
        };
        usable(ImportedTool::Agentsh, &text)?;
        usable(ImportedTool::Agentshield, &text)?;
    }

    #[test]
    fn lists_of_one_kind_can_be_used(list in proptest::sample::select(["rules", "value_limits", "resource_rules", "blocked_tools"].as_slice()), items in proptest::collection::vec(value(), 0..4)) {
        usable(ImportedTool::Agentshield, &format!("{list}: [{}]", items.join(", ")))?;
    }
}

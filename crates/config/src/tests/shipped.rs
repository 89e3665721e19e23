//! The policies and the schema that ship with the program.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use mcpmon_policy::{Mode, NameSimilarity, OnChange, Policy, RuleAction, ServerPolicy, Unwrapped};

use super::super::{LoadedConfiguration, Sources, Trust, load_sources, raw, schema};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../policies")
        .join(name)
}

fn load(name: &str) -> LoadedConfiguration {
    let sources = Sources::read(&shipped(name), Trust::Anyone).expect("a shipped policy can be read");
    load_sources(&sources).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_default_enforces_and_refuses_no_address() {
    let loaded = load("default.yaml");
    assert_eq!(loaded.policy.mode, Mode::Enforce);
    assert_eq!(loaded.policy.server_policy, ServerPolicy::None);
    assert_eq!(
        loaded.not_in_force,
        [],
        "the default promises nothing that is not kept"
    );
    assert!(
        loaded
            .policy
            .network
            .rules
            .iter()
            .all(|rule| rule.action == RuleAction::Watch)
    );
    let embedded = load_sources(&Sources::embedded_default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(embedded.policy, loaded.policy);
    assert_eq!(embedded.hash, loaded.hash);
}

#[test]
fn observe_differs_from_the_default_in_its_mode_alone() {
    let observe = load("observe.yaml");
    let mut policy = (*load("default.yaml").policy).clone();
    policy.mode = Mode::Observe;
    assert_eq!(*observe.policy, policy);
    assert_eq!(observe.not_in_force, []);
}

/// `cargo xtask eval` measures the inspection of `Policy::default()`, without a configuration.
#[test]
fn the_default_inspects_as_it_is_measured() {
    let policy = load("default.yaml").policy;
    let measured = Policy::default();
    assert_eq!(policy.mode, measured.mode);
    assert_eq!(policy.inspection, measured.inspection);
    assert_eq!(policy.outputs, measured.outputs);
    assert_eq!(policy.arguments, measured.arguments);
    assert_eq!(policy.limits, measured.limits);
    assert_eq!(policy.llm, measured.llm);
    assert_eq!(policy.suppressions, measured.suppressions);
}

#[test]
fn strict_trusts_nothing_unapproved() {
    let policy = load("strict.yaml").policy;
    assert_eq!(policy.server_policy, ServerPolicy::Allowlist(Vec::new()));
    assert_eq!(policy.pinning.on_change, OnChange::Block);
    assert!(policy.pinning.enabled && !policy.pinning.auto_trust_first);
    assert_eq!(policy.exec.unwrapped, Unwrapped::Deny);
}

#[test]
fn the_committed_schema_is_the_generated_one() {
    let path = shipped("schema.json");
    if std::env::var_os("MCPMON_UPDATE").is_some() {
        std::fs::write(&path, schema()).expect("policies/ can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == schema(),
        "policies/schema.json is out of date: run `MCPMON_UPDATE=1 cargo test -p mcpmon-config schema` and commit it"
    );
}

#[test]
fn the_defaults_written_out_are_a_valid_file() {
    let text = serde_json::to_string(&raw::Config::default()).expect("plain values");
    let loaded = super::compile(&[("defaults.yaml", &text)]).unwrap_or_else(|invalid| panic!("{invalid}"));
    let mut expected = Policy {
        name_similarity: NameSimilarity {
            built_in: true,
            ratio: None,
        },
        ..Policy::default()
    };
    expected.network.bypass = super::usual_models();
    assert_eq!(*loaded.policy, expected);
}

#[test]
fn the_pages_of_rules_name_keys_that_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules");
    let pages = std::fs::read_dir(&folder).expect("docs/rules can be read");
    let mut keys = BTreeSet::new();
    for page in pages {
        let page = std::fs::read_to_string(page.expect("an entry").path()).expect("a page is text");
        let key = page
            .split_once("`mcp.detection.builtin: {")
            .and_then(|(_, rest)| rest.split_once("}`"));
        keys.extend(key.map(|(key, _)| key.to_owned()));
    }
    assert!(!keys.is_empty());
    for key in keys {
        let text = format!("mcp: {{detection: {{builtin: {{{key}}}}}}}");
        super::compile(&[("page.yaml", &text)]).unwrap_or_else(|invalid| panic!("{invalid}"));
    }
}

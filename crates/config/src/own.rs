//! A user's own file where a host's policy rules: it can only tighten it.

use std::sync::Arc;

use mcpmon_policy::Decision;

use super::{InvalidConfiguration, LoadedConfiguration, Sources, compile, load};

/// Keys of `mcp` whose values belong together, or which accept something: a file says of them what it says alone.
/// Every other key that it does not set is as the host's policy has it.
const APART: [&str; 14] = [
    "servers",
    "server_policy",
    "allowed_servers",
    "denied_servers",
    "tool_policy",
    "allowed_tools",
    "denied_tools",
    "defaults",
    "blocked_tools",
    "rules",
    "blocked_resources",
    "resource_rules",
    "value_limits",
    "suppressions",
];

/// Returns the paths of these keys.
pub(super) fn apart() -> [load::KeyPath; APART.len()] {
    let section = load::KeyPath::root().key("mcp");
    APART.map(|key| section.key(key))
}

/// Returns whether a file states the decision that holds without a rule: what nobody wrote is no default that could stop
/// anything.
pub(super) fn states_default(tree: &load::Node) -> bool {
    let defaults = load::KeyPath::root().key("mcp").key("defaults");
    tree.find(&defaults.key("decision")).is_some()
}

/// The policy of `host`, tightened by a user's own file. Its hash stays that of the host's, which is what is compared
/// with others.
///
/// # Errors
/// Every mistake in the file.
pub fn on_top(
    host: &LoadedConfiguration,
    own: &Sources,
) -> Result<LoadedConfiguration, InvalidConfiguration> {
    let mut document = load::read_on_top(host.text.origins(), own.origins(), &apart());
    let compiled = compile::compile(&document.config);
    document.tell(compiled.findings);
    let mut policy = compiled.policy;
    if !states_default(&document.tree) {
        policy.rules.default = Decision::Allow;
    }
    // What the host declares need not be declared again.
    policy.servers.extend(host.policy.servers.iter().cloned());
    let loaded = LoadedConfiguration {
        policy: Arc::new(host.policy.tightened_by(&policy)),
        sources: host.sources.iter().chain(own.names()).cloned().collect(),
        ..host.clone()
    };
    document.mistakes.unless_any(loaded)
}

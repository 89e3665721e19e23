//! A user's own policy file on a host with a policy: the file can only tighten the host's policy.

use std::sync::Arc;

use mcpmon_policy::Decision;

use super::{InvalidConfiguration, LoadedConfiguration, Sources, compile, load};

/// Keys of `mcp` whose values belong together, or which accept something: their values come from the user's file alone.
/// Every other key that the file does not set has the value of the host's policy.
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

/// Returns whether a file sets the default decision. A default that was not written must not stop anything.
pub(super) fn states_default(tree: &load::Node) -> bool {
    let defaults = load::KeyPath::root().key("mcp").key("defaults");
    tree.find(&defaults.key("decision")).is_some()
}

/// Returns the policy of `host`, tightened by a user's own file. The hash remains that of the host's policy, because
/// that is compared with others.
///
/// # Errors
/// Returns every mistake in the file.
pub fn on_top(
    host: &LoadedConfiguration,
    own: &Sources,
) -> Result<LoadedConfiguration, InvalidConfiguration> {
    let mut document = load::read_on_top(host.text.origins(), own.origins(), &apart());
    let compiled = compile::compile(&document.config);
    document.tell(compiled.mistakes);
    let mut policy = compiled.policy;
    if !states_default(&document.tree) {
        policy.rules.default = Decision::Allow;
    }
    // Servers of the host need not be declared again.
    policy.servers.extend(host.policy.servers.iter().cloned());
    let loaded = LoadedConfiguration {
        policy: Arc::new(host.policy.tightened_by(&policy)),
        sources: host.sources.iter().chain(own.names()).cloned().collect(),
        ..host.clone()
    };
    document.mistakes.unless_any(loaded)
}

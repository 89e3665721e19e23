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

/// The policy of `host`, tightened by a user's own file. Its hash stays that of the host's, which is what is compared
/// with others.
///
/// # Errors
/// Every mistake in the file.
pub fn on_top(
    host: &LoadedConfiguration,
    own: &Sources,
) -> Result<LoadedConfiguration, InvalidConfiguration> {
    let section = load::KeyPath::root().key("mcp");
    let apart = APART.map(|key| section.key(key));
    let mut document = load::read_on_top(host.text.origins(), own.origins(), &apart);
    let compiled = compile::compile(&document.config);
    document.tell(compiled.findings);
    let mut policy = compiled.policy;
    // What nobody wrote is no default that could stop anything.
    if document
        .tree
        .find(&section.key("defaults").key("decision"))
        .is_none()
    {
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

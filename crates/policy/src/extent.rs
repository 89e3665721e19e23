//! The extent of a policy.

use super::{Policy, ServerPolicy, rules::ToolPolicy};

/// The extent of a policy: the numbers of its rules and list entries, for checks whether a file was read as
/// intended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyExtent {
    /// Rules over calls, resources and values.
    pub rules: usize,
    /// Servers, tools and resources that a list allows, denies or blocks.
    pub listed: usize,
}

impl Policy {
    /// Returns the extent of this policy.
    pub fn extent(&self) -> PolicyExtent {
        let rules = &self.rules;
        let tools = match &rules.tools {
            ToolPolicy::None => 0,
            ToolPolicy::Allowlist(entries) | ToolPolicy::Denylist(entries) => entries.len(),
        };
        PolicyExtent {
            rules: rules.calls.len() + rules.resources.len() + rules.limits.len(),
            listed: servers(&self.server_policy)
                + tools
                + rules.blocked_tools.len()
                + rules.blocked_resources.len(),
        }
    }
}

fn servers(policy: &ServerPolicy) -> usize {
    match policy {
        ServerPolicy::None => 0,
        ServerPolicy::Allowlist(names) | ServerPolicy::Denylist(names) => names.len(),
        ServerPolicy::Both(both) => servers(&both.0) + servers(&both.1),
    }
}

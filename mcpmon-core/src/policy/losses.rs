//! Rules that one policy has and the next one lacks: a file that was emptied or cut short loses many at once.

use std::collections::BTreeSet;

use super::{Decision, Policy, RuleAction, ServerPolicy, rules::ToolPolicy};

impl Policy {
    /// The rules of `before` that this policy lacks, by name, in order.
    #[must_use]
    pub fn losses(&self, before: &Self) -> Vec<String> {
        let (before, after) = (restraints(before), restraints(self));
        before.difference(&after).cloned().collect()
    }
}

/// What a policy restrains, by name. Settings with a value of their own are none: they are changed, not lost.
fn restraints(policy: &Policy) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |kind: &str, name: &str| {
        names.insert(format!("{kind} `{name}`"));
    };
    for server in &policy.servers {
        add("mcp.servers", server.id.as_str());
        if server.egress.is_some() {
            add("egress of", server.id.as_str());
        }
    }
    for rule in &policy.network.rules {
        let kind = match rule.action {
            RuleAction::Deny => "network.deny",
            RuleAction::Watch => "network.watch",
        };
        add(kind, &rule.name);
        let addresses = rule.cidrs.iter().map(ToString::to_string);
        let names = rule.hosts.iter().map(ToString::to_string);
        for target in addresses.chain(names) {
            add(kind, &format!("{}: {target}", rule.name));
        }
    }
    let rules = &policy.rules;
    for glob in &rules.blocked_tools {
        add("mcp.blocked_tools", glob.as_str());
    }
    for rule in rules.calls.iter().filter(|rule| stops(rule.decision)) {
        add("mcp.rules", &rule.id);
    }
    for glob in &rules.blocked_resources {
        add("mcp.blocked_resources", glob.as_str());
    }
    for rule in rules.resources.iter().filter(|rule| stops(rule.decision)) {
        add("mcp.resource_rules", &rule.id);
    }
    for limit in &rules.limits {
        add("mcp.value_limits", &limit.id);
    }
    match &rules.tools {
        ToolPolicy::None => {}
        ToolPolicy::Allowlist(_) => add("mcp.tool_policy", "allowlist"),
        ToolPolicy::Denylist(entries) => {
            for entry in entries {
                let name = format!("{}:{}", entry.server.as_str(), entry.tool.as_str());
                add("mcp.denied_tools", &name);
            }
        }
    }
    servers(&policy.server_policy, &mut add);
    for pattern in &policy.inspection.custom {
        add("mcp.detection.custom_patterns", &pattern.name);
    }
    if policy.fail_closed {
        add("mcp.fail_closed", "true");
    }
    names
}

fn servers(policy: &ServerPolicy, add: &mut impl FnMut(&str, &str)) {
    match policy {
        ServerPolicy::None => {}
        ServerPolicy::Allowlist(_) => add("mcp.server_policy", "allowlist"),
        ServerPolicy::Denylist(denied) => {
            for glob in denied {
                add("mcp.denied_servers", glob.as_str());
            }
        }
        ServerPolicy::Both(both) => {
            servers(&both.0, add);
            servers(&both.1, add);
        }
    }
}

const fn stops(decision: Decision) -> bool {
    match decision {
        Decision::Allow | Decision::Audit => false,
        Decision::Block => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NameGlob, ServerId};

    #[test]
    fn what_a_policy_lacks_of_another_is_named() {
        let before = Policy {
            fail_closed: true,
            server_policy: ServerPolicy::Denylist(vec![NameGlob::new("evil-*"), NameGlob::new("bad")]),
            ..Policy::default()
        };
        let mut after = before.clone();
        assert_eq!(after.losses(&before), [""; 0]);
        after.server_policy = ServerPolicy::Denylist(vec![NameGlob::new("bad"), NameGlob::new("new")]);
        assert_eq!(after.losses(&before), ["mcp.denied_servers `evil-*`"]);
        assert_eq!(
            Policy::default().losses(&before),
            [
                "mcp.denied_servers `bad`",
                "mcp.denied_servers `evil-*`",
                "mcp.fail_closed `true`"
            ]
        );
        assert_eq!(before.losses(&Policy::default()), [""; 0], "more is no loss");
        assert!(before.server_policy.denies(&ServerId::new("bad").expect("an id")));
    }
}

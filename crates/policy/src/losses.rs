//! Rules that one policy has and the next one lacks: a file that was emptied or cut short loses many at once.

use std::collections::BTreeSet;

use super::{
    CrossServerDecision, Decision, EgressDefault, FileEffect, FirstUse, Gate, Handling, Mode, OnBypass,
    OnChange, OnDetection, OnNewTool, OnSecret, Orphans, Pinning, Policy, RuleAction, ServerPolicy,
    Unwrapped, rules::ToolPolicy,
};

impl Policy {
    /// Returns the rules of `before` that this policy lacks, by name, in order.
    pub fn losses(&self, before: &Self) -> Vec<String> {
        let (before, after) = (restraints(before), restraints(self));
        before.difference(&after).cloned().collect()
    }

    /// Returns the settings by which `before` enforces and this policy does not.
    pub fn switched_off(&self, before: &Self) -> Vec<String> {
        let after = switches(self);
        let held = switches(before).into_iter().zip(after);
        let lost = held.filter(|((.., before), (.., after))| *before && !after);
        lost.map(|((key, value, _), _)| format!("{key} `{value}`"))
            .collect()
    }
}

/// Returns the settings by which rules are enforced at all, and whether they have their default.
fn switches(policy: &Policy) -> [(&'static str, &'static str, bool); 9] {
    let files = policy.pinning;
    let definitions = policy.definition_pinning;
    let blocks = |pinning: Pinning| pinning.on_change == OnChange::Block;
    let is_default = |effect: Option<FileEffect>| effect.is_none_or(|effect| effect == FileEffect::Block);
    [
        ("mode", "enforce", policy.mode == Mode::Enforce),
        ("network.enforce", "true", policy.network.enforce),
        ("exec.gate", "auto", policy.exec.gate == Gate::Auto),
        ("mcp.version_pinning.enabled", "true", definitions.enabled),
        ("mcp.version_pinning.pin_binary", "true", files.enabled),
        ("mcp.version_pinning.on_change", "block", blocks(definitions)),
        (
            "mcp.version_pinning.files.package",
            "block",
            is_default(files.files.package),
        ),
        ("mcp.detection.enabled", "true", policy.inspection.enabled),
        ("mcp.output_inspection.enabled", "true", policy.outputs.enabled),
    ]
}

/// Returns the names of a policy's restraints: its rules, and the settings that are stricter than the
/// defaults.
fn restraints(policy: &Policy) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |kind: &str, name: &str| {
        names.insert(format!("{kind} `{name}`"));
    };
    for server in &policy.servers {
        add("mcp.servers", server.id.as_str());
        if server.on_change == Some(OnChange::Block) {
            add("on_change of", server.id.as_str());
        }
        let Some(egress) = &server.egress else { continue };
        add("egress of", server.id.as_str());
        if egress.default == EgressDefault::Deny {
            add("egress of", &format!("{}: default: deny", server.id.as_str()));
        }
        for endpoint in &egress.deny {
            add("egress of", &format!("{}: deny {endpoint}", server.id.as_str()));
        }
    }
    let files = policy.pinning.files;
    let blocking = [
        ("dependency", files.dependency),
        ("runtime", files.runtime),
        ("own_source", files.own_source),
    ];
    for (name, effect) in blocking {
        if effect == Some(FileEffect::Block) {
            add("mcp.version_pinning.files", &format!("{name}: block"));
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
    for known in policy.known.iter() {
        add(
            "mcp.version_pinning.known",
            &format!("{}:{}", known.server, known.name),
        );
    }
    for path in &policy.guard.extra_paths {
        add("mcp.config_guard.extra_paths", &path.to_string());
    }
    for (server, _) in &policy.rate_limits.per_server {
        add("mcp.rate_limits.per_server", server.as_str());
    }
    settings(policy, &mut add);
    names
}

/// Settings that are stricter than their defaults.
fn settings(policy: &Policy, add: &mut impl FnMut(&str, &str)) {
    let pins = [policy.pinning, policy.definition_pinning];
    let requests = policy.requests;
    let blocks = |handling| handling == Handling::Block;
    let strict = [
        ("mcp.fail_closed", "true", policy.fail_closed),
        ("mcp.defaults.decision", "BLOCK", stops(policy.rules.default)),
        ("exec.unwrapped", "deny", policy.exec.unwrapped == Unwrapped::Deny),
        ("exec.orphans", "stop", policy.exec.orphans == Orphans::Stop),
        (
            "network.proxy_bypass",
            "deny",
            policy.network.bypass.action == OnBypass::Deny,
        ),
        (
            "mcp.version_pinning.auto_trust_first",
            "false",
            pins.iter().any(|pinning| !pinning.auto_trust_first),
        ),
        (
            "mcp.registry.pin_on_first_use",
            "false",
            policy.first_use == FirstUse::Record,
        ),
        (
            "mcp.detection.on_detection",
            "block",
            policy.inspection.on_detection == OnDetection::Block,
        ),
        (
            "mcp.detection.on_new_tool",
            "hide",
            policy.inspection.on_new_tool == OnNewTool::Hide,
        ),
        (
            "mcp.output_inspection.secrets",
            "redact or block",
            policy.outputs.secrets != OnSecret::Alert,
        ),
        (
            "mcp.cross_server.decision",
            "block",
            policy.cross_server.decision == CrossServerDecision::Block,
        ),
        ("mcp.elicitation", "block", blocks(requests.elicitation)),
        ("mcp.prompts", "block", blocks(requests.prompts)),
        ("mcp.completion", "block", blocks(requests.completion)),
        ("mcp.native_tools", "block", blocks(policy.llm.native_tools)),
    ];
    for (key, value, _) in strict.into_iter().filter(|(_, _, holds)| *holds) {
        add(key, value);
    }
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
        Decision::Ask | Decision::Block => true,
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{NameGlob, ServerId};

    use super::*;
    use crate::ExecPolicy;

    #[test]
    fn a_strict_setting_is_lost_as_a_rule_is_and_a_lax_one_is_none() {
        let mut before = Policy::default();
        before.exec.unwrapped = Unwrapped::Deny;
        before.pinning.auto_trust_first = false;
        before.rules.default = Decision::Block;
        assert_eq!(
            Policy::default().losses(&before),
            [
                "exec.unwrapped `deny`",
                "mcp.defaults.decision `BLOCK`",
                "mcp.version_pinning.auto_trust_first `false`"
            ]
        );
        let lax = Policy {
            exec: ExecPolicy {
                unwrapped: Unwrapped::Allow,
                ..ExecPolicy::default()
            },
            ..Policy::default()
        };
        assert_eq!(Policy::default().losses(&lax), [""; 0]);
    }

    #[test]
    fn what_is_switched_off_is_named_and_what_was_off_is_not() {
        let before = Policy::default();
        let mut after = before.clone();
        assert_eq!(after.switched_off(&before), [""; 0]);
        after.mode = Mode::Observe;
        after.network.enforce = false;
        after.exec.gate = Gate::Off;
        after.pinning.on_change = OnChange::Alert;
        after.definition_pinning.on_change = OnChange::Alert;
        assert_eq!(
            after.switched_off(&before),
            [
                "mode `enforce`",
                "network.enforce `true`",
                "exec.gate `auto`",
                "mcp.version_pinning.on_change `block`"
            ]
        );
        assert_eq!(
            after.losses(&before),
            [""; 0],
            "nothing of it needs a second look"
        );
        assert_eq!(after.switched_off(&after), [""; 0]);
        assert_eq!(before.switched_off(&after), [""; 0], "more is no loss");
    }

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

//! What the rules are, in a line each, for whoever asks which of them there are.

/// One rule of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// What events call it; several where it can say several things. Empty where it speaks by the ids of the
    /// configuration.
    pub names: &'static [&'static str],
    /// The keys of the configuration that it goes by; empty where none changes it.
    pub keys: &'static [&'static str],
    /// What it does.
    pub what: &'static str,
}

/// The kill switch, then every rule, in the order of precedence.
pub const GUIDE: &[About] = &[
    About {
        names: &["kill_switch"],
        keys: &[],
        what: "a session or the host is stopped by `mcpmon kill`: every use is blocked",
    },
    About {
        names: &["unknown_tool"],
        keys: &["mcp.fail_closed"],
        what: "a tool that was never listed is noted, or blocked",
    },
    About {
        names: &["max_tools"],
        keys: &["mcp.limits.max_tools"],
        what: "what a list that is too long may have held is blocked",
    },
    About {
        names: &["stale_definition"],
        keys: &[],
        what: "what its server called changed, and did not list since, is noted",
    },
    About {
        names: &["duplicate_name"],
        keys: &["mcp.version_pinning.on_change"],
        what: "a name that stands twice in a list, with two definitions, is judged like a change",
    },
    About {
        names: &["version_pin"],
        keys: &["mcp.version_pinning", "mcp.registry.pin_on_first_use"],
        what: "a definition that differs from its pin, or has none, is blocked or noted",
    },
    About {
        names: &["approval"],
        keys: &["mcp.approvals"],
        what: "what needs a person's approval is blocked until there is one",
    },
    About {
        names: &["tool_poisoning"],
        keys: &["mcp.detection", "mcp.suppressions"],
        what: "a definition with an attack in it is blocked or noted",
    },
    About {
        names: &["server_policy", "undeclared_server", "tool_poisoning"],
        keys: &[
            "mcp.server_policy",
            "mcp.allowed_servers",
            "mcp.denied_servers",
            "mcp.fail_closed",
            "mcp.servers",
        ],
        what: "a server that may not be used is blocked",
    },
    About {
        names: &["tool_policy"],
        keys: &["mcp.tool_policy", "mcp.allowed_tools", "mcp.denied_tools"],
        what: "a tool that is denied, not allowed, or allowed with another definition is blocked",
    },
    About {
        names: &["blocked_tools"],
        keys: &["mcp.blocked_tools"],
        what: "a tool that may never be called is blocked",
    },
    About {
        names: &[],
        keys: &["mcp.rules"],
        what: "configured rules over calls: of those that match the most restrictive holds",
    },
    About {
        names: &["blocked_resources"],
        keys: &["mcp.blocked_resources"],
        what: "a resource that may never be read is blocked",
    },
    About {
        names: &[],
        keys: &["mcp.resource_rules"],
        what: "configured rules over resources: of those that match the most restrictive holds",
    },
    About {
        names: &["defaults"],
        keys: &["mcp.defaults"],
        what: "what no rule matches and no list allows is let through, noted or blocked",
    },
    About {
        names: &["arguments_too_large"],
        keys: &[],
        what: "arguments with more in them than is looked at are blocked",
    },
    About {
        names: &["argument_inspection"],
        keys: &["mcp.argument_inspection"],
        what: "secrets in arguments are reported, stopped, or replaced",
    },
    About {
        names: &[],
        keys: &["mcp.value_limits"],
        what: "numbers in arguments outside of their bounds are blocked or noted",
    },
    About {
        names: &["protected_file", "credential_file"],
        keys: &["mcp.config_guard"],
        what: "writes of protected files are blocked, reads of files with secrets noted",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::rules::RULES;

    #[test]
    fn every_rule_has_its_line() {
        assert_eq!(
            GUIDE.len(),
            1 + RULES.len(),
            "one for each rule, in the order of RULES"
        );
        for about in GUIDE {
            assert!(
                !about.names.is_empty() || !about.keys.is_empty(),
                "{}",
                about.what
            );
            assert!(
                about.keys.iter().all(|key| key.starts_with("mcp.")),
                "{}",
                about.what
            );
        }
    }
}

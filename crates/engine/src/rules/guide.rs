//! Guide to the rules: one line for each, for `policy explain`.

use super::RULES;

/// The explanation of one built-in rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its names in events; several if it can report several things. Empty if it reports under ids of the
    /// configuration.
    pub names: &'static [&'static str],
    /// The keys of the configuration that affect the rule; empty if none does.
    pub keys: &'static [&'static str],
    /// The effect of the rule.
    pub what: &'static str,
}

/// The kill switch, which precedes every rule.
const KILL_SWITCH: About = About {
    names: &["kill_switch"],
    keys: &[],
    what: "a session or the host is stopped by `mcpmon kill`: every use is blocked",
};

/// Returns the kill switch, then every rule, in the order of precedence.
pub fn guide() -> impl Iterator<Item = &'static About> {
    std::iter::once(&KILL_SWITCH).chain(RULES.iter().map(|rule| rule.about()))
}

/// Defines `BESIDE`: the names, the keys and the effect of each rule.
macro_rules! beside {
    ($([$($name:literal)*] [$($key:literal)*] $what:literal;)*) => {
        /// The rules outside that order: over messages, sessions and requests to models. Each applies to its own
        /// subjects, and one that blocks also stops uses that the ordered rules allow.
        pub const BESIDE: &[About] = &[
            $(About { names: &[$($name),*], keys: &[$($key),*], what: $what }),*
        ];
    };
}

beside! {
    ["servers"] []
        "a server is refused where its user runs more than are followed at a time";
    ["shadow_tool" "read_then_send" "burst" "cross_server_flow"]
        ["mcp.cross_server.enabled" "mcp.cross_server.decision" "mcp.cross_server.classifier"
         "mcp.cross_server.shadow_tool" "mcp.cross_server.read_then_send" "mcp.cross_server.burst"
         "mcp.cross_server.cross_server_flow" "mcp.categories"]
        "calls that are an attack only in combination with calls to other servers in the session are blocked or noted";
    ["name_similarity"] ["mcp.cross_server.shadow_tool" "mcp.servers"]
        "a server with nearly the name of another one is noted";
    ["rate_limit"] ["mcp.rate_limits"]
        "calls that are more than a server may get in a minute are blocked";
    ["output_poisoning" "sampling_poisoning" "elicitation_poisoning"]
        ["mcp.output_inspection" "mcp.detection" "mcp.suppressions"]
        "what a server says is blocked or noted where there is an attack in it";
    ["output_secrets"] ["mcp.output_inspection.secrets" "mcp.suppressions"]
        "secrets in what a server answers are reported, replaced, or withheld";
    ["elicitation_credentials"] []
        "a question to the user that asks for credentials is blocked";
    ["elicitation_address"] []
        "a question that leads the user to a page whose address misleads is blocked";
    ["sampling"] ["mcp.sampling"]
        "a server's request for a call of the model is let through, noted or blocked";
    ["sampling_context"] ["mcp.sampling"]
        "a server's request for a call of the model that is given the context of servers is noted";
    ["elicitation"] ["mcp.elicitation"]
        "a server's question to the user is let through, noted or blocked";
    ["app_page"] []
        "a page of an app about whose content readers can differ is blocked";
    ["prompts"] ["mcp.prompts"]
        "the use of a prompt is let through, noted or blocked";
    ["completion"] ["mcp.completion"]
        "a request for completions is let through, noted or blocked";
    ["max_batch"] ["mcp.limits.max_batch"]
        "more at once in one message than is judged one by one is blocked";
    ["input_requests"] []
        "what a result asks of the client is blocked where it cannot be told apart by name";
    ["max_line"] ["mcp.limits.max_line"]
        "a message that is too long is blocked";
    ["strict_json" "request_id" "header_mismatch"] []
        "a message that others may read in another way than mcpmon is blocked";
    ["noise" "unasked_answer"] []
        "what is no message, or answers nothing, is dropped";
    ["max_servers"] []
        "a server beyond those that can be inspected is blocked";
    ["internal"] []
        "a message that cannot be changed as it was judged is blocked";
    ["native_tools"] ["mcp.native_tools"]
        "tools of an agent or a provider, which are no MCP tools, are let through, noted or blocked";
    ["unnamed_tools"] ["mcp.tool_policy" "mcp.denied_tools" "mcp.blocked_tools" "mcp.rules"]
        "a request that has its provider use every tool of a server is blocked where some are refused by name";
    ["remote_server"] []
        "a request that has its provider use a server with an ambiguous address is blocked";
    ["malformed_arguments"] []
        "arguments from a model that are no strict JSON are blocked";
    ["offered_definition"] []
        "a tool that a request describes in other words than its server is noted";
    ["max_body"] []
        "a request to a model, or its answer, that is too long is blocked";
    ["dlp"] ["dlp.mode" "mcp.suppressions"]
        "secrets in requests to models are reported, or replaced";
    ["tls_fingerprint"] ["mcp.servers"]
        "a remote server that shows another certificate than the pinned one is blocked";
    ["proxy_share"] []
        "whoever has too many conversations with remote servers gets no more";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_name_or_keys_of_the_configuration() {
        for about in guide() {
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

    #[test]
    fn what_stands_beside_them_has_names_of_its_own() {
        let ordered: Vec<&str> = guide().flat_map(|about| about.names).copied().collect();
        let mut beside: Vec<&str> = BESIDE.iter().flat_map(|about| about.names).copied().collect();
        assert!(BESIDE.iter().all(|about| !about.names.is_empty()));
        assert!(beside.iter().all(|name| !ordered.contains(name)));
        let all = beside.len();
        beside.sort_unstable();
        beside.dedup();
        assert_eq!(beside.len(), all, "each name once");
    }
}

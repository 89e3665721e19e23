//! Calls with a secret in them, from the client's line to the bytes that server and client get and to the events, by
//! policy and mode.

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcpmon_engine::{Monitor, Observation, pins::PinBook};
    use mcpmon_model::{
        Action, Conversation, Event, EventKind, Layer, Message, PinKey, ServerId, ServerType, Side, Timestamp,
    };
    use mcpmon_policy::{Mode, OnSecret, Policy, network::table::Tables};
    use mcpmon_protocol::{
        decode::DecodeLimits,
        filter::stdio::{StdioFilter, StdioOutput},
    };
    use test_case::test_case;

    /// Put together at run time, so that no file contains what a secret scanner would report.
    fn secret() -> String {
        format!("{}{}", concat!("gl", "pat-"), "k9Xw2Lm4Qz7PbV3nR8tY")
    }

    /// The outcome of one line of the client.
    struct Outcome {
        to_server: String,
        to_client: String,
        events: Vec<Event>,
    }

    fn send(policy: Policy, line: &str) -> Outcome {
        let conversation = Conversation {
            identity: PinKey {
                server: ServerId::new("files").expect("an id"),
                name: "files".to_owned(),
                uid: 1000,
            },
            server_type: ServerType::Stdio,
            session: None,
            layer: Layer::Stdio,
        };
        let mut monitor = Monitor::new(Arc::new(policy), &Tables::default(), PinBook::default());
        let mut filter = StdioFilter::new(DecodeLimits::default());
        let now = Timestamp(1);
        let mut push = |side, line: &str| {
            let (mut out, mut events) = (StdioOutput::default(), Vec::new());
            let mut judge = |message: &Message<'_>| {
                let judgement =
                    monitor.observe(now, Observation::Message(&conversation, message, Vec::new()));
                events.extend(judgement.events);
                judgement.verdict
            };
            filter.push(now, side, line.as_bytes(), &mut judge, &mut out);
            (out, events)
        };
        // The tool is known and accepted.
        push(
            Side::Client,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n",
        );
        push(
            Side::Server,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[{\"name\":\"send\"}]}}\n",
        );
        let (out, events) = push(Side::Client, line);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Outcome {
            to_server: text(out.to_server),
            to_client: text(out.to_client),
            events,
        }
    }

    fn call(arguments: &str) -> String {
        let head = "{\"jsonrpc\": \"2.0\",\"id\":15,\"method\":\"tools/call\"";
        format!("{head},\"params\":{{\"name\":\"send\", \"arguments\" : {arguments} ,\"_meta\":{{}}}}}}\n")
    }

    fn policy(on_detection: OnSecret, mode: Mode) -> Policy {
        let mut policy = Policy::default();
        policy.arguments.on_detection = on_detection;
        policy.mode = mode;
        policy
    }

    /// Every event as `type action`, after making sure that none tells the secret.
    fn told(outcome: &Outcome) -> Vec<String> {
        assert!(
            !format!("{:?}", outcome.events).contains(&secret()),
            "{:?}",
            outcome.events
        );
        let shown = |event: &Event| format!("{} {}", event.kind.name(), event.action.as_str());
        outcome.events.iter().map(shown).collect()
    }

    #[test]
    fn a_secret_is_blocked_with_an_answer_that_names_rule_and_reason_and_no_command() {
        let outcome = send(
            policy(OnSecret::Block, Mode::Enforce),
            &call(&format!("{{\"body\":\"x {}\"}}", secret())),
        );
        assert_eq!(outcome.to_server, "");
        let answer: serde_json::Value = serde_json::from_str(&outcome.to_client).expect("an answer");
        assert_eq!(
            (&answer["id"], &answer["result"]["isError"]),
            (&15.into(), &true.into())
        );
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        for part in ["argument_inspection", "gitlab_token", "(body)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // A command that helps is for a person, and a model reads this.
        assert!(!text.contains("mcpmon detections"), "{text}");
        assert!(!text.contains(&secret()), "{text}");
        assert_eq!(
            told(&outcome),
            ["mcp_detection block", "mcp_tool_call_intercepted block"]
        );
    }

    #[test]
    fn a_secret_is_replaced_and_every_other_byte_stays() {
        let line = call(&format!(
            "{{\"n\":1.0,\"body\":\"\\u00e9 \\\"{}\\\" \",\"z\":[ 1 ]}}",
            secret()
        ));
        let outcome = send(policy(OnSecret::Redact, Mode::Enforce), &line);
        assert_eq!(
            outcome.to_server,
            line.replace(&secret(), "[mcpmon:gitlab_token]")
        );
        assert_eq!(outcome.to_client, "");
        assert_eq!(
            told(&outcome),
            [
                "mcp_detection audit",
                "mcp_tool_call_intercepted audit",
                "mcp_tool_called audit"
            ]
        );
        let EventKind::Detection { detection, .. } = &outcome.events[0].kind else {
            panic!("what was found is told first");
        };
        assert_eq!(
            (detection.pattern.as_str(), detection.field.as_str()),
            ("gitlab_token", "body")
        );
        assert!(
            outcome.events[1]
                .reason
                .as_deref()
                .is_some_and(|reason| reason.contains("replaced by a placeholder"))
        );
    }

    #[test]
    fn a_secret_in_a_key_is_blocked_where_others_are_replaced() {
        let outcome = send(
            policy(OnSecret::Redact, Mode::Enforce),
            &call(&format!("{{\"{}\":1}}", secret())),
        );
        assert_eq!(outcome.to_server, "");
        assert!(
            !outcome.to_client.contains(&secret()) && outcome.to_client.contains("cannot be replaced"),
            "{}",
            outcome.to_client
        );
        assert_eq!(
            told(&outcome),
            ["mcp_detection block", "mcp_tool_call_intercepted block"]
        );
    }

    #[test_case(OnSecret::Alert, Mode::Enforce, Action::Audit; "reported")]
    #[test_case(OnSecret::Alert, Mode::Observe, Action::Audit; "observed and reported")]
    #[test_case(OnSecret::Redact, Mode::Observe, Action::Audit; "observed and not replaced")]
    #[test_case(OnSecret::Block, Mode::Observe, Action::WouldBlock; "observed and not blocked")]
    fn a_call_goes_on_as_it_is_and_is_told(on_detection: OnSecret, mode: Mode, action: Action) {
        let line = call(&format!("{{\"body\":\"{}\"}}", secret()));
        let outcome = send(policy(on_detection, mode), &line);
        assert_eq!(outcome.to_server, line);
        assert!(
            told(&outcome)
                .iter()
                .all(|event| event.ends_with(action.as_str())),
            "{:?}",
            told(&outcome)
        );
        assert_eq!(outcome.events.len(), 3);
    }

    #[test]
    fn what_is_below_the_threshold_is_told_and_nothing_follows() {
        let line = call("{\"user\":\"ann\",\"password\":\"h7Gq2pqW4x\"}");
        let outcome = send(Policy::default(), &line);
        assert_eq!(outcome.to_server, line);
        assert_eq!(told(&outcome), ["mcp_detection allow", "mcp_tool_called audit"]);
        assert!(!format!("{:?}", outcome.events).contains("h7Gq2pqW4x"));
    }

    #[test]
    fn a_clean_call_is_told_once() {
        let line = call("{\"path\":\"/home/me/notes.txt\",\"limit\":10}");
        let outcome = send(Policy::default(), &line);
        assert_eq!(outcome.to_server, line);
        assert_eq!(told(&outcome), ["mcp_tool_called audit"]);
    }
}

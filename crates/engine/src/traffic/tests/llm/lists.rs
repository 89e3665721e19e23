//! Tools that are offered to a model.

use mcpmon_model::{EventKind, Offered, Severity};
use mcpmon_policy::{OnChange, OnDetection, rules::SpellingGlob};
use test_case::test_case;

use super::*;

/// Tools, each with its name and its definition as a dialect writes it.
fn offered<'a>(tools: &'a [(&'a str, String)]) -> Vec<Offered<'a>> {
    let tools = tools.iter().map(|(name, definition)| Offered {
        name: ToolName {
            namespace: None,
            name: (*name).into(),
        },
        definition: RawJson::trusted(definition),
    });
    tools.collect()
}

fn anthropic(name: &str, description: &str) -> String {
    format!(r#"{{"name":"{name}","description":"{description}","input_schema":{{"type":"object"}}}}"#)
}

fn openai(name: &str, description: &str) -> String {
    format!(
        r#"{{"type":"function","function":{{"name":"{name}","description":"{description}","parameters":{{}}}}}}"#
    )
}

fn offer(world: &mut World, agent: Option<&str>, tools: &[(&str, String)]) -> Judgement {
    world.spoken(agent, &LlmMention::Offered(offered(tools)))
}

#[test]
fn what_is_described_as_it_was_listed_is_not_inspected_again() {
    let mut world = world(policy());
    for text in [
        "Handles one file",
        "Handles  one\\nfile",
        "Handles one...",
        "(files) Handles one file",
        "Handles one\u{2026} [truncated]",
    ] {
        let tools = [("mcp__files__read", anthropic("mcp__files__read", text))];
        let judgement = offer(&mut world, None, &tools);
        assert_eq!(
            (told(&judgement), judgement.verdict),
            (vec![], Verdict::Allow),
            "{text}"
        );
    }
}

#[test]
fn other_words_than_the_servers_are_told_once() {
    let mut world = world(policy());
    for make in [anthropic, openai] {
        let tools = [("mcp__files__read", make("mcp__files__read", "Handles two files"))];
        let judgement = offer(&mut world, None, &tools);
        assert_eq!(told(&judgement), ["mcp_tool_changed audit offered_definition"]);
        assert_eq!(judgement.verdict, Verdict::Allow);
        let EventKind::ToolChanged {
            changes, tool_name, ..
        } = &judgement.events[0].kind
        else {
            panic!("a change");
        };
        assert_eq!(tool_name, "read");
        assert_eq!(
            (changes[0].previous.as_str(), changes[0].new.as_str()),
            ("Handles one file", "Handles two files")
        );
        assert_eq!(told(&offer(&mut world, None, &tools)), [""; 0]);
    }
}

/// A changed definition that may be used is what the server says, whatever is pinned.
#[test_case(OnChange::Alert)]
#[test_case(OnChange::Allow)]
fn a_changed_definition_in_its_servers_words_is_not_told_again(on_change: OnChange) {
    let mut policy = policy();
    policy.definition_pinning.on_change = on_change;
    let mut world = world(policy);
    drop(world.tools(&[("read", "Handles two files")]));
    for text in ["Handles two files", "Handles one file"] {
        let tools = [("mcp__files__read", anthropic("mcp__files__read", text))];
        assert_eq!(told(&offer(&mut world, None, &tools)), [""; 0], "{text}");
    }
    let tools = [(
        "mcp__files__read",
        anthropic("mcp__files__read", "Handles three files"),
    )];
    let judgement = offer(&mut world, None, &tools);
    assert_eq!(told(&judgement), ["mcp_tool_changed audit offered_definition"]);
    let EventKind::ToolChanged { changes, .. } = &judgement.events[0].kind else {
        panic!("a change");
    };
    assert_eq!(changes[0].previous, "Handles two files");
}

#[test_case(OnDetection::Alert => (Verdict::Allow, "audit".to_owned()); "told")]
#[test_case(OnDetection::Hide => (Verdict::Hide(vec![1]), "block".to_owned()); "left out")]
#[test_case(OnDetection::Block => (Verdict::Hide(vec![1, 2]), "block".to_owned()); "with all of its server's")]
fn an_attack_in_a_definition(on_detection: OnDetection) -> (Verdict, String) {
    let mut policy = policy();
    policy.inspection.on_detection = on_detection;
    let mut world = world(policy);
    let tools = [
        (
            "mcp__files__read",
            anthropic("mcp__files__read", "Handles one file"),
        ),
        ("mcp__new__evil", anthropic("mcp__new__evil", "EVIL-HIGH")),
        ("mcp__new__good", anthropic("mcp__new__good", "Adds two numbers")),
    ];
    let judgement = offer(&mut world, None, &tools);
    let found = judgement
        .events
        .iter()
        .find(|event| event.kind.name() == "mcp_detection");
    let found = found.expect("it is told");
    assert_eq!(
        (found.layer, found.server_id.clone()),
        (Layer::Llm, Some(id("new")))
    );
    let again = offer(&mut world, None, &tools);
    assert_eq!(again.verdict, judgement.verdict, "it holds for every request");
    assert_eq!(told(&again), [""; 0], "and is told once");
    (judgement.verdict, found.action.as_str().to_owned())
}

#[test_case("EVIL-LOW" => Verdict::Allow; "below the threshold")]
#[test_case("EVIL-HIGH" => Verdict::Hide(vec![0]); "at the threshold")]
fn how_bad_it_is(text: &str) -> Verdict {
    let tools = [("mcp__new__a", openai("mcp__new__a", text))];
    offer(&mut world(policy()), None, &tools).verdict
}

#[test]
fn what_is_bad_is_found_and_told_among_much_that_is_not() {
    let mild: Vec<String> = (0..300)
        .map(|number| format!(r#""p{number}":{{"type":"string","description":"EVIL-LOW"}}"#))
        .collect();
    let properties = format!(r#"{{{},"q":{{"description":"EVIL-HIGH"}}}}"#, mild.join(","));
    let definition = format!(r#"{{"name":"mcp__new__a","parameters":{{"properties":{properties}}}}}"#);
    let judgement = offer(&mut world(policy()), None, &[("mcp__new__a", definition)]);
    assert_eq!(judgement.verdict, Verdict::Hide(vec![0]));
    let worst = judgement.events.iter().map(|event| event.severity).max();
    assert_eq!(worst, Some(Severity::High), "{:?}", told(&judgement));
}

#[test]
fn parameters_are_read_as_a_schema() {
    let definition = |text: &str| {
        let property = format!(r#"{{"path":{{"type":"string","description":"{text}"}}}}"#);
        format!(r#"{{"name":"mcp__new__a","parameters":{{"properties":{property}}}}}"#)
    };
    for (text, verdict) in [("EVIL-HIGH", Verdict::Hide(vec![0])), ("A path", Verdict::Allow)] {
        let tools = [("mcp__new__a", definition(text))];
        assert_eq!(offer(&mut world(policy()), None, &tools).verdict, verdict);
    }
}

#[test_case(None => vec!["mcp_detection allow".to_owned()]; "of a client that nobody knows")]
#[test_case(Some("claude-cli/2.1.329") => Vec::<String>::new(); "of a client that is known")]
fn tools_of_the_agent_are_not_left_out(agent: Option<&str>) -> Vec<String> {
    let judgement = offer(
        &mut world(policy()),
        agent,
        &[("Bash", anthropic("Bash", "EVIL-HIGH"))],
    );
    assert_eq!(judgement.verdict, Verdict::Allow);
    told(&judgement)
}

#[test]
fn what_may_not_be_called_is_not_offered() {
    let mut policy = policy();
    policy.rules.blocked_tools = ["read", "mcp__mail__*"].map(SpellingGlob::new).into();
    let mut world = world(policy);
    let tools = [
        (
            "mcp__files__read",
            anthropic("mcp__files__read", "Handles one file"),
        ),
        (
            "mcp__mail__send",
            anthropic("mcp__mail__send", "Handles one file"),
        ),
        ("mcp__files__stat", anthropic("mcp__files__stat", "Shows a size")),
        ("Bash", anthropic("Bash", "Runs a command")),
    ];
    let judgement = offer(&mut world, None, &tools);
    assert_eq!(judgement.verdict, Verdict::Hide(vec![0, 1]));
    assert_eq!(told(&judgement), ["mcp_request_judged block blocked_tools"; 2]);
    assert_eq!(told(&offer(&mut world, None, &tools)), [""; 0]);
}

#[test]
fn observing_leaves_nothing_out() {
    let tools = [("mcp__new__evil", anthropic("mcp__new__evil", "EVIL-HIGH"))];
    let judgement = offer(&mut world(observing(policy())), None, &tools);
    assert!(lets_everything_through(&judgement), "{judgement:?}");
    assert!(told(&judgement).iter().any(|event| event.contains("would_block")));
}

#[test]
fn a_definition_that_nobody_reads_is_left_out() {
    let long = "x".repeat(1 << 20);
    let tools = [
        ("mcp__new__a", anthropic("mcp__new__a", &long)),
        ("Bash", anthropic("Bash", &long)),
    ];
    assert_eq!(
        offer(&mut world(policy()), None, &tools).verdict,
        Verdict::Hide(vec![0])
    );
}

#[test]
fn what_a_provider_lists_is_inspected_too() {
    let tools = [
        ("a", anthropic("a", "EVIL-HIGH")),
        ("b", anthropic("b", "Adds two numbers")),
    ];
    let said = LlmMention::Listed {
        server: "weather".into(),
        tools: offered(&tools),
    };
    let judgement = world(policy()).spoken(None, &said);
    assert_eq!(judgement.verdict, Verdict::Hide(vec![0]));
    assert_eq!(judgement.events[0].server_id, Some(id("weather")));
}

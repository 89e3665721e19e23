//! Calls that a model wants.

use mcpmon_model::{EventKind, Kill, Kills, NameGlob, Recent};
use mcpmon_policy::{
    Handling, OnSecret, ProxyMode, RateLimit, Server, ServerPolicy, Transport,
    rules::{ArgumentPath, CallRule, PathGlob, SpellingGlob, ToolEntry, ToolMatch, ToolPolicy, ValueLimit},
};
use test_case::test_case;

use super::*;

const TOKEN: &str = concat!("gh", "p_", "0000000000000000000000000000002C8GjS");

fn glob(glob: &str) -> SpellingGlob {
    SpellingGlob::new(glob)
}

fn entry(server: &str, tool: &str) -> ToolEntry {
    ToolEntry {
        server: glob(server),
        tool: glob(tool),
        content_hash: None,
    }
}

fn with(edit: impl FnOnce(&mut Policy)) -> World {
    let mut policy = policy();
    edit(&mut policy);
    world(policy)
}

#[test]
fn an_intent_is_told_with_both_names_and_spends_nothing() {
    let mut world = world(policy());
    let judgement = world.wants("mcp__files__read", r#"{"path":"/tmp/a"}"#);
    assert_eq!(judgement.verdict, Verdict::Allow);
    assert!(judgement.ask.is_none(), "{judgement:?}");
    let [StoreEffect::Share(recent)] = &judgement.store_effects[..] else {
        panic!("only which turn wants it, not {judgement:?}");
    };
    let Recent::Intent(wanted) = &**recent else {
        panic!("an intent, not {recent:?}");
    };
    assert_eq!((&*wanted.turn, wanted.tool.as_str()), ("req_1", "read"));
    assert_eq!(wanted.tool_call.as_deref(), Some("toolu_1"));
    let [event] = &judgement.events[..] else {
        panic!("one event, not {judgement:?}");
    };
    assert_eq!((event.layer, event.action), (Layer::Llm, Action::Allow));
    assert_eq!(event.server_id, Some(id("files")));
    assert_eq!(event.session_id, Some(SessionId::new("s1")));
    let EventKind::ToolCallIntercepted {
        tool_name,
        visible_name,
        dialect,
        request_id,
        jsonrpc_id,
        tool_call_id,
        server_type,
        tool_hash,
        input,
        client_uid,
        ..
    } = &event.kind
    else {
        panic!("an intent, not {event:?}");
    };
    assert_eq!(*client_uid, Some(1000));
    assert_eq!(
        (tool_name.as_str(), visible_name.as_deref()),
        ("read", Some("mcp__files__read"))
    );
    assert_eq!(
        (*dialect, request_id.as_deref()),
        (Some(Dialect::Anthropic), Some("req_1"))
    );
    assert_eq!((jsonrpc_id, tool_call_id.as_deref()), (&None, Some("toolu_1")));
    assert_eq!(*server_type, Some(ServerType::Stdio));
    assert!(tool_hash.is_some());
    assert_eq!(input.as_deref(), Some(r#"{"path":"/tmp/a"}"#));
}

#[test]
fn intents_take_no_tokens() {
    let mut world = with(|policy| {
        policy.rate_limits.default = RateLimit {
            per_minute: 1,
            burst: 1,
        };
    });
    for _ in 0..5 {
        assert_eq!(blocked_by(&world.wants("mcp__files__read", "{}")), None);
    }
    assert_eq!(blocked_by(&world.call("read")), None);
    assert_eq!(blocked_by(&world.call("read")), Some("rate_limit"));
}

#[test]
fn what_no_other_layer_sees_is_counted_here() {
    let mut world = with(|policy| {
        policy.rate_limits.default = RateLimit {
            per_minute: 1,
            burst: 1,
        };
    });
    let first = world.wants("mcp__elsewhere__run", "{}");
    assert_eq!(blocked_by(&first), None);
    assert!(
        matches!(&first.store_effects[..], [StoreEffect::Share(_)]),
        "{first:?}"
    );
    assert_eq!(
        blocked_by(&world.wants("mcp__elsewhere__run", "{}")),
        Some("rate_limit")
    );
}

#[test_case("mcp__files__read", "{}" => None; "nothing stands against it")]
#[test_case("mcp__files__read", r#"{"path":"/srv/secret/x"}"# => Some("no-secrets".to_owned()); "a rule over arguments")]
#[test_case("mcp__files__read", r#"{"path":"/srv/open/x"}"# => None; "other arguments")]
#[test_case("files__read", r#"{"path":"/srv/secret/x"}"# => Some("no-secrets".to_owned()); "by another scheme")]
#[test_case("read", r#"{"path":"/srv/secret/x"}"# => Some("no-secrets".to_owned()); "by its bare name")]
#[test_case("mcp__files__read", r#"{"amount":11}"# => Some("limit".to_owned()); "a limit")]
#[test_case("mcp__files__read", r#"{"amount":10}"# => None; "within the limit")]
#[test_case("mcp__mail__send", r#"{"body":"TOKEN"}"# => Some("argument_inspection".to_owned()); "a secret")]
#[test_case("mcp__files__write", r#"{"path":"~/.bashrc","content":"x"}"# => Some("protected_file".to_owned()); "a protected file, written by a tool that nobody listed")]
#[test_case("mcp__files__read", r#"{"path":"~/.bashrc"}"# => None; "a protected file that is read")]
fn arguments(name: &str, arguments: &str) -> Option<String> {
    let mut world = with(|policy| {
        policy.rules.calls = vec![CallRule {
            id: "no-secrets".to_owned(),
            tool: ToolMatch {
                name: Some(glob("read")),
                ..ToolMatch::default()
            },
            server: Some(glob("files")),
            arguments: vec![(
                ArgumentPath::new("path").expect("a way"),
                PathGlob::new("/srv/secret/**").expect("a glob"),
            )],
            decision: Decision::Block,
            reason: String::new(),
        }];
        policy.rules.limits = vec![ValueLimit {
            id: "limit".to_owned(),
            tool: ToolMatch::default(),
            argument: ArgumentPath::new("amount").expect("a way"),
            min: None,
            max: Some("10".parse().expect("a number")),
            decision: Decision::Block,
            reason: String::new(),
        }];
    });
    let judgement = world.wants(name, &arguments.replace("TOKEN", TOKEN));
    blocked_by(&judgement).map(str::to_owned)
}

#[test_case("mcp__files__read" => Some("tool_policy".to_owned()); "a tool that is denied")]
#[test_case("mcp__mail__send" => None; "one that is not")]
#[test_case("mcp__mail__read" => None; "one of that name of another server")]
#[test_case("mcp__files__drop_table" => Some("blocked_tools".to_owned()); "blocked by its own name")]
#[test_case("mcp__mail__forward" => Some("blocked_tools".to_owned()); "blocked by the name that models use")]
#[test_case("drop_table" => Some("blocked_tools".to_owned()); "blocked, and no MCP tool")]
#[test_case("exec_command" => Some("tool_policy".to_owned()); "denied for every server, and no MCP tool")]
#[test_case("delete" => None; "denied for one server, and no MCP tool")]
#[test_case("Bash" => None; "no MCP tool")]
#[test_case("mcp__evil__run" => Some("server_policy".to_owned()); "a denied server that nobody saw")]
#[test_case("mcp__evil2__run" => None; "another server that nobody saw")]
#[test_case("mcp_evil_run" => Some("server_policy".to_owned()); "by another scheme")]
#[test_case("mcp__plugin_dev_files__read" => Some("tool_policy".to_owned()); "of a plugin")]
fn names(name: &str) -> Option<String> {
    let mut world = with(|policy| {
        policy.rules.blocked_tools = vec![glob("drop_*"), glob("mcp__mail__forward")];
        policy.rules.tools = ToolPolicy::Denylist(vec![
            entry("files", "read"),
            entry("files", "delete"),
            entry("*", "exec_*"),
        ]);
        policy.server_policy = ServerPolicy::Denylist(vec![NameGlob::new("evil")]);
    });
    blocked_by(&world.wants(name, "{}")).map(str::to_owned)
}

#[test_case("mcp__files__read" => None; "a declared server")]
#[test_case("mcp__files__other" => Some("unknown_tool".to_owned()); "a tool that it does not list")]
#[test_case("mcp__mail__send" => Some("undeclared_server".to_owned()); "a server that is not declared")]
#[test_case("mcp__nobody__run" => Some("unknown_tool".to_owned()); "a server that nobody knows")]
#[test_case("mcp__nothing" => Some("unknown_tool".to_owned()); "no server at all")]
#[test_case("Bash" => None; "no MCP tool")]
#[test_case("apply_patch" => None; "no MCP tool with an underscore")]
#[test_case("developer__shell" => None; "no MCP tool with two of them")]
#[test_case("list_mcp_resources" => None; "no MCP tool, though it is about them")]
fn where_the_unknown_is_refused(name: &str) -> Option<String> {
    let mut world = with(|policy| {
        policy.fail_closed = true;
        policy.servers = vec![Server {
            id: id("files"),
            transport: Transport::Stdio {
                command: "files".to_owned(),
                args: Vec::new(),
            },
            env_allow: Vec::new(),
            env_deny: Vec::new(),
            processes: None,
            sandbox: Default::default(),
            egress: None,
            on_change: None,
        }];
    });
    blocked_by(&world.wants(name, "{}")).map(str::to_owned)
}

#[test_case(Handling::Allow => (None, vec![]); "allowed")]
#[test_case(Handling::Audit => (None, vec!["mcp_tool_call_intercepted audit native_tools".to_owned()]); "noted")]
#[test_case(Handling::Block => (Some("native_tools".to_owned()), vec!["mcp_tool_call_intercepted block native_tools".to_owned()]); "blocked")]
fn tools_of_the_agent(handling: Handling) -> (Option<String>, Vec<String>) {
    let mut world = with(|policy| policy.llm.native_tools = handling);
    let native = world.wants("Bash", r#"{"command":"ls"}"#);
    let mcp = world.wants("mcp__files__read", "{}");
    assert_eq!(blocked_by(&mcp), None, "it is no tool of the agent");
    (blocked_by(&native).map(str::to_owned), told(&native))
}

#[test]
fn native_input_is_told_without_secrets() {
    let mut world = with(|policy| {
        policy.llm.native_tools = Handling::Audit;
        policy.arguments.enabled = false;
    });
    let judgement = world.wants("Bash", &format!(r#"{{"command":"echo {TOKEN}"}}"#));
    let text = format!("{judgement:?}");
    assert!(text.contains("github_token") && !text.contains(TOKEN), "{text}");
}

#[test]
fn what_is_malformed_may_pass_no_rule_by() {
    for (input, name, blocks) in [
        ("{\"path\":", "mcp__files__read", Some("malformed_arguments")),
        ("  ", "mcp__files__read", None),
        ("{\"path\":", "Bash", None),
    ] {
        let said = LlmMention::Call(intent(name, Input::Malformed(input.into())));
        assert_eq!(
            blocked_by(&world(policy()).spoken(None, &said)),
            blocks,
            "{input} {name}"
        );
    }
    let mut world = with(|policy| policy.rules.blocked_tools = vec![glob("read")]);
    let said = LlmMention::Call(intent("mcp__files__read", Input::Malformed("{".into())));
    assert_eq!(blocked_by(&world.spoken(None, &said)), Some("blocked_tools"));
}

#[test]
fn text_that_is_no_json_is_looked_at_as_it_is() {
    let text = format!("say \"{TOKEN}\"\nand go");
    let said = LlmMention::Call(intent("mcp__mail__send", Input::Text(text.into())));
    let judgement = world(policy()).spoken(None, &said);
    assert_eq!(blocked_by(&judgement), Some("argument_inspection"));
    assert!(!format!("{judgement:?}").contains(TOKEN));
}

#[test]
fn arguments_are_not_replaced_here() {
    let mut world = with(|policy| policy.arguments.on_detection = OnSecret::Redact);
    let judgement = world.wants("mcp__mail__send", &format!(r#"{{"body":"{TOKEN}"}}"#));
    assert_eq!(judgement.verdict, Verdict::Allow);
    assert!(!format!("{:?}", judgement.events).contains(TOKEN));
}

#[test]
fn findings_are_told_by_the_layer_that_stops_the_call() {
    let secret = format!(r#"{{"body":"{TOKEN}"}}"#);
    let stopped = world(policy()).wants("mcp__mail__send", &secret);
    assert_eq!(
        told(&stopped),
        [
            "mcp_detection block argument_inspection",
            "mcp_tool_call_intercepted block argument_inspection"
        ]
    );
    let mut world = with(|policy| policy.arguments.on_detection = OnSecret::Alert);
    assert_eq!(
        told(&world.wants("mcp__mail__send", &secret)),
        ["mcp_tool_call_intercepted audit argument_inspection"]
    );
}

#[test]
fn of_several_tools_the_strictest_ruling_holds() {
    let mut world = with(|policy| policy.rules.tools = ToolPolicy::Denylist(vec![entry("mail", "read")]));
    assert_eq!(blocked_by(&world.wants("read", "{}")), None, "one server has it");
    world.conversation = conversation("mail");
    drop(world.tools(&[("read", "Reads mail")]));
    let judgement = world.wants("read", "{}");
    assert_eq!(blocked_by(&judgement), Some("tool_policy"));
    assert_eq!(
        judgement.events.last().and_then(|event| event.server_id.clone()),
        Some(id("mail"))
    );
    let reason = judgement.events.last().and_then(|event| event.reason.clone());
    assert!(
        reason
            .as_deref()
            .is_some_and(|reason| reason.contains("can stand for 1 more")),
        "{reason:?}"
    );
    assert_eq!(
        blocked_by(&world.wants("mcp__files__read", "{}")),
        None,
        "that one is plain"
    );
}

#[test_case("claude-cli/2.1.329 (external, cli)", "read" => None; "a tool of its own")]
#[test_case("claude-cli/2.1.329 (external, cli)", "mcp__files__read" => Some("blocked_tools".to_owned()); "an MCP tool")]
#[test_case("claude-cli/2.1.329 (external, cli)", "files__read" => Some("blocked_tools".to_owned()); "a mark of another client")]
#[test_case("opencode/1.18.33", "files_read" => Some("blocked_tools".to_owned()); "its own scheme without a mark")]
#[test_case("claude-cli/2.1.329 (external, cli)", "files_read" => None; "no scheme of this client")]
fn the_client_narrows_what_a_name_means(agent: &str, name: &str) -> Option<String> {
    let mut world = with(|policy| policy.rules.tools = ToolPolicy::Denylist(vec![entry("files", "*")]));
    let judgement = world.wants_as(agent, name);
    blocked_by(&judgement).map(|rule| {
        assert_eq!(rule, "tool_policy");
        "blocked_tools".to_owned()
    })
}

/// A prefix that a client puts in front of an unlisted tool does not hide a blocked one.
#[test_case(None, "mcp__everything__echo" => true; "a mark")]
#[test_case(None, "everything_echo" => true; "as opencode")]
#[test_case(None, "everything-echo" => true; "as Copilot CLI")]
#[test_case(None, "everything:echo" => true; "with a colon")]
#[test_case(None, "everything/echo" => true; "with a slash")]
#[test_case(None, "everything.echo" => true; "with a dot")]
#[test_case(None, "Everything_Echo" => true; "in another case")]
#[test_case(None, "EVERYTHING-ECHO" => true; "in capitals")]
#[test_case(None, "my_server-two_echo" => true; "a longer name of a server")]
#[test_case(Some("opencode/1.18.33"), "everything_echo" => true; "opencode")]
#[test_case(Some("copilot/1.0.70 (linux)"), "everything-echo" => true; "Copilot CLI")]
#[test_case(None, "everything_echoes" => false; "another tool")]
#[test_case(None, "reecho" => false; "a word that ends so")]
#[test_case(None, "echo_everything" => false; "a tool of another name")]
#[test_case(Some("claude-cli/2.1.329 (external, cli)"), "my_echo" => false; "a tool of a client whose names have marks")]
#[test_case(Some("claude-cli/2.1.329 (external, cli)"), "mcp__everything__ECHO" => true; "of a client whose names have marks")]
fn a_blocked_tool_is_blocked_before_anybody_listed_it(agent: Option<&str>, name: &str) -> bool {
    let mut world = with(|policy| policy.rules.blocked_tools = vec![glob("echo")]);
    let wanted = intent(name, Input::Json(RawJson::trusted("{}")));
    blocked_by(&world.spoken(agent, &LlmMention::Call(wanted))) == Some("blocked_tools")
}

/// The same of tools that are denied for one server.
#[test_case("everything_echo" => true; "as opencode")]
#[test_case("Everything-Echo" => true; "as Copilot CLI, in another case")]
#[test_case("everything:echo" => true; "with a colon")]
#[test_case("other_echo" => false; "of another server")]
#[test_case("echo" => false; "of none")]
fn a_denied_tool_is_denied_before_anybody_listed_it(name: &str) -> bool {
    let mut world =
        with(|policy| policy.rules.tools = ToolPolicy::Denylist(vec![entry("everything", "echo")]));
    blocked_by(&world.wants(name, "{}")) == Some("tool_policy")
}

/// A name whose server is known is a tool of that server, and is recorded as one.
#[test_case(None, "files_stat"; "as opencode")]
#[test_case(None, "files-stat"; "as Copilot CLI")]
#[test_case(None, "files:stat"; "with a colon")]
#[test_case(None, "FILES_stat"; "in another case")]
#[test_case(None, "files-read"; "one that it lists")]
#[test_case(None, "Files:Read"; "one that it lists, in another case")]
fn a_tool_of_a_known_server_needs_no_mark(agent: Option<&str>, name: &str) {
    let mut world = world(policy());
    let wanted = intent(name, Input::Json(RawJson::trusted("{}")));
    let judgement = world.spoken(agent, &LlmMention::Call(wanted));
    let event = judgement.events.last().expect("it is told");
    assert_eq!(event.server_id, Some(id("files")));
}

#[test]
fn the_client_is_learned_from_what_servers_hear() {
    let mut world = with(|policy| policy.rules.tools = ToolPolicy::Denylist(vec![entry("files", "*")]));
    assert_eq!(blocked_by(&world.wants("read", "{}")), Some("tool_policy"));
    drop(world.say(Content::Client(FromClient::Request {
        method: "initialize".into(),
        params: Some(RawJson::trusted(r#"{"clientInfo":{"name":"claude-code"}}"#)),
    })));
    assert_eq!(blocked_by(&world.wants("read", "{}")), None, "a tool of its own");
    assert_eq!(
        blocked_by(&world.wants_as("opencode/1.18.33", "read")),
        Some("tool_policy"),
        "where both say different things nothing is known"
    );
}

#[test]
fn a_namespace_is_part_of_the_name() {
    let mut world = with(|policy| policy.rules.tools = ToolPolicy::Denylist(vec![entry("files", "read")]));
    let mut wanted = intent("read", Input::Json(RawJson::trusted("{}")));
    wanted.name.namespace = Some("mcp__files".into());
    let judgement = world.spoken(Some("codex_cli_rs/0.169.0"), &LlmMention::Call(wanted));
    assert_eq!(blocked_by(&judgement), Some("tool_policy"));
}

#[test]
fn pins_hold_for_intents() {
    let mut world = world(policy());
    drop(world.tools(&[("read", "Does something else")]));
    assert_eq!(
        blocked_by(&world.wants("mcp__files__read", "{}")),
        Some("version_pin")
    );
}

#[test]
fn the_kill_switch_stops_mcp_tools_and_those_alone() {
    let mut world = world(observing(policy()));
    drop(world.monitor.stop(Kills {
        host: Some(Kill {
            by: "root".to_owned(),
            at: Timestamp(0),
        }),
        ..Kills::default()
    }));
    assert_eq!(
        blocked_by(&world.wants("mcp__files__read", "{}")),
        Some("kill_switch")
    );
    assert_eq!(
        blocked_by(&world.wants("mcp__nobody__run", "{}")),
        Some("kill_switch")
    );
    assert_eq!(
        blocked_by(&world.wants("mcp__nothing", "{}")),
        Some("kill_switch")
    );
    assert_eq!(blocked_by(&world.wants("Bash", "{}")), None);
}

#[test]
fn observing_lets_everything_through() {
    let mut policy = observing(policy());
    policy.rules.blocked_tools = vec![glob("*")];
    let mut world = world(policy);
    for name in ["mcp__files__read", "Bash", "mcp__nothing"] {
        let judgement = world.wants(name, "{}");
        assert!(lets_everything_through(&judgement), "{name}: {judgement:?}");
        assert_eq!(
            told(&judgement),
            ["mcp_tool_call_intercepted would_block blocked_tools"],
            "{name}"
        );
    }
}

#[test]
fn a_proxy_that_is_switched_off_judges_nothing() {
    let mut world = with(|policy| {
        policy.llm.mode = ProxyMode::Disabled;
        policy.rules.blocked_tools = vec![glob("*")];
    });
    let judgement = world.wants("mcp__files__read", "{}");
    assert_eq!((judgement.verdict, judgement.events.len()), (Verdict::Allow, 0));
}

/// Clients that ignore namespaces run the tool that the name alone means.
#[test_case("", "mcp__files__read" => true; "none")]
#[test_case("memory", "mcp__files__read" => true; "one that nobody knows")]
#[test_case("mcp__mail", "mcp__files__read" => true; "another server's")]
#[test_case("memory", "read" => true; "a name without a mark in one that nobody knows")]
#[test_case("mcp__files", "read" => true; "its own")]
#[test_case("mcp__mail", "read" => false; "another server's tool of that name")]
fn a_namespace_hides_no_tool(space: &'static str, name: &'static str) -> bool {
    let mut world = with(|policy| policy.rules.tools = ToolPolicy::Denylist(vec![entry("files", "read")]));
    let mut wanted = intent(name, Input::Json(RawJson::trusted("{}")));
    wanted.name.namespace = Some(space.into());
    let judgement = world.spoken(None, &LlmMention::Call(wanted));
    matches!(judgement.verdict, Verdict::Block(_))
}

#[test_case("exec" => Some("req_1".to_owned()); "code mode")]
#[test_case("code__execute_code" => Some("req_1".to_owned()); "of an extension of the agent")]
#[test_case("shell" => None; "another tool of the agent")]
#[test_case("execute" => None; "a longer name")]
fn a_model_that_wants_code_run_is_noted_for_the_calls_in_it(tool: &str) -> Option<String> {
    let mut world = world(policy());
    let judgement = world.wants(tool, r#"{"code":"files.read()"}"#);
    let recent = judgement.store_effects.iter().find_map(|effect| {
        let StoreEffect::Share(recent) = effect else {
            return None;
        };
        Some(&**recent)
    });
    let Some(Recent::Intent(intent)) = recent else {
        return None;
    };
    assert_eq!(intent.origin, Some(mcpmon_model::CallOrigin::Code));
    Some(intent.turn.to_string())
}

//! Tool calls beside the others of their session: through the front door.

use std::time::Duration;

use mcpmon_model::{EventKind, Recent, SharedCallAnswer};
use mcpmon_policy::CrossServerDecision;
use test_case::test_case;

use super::*;
use crate::{SharedOutcome, cross_server::CallWindow};

/// Several servers of one session, each with its own Monitor, and the holder of their calls.
struct Session {
    worlds: Vec<World>,
    window: CallWindow,
    policy: Policy,
}

impl Session {
    fn new(policy: Policy, servers: &[&str]) -> Self {
        let all: Vec<ServerId> = servers.iter().map(|name| id(name)).collect();
        let worlds = servers.iter().map(|name| {
            let mut world = World::new(policy.clone());
            world.conversation = conversation(name);
            let others: Vec<ServerId> = all.iter().filter(|other| **other != id(name)).cloned().collect();
            world.monitor.observe(
                world.now,
                Observation::Joined(&world.conversation, SessionPeers::of(&others)),
            );
            world
        });
        Self {
            worlds: worlds.collect(),
            window: CallWindow::default(),
            policy,
        }
    }

    /// A call, after so many seconds: what follows, and what was asked.
    fn call(&mut self, server: usize, seconds: i64, tool: &str, arguments: &str) -> Judgement {
        let world = &mut self.worlds[server];
        world.now = Timestamp(seconds * 1_000_000_000);
        let request = RequestId::Number("7".into());
        let message = Message {
            era: Era::Handshake,
            id: Some(&request),
            trace: Trace::default(),
            size: 300,
            content: Content::Client(FromClient::Call(Call {
                tool: Cow::Borrowed(tool),
                arguments: Some(RawJson::trusted(arguments)),
                resumes: None,
            })),
        };
        let seen = Observation::Message(&world.conversation, &message, Vec::new());
        let mut judgement = world.monitor.observe(world.now, seen);
        if let Some(ask) = judgement.ask.take() {
            assert!(judgement.events.is_empty(), "nothing is said before the answer");
            let (checked, _) = self.window.admit(&self.policy, ask.call());
            let answered = Observation::Shared(
                &world.conversation,
                &message,
                ask,
                SharedOutcome::Checked(checked),
            );
            judgement = world.monitor.observe(world.now, answered);
        }
        judgement
    }
}

fn block() -> Policy {
    let mut policy = policy();
    policy.cross_server.decision = CrossServerDecision::Block;
    policy
}

#[test]
fn a_server_alone_asks_nobody_and_tells_its_calls() {
    let mut world = World::new(policy());
    let judgement = world.call("read_file");
    assert!(judgement.ask.is_none());
    let told = judgement
        .store_effects
        .iter()
        .filter(|order| matches!(order, StoreEffect::Share(_)));
    assert_eq!(told.count(), 1);
}

#[test]
fn what_one_server_read_another_does_not_send() {
    let mut session = Session::new(block(), &["files", "mail"]);
    assert_eq!(
        told(&session.call(0, 0, "read_file", "{}"))[0],
        "mcp_tool_call_intercepted audit unknown_tool"
    );
    let judgement = session.call(1, 3, "send_email", "{}");
    assert_eq!(blocked_by(&judgement), Some("read_then_send"));
    assert_eq!(
        told(&judgement),
        [
            "mcp_cross_server_blocked block read_then_send",
            "mcp_tool_call_intercepted block read_then_send"
        ]
    );
}

#[test]
fn in_observe_mode_it_is_told_as_one_that_would_be_stopped() {
    let mut session = Session::new(observing(block()), &["files", "mail"]);
    session.call(0, 0, "read_file", "{}");
    let judgement = session.call(1, 3, "send_email", "{}");
    assert_eq!(judgement.verdict, Verdict::Allow);
    assert_eq!(
        told(&judgement),
        [
            "mcp_cross_server_blocked would_block read_then_send",
            "mcp_tool_call_intercepted would_block read_then_send",
            "mcp_tool_called would_block read_then_send"
        ]
    );
}

#[test]
fn a_file_that_holds_secrets_is_evidence() {
    let mut session = Session::new(policy(), &["files", "mail"]);
    session.call(0, 0, "read_file", r#"{"path":"/home/me/notes"}"#);
    assert_eq!(blocked_by(&session.call(1, 3, "send_email", "{}")), None);
    session.call(0, 6, "read_file", r#"{"path":"/home/me/.ssh/id_ed25519"}"#);
    let judgement = session.call(1, 9, "send_email", "{}");
    assert_eq!(blocked_by(&judgement), Some("read_then_send"));
    let Verdict::Block(denial) = &judgement.verdict else {
        panic!("it is blocked");
    };
    assert!(
        denial.reason.contains(
            "`send_email` (server `mail`) would send data within 30 s after `read_file` (server `files`) read a file that holds secrets"
        ),
        "{}",
        denial.reason
    );
}

#[test]
fn what_is_refused_here_asks_nobody() {
    let mut refusing = policy();
    refusing.fail_closed = true;
    let mut session = Session::new(refusing, &["files", "mail"]);
    let judgement = session.call(0, 0, "read_file", "{}");
    assert_eq!(blocked_by(&judgement), Some("unknown_tool"));
    let Some(StoreEffect::Share(recent)) = judgement.store_effects.first() else {
        panic!("an attempt is told: {:?}", judgement.store_effects);
    };
    let Recent::Call(call) = &**recent else {
        panic!("it is a call");
    };
    assert_eq!((call.action, call.left), (Action::Block, None));
}

#[test]
fn a_rate_holds_for_a_server_alone_and_without_anybody_to_ask() {
    let mut limited = policy();
    limited.rate_limits.default.burst = 2;
    limited.rate_limits.default.per_minute = 1;
    let mut world = World::new(limited);
    let rules: Vec<Option<String>> = (0..3)
        .map(|_| blocked_by(&world.call("x")).map(ToOwned::to_owned))
        .collect();
    assert_eq!(rules, [None, None, Some("rate_limit".to_owned())]);
}

#[test]
fn where_nobody_can_be_asked_own_rules_hold() {
    let mut limited = policy();
    limited.rate_limits.default.burst = 1;
    limited.rate_limits.default.per_minute = 1;
    let mut world = World::new(limited);
    let others = [id("mail")];
    world.monitor.observe(
        world.now,
        Observation::Joined(&world.conversation, SessionPeers::of(&others)),
    );
    let mut call = || {
        let request = RequestId::Number("7".into());
        let message = Message {
            era: Era::Handshake,
            id: Some(&request),
            trace: Trace::default(),
            size: 300,
            content: Content::Client(FromClient::Call(Call {
                tool: "x".into(),
                arguments: None,
                resumes: None,
            })),
        };
        let seen = Observation::Message(&world.conversation, &message, Vec::new());
        let ask = world
            .monitor
            .observe(world.now, seen)
            .ask
            .expect("there are others");
        let answered = Observation::Shared(&world.conversation, &message, ask, SharedOutcome::Unreachable);
        world.monitor.observe(world.now, answered)
    };
    assert_eq!(blocked_by(&call()), None);
    assert_eq!(blocked_by(&call()), Some("rate_limit"));
}

#[test]
fn an_answer_that_stops_nothing_changes_nothing() {
    let mut session = Session::new(policy(), &["files", "mail"]);
    session.worlds[0].tools(&[("read_file", "Reads a file")]);
    let judgement = session.call(0, 0, "read_file", "{}");
    assert_eq!(told(&judgement), ["mcp_tool_called allow"]);
    assert_eq!(
        SharedCallAnswer::default(),
        SharedCallAnswer {
            crossings: Vec::new(),
            over_rate: None,
            origin: None,
        }
    );
}

#[test_case(None, "search", false => Some("mcp_cross_server_blocked audit shadow_tool"); "nobody knows the client")]
#[test_case(Some("claude-code"), "search", false => None; "a client that puts the server in front")]
#[test_case(Some("claude-code"), "search", true => Some("mcp_cross_server_blocked block shadow_tool"); "the seeds' rule does not ask")]
#[test_case(None, "find", true => None; "another name")]
fn a_tool_with_the_name_of_anothers(
    client: Option<&'static str>,
    tool: &str,
    by_seeds: bool,
) -> Option<&'static str> {
    let mut world = World::new(if by_seeds { block() } else { policy() });
    world.tools(&[("search", ""), ("find", "")]);
    let other = mcpmon_model::Digest::of(b"");
    world
        .monitor
        .registry_mut()
        .register(Timestamp(-1), &id("other"), ServerType::Stdio, "search", other);
    if let Some(client) = client {
        let params = format!(r#"{{"clientInfo":{{"name":"{client}"}}}}"#);
        world.say(Content::Client(FromClient::Request {
            method: "initialize".into(),
            params: Some(RawJson::trusted(&params)),
        }));
    }
    let judgement = world.call(tool);
    let all = [
        "mcp_cross_server_blocked audit shadow_tool",
        "mcp_cross_server_blocked block shadow_tool",
    ];
    let first = told(&judgement);
    all.into_iter()
        .find(|known| first.first().is_some_and(|first| first == known))
}

#[test]
fn a_shadowed_name_is_told_before_a_changed_definition() {
    let mut world = World::new(block());
    world.tools(&[("search", "one thing")]);
    world.tools(&[("search", "another thing")]);
    assert_eq!(blocked_by(&world.call("search")), Some("version_pin"));
    let other = mcpmon_model::Digest::of(b"");
    world
        .monitor
        .registry_mut()
        .register(Timestamp(-1), &id("other"), ServerType::Stdio, "search", other);
    assert_eq!(blocked_by(&world.call("search")), Some("shadow_tool"));
}

#[test]
fn a_result_is_told_to_be_read_unless_it_was_withheld() {
    let mut world = World::new(policy());
    let asked = || ClientRequestKind::Call {
        tool: Some("read_file".into()),
    };
    let is_told = |judgement: &Judgement| {
        judgement
            .store_effects
            .iter()
            .any(|order| matches!(order, StoreEffect::ShareResult { .. }))
    };
    let text = |text: &str| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    assert!(is_told(&world.result(
        asked(),
        &text("plain"),
        ResultKind::Complete
    )));
    assert!(!is_told(&world.result(
        asked(),
        &text("EVIL-HIGH"),
        ResultKind::Complete
    )));
    assert!(
        !is_told(&world.result(asked(), "{}", ResultKind::Task)),
        "nothing came yet"
    );
    let mut switched_off = policy();
    switched_off.cross_server.enabled = false;
    world.install(switched_off);
    assert!(!is_told(&world.result(
        asked(),
        &text("plain"),
        ResultKind::Complete
    )));
}

#[test]
fn a_category_is_as_the_policy_says() {
    let mut said = block();
    said.categories.overrides = vec![(
        mcpmon_model::ToolCategory::Send,
        mcpmon_policy::ToolGlob::new("mail:frobnicate"),
    )];
    said.cross_server.read_then_send = Some(Duration::from_secs(5));
    let mut session = Session::new(said, &["files", "mail"]);
    session.call(0, 0, "read_file", "{}");
    assert_eq!(
        blocked_by(&session.call(1, 3, "frobnicate", "{}")),
        Some("read_then_send")
    );
}

/// Returns whether a call that claims to resume another one is counted, after such an answer to an earlier call.
#[test_case(ResultKind::InputRequired, "search" => false; "input was asked for")]
#[test_case(ResultKind::InputRequired, "other" => true; "of another tool")]
#[test_case(ResultKind::Complete, "search" => true; "nothing was asked for")]
fn a_call_goes_on_with_one_that_asked_for_input(answered: ResultKind, tool: &str) -> bool {
    let mut world = World::new(policy());
    let asked = ClientRequestKind::Call {
        tool: Some("search".into()),
    };
    world.result(asked, r#"{"inputRequests":{}}"#, answered);
    let mut is_counted = |tool: &str| {
        let request = RequestId::Number("7".into());
        let message = Message {
            era: Era::Handshake,
            id: Some(&request),
            trace: Trace::default(),
            size: 300,
            content: Content::Client(FromClient::Call(Call {
                tool: Cow::Borrowed(tool),
                arguments: None,
                resumes: Some(RawJson::trusted("{}")),
            })),
        };
        let seen = Observation::Message(&world.conversation, &message, Vec::new());
        let judgement = world.monitor.observe(world.now, seen);
        judgement
            .store_effects
            .iter()
            .any(|order| matches!(order, StoreEffect::Share(_)))
    };
    let first = is_counted(tool);
    assert!(is_counted(tool), "once for every request");
    first
}

/// Every layer that judges a call of a remote server records its address.
#[test_case("https://mcp.example.com/mcp", ServerType::Http => Some("mcp.example.com:443".to_owned()); "a URL")]
#[test_case("http://[2001:db8::1]:8080/mcp", ServerType::Sse => Some("[2001:db8::1]:8080".to_owned()); "an address")]
#[test_case("@a/remote", ServerType::Stdio => None; "a package")]
#[test_case("/opt/remote", ServerType::Stdio => None; "a program")]
fn where_a_remote_server_is(name: &str, server_type: ServerType) -> Option<String> {
    let mut policy = policy();
    policy.rules.blocked_tools = vec![mcpmon_policy::rules::SpellingGlob::new("read")];
    let mut world = World::new(policy);
    world.conversation = Conversation {
        identity: PinKey {
            name: name.to_owned(),
            ..conversation("remote").identity
        },
        server_type,
        layer: Layer::McpHttp,
        ..conversation("remote")
    };
    world.monitor.know_members(
        world.conversation.session.as_ref(),
        &[world.conversation.identity.clone()],
    );
    let wanted = world.wants("mcp__remote__read", "{}");
    let called = world.call("read");
    let addresses = [wanted, called].map(|judgement| {
        let event = judgement.events.into_iter().last().expect("it is told");
        let EventKind::ToolCallIntercepted { server_addr, .. } = event.kind else {
            panic!("a judged call, not {event:?}");
        };
        server_addr
    });
    let [wanted, called] = addresses;
    assert_eq!(wanted, called);
    called
}

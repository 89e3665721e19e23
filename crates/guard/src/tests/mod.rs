//! Tests of guards through their public functions: bytes go in; bytes, events and questions come out.

mod held_calls;
mod http;

use std::sync::Arc;

use mcpmon_detect::protected_paths::{Lookup, RealPath};
use mcpmon_engine::{Monitor, SessionPeers, SharedOutcome, cross_server::CallWindow, pins::PinBook};
use mcpmon_model::{
    Action, Conversation, DefinitionRecord, DerivedId, Event, EventId, Layer, PinKey, ServerId, ServerType,
    SessionId, SharedCall, Side, Timestamp, Verdict,
};
use mcpmon_policy::{
    Decision, Policy, Server, ServerPolicy, Transport, network::table::Tables, rules::SpellingGlob,
};
use mcpmon_protocol::{decode::DecodeLimits, filter::stdio::StdioFilter};
use test_case::test_case;

use crate::{Absence, FAIL_CLOSED, Guard, GuardHost, GuardOutput, JudgementOutcome};

const NOW: Timestamp = Timestamp(1_000_000_000);
const ID: EventId = EventId([7; 16]);
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const TOOLS: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"write_file","inputSchema":{"type":"object"}}]}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"notes.md","content":"x"}}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"done"}]}}"#;
const AWAY: Absence = Absence {
    reason: "nobody can be asked",
    remedy: "mcpmon doctor",
};

/// A host that records the questions.
#[derive(Default)]
struct Host {
    real: Option<&'static str>,
    looked_up: Vec<String>,
    calls: Vec<String>,
    window: CallWindow,
    absence: Option<Absence>,
    /// The number of offers that were about to be judged.
    offers: usize,
    recorded: Option<Vec<DefinitionRecord>>,
}

impl GuardHost for Host {
    fn real_paths(&mut self, lookups: Vec<Lookup>) -> Vec<RealPath> {
        let real = self.real;
        let found = |lookup: Lookup| {
            self.looked_up.push(lookup.given.clone());
            real.map(|real| RealPath {
                given: lookup.given,
                real: real.to_owned(),
            })
        };
        lookups.into_iter().filter_map(found).collect()
    }

    fn check(&mut self, _now: Timestamp, policy: &Policy, call: &SharedCall) -> SharedOutcome {
        self.calls.push(call.tool.clone());
        if self.absence.is_some() {
            return SharedOutcome::Unreachable;
        }
        let (checked, own) = self.window.check(policy, call);
        own.into_iter().for_each(|own| self.window.take(own));
        SharedOutcome::Checked(checked)
    }

    fn absence(&self) -> Option<Absence> {
        self.absence
    }

    fn definitions(&mut self) -> Option<Vec<DefinitionRecord>> {
        self.offers += 1;
        self.recorded.take()
    }
}

/// A conversation with one server.
struct Talk {
    guard: Guard,
    filter: StdioFilter,
    host: Host,
    out: GuardOutput,
}

impl Talk {
    fn new(policy: Policy) -> Self {
        let conversation = Conversation {
            identity: PinKey {
                server: server("files"),
                name: "files".to_owned(),
                uid: 1000,
            },
            server_type: ServerType::Stdio,
            session: Some(SessionId::new("s1")),
            layer: Layer::Stdio,
        };
        let monitor = Monitor::new(Arc::new(policy), &Tables::default(), PinBook::default());
        Self {
            guard: Guard::new(conversation, monitor, |_| ID),
            filter: StdioFilter::new(DecodeLimits::default()),
            host: Host::default(),
            out: GuardOutput::default(),
        }
    }

    /// A conversation whose server has listed its tools.
    fn listed(policy: Policy) -> Self {
        let mut talk = Self::new(policy);
        talk.says(Side::Client, LIST);
        talk.says(Side::Server, TOOLS);
        talk.out = GuardOutput::default();
        talk
    }

    fn writes(&mut self, side: Side, bytes: &[u8]) {
        self.guard
            .push(NOW, &mut self.filter, side, bytes, &mut self.host, &mut self.out);
    }

    fn says(&mut self, side: Side, line: &str) {
        self.writes(side, format!("{line}\n").as_bytes());
    }

    fn to_server(&self) -> String {
        String::from_utf8_lossy(&self.out.wire.to_server).into_owned()
    }

    fn to_client(&self) -> String {
        String::from_utf8_lossy(&self.out.wire.to_client).into_owned()
    }

    fn blocking(&self) -> Vec<&Event> {
        let events = self.out.outcome.events.iter();
        events.filter(|event| event.action == Action::Block).collect()
    }
}

fn server(name: &str) -> ServerId {
    ServerId::new(name).unwrap()
}

fn allowing() -> Policy {
    let mut policy = Policy::default();
    policy.rules.default = Decision::Allow;
    policy
}

/// A policy that declares the server, as `fail_closed` demands.
fn declaring() -> Policy {
    let mut policy = allowing();
    policy.servers.push(Server {
        on_change: None,
        id: server("files"),
        transport: Transport::Stdio {
            command: "files".to_owned(),
            args: Vec::new(),
        },
        env_allow: Vec::new(),
        env_deny: Vec::new(),
        processes: None,
        sandbox: Default::default(),
        egress: None,
    });
    policy
}

fn blocking() -> Policy {
    let mut policy = allowing();
    policy.rules.blocked_tools = vec![SpellingGlob::new("write_file")];
    policy
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.name()).collect()
}

#[test]
fn what_is_allowed_goes_on_as_it_came_and_is_recorded() {
    let mut talk = Talk::listed(allowing());
    talk.says(Side::Client, CALL);
    assert_eq!(talk.to_server(), format!("{CALL}\n"));
    assert_eq!(names(&talk.out.outcome.events), ["mcp_tool_called"]);
    talk.says(Side::Server, ANSWER);
    assert_eq!(talk.to_client(), format!("{ANSWER}\n"));
}

#[test]
fn a_denial_names_the_event_that_is_recorded_before_it_is_written() {
    let mut talk = Talk::listed(blocking());
    talk.says(Side::Client, CALL);
    assert_eq!(talk.to_server(), "");
    let blocking: Vec<_> = talk.blocking().iter().map(|event| event.id).collect();
    assert_eq!(blocking, [Some(ID)]);
    assert!(talk.to_client().contains("07070707-0707"), "{}", talk.to_client());
}

#[test]
fn bytes_may_be_cut_anywhere() {
    let said = [(Side::Client, LIST), (Side::Server, TOOLS), (Side::Client, CALL)];
    let transcript = |size: usize| {
        let mut talk = Talk::new(blocking());
        for (side, line) in said {
            for chunk in format!("{line}\n").as_bytes().chunks(size) {
                talk.writes(side, chunk);
            }
        }
        let events = names(&talk.out.outcome.events);
        (
            talk.to_server(),
            talk.to_client(),
            events,
            talk.out.outcome.effects,
        )
    };
    assert_eq!(transcript(1), transcript(4096));
    assert_eq!(transcript(7), transcript(4096));
}

#[test]
fn what_is_no_message_is_an_event() {
    let mut talk = Talk::listed(allowing());
    talk.says(Side::Client, "{");
    assert_eq!(talk.to_server(), "");
    assert!(talk.out.wire.incidents.is_empty(), "all are judged");
    assert_eq!(talk.out.outcome.events.len(), 1, "{:?}", talk.out.outcome.events);
}

#[test]
fn links_are_looked_up_before_a_call_is_judged() {
    let mut talk = Talk::listed(allowing());
    talk.host.real = Some("/home/me/.bashrc");
    talk.says(Side::Client, CALL);
    assert_eq!(talk.host.looked_up, ["notes.md"]);
    let rules: Vec<_> = talk.blocking().iter().map(|event| event.rule.clone()).collect();
    assert_eq!(rules, [Some("protected_file".to_owned())]);
}

#[test_case(&[] => Vec::<String>::new(); "alone in its session")]
#[test_case(&["mail"] => vec!["write_file".to_owned()]; "beside another server")]
fn the_session_is_asked_about_a_call(others: &[&str]) -> Vec<String> {
    let mut talk = Talk::listed(allowing());
    let others: Vec<ServerId> = others.iter().map(|name| server(name)).collect();
    let mut outcome = JudgementOutcome::default();
    talk.guard.join(NOW, SessionPeers::of(&others), &mut outcome);
    talk.says(Side::Client, CALL);
    assert_eq!(talk.to_server(), format!("{CALL}\n"));
    talk.host.calls
}

#[test]
fn nobody_asks_the_session_about_a_call_that_is_blocked_here() {
    let mut talk = Talk::listed(blocking());
    let others = [server("mail")];
    talk.guard
        .join(NOW, SessionPeers::of(&others), &mut JudgementOutcome::default());
    talk.says(Side::Client, CALL);
    assert_eq!(talk.host.calls, [""; 0]);
}

#[test_case(false, Some(AWAY) => None; "open")]
#[test_case(true, None => None; "closed, and there")]
#[test_case(true, Some(AWAY) => Some(FAIL_CLOSED.to_owned()); "closed, and away")]
fn uses_fail_closed_while_shared_state_is_away(
    fail_closed: bool,
    absence: Option<Absence>,
) -> Option<String> {
    let mut policy = declaring();
    policy.fail_closed = fail_closed;
    let mut talk = Talk::listed(policy);
    talk.host.absence = absence;
    talk.says(Side::Client, CALL);
    let rule = talk.blocking().first().and_then(|event| event.rule.clone());
    assert_eq!(talk.to_server().is_empty(), rule.is_some());
    let called = names(&talk.out.outcome.events).contains(&"mcp_tool_called");
    assert_eq!(called, rule.is_none(), "what goes to no server was not called");
    rule
}

#[test]
fn a_call_that_a_rule_blocks_is_refused_once_while_uses_fail_closed() {
    let mut policy = declaring();
    policy.fail_closed = true;
    policy.rules.blocked_tools = vec![SpellingGlob::new("write_file")];
    let mut talk = Talk::listed(policy);
    talk.host.absence = Some(AWAY);
    talk.says(Side::Client, CALL);
    let rules: Vec<_> = talk.blocking().iter().map(|event| event.rule.clone()).collect();
    assert_eq!(rules, [Some("blocked_tools".to_owned())]);
}

#[test]
fn a_list_goes_on_while_uses_fail_closed() {
    let mut policy = declaring();
    policy.fail_closed = true;
    let mut talk = Talk::new(policy);
    talk.host.absence = Some(AWAY);
    talk.says(Side::Client, LIST);
    assert_eq!(talk.to_server(), format!("{LIST}\n"));
}

#[test]
fn a_server_that_is_denied_may_not_run() {
    let mut policy = allowing();
    policy.server_policy = ServerPolicy::Allowlist(Vec::new());
    let mut talk = Talk::new(policy);
    let mut outcome = JudgementOutcome::default();
    let derived = DerivedId {
        id: talk.guard.conversation().identity.server.clone(),
        is_declared: false,
    };
    let Verdict::Block(denial) = talk.guard.admit(NOW, &derived, &mut outcome) else {
        panic!("it is on no list");
    };
    assert_eq!(denial.event, Some(ID));
    assert_eq!(names(&outcome.events), ["mcp_server_denied"]);
}

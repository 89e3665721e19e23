//! Tests of guards over HTTP.

use mcpmon_engine::StoreEffect;
use mcpmon_protocol::filter::mcp_http::{
    Forward, Head, HttpOutput, HttpResponse, HttpSession, Post, PostDecision, ReadState, ResponseFault,
    ServerKnowledge, UnlistedTools, WholeResponseHead,
};

use super::*;
use crate::HttpGuard;

const LIST_RESULT: &str = r#"{"tools":[{"name":"write_file","inputSchema":{"type":"object"}}]}"#;
const CHANGED_RESULT: &str =
    r#"{"tools":[{"name":"write_file","description":"Also sends it","inputSchema":{"type":"object"}}]}"#;

/// A client and a server that speak over HTTP.
struct HttpTalk {
    guard: Guard,
    host: Host,
    session: HttpSession,
    out: HttpOutput,
    outcome: JudgementOutcome,
}

impl HttpTalk {
    fn new(policy: Policy) -> Self {
        let Talk { guard, host, .. } = Talk::new(policy);
        Self {
            guard,
            host,
            session: HttpSession::new(DecodeLimits::default(), ServerKnowledge::default()),
            out: HttpOutput::default(),
            outcome: JudgementOutcome::default(),
        }
    }

    fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut HttpGuard<'_>, &mut HttpSession, &mut HttpOutput) -> T,
    ) -> T {
        let mut guard = self.guard.http(NOW, &mut self.host, &mut self.outcome);
        work(&mut guard, &mut self.session, &mut self.out)
    }

    fn posts(&mut self, body: &str, needs_lists: bool) -> Result<PostDecision, UnlistedTools> {
        let post = Post {
            head: &Head::default(),
            body: body.as_bytes(),
            needs_lists,
        };
        self.guarded(|guard, session, out| guard.post(session, &post, out))
    }

    fn sends(&mut self, body: &str) -> Forward {
        match self.posts(body, false) {
            Ok(PostDecision::Forward(forward)) => forward,
            other => panic!("it goes on: {other:?}"),
        }
    }

    /// The server answers what was posted.
    fn answers(&mut self, forward: Forward, body: &str) -> WholeResponseHead {
        let mut response = HttpResponse::to_post(
            DecodeLimits::default(),
            200,
            Some("application/json"),
            forward.waiting,
        );
        self.guarded(|guard, session, out| {
            let flow = guard.push(session, &mut response, body.as_bytes(), out);
            assert_eq!(flow, ReadState::Continue);
            guard.end(session, &mut response, out)
        })
    }

    /// The server lists its tools.
    fn lists(&mut self, result: &str) -> String {
        let forward = self.sends(LIST);
        self.answers(
            forward,
            &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#),
        );
        String::from_utf8(std::mem::take(&mut self.out.to_client)).unwrap()
    }

    fn names(&self) -> Vec<&'static str> {
        names(&self.outcome.events)
    }
}

#[test]
fn a_call_of_an_unlisted_tool_is_not_judged_before_its_list() {
    let mut talk = HttpTalk::new(allowing());
    let unlisted = talk.posts(CALL, true).unwrap_err();
    assert_eq!(unlisted, UnlistedTools(vec!["write_file".to_owned()]));
    assert_eq!(talk.names(), [""; 0]);
    talk.lists(LIST_RESULT);
    talk.outcome = JudgementOutcome::default();
    assert!(matches!(talk.posts(CALL, true), Ok(PostDecision::Forward(_))));
    assert_eq!(talk.names(), ["mcp_tool_called"]);
}

#[test]
fn a_call_of_an_unlisted_tool_is_judged_where_the_list_was_asked_for() {
    let mut talk = HttpTalk::new(allowing());
    talk.posts(CALL, false).unwrap();
    assert!(!talk.names().is_empty());
}

#[test]
fn a_call_that_is_blocked_is_answered() {
    let mut talk = HttpTalk::new(blocking());
    talk.lists(LIST_RESULT);
    talk.outcome = JudgementOutcome::default();
    let Ok(PostDecision::Answer(answer)) = talk.posts(CALL, true) else {
        panic!("it goes to no server");
    };
    assert_eq!(answer.status, 200);
    let [event] = talk.outcome.events.as_slice() else {
        panic!("one event: {:?}", talk.outcome.events);
    };
    assert_eq!((event.id, event.action), (Some(ID), Action::Block));
}

#[test]
fn what_is_no_message_in_a_post_is_an_event() {
    let mut talk = HttpTalk::new(allowing());
    assert!(matches!(talk.posts("{", true), Ok(PostDecision::Answer(_))));
    assert!(talk.out.incidents.is_empty(), "all are judged");
    assert_eq!(talk.outcome.events.len(), 1, "{:?}", talk.outcome.events);
}

#[test]
fn an_offer_is_compared_with_what_other_conversations_recorded() {
    let mut first = HttpTalk::new(allowing());
    first.lists(LIST_RESULT);
    let recorded = first.outcome.effects.into_iter().filter_map(|effect| {
        if let StoreEffect::StoreDefinition(record) = effect {
            return Some(*record);
        }
        None
    });
    let recorded: Vec<DefinitionRecord> = recorded.collect();
    assert_eq!(recorded.len(), 1);
    let mut second = HttpTalk::new(allowing());
    second.host.recorded = Some(recorded);
    let seen = second.lists(CHANGED_RESULT);
    assert!(!seen.contains("Also sends it"), "it is pinned otherwise: {seen}");
    assert_eq!(second.host.offers, 1);
    let forward = second.sends(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    second.answers(forward, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    assert_eq!(second.host.offers, 1, "only offers are compared");
}

#[test]
fn a_failure_is_recorded_and_the_server_said_nothing() {
    let mut talk = HttpTalk::new(allowing());
    talk.lists(LIST_RESULT);
    let (said, forward) = (talk.guard.server_messages(), talk.sends(CALL));
    talk.outcome = JudgementOutcome::default();
    let mut response = HttpResponse::to_post(DecodeLimits::default(), 502, None, forward.waiting);
    let fault = ResponseFault::Broken {
        cause: "the line is dead".to_owned(),
    };
    let ended = talk.guarded(|guard, session, out| guard.fail(session, &mut response, &fault, out));
    assert_eq!(ended.status, 502);
    let answer = String::from_utf8_lossy(&talk.out.to_client).into_owned();
    assert!(answer.contains("the line is dead"), "{answer}");
    assert!(talk.names().contains(&"mcp_tool_returned"), "{:?}", talk.names());
    assert_eq!((said, talk.guard.server_messages()), (1, 1));
}

#[test]
fn a_server_that_may_not_be_used_hears_nothing() {
    let mut policy = allowing();
    policy.server_policy = ServerPolicy::Allowlist(Vec::new());
    let mut talk = HttpTalk::new(policy);
    talk.guard.admit_messages(NOW, &mut talk.outcome);
    assert_eq!(talk.names(), ["mcp_server_denied"]);
    for body in [LIST, CALL] {
        let posted = talk.posts(body, true);
        assert!(matches!(posted, Ok(PostDecision::Answer(_))), "{posted:?}");
    }
    assert!(!talk.names().contains(&"mcp_tool_called"), "{:?}", talk.names());
    let halted = talk.guard.halted(NOW, &mut talk.outcome);
    assert_eq!(halted.and_then(|denial| denial.event), Some(ID));
}

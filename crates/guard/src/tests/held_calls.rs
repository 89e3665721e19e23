//! Calls that wait for a person, line by line: other calls pass meanwhile, and an answered call continues.

use mcpmon_engine::StoreEffect;
use mcpmon_model::{AnsweredCall, CallAnswer};
use mcpmon_policy::rules::{CallRule, ToolMatch};

use super::*;

const OTHER: &str = r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
const SECOND: &str = r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"write_file","arguments":{},"_meta":{"progressToken":"t"}}}"#;
const LATER: Timestamp = Timestamp(NOW.0 + 6_000_000_000);

fn asking() -> Policy {
    let mut policy = allowing();
    policy.rules.calls = vec![CallRule {
        id: "ask".to_owned(),
        tool: ToolMatch {
            name: Some(SpellingGlob::new("write_file")),
            ..ToolMatch::default()
        },
        server: None,
        arguments: Vec::new(),
        decision: Decision::Ask,
        reason: String::new(),
    }];
    policy
}

impl Talk {
    /// The ids of the calls that were held so far.
    fn held(&self) -> Vec<String> {
        let mut held = Vec::new();
        for effect in &self.out.outcome.effects {
            if let StoreEffect::HoldCall(call) = effect {
                held.push(call.id.clone());
            }
        }
        held
    }

    fn answer(&mut self, id: &str, answer: CallAnswer) {
        let answered = AnsweredCall {
            id: id.to_owned(),
            tool: "write_file".to_owned(),
            rules: vec!["ask".to_owned()],
            answer,
            by: "ann".to_owned(),
        };
        self.guard.answer_calls(NOW, &[answered], &mut self.out.outcome);
        self.guard
            .release(NOW, &mut self.filter, &mut self.host, &mut self.out);
    }

    fn is_released(&self, id: &str) -> bool {
        let released = StoreEffect::ReleaseCall(id.to_owned());
        self.out.outcome.effects.contains(&released)
    }
}

#[test]
fn a_held_call_stops_no_other_message_and_goes_on_as_it_came() {
    let mut talk = Talk::listed(asking());
    talk.says(Side::Client, CALL);
    talk.says(Side::Client, OTHER);
    assert_eq!(talk.to_server(), format!("{OTHER}\n"));
    assert_eq!(talk.to_client(), "");
    let id = talk.held().remove(0);
    talk.answer(&id, CallAnswer::Once);
    assert_eq!(talk.to_server(), format!("{OTHER}\n{CALL}\n"));
    talk.says(Side::Server, ANSWER);
    assert_eq!(talk.to_client(), format!("{ANSWER}\n"));
    assert!(talk.is_released(&id));
}

#[test]
fn a_denial_names_rule_person_and_event() {
    let mut talk = Talk::listed(asking());
    talk.says(Side::Client, CALL);
    let id = talk.held().remove(0);
    talk.answer(&id, CallAnswer::Deny);
    assert_eq!(talk.to_server(), "");
    let answer = talk.to_client();
    for part in [
        "\"id\":2",
        "isError",
        "rule ask",
        "denied by ann",
        "07070707-0707",
    ] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
}

#[test]
fn two_calls_are_answered_each_for_itself() {
    let mut talk = Talk::listed(asking());
    talk.says(Side::Client, CALL);
    talk.says(Side::Client, SECOND);
    let ids = talk.held();
    talk.answer(&ids[1], CallAnswer::Once);
    assert_eq!(talk.to_server(), format!("{SECOND}\n"));
    talk.answer(&ids[0], CallAnswer::Deny);
    assert_eq!(talk.to_server(), format!("{SECOND}\n"));
    assert!(talk.to_client().contains("\"id\":2"), "{}", talk.to_client());
}

#[test]
fn a_call_that_is_taken_back_is_answered_by_nobody() {
    let mut talk = Talk::listed(asking());
    talk.says(Side::Client, CALL);
    let id = talk.held().remove(0);
    talk.says(Side::Client, CANCEL);
    assert!(talk.is_released(&id));
    talk.answer(&id, CallAnswer::Once);
    assert_eq!(
        (talk.to_server(), talk.to_client()),
        (String::new(), String::new())
    );
    talk.says(Side::Client, CALL);
    assert_eq!(talk.held().len(), 2, "its id is free again");
}

#[test]
fn a_client_that_leaves_takes_its_calls_back() {
    let mut talk = Talk::listed(asking());
    talk.says(Side::Client, CALL);
    let id = talk.held().remove(0);
    talk.guard
        .close(NOW, &mut talk.filter, Side::Client, &mut talk.host, &mut talk.out);
    assert!(talk.is_released(&id));
    talk.answer(&id, CallAnswer::Once);
    assert_eq!(talk.to_server(), "");
}

#[test]
fn an_id_is_used_once_while_its_call_waits() {
    let mut talk = Talk::listed(asking());
    talk.says(Side::Client, CALL);
    talk.says(Side::Client, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    assert_eq!(talk.to_server(), "");
    assert!(
        talk.to_client().contains("another request with this id"),
        "{}",
        talk.to_client()
    );
    talk.says(Side::Server, ANSWER);
    assert!(
        !talk.to_client().contains("done"),
        "the server answers nothing that it was not asked"
    );
}

#[test]
fn a_call_in_an_array_is_refused_and_the_rest_goes_on() {
    let mut talk = Talk::listed(asking());
    talk.says(Side::Client, &format!("[{CALL},{OTHER}]"));
    assert_eq!(talk.to_server(), format!("[{OTHER}]\n"));
    assert!(talk.to_client().contains("send it alone"), "{}", talk.to_client());
    assert!(talk.is_released(&talk.held()[0]));
}

#[test]
fn a_client_that_wants_to_hear_of_progress_does() {
    let mut talk = Talk::listed(asking());
    talk.says(Side::Client, CALL);
    talk.says(Side::Client, SECOND);
    talk.filter.tell_progress(NOW, &mut talk.out.wire);
    talk.filter.tell_progress(NOW, &mut talk.out.wire);
    talk.filter.tell_progress(LATER, &mut talk.out.wire);
    let told = talk.to_client();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    for line in lines {
        assert!(
            line.contains("notifications/progress") && line.contains("\"progressToken\":\"t\""),
            "{line}"
        );
    }
}

#[test]
fn without_shared_state_nobody_is_asked_where_that_is_needed() {
    let mut policy = declaring();
    policy.rules.calls = asking().rules.calls;
    policy.fail_closed = true;
    let mut talk = Talk::listed(policy);
    talk.host.absence = Some(AWAY);
    talk.says(Side::Client, CALL);
    assert_eq!(talk.to_server(), "");
    assert!(talk.to_client().contains(FAIL_CLOSED), "{}", talk.to_client());
    assert!(talk.is_released(&talk.held()[0]));
}

//! Calls that wait for a person: asked about, answered, and not answered in time.

use mcpmon_model::{AnsweredCall, ApprovalState, CallAnswer, Digest, EventKind, HeldCall, Kill};
use mcpmon_policy::{
    OnNewTool, OnTimeout,
    rules::{ArgumentPath, CallRule, SpellingGlob, ToolMatch, ValueLimit},
};
use test_case::test_case;

use super::*;

const ARGUMENTS: &str = r#"{"to":"ann", "amount":2}"#;

fn rule(id: &str, tool: &str, decision: Decision) -> CallRule {
    CallRule {
        id: id.to_owned(),
        tool: ToolMatch {
            name: Some(SpellingGlob::new(tool)),
            ..ToolMatch::default()
        },
        server: None,
        arguments: Vec::new(),
        decision,
        reason: "it is dear".to_owned(),
    }
}

fn asking() -> Policy {
    let mut policy = policy();
    policy.rules.calls = vec![rule("ask-pay", "pay*", Decision::Ask)];
    policy
}

fn listed(policy: Policy) -> World {
    let mut world = World::new(policy);
    world.tools(&[("pay", ""), ("show", "")]);
    world
}

impl World {
    /// Calls a tool, as the request `id`.
    fn request(&mut self, id: u32, tool: &str, arguments: &str) -> Judgement {
        let call = Call {
            tool: Cow::Borrowed(tool),
            arguments: Some(RawJson::trusted(arguments)),
            resumes: None,
        };
        let id = RequestId::Number(id.to_string().into());
        let message = Message {
            era: Era::Handshake,
            id: Some(&id),
            trace: Trace::default(),
            size: 300 + arguments.len(),
            content: Content::Client(FromClient::Call(call)),
        };
        let observation = Observation::Message(&self.conversation, &message, Vec::new());
        self.monitor.observe(self.now, observation)
    }

    /// Answers a held call that the rule `ask-pay` asks about.
    fn answer_call(&mut self, id: &str, answer: CallAnswer) -> Judgement {
        self.answer_rules(id, &["ask-pay"], answer)
    }

    /// Answers a held call.
    fn answer_rules(&mut self, id: &str, rules: &[&str], answer: CallAnswer) -> Judgement {
        let answered = AnsweredCall {
            id: id.to_owned(),
            tool: "pay".to_owned(),
            rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            answer,
            by: "ann".to_owned(),
        };
        let identity = self.conversation.identity.clone();
        self.monitor.answer_calls(self.now, &identity, &[answered])
    }
}

fn held(judgement: &Judgement) -> HeldCall {
    let Verdict::Ask(id) = &judgement.verdict else {
        panic!("it is held: {:?}", judgement.verdict);
    };
    let Some(StoreEffect::HoldCall(held)) = judgement.store_effects.first() else {
        panic!("a person is asked");
    };
    assert_eq!(held.id, *id);
    HeldCall::clone(held)
}

fn states(judgement: &Judgement) -> Vec<ApprovalState> {
    let mut states = Vec::new();
    for event in &judgement.events {
        if let EventKind::Approval { state, held_call, .. } = &event.kind {
            assert!(held_call.is_some());
            states.push(*state);
        }
    }
    states
}

#[test]
fn a_person_sees_the_whole_call_in_one_form() {
    let mut world = listed(asking());
    let asked = world.request(1, "pay", ARGUMENTS);
    assert_eq!(told(&asked), ["mcp_approval audit ask-pay"]);
    let held = held(&asked);
    assert_eq!(held.arguments, r#"{"amount":2,"to":"ann"}"#);
    assert_eq!(held.arguments_hash, Digest::of(held.arguments.as_bytes()));
    assert_eq!(
        held.reason,
        "tool pay of files matches the rule ask-pay: it is dear"
    );
    assert_eq!(held.expires, Timestamp(300_000_000_000));
    assert!(
        lets_everything_through(&world.request(2, "show", "{}")),
        "others go on"
    );
}

#[test_case(CallAnswer::Once, ApprovalState::Granted, None; "allowed")]
#[test_case(CallAnswer::Deny, ApprovalState::Denied, Some("ask-pay"); "denied")]
fn an_answer_is_for_one_call(answer: CallAnswer, state: ApprovalState, blocks: Option<&str>) {
    let mut world = listed(asking());
    let id = held(&world.request(1, "pay", ARGUMENTS)).id;
    let answered = world.answer_call(&id, answer);
    assert_eq!(states(&answered), [state]);
    assert_eq!(answered.store_effects, [StoreEffect::ReleaseCall(id.clone())]);
    assert_eq!(world.monitor.take_settled_calls(), std::slice::from_ref(&id));
    let judged = world.request(1, "pay", ARGUMENTS);
    assert_eq!(blocked_by(&judged), blocks);
    assert!(
        judged
            .events
            .iter()
            .any(|event| event.reason.as_ref().is_some_and(|reason| reason.contains("ann")))
    );
    assert!(!world.monitor.is_held_call(&id));
    held(&world.request(1, "pay", ARGUMENTS));
}

#[test_case(1, "pay", r#"{"amount":3}"#; "other arguments")]
#[test_case(1, "pay_all", ARGUMENTS; "another tool")]
#[test_case(2, "pay", ARGUMENTS; "another request")]
fn an_answer_is_for_no_other_call(id: u32, tool: &str, arguments: &str) {
    let mut world = listed(asking());
    let first = held(&world.request(1, "pay", ARGUMENTS)).id;
    world.answer_call(&first, CallAnswer::Once);
    assert_ne!(held(&world.request(id, tool, arguments)).id, first);
}

#[test]
fn an_answer_for_the_session_is_for_every_call_of_the_tool() {
    let mut world = listed(asking());
    let first = held(&world.request(1, "pay", ARGUMENTS)).id;
    let second = held(&world.request(2, "pay", "{}")).id;
    let other = held(&world.request(3, "pay_all", "{}")).id;
    let answered = world.answer_call(&first, CallAnswer::Session);
    assert_eq!(states(&answered), [ApprovalState::Granted; 2]);
    let mut settled = world.monitor.take_settled_calls();
    settled.sort();
    let mut both = vec![first.clone(), second];
    both.sort();
    assert_eq!(settled, both);
    assert!(!world.monitor.is_settled_call(&other));
    assert_eq!(
        states(&world.answer_call(&first, CallAnswer::Session)),
        [],
        "it is known"
    );
    for (id, arguments) in [(1, ARGUMENTS), (2, "{}"), (4, r#"{"amount":9}"#)] {
        assert_eq!(world.request(id, "pay", arguments).verdict, Verdict::Allow);
    }
}

#[test]
fn an_answer_for_the_session_answers_no_other_rule() {
    let mut policy = asking();
    policy.rules.limits = vec![ValueLimit {
        id: "ask-dear".to_owned(),
        tool: ToolMatch {
            name: Some(SpellingGlob::new("pay")),
            ..ToolMatch::default()
        },
        argument: ArgumentPath::new("amount").expect("a way"),
        max: Some("100".parse().expect("a number")),
        min: None,
        decision: Decision::Ask,
        reason: "it is a lot".to_owned(),
    }];
    let mut world = listed(policy);
    let cheap = held(&world.request(1, "pay", ARGUMENTS)).id;
    let dear = held(&world.request(2, "pay", r#"{"amount":101}"#));
    assert_eq!(dear.rules().collect::<Vec<_>>(), ["ask-pay", "ask-dear"]);
    world.answer_call(&cheap, CallAnswer::Session);
    assert_eq!(world.monitor.take_settled_calls(), [cheap]);
    assert!(
        !world.monitor.is_settled_call(&dear.id),
        "its limit was not answered"
    );
    let again = held(&world.request(3, "pay", r#"{"amount":102}"#));
    assert_eq!(again.rules().collect::<Vec<_>>(), ["ask-dear"]);
    world.answer_rules(&dear.id, &["ask-pay", "ask-dear"], CallAnswer::Session);
    assert_eq!(world.monitor.take_settled_calls().len(), 2);
    assert_eq!(
        world.request(4, "pay", r#"{"amount":103}"#).verdict,
        Verdict::Allow
    );
}

#[test_case(OnTimeout::Deny, Some("ask-pay"); "deny")]
#[test_case(OnTimeout::Allow, None; "allow")]
fn silence_is_an_answer(on_timeout: OnTimeout, blocks: Option<&str>) {
    let mut policy = asking();
    policy.approvals.on_timeout = on_timeout;
    let mut world = listed(policy);
    let held = held(&world.request(1, "pay", ARGUMENTS));
    world.now = Timestamp(held.expires.0 - 1);
    assert_eq!(states(&world.monitor.observe(world.now, Observation::Tick)), []);
    world.now = held.expires;
    assert_eq!(
        states(&world.monitor.observe(world.now, Observation::Tick)),
        [ApprovalState::TimedOut]
    );
    assert_eq!(
        states(&world.answer_call(&held.id, CallAnswer::Once)),
        [],
        "it is too late"
    );
    assert_eq!(blocked_by(&world.request(1, "pay", ARGUMENTS)), blocks);
}

#[test_case(-1, false; "another thread read the clock a moment before")]
#[test_case(-600_000_000_000, true; "the clock was set back")]
fn a_clock_that_goes_back(nanoseconds: i64, is_late: bool) {
    let mut world = listed(asking());
    let held = held(&world.request(1, "pay", ARGUMENTS));
    world.now = Timestamp(held.since.0 + nanoseconds);
    let ticked = world.monitor.observe(world.now, Observation::Tick);
    assert_eq!(!states(&ticked).is_empty(), is_late);
}

#[test]
fn what_is_stopped_meanwhile_does_not_go_on() {
    let mut world = listed(asking());
    let id = held(&world.request(1, "pay", ARGUMENTS)).id;
    let kill = Kill {
        by: "root".to_owned(),
        at: Timestamp(1),
    };
    drop(world.monitor.stop(mcpmon_model::Kills {
        host: Some(kill),
        ..mcpmon_model::Kills::default()
    }));
    assert_eq!(
        states(&world.monitor.observe(world.now, Observation::Tick)),
        [ApprovalState::Withdrawn]
    );
    assert!(world.monitor.is_settled_call(&id));
    assert_eq!(
        blocked_by(&world.request(1, "pay", ARGUMENTS)),
        Some("kill_switch")
    );
}

#[test]
fn an_answer_allows_nothing_that_another_rule_blocks_by_now() {
    let mut world = listed(asking());
    let id = held(&world.request(1, "pay", ARGUMENTS)).id;
    let mut stricter = asking();
    stricter.rules.blocked_tools = vec![SpellingGlob::new("pay")];
    world.install(stricter);
    world.answer_call(&id, CallAnswer::Once);
    assert_eq!(
        blocked_by(&world.request(1, "pay", ARGUMENTS)),
        Some("blocked_tools")
    );
}

#[test]
fn what_is_taken_back_is_nobodys_question() {
    let mut world = listed(asking());
    let id = held(&world.request(1, "pay", ARGUMENTS)).id;
    let withdrawn = world.monitor.withdraw_call(world.now, &id);
    assert_eq!(states(&withdrawn), [ApprovalState::Withdrawn]);
    assert_eq!(withdrawn.store_effects, [StoreEffect::ReleaseCall(id.clone())]);
    assert_eq!(states(&world.answer_call(&id, CallAnswer::Once)), []);
    let second = held(&world.request(1, "pay", ARGUMENTS)).id;
    let left = world
        .monitor
        .observe(world.now, Observation::Left(&world.conversation));
    assert_eq!(states(&left), [ApprovalState::Withdrawn]);
    assert!(!world.monitor.is_held_call(&second));
}

#[test]
fn what_cannot_be_shown_whole_is_refused() {
    let mut world = listed(asking());
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(300 << 10));
    let judged = world.request(1, "pay", &long);
    assert_eq!(blocked_by(&judged), Some("ask-pay"));
    assert_eq!(states(&judged), []);
}

#[test]
fn only_so_many_calls_wait() {
    let mut world = listed(asking());
    for id in 0..32 {
        held(&world.request(id, "pay", ARGUMENTS));
    }
    assert_eq!(blocked_by(&world.request(32, "pay", ARGUMENTS)), Some("ask-pay"));
}

#[test]
fn a_secret_is_shown_to_nobody() {
    let mut policy = asking();
    policy.arguments.on_detection = mcpmon_policy::OnSecret::Alert;
    let mut world = listed(policy);
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let held = held(&world.request(1, "pay", &format!(r#"{{"token":"{token}"}}"#)));
    assert!(!held.arguments.contains(token), "{}", held.arguments);
    assert!(held.arguments.contains("\"token\":"), "{}", held.arguments);
}

#[test]
fn observing_nobody_is_asked() {
    let mut world = listed(observing(asking()));
    let judged = world.request(1, "pay", ARGUMENTS);
    assert_eq!(judged.verdict, Verdict::Allow);
    assert_eq!(
        told(&judged),
        [
            "mcp_tool_call_intercepted would_ask ask-pay",
            "mcp_tool_called would_ask ask-pay"
        ]
    );
}

#[test]
fn a_rule_that_allows_is_an_answer_and_one_that_blocks_another() {
    let mut policy = asking();
    policy.rules.calls.push(rule("mine", "pay", Decision::Allow));
    let mut world = listed(policy.clone());
    assert_eq!(world.request(1, "pay", ARGUMENTS).verdict, Verdict::Allow);
    held(&world.request(2, "pay_all", ARGUMENTS));
    policy.rules.calls.push(rule("never", "pay", Decision::Block));
    world.install(policy);
    assert_eq!(blocked_by(&world.request(3, "pay", ARGUMENTS)), Some("never"));
}

#[test]
fn a_rule_on_top_asks_whatever_the_one_below_allows() {
    let mut policy = policy();
    policy.rules.calls = vec![rule("mine", "pay", Decision::Allow)];
    policy.rules = policy.rules.tightened_by(asking().rules);
    held(&listed(policy).request(1, "pay", ARGUMENTS));
}

#[test]
fn limits_defaults_and_new_tools_ask_too() {
    let mut limited = policy();
    limited.rules.limits = vec![ValueLimit {
        id: "limit".to_owned(),
        tool: ToolMatch::default(),
        argument: ArgumentPath::new("amount").expect("a way"),
        min: None,
        max: Some("1".parse().expect("a number")),
        decision: Decision::Ask,
        reason: String::new(),
    }];
    let mut world = listed(limited);
    assert_eq!(held(&world.request(1, "pay", ARGUMENTS)).rule, "limit");
    assert_eq!(world.request(2, "pay", r#"{"amount":1}"#).verdict, Verdict::Allow);

    let mut asking = policy();
    asking.rules.default = Decision::Ask;
    asking.rules.calls = vec![rule("known", "show", Decision::Audit)];
    let mut world = listed(asking);
    assert_eq!(held(&world.request(1, "pay", ARGUMENTS)).rule, "defaults");
    assert_eq!(world.request(2, "show", "{}").verdict, Verdict::Allow);

    let mut asking = policy();
    asking.inspection.on_new_tool = OnNewTool::Ask;
    let mut world = listed(asking);
    let listed = world.tools(&[("pay", ""), ("show", ""), ("late", "")]);
    assert_eq!(listed.verdict, Verdict::Allow, "it is listed");
    assert_eq!(world.request(1, "show", "{}").verdict, Verdict::Allow);
    assert_eq!(held(&world.request(2, "late", "{}")).rule, "new_tool");
    let key = world.key("late");
    drop(world.monitor.approve(world.now, &key, "ann"));
    assert_eq!(world.request(3, "late", "{}").verdict, Verdict::Allow);
}

//! Approvals: asked for, given, refused, and not given in time.

use mcpmon_model::{ApprovalState, EventKind, Severity};
use mcpmon_policy::{OnDetection, OnTimeout};
use test_case::test_case;

use super::*;

fn states(judgement: &Judgement) -> Vec<ApprovalState> {
    let states = judgement.events.iter().filter_map(|event| {
        if let EventKind::Approval { state, .. } = &event.kind {
            return Some(*state);
        }
        None
    });
    states.collect()
}

fn poisoned(text: &str) -> World {
    let mut policy = policy();
    policy.inspection.on_detection = OnDetection::Hide;
    policy.inspection.act_threshold = Severity::Critical;
    let mut world = World::new(policy);
    let listed = world.tools(&[("bad", text)]);
    let asked = if text == "EVIL-CRITICAL" {
        vec![ApprovalState::Requested]
    } else {
        Vec::new()
    };
    assert_eq!(states(&listed), asked);
    world
}

#[test]
fn a_person_is_asked_once_and_the_answer_holds() {
    let mut world = poisoned("EVIL-CRITICAL");
    assert_eq!(blocked_by(&world.call("bad")), Some("approval"));
    assert_eq!(states(&world.tools(&[("bad", "EVIL-CRITICAL")])), []);
    let key = world.key("bad");
    let approved = world
        .monitor
        .approve(world.now, &key, "eve")
        .expect("it was listed");
    assert_eq!(states(&approved), [ApprovalState::Granted]);
    let Some(StoreEffect::StoreDefinition(record)) = approved.store_effects.first() else {
        panic!("it is stored");
    };
    assert_eq!(
        (record.approved_by.as_deref(), record.hidden),
        (Some("eve"), false)
    );
    assert_eq!(blocked_by(&world.call("bad")), None);
    assert_eq!(world.tools(&[("bad", "EVIL-CRITICAL")]).verdict, Verdict::Allow);
    assert_eq!(
        world.tools(&[("bad", "EVIL-CRITICAL too")]).verdict,
        Verdict::Hide(vec![0])
    );
}

#[test]
fn lesser_findings_need_nobody() {
    let mut world = poisoned("EVIL-HIGH");
    assert_eq!(blocked_by(&world.call("bad")), None);
}

#[test_case(OnTimeout::Deny, Some("approval"); "silence refuses")]
#[test_case(OnTimeout::Allow, None; "silence consents")]
fn silence_is_an_answer(on_timeout: OnTimeout, rule: Option<&str>) {
    let mut policy = policy();
    policy.inspection.on_detection = OnDetection::Hide;
    policy.inspection.act_threshold = Severity::Critical;
    policy.approvals.on_timeout = on_timeout;
    let mut world = World::new(policy);
    drop(world.tools(&[("bad", "EVIL-CRITICAL")]));
    world.now = Timestamp(299_999_999_999);
    assert_eq!(states(&world.monitor.observe(world.now, Observation::Tick)), []);
    world.now = Timestamp(300_000_000_000);
    let judgement = world.monitor.observe(world.now, Observation::Tick);
    assert_eq!(states(&judgement), [ApprovalState::TimedOut]);
    let event = &judgement.events[0];
    assert_eq!(
        (event.severity, event.rule.as_deref()),
        (Severity::Critical, Some("approval"))
    );
    let EventKind::Approval {
        tool_name,
        detections,
        ..
    } = &event.kind
    else {
        panic!("an approval: {event:?}");
    };
    assert_eq!((tool_name.as_deref(), detections.len()), (Some("bad"), 1));
    let reason = event.reason.as_deref().unwrap_or_default();
    match on_timeout {
        OnTimeout::Deny => assert_eq!(
            reason,
            "nobody answered within 300 s: bad stays hidden; see `mcpmon approve files:bad`"
        ),
        OnTimeout::Allow => {
            assert_eq!(
                reason,
                "nobody answered within 300 s, and `mcp.approvals.on_timeout` is `allow`: bad can be used without an approval; \
                 see `mcpmon approvals deny files:bad`"
            );
            let [StoreEffect::StoreDefinition(record)] = judgement.store_effects.as_slice() else {
                panic!("it is shown again: {judgement:?}");
            };
            assert!(!record.hidden);
        }
    }
    assert_eq!(blocked_by(&world.call("bad")), rule);
    assert_eq!(states(&world.tools(&[("bad", "EVIL-CRITICAL")])), []);
    assert_eq!(blocked_by(&world.call("bad")), rule);
}

#[test]
fn a_refusal_holds_until_an_approval() {
    let mut world = poisoned("EVIL-CRITICAL");
    let key = world.key("bad");
    let refused = world
        .monitor
        .refuse(world.now, &key, "eve")
        .expect("it was listed");
    assert_eq!(states(&refused), [ApprovalState::Denied]);
    let Verdict::Block(denial) = world.call("bad").verdict else {
        panic!("it is denied");
    };
    assert_eq!(denial.reason, "tool bad of files was denied by eve");
    drop(
        world
            .monitor
            .approve(world.now, &key, "eve")
            .expect("it was listed"),
    );
    assert_eq!(blocked_by(&world.call("bad")), None);
}

#[test]
fn an_approval_pins_a_change() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "a")]));
    drop(world.tools(&[("read", "b")]));
    let key = world.key("read");
    drop(
        world
            .monitor
            .approve(world.now, &key, "eve")
            .expect("it was listed"),
    );
    assert_eq!(world.tools(&[("read", "b")]).verdict, Verdict::Allow);
    assert_eq!(world.tools(&[("read", "a")]).verdict, Verdict::Hide(vec![0]));
}

#[test]
fn what_was_never_listed_cannot_be_approved() {
    let mut world = World::new(policy());
    let key = world.key("read");
    let error = world
        .monitor
        .approve(world.now, &key, "eve")
        .map(|_| ())
        .expect_err("never listed");
    assert_eq!(
        error.to_string(),
        "files never listed read; see `mcpmon registry list`"
    );
}

#[test]
fn forgetting_makes_the_next_list_the_first() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "a"), ("write", "a")]));
    drop(world.tools(&[("read", "b"), ("write", "b")]));
    let forgotten = world
        .monitor
        .forget_definitions(world.now, &id("files"), Some("read"));
    assert_eq!(
        forgotten.store_effects,
        [StoreEffect::ForgetDefinition(world.key("read"))]
    );
    assert_eq!(
        world.tools(&[("read", "b"), ("write", "b")]).verdict,
        Verdict::Hide(vec![1])
    );
    drop(world.monitor.forget_definitions(world.now, &id("files"), None));
    assert_eq!(
        world.tools(&[("read", "b"), ("write", "b")]).verdict,
        Verdict::Allow
    );
}

#[test]
fn an_approval_from_another_process_holds() {
    let mut other = poisoned("EVIL-CRITICAL");
    let mut world = poisoned("EVIL-CRITICAL");
    let key = other.key("bad");
    drop(
        other
            .monitor
            .approve(other.now, &key, "eve")
            .expect("it was listed"),
    );
    let records: Vec<_> = other.monitor.definitions().cloned().collect();
    world.monitor.load_definitions(world.now, records);
    assert_eq!(blocked_by(&world.call("bad")), None);
    world.now = Timestamp(i64::MAX);
    assert_eq!(states(&world.monitor.observe(world.now, Observation::Tick)), []);
}

#[test]
fn a_refusal_takes_an_approval_back() {
    let mut world = poisoned("EVIL-CRITICAL");
    let key = world.key("bad");
    drop(
        world
            .monitor
            .approve(world.now, &key, "eve")
            .expect("it was listed"),
    );
    assert_eq!(blocked_by(&world.call("bad")), None);
    let refused = world
        .monitor
        .refuse(world.now, &key, "eve")
        .expect("it was listed");
    assert_eq!(states(&refused), [ApprovalState::Denied]);
    assert_eq!(blocked_by(&world.call("bad")), Some("approval"));
}

//! Lists that come again: their events, and the parts that are not parsed again.

use mcpmon_model::{Digest, Event, EventKind, RepeatedEvents};
use proptest::prelude::*;

use super::*;

const LISTS: [&[(&str, &str)]; 5] = [
    &[("read", "Reads"), ("write", "Writes")],
    &[("read", "Reads"), ("write", "EVIL-HIGH")],
    &[("read", "Reads")],
    &[("read", "Reads"), ("read", "Reads")],
    &[("copy", "Reads"), ("write", "EVIL-LOW")],
];

/// Lists tools; `again` says that the list came before.
fn list(world: &mut World, tools: &[(&str, &str)], again: bool) -> Judgement {
    let texts: Vec<String> = tools
        .iter()
        .map(|(name, description)| format!(r#"{{"name":"{name}","description":"{description}"}}"#))
        .collect();
    let items = tools.iter().zip(&texts).map(|((name, _), text)| ListedItem {
        name: Cow::Borrowed(name),
        definition: RawJson::trusted(text),
    });
    let result = format!("{tools:?}");
    let listing = Listing {
        kind: ListKind::Tools,
        items: items.collect(),
        continued: false,
        more: false,
        is_part: false,
        result: RawJson::trusted(&result),
        again: again.then(|| Digest::of(result.as_bytes())),
    };
    in_full(world.say(Content::Server(FromServer::Listing(listing))))
}

/// Returns a judgement with its repeated events among its events.
fn in_full(mut judgement: Judgement) -> Judgement {
    judgement.store_effects.retain(|order| {
        if let StoreEffect::Retell(retold) = order {
            judgement.events.extend(retold.events());
        }
        !matches!(order, StoreEffect::Retell(_))
    });
    judgement
}

#[test]
fn a_list_that_is_known_is_told_and_not_looked_at() {
    let mut world = World::new(policy());
    list(&mut world, LISTS[0], false);
    let told_first = told(&list(&mut world, LISTS[0], true));
    let digest = Digest::of(format!("{:?}", LISTS[0]).as_bytes());
    let empty = Listing {
        kind: ListKind::Tools,
        items: Vec::new(),
        continued: false,
        more: false,
        is_part: false,
        result: RawJson::trusted("{}"),
        again: Some(digest),
    };
    world.now = Timestamp(5);
    let judgement = world.say(Content::Server(FromServer::Listing(empty)));
    assert!(judgement.events.is_empty(), "nothing is copied: {judgement:?}");
    let judgement = in_full(judgement);
    assert_eq!(told(&judgement), told_first);
    let seen = |name: &str| {
        let mut events = judgement.events.iter();
        events.any(|event| {
            matches!(&event.kind, EventKind::ToolSeen { tool_name, .. } if tool_name == name)
                && event.timestamp == Timestamp(5)
        })
    };
    assert!(seen("read") && seen("write"), "{judgement:?}");
}

#[test]
fn what_was_stopped_is_not_told_in_a_heap() {
    let mut world = World::new(policy());
    list(&mut world, LISTS[0], false);
    let mut events = list(&mut world, LISTS[0], false).events;
    let worst = |events: &[Event]| RepeatedEvents::new(events).map(|retold| retold.severity());
    assert_eq!(worst(&events), Some(Severity::Info));
    events[1].severity = Severity::High;
    assert_eq!(worst(&events), Some(Severity::High));
    events[1].action = Action::Block;
    assert_eq!(worst(&events), None);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    List(usize),
    Changed,
    Call,
    Approve,
    Refuse,
    Forget,
    Observe(bool),
    Stray,
    Leave,
    Later,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..LISTS.len()).prop_map(Step::List),
        8 => Just(Step::List(0)),
        1 => Just(Step::Changed),
        2 => Just(Step::Call),
        1 => Just(Step::Approve),
        1 => Just(Step::Refuse),
        1 => Just(Step::Forget),
        1 => any::<bool>().prop_map(Step::Observe),
        1 => Just(Step::Stray),
        1 => Just(Step::Leave),
        1 => Just(Step::Later),
    ];
    prop::collection::vec(step, 1..24)
}

/// Takes a step; `last` is the list that came last, where such are recognised.
fn take(world: &mut World, step: Step, last: Option<usize>) -> String {
    let (now, key) = (world.now, world.key("write"));
    let judgement = match step {
        Step::List(number) => list(world, LISTS[number], last == Some(number)),
        Step::Changed => world.changed(ListKind::Tools),
        Step::Call => world.call("write"),
        Step::Approve => return format!("{:?}", world.monitor.approve(now, &key, "me")),
        Step::Refuse => return format!("{:?}", world.monitor.refuse(now, &key, "me")),
        Step::Forget => world.monitor.forget_definitions(now, &id("files"), None),
        Step::Observe(is_on) => {
            world.install(match is_on {
                true => observing(policy()),
                false => policy(),
            });
            Judgement::default()
        }
        Step::Stray => world.incident(&Incident::Noise { bytes: 3 }),
        Step::Leave => {
            let conversation = world.conversation.clone();
            world.monitor.observe(now, Observation::Left(&conversation))
        }
        Step::Later => {
            world.now = Timestamp(now.0 + 3_600_000_000_000);
            world.monitor.observe(world.now, Observation::Tick)
        }
    };
    format!("{judgement:?}")
}

proptest! {
    #[test]
    fn who_recognises_lists_judges_as_one_does_who_reads_them(steps in steps()) {
        let (mut reading, mut recognising) = (World::new(policy()), World::new(policy()));
        let mut last = None;
        for step in steps {
            reading.now = Timestamp(reading.now.0 + 1);
            recognising.now = reading.now;
            let expected = take(&mut reading, step, None);
            prop_assert_eq!(take(&mut recognising, step, last), expected);
            if let Step::List(number) = step {
                last = Some(number);
            }
            let records = |world: &World| format!("{:?}", world.monitor.definitions().collect::<Vec<_>>());
            prop_assert_eq!(records(&recognising), records(&reading));
            let listed = |world: &World| {
                let identity = &world.conversation.identity;
                ["read", "write", "copy"].map(|tool| world.monitor.is_listed(identity, tool))
            };
            prop_assert_eq!(listed(&recognising), listed(&reading));
        }
    }
}

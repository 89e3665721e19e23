//! Lists that come again: what is recorded again, and the parts that are not parsed again.

use mcpmon_model::{Digest, Event, EventKind};
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
    world.say(Content::Server(FromServer::Listing(listing)))
}

fn seen(judgement: &Judgement) -> Vec<String> {
    let seen = |event: &Event| {
        let EventKind::ToolSeen {
            tool_name, status, ..
        } = &event.kind
        else {
            return None;
        };
        Some(format!("{tool_name} {status:?} {}", event.action.as_str()))
    };
    judgement.events.iter().filter_map(seen).collect()
}

#[test]
fn unchanged_tool_is_recorded_once_in_each_session() {
    let mut world = World::new(policy());
    assert_eq!(
        seen(&list(&mut world, LISTS[0], false)),
        ["read New allow", "write New allow"]
    );
    for again in [false, true, true, false] {
        let listed = list(&mut world, LISTS[0], again);
        assert!(
            listed.events.is_empty() && listed.store_effects.is_empty(),
            "{listed:?}"
        );
    }
    world.conversation.session = Some(SessionId::new("another"));
    assert_eq!(
        seen(&list(&mut world, LISTS[0], false)),
        ["read Unchanged allow", "write Unchanged allow"]
    );
    assert!(list(&mut world, LISTS[0], false).events.is_empty());
}

#[test]
fn hidden_tool_is_recorded_when_its_treatment_changes() {
    let mut world = World::new(policy());
    list(&mut world, LISTS[0], false);
    assert_eq!(seen(&list(&mut world, LISTS[1], false)), ["write Changed block"]);
    for _ in 0..3 {
        let listed = list(&mut world, LISTS[1], false);
        assert_eq!(listed.verdict, Verdict::Hide(vec![1]));
        assert!(listed.events.is_empty(), "{listed:?}");
    }
    let (now, key) = (world.now, world.key("write"));
    world.monitor.approve(now, &key, "me").expect("it was listed");
    assert_eq!(
        seen(&list(&mut world, LISTS[1], false)),
        ["write Unchanged allow"]
    );
    assert!(list(&mut world, LISTS[1], false).events.is_empty());
}

#[test]
fn name_that_is_listed_twice_is_recorded_once() {
    let mut world = World::new(policy());
    assert_eq!(
        seen(&list(&mut world, LISTS[3], false)),
        ["read New allow", "read Unchanged audit"]
    );
    assert!(list(&mut world, LISTS[3], false).events.is_empty());
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

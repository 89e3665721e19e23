//! Lists: new, unchanged, changed, renamed and gone; hidden, stripped, and too many.

use mcpmon_model::{DefinitionRecord, DefinitionStatus, Event, EventKind};
use mcpmon_policy::{FirstUse, OnChange, OnDetection};
use proptest::prelude::*;
use test_case::test_case;

use super::*;

fn statuses(judgement: &Judgement) -> Vec<DefinitionStatus> {
    let events = judgement.events.iter().filter_map(|event| {
        if let EventKind::ToolSeen { status, .. } = &event.kind {
            return Some(*status);
        }
        None
    });
    events.collect()
}

/// Returns whether all that is listed is pinned, and one text kept of both.
fn shares_texts(world: &World) -> bool {
    world.monitor.definitions().all(|record| {
        let pinned = record.pinned.as_ref();
        pinned.is_some_and(|pinned| Arc::ptr_eq(&pinned.canonical, &record.seen.canonical))
    })
}

#[test]
fn one_text_is_kept_of_what_is_listed_pinned_and_stored() {
    let tools = [("read", "Reads a file. EVIL-LOW")];
    let mut world = World::new(policy());
    let listed = world.tools(&tools);
    assert!(shares_texts(&world));
    let [StoreEffect::StoreDefinition(stored)] = &listed.store_effects[..] else {
        panic!("it is stored: {listed:?}");
    };
    let kept = world.monitor.definitions().next().expect("it is kept");
    assert!(Arc::ptr_eq(&stored.seen.canonical, &kept.seen.canonical));
    assert!(!kept.findings.is_empty() && Arc::ptr_eq(&stored.findings, &kept.findings));
    let written = serde_json::to_string(kept).expect("plain values");
    let read: DefinitionRecord = serde_json::from_str(&written).expect("as written");
    assert_eq!(read, *kept);
    let mut later = World::new(policy());
    later.monitor.load_definitions(later.now, vec![read]);
    assert!(shares_texts(&later), "of what another process wrote");
    drop(later.tools(&tools));
    assert!(shares_texts(&later), "and listed again");
}

#[test_case(true; "pinned")]
#[test_case(false; "not pinned")]
fn what_is_kept_of_what_is_listed_no_more_is_bounded(is_pinned: bool) {
    let mut policy = policy();
    policy.definition_pinning.enabled = is_pinned;
    policy.definition_pinning.on_change = OnChange::Allow;
    policy.inspection.enabled = false;
    let mut world = World::new(policy);
    let long = "x".repeat(1_000_000);
    let names: Vec<String> = (0..90).map(|number| format!("t{number}")).collect();
    // Thirty are long, and empty in the next list.
    let mut list = |number: usize| {
        let text = |at: usize| if at / 30 == number { long.as_str() } else { "" };
        let tools = names.iter().enumerate().take(30 * (number + 1));
        let tools: Vec<(&str, &str)> = tools.map(|(at, name)| (name.as_str(), text(at))).collect();
        world.tools(&tools).verdict
    };
    assert_eq!([list(0), list(1)], [Verdict::Allow, Verdict::Allow]);
    let Verdict::Hide(hidden) = list(2) else {
        panic!("there is no room for what was there");
    };
    assert!(hidden.iter().any(|at| (30..60).contains(at)), "{hidden:?}");
    let texts = |record: &DefinitionRecord| {
        let pinned = record
            .pinned
            .as_ref()
            .filter(|pinned| pinned.hash != record.seen.hash);
        record.seen.canonical.len() + pinned.map_or(0, |pinned| pinned.canonical.len())
    };
    let kept: usize = world.monitor.definitions().map(texts).sum();
    assert!(kept <= 64 << 20, "{kept}");
}

#[test]
fn what_is_kept_of_what_matched_is_bounded() {
    let evil = "EVIL-LOW, EVIL-HIGH, EVIL-CRITICAL and more, ".repeat(8);
    let texts: Vec<String> = (0..3000).map(|number| format!("t{number}")).collect();
    let mut policy = policy();
    policy.limits.max_tools = texts.len();
    let mut world = World::new(policy);
    // Each match is reported with its whole context.
    let tools: Vec<(&str, String)> = texts
        .iter()
        .map(|name| (name.as_str(), format!("{name} {evil}")))
        .collect();
    let tools: Vec<(&str, &str)> = tools.iter().map(|(name, text)| (*name, text.as_str())).collect();
    drop(world.tools(&tools));
    let matched = |world: &World| {
        let records = world.monitor.definitions();
        let matches = records.flat_map(|record| record.findings.iter().flat_map(|finding| &finding.matches));
        matches
            .map(|found| size_of_val(found) + found.text.len() + found.context.len())
            .sum::<usize>()
    };
    assert!(
        (7 << 20..=8 << 20).contains(&matched(&world)),
        "{}",
        matched(&world)
    );
    let found = |record: &DefinitionRecord| {
        record
            .findings
            .iter()
            .any(|finding| finding.pattern == "evil_low")
    };
    assert!(world.monitor.definitions().all(found), "all is found");
    // A list that comes again has the room that it had, and other texts under the same names get no more.
    let half: Vec<(&str, &str)> = tools.iter().map(|(name, text)| (*name, &text[1..])).collect();
    drop(world.page(ListKind::Tools, &half, false, true));
    for rest in 2..6 {
        let page: Vec<(&str, &str)> = tools.iter().map(|(name, text)| (*name, &text[rest..])).collect();
        drop(world.page(ListKind::Tools, &page, true, true));
        assert!(
            (7 << 20..=8 << 20).contains(&matched(&world)),
            "{}",
            matched(&world)
        );
    }
}

/// A text that was refused does not become good because its server takes a part of it out.
#[test_case("Now EVIL-HIGH", "EVIL-HIGH"; "cut in front")]
#[test_case("EVIL-HIGH now", "EVIL-HIGH"; "cut behind")]
#[test_case("EVIL-HIGH", "EVIL-HIGH. Reads a file."; "with more behind")]
#[test_case("EVIL-HIGH", "Reads a file. EVIL-HIGH"; "with more in front")]
fn what_was_refused_excuses_nothing(refused: &str, then: &str) {
    let mut world = World::new(policy());
    for text in [refused, then, refused] {
        let listed = world.tools(&[("read", text)]);
        assert_eq!(listed.verdict, Verdict::Hide(vec![0]), "{text}");
        let told = told(&listed);
        assert_eq!(
            told.first().map(String::as_str),
            Some("mcp_tool_seen block tool_poisoning")
        );
    }
}

/// New text since the first listing counts one level more if nothing is ever accepted, whatever else changes
/// with it or afterwards.
#[test]
fn what_is_new_counts_more_also_without_a_pin() {
    let without_pins = || {
        let mut policy = policy();
        policy.definition_pinning.enabled = false;
        policy.inspection.act_threshold = Severity::Medium;
        policy
    };
    let mut world = World::new(without_pins());
    for (text, is_hidden) in [
        ("Reads a file.", false),
        ("Reads a file. EVIL-LOW", true),
        ("Reads a file! EVIL-LOW", true),
        ("Reads a file.", false),
    ] {
        let listed = world.tools(&[("read", text)]);
        assert_eq!(listed.verdict == Verdict::Hide(vec![0]), is_hidden, "{text}");
        drop(world.tools(&[]));
    }
    let mut world = World::new(without_pins());
    for text in ["EVIL-LOW. Reads a file.", "EVIL-LOW. Reads a file, and more."] {
        let listed = world.tools(&[("read", text)]);
        assert_eq!(listed.verdict, Verdict::Allow, "{text}: {:?}", told(&listed));
        let found = world.monitor.definitions().flat_map(|record| &*record.findings);
        let found: Vec<Severity> = found.map(|finding| finding.severity).collect();
        assert_eq!(found, [Severity::Low], "all is held against it: {text}");
    }
}

fn change(judgement: &Judgement) -> Option<&Event> {
    judgement
        .events
        .iter()
        .find(|event| matches!(event.kind, EventKind::ToolChanged { .. }))
}

#[test]
fn a_tool_is_new_then_unchanged_then_changed() {
    let mut world = World::new(policy());
    let first = world.tools(&[("read", "Reads a file.")]);
    assert_eq!(statuses(&first), [DefinitionStatus::New]);
    assert_eq!(first.verdict, Verdict::Allow);
    assert_eq!(stored(&first), ["read"]);
    let again = world.tools(&[("read", "Reads a file.")]);
    assert!(again.events.is_empty(), "{:?}", told(&again));
    assert!(stored(&again).is_empty());
    let other = world.tools(&[("read", "Reads a file. Also sends it.")]);
    assert_eq!(statuses(&other), [DefinitionStatus::Changed]);
    assert_eq!(other.verdict, Verdict::Hide(vec![0]));
    assert_eq!(
        told(&other),
        [
            "mcp_tool_seen block version_pin",
            "mcp_tool_changed block version_pin"
        ]
    );
    let Some(EventKind::ToolChanged { changes, .. }) = change(&other).map(|event| &event.kind) else {
        panic!("a change is told");
    };
    assert_eq!(
        (changes[0].field.as_str(), changes[0].new.as_str()),
        ("description", "Reads a file. Also sends it.")
    );
    let reason = change(&other)
        .and_then(|event| event.reason.clone())
        .unwrap_or_default();
    assert!(reason.contains("`mcpmon approve files:read`"), "{reason}");
    assert_eq!(blocked_by(&world.call("read")), Some("version_pin"));
}

#[test]
fn a_change_is_told_once_and_again_after_it_went_back() {
    let mut world = World::new(policy());
    for (description, is_told) in [("a", false), ("b", true), ("b", false), ("a", false), ("b", true)] {
        let listed = world.tools(&[("read", description)]);
        assert_eq!(change(&listed).is_some(), is_told, "{description}");
        assert_eq!(listed.verdict == Verdict::Allow, description == "a");
    }
}

#[test]
fn the_same_definition_written_otherwise_is_unchanged() {
    let mut world = World::new(policy());
    let listing = |text| Listing {
        kind: ListKind::Tools,
        items: vec![ListedItem {
            name: "read".into(),
            definition: RawJson::trusted(text),
        }],
        continued: false,
        more: false,
        is_part: false,
        result: RawJson::trusted("{}"),
        again: None,
    };
    for text in [r#"{"name":"read","x":1.0}"#, r#"{ "x": 1, "name": "read" }"#] {
        let judgement = world.say(Content::Server(FromServer::Listing(listing(text))));
        assert_eq!(judgement.verdict, Verdict::Allow);
        assert!(change(&judgement).is_none());
    }
}

#[test_case(OnChange::Block, Some("version_pin"), "block"; "block")]
#[test_case(OnChange::Alert, None, "audit"; "alert")]
#[test_case(OnChange::Allow, None, "allow"; "allow")]
fn a_change_does_what_the_policy_says(on_change: OnChange, blocked: Option<&str>, action: &str) {
    let mut policy = policy();
    policy.definition_pinning.on_change = on_change;
    let mut world = World::new(policy);
    drop(world.tools(&[("read", "a")]));
    let listed = world.tools(&[("read", "b")]);
    assert_eq!(listed.verdict == Verdict::Hide(vec![0]), blocked.is_some());
    assert_eq!(change(&listed).map(|event| event.action.as_str()), Some(action));
    assert_eq!(blocked_by(&world.call("read")), blocked);
}

#[test_case(true, FirstUse::Pin, Some(true); "trusted and pinned")]
#[test_case(true, FirstUse::Record, Some(false); "trusted and recorded")]
#[test_case(false, FirstUse::Pin, None; "not trusted")]
fn a_first_sight_is_judged_by_the_policy(
    auto_trust_first: bool,
    first_use: FirstUse,
    is_pinned: Option<bool>,
) {
    let mut policy = policy();
    policy.definition_pinning.auto_trust_first = auto_trust_first;
    policy.first_use = first_use;
    let mut world = World::new(policy);
    let listed = world.tools(&[("read", "a")]);
    let record = world.monitor.definitions().next().expect("it is kept");
    match is_pinned {
        Some(is_pinned) => {
            assert_eq!(listed.verdict, Verdict::Allow);
            assert_eq!(record.pinned.is_some(), is_pinned);
        }
        None => {
            assert_eq!(listed.verdict, Verdict::Hide(vec![0]));
            assert!(record.hidden && record.pinned.is_none());
        }
    }
}

#[test]
fn pins_of_earlier_runs_hold() {
    let mut before = World::new(policy());
    drop(before.tools(&[("read", "a")]));
    let records: Vec<_> = before.monitor.definitions().cloned().collect();
    let mut world = World::new(policy());
    world.monitor.load_definitions(world.now, records);
    assert_eq!(
        told(&world.call("read"))[0],
        "mcp_tool_call_intercepted audit stale_definition"
    );
    assert_eq!(world.tools(&[("read", "b")]).verdict, Verdict::Hide(vec![0]));
    assert_eq!(world.tools(&[("read", "a")]).verdict, Verdict::Allow);
}

#[test]
fn a_rename_is_recognised_in_a_whole_list_only() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "Reads."), ("write", "Writes.")]));
    let first = world.page(ListKind::Tools, &[("write", "Writes.")], false, true);
    assert!(change(&first).is_none());
    let last = world.page(ListKind::Tools, &[("load", "Reads.")], true, false);
    let Some(EventKind::ToolChanged {
        tool_name,
        renamed_from,
        changes,
        ..
    }) = change(&last).map(|event| &event.kind)
    else {
        panic!("a rename is told");
    };
    assert_eq!(
        (tool_name.as_str(), renamed_from.as_deref()),
        ("load", Some("read"))
    );
    assert_eq!(changes.len(), 1);
    assert_eq!(last.verdict, Verdict::Allow);
    assert_eq!(world.monitor.registry().lookup("read"), []);
    assert_eq!(world.monitor.registry().lookup("load").len(), 1);
}

#[test]
fn what_has_another_definition_too_is_no_rename() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "Reads.")]));
    let other = world.tools(&[("load", "Loads.")]);
    assert_eq!(vanished(&other), ["read"]);
}

/// Returns the names that a judgement reports as no longer listed.
fn vanished(judgement: &Judgement) -> Vec<&str> {
    let events = judgement.events.iter().filter_map(|event| {
        let EventKind::ToolChanged {
            tool_name,
            new_hash: None,
            ..
        } = &event.kind
        else {
            return None;
        };
        Some(tool_name.as_str())
    });
    events.collect()
}

#[test]
fn a_tool_that_is_gone_is_told_once() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "Reads."), ("write", "Writes.")]));
    let page = world.page(ListKind::Tools, &[("read", "Reads.")], false, true);
    assert!(vanished(&page).is_empty(), "it may be on the next page");
    let last = world.page(ListKind::Tools, &[], true, false);
    assert_eq!(vanished(&last), ["write"]);
    assert_eq!(
        told(&last),
        ["mcp_tool_changed audit version_pin"],
        "{:?}",
        last.events
    );
    assert!(vanished(&world.tools(&[("read", "Reads.")])).is_empty());
    drop(world.tools(&[("read", "Reads."), ("write", "Writes.")]));
    assert_eq!(vanished(&world.tools(&[])), ["read", "write"]);
}

#[test]
fn resources_come_and_go() {
    let mut world = World::new(policy());
    drop(world.page(ListKind::Resources, &[("file:///a", "A")], false, false));
    let none = world.page(ListKind::Resources, &[], false, false);
    assert!(vanished(&none).is_empty());
    drop(world.page(ListKind::Prompts, &[("greet", "Greets.")], false, false));
    let none = world.page(ListKind::Prompts, &[], false, false);
    assert_eq!(vanished(&none), ["greet"]);
}

#[test]
fn pages_of_two_clients_make_nothing_absent() {
    let mut world = World::new(policy());
    drop(world.tools(&[("a", "A"), ("b", "B")]));
    drop(world.page(ListKind::Tools, &[("a", "A")], false, true));
    world.conversation.session = Some(SessionId::new("s2"));
    drop(world.page(ListKind::Tools, &[], true, false));
    assert_eq!(world.monitor.registry().lookup("b").len(), 1);
}

#[test_case("EVIL-HIGH", OnDetection::Alert, None; "alert")]
#[test_case("EVIL-HIGH", OnDetection::Hide, Some("tool_poisoning"); "hide")]
#[test_case("EVIL-LOW", OnDetection::Hide, None; "below the threshold")]
#[test_case("EVIL-CRITICAL", OnDetection::Hide, Some("approval"); "a person is asked")]
#[test_case("EVIL-CRITICAL", OnDetection::Alert, None; "nobody is asked where it is only reported")]
fn a_poisoned_tool_does_what_the_policy_says(text: &str, on_detection: OnDetection, rule: Option<&str>) {
    let mut policy = policy();
    policy.inspection.on_detection = on_detection;
    let mut world = World::new(policy);
    let listed = world.tools(&[("good", "fine"), ("bad", text)]);
    let hidden = if rule.is_some() {
        Verdict::Hide(vec![1])
    } else {
        Verdict::Allow
    };
    assert_eq!(listed.verdict, hidden);
    assert!(
        listed
            .events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Detection { .. }))
    );
    assert_eq!(blocked_by(&world.call("bad")), rule);
    assert_eq!(blocked_by(&world.call("good")), None);
    let record = world
        .monitor
        .definitions()
        .find(|record| record.key.name == "bad")
        .expect("kept");
    assert_eq!(
        (record.hidden, record.pinned.is_none()),
        (rule.is_some(), rule.is_some())
    );
}

#[test]
fn a_poisoned_tool_can_block_its_server() {
    let mut policy = policy();
    policy.inspection.on_detection = OnDetection::Block;
    let mut world = World::new(policy);
    drop(world.tools(&[("good", "fine")]));
    assert_eq!(blocked_by(&world.call("good")), None);
    assert_eq!(
        world.tools(&[("good", "fine"), ("bad", "EVIL-HIGH")]).verdict,
        Verdict::Hide(vec![0, 1])
    );
    assert_eq!(blocked_by(&world.call("good")), Some("tool_poisoning"));
    assert_eq!(
        blocked_by(&world.ask(ServerRequestKind::Roots, "{}")),
        Some("tool_poisoning")
    );
    // Not to list it any more does not help; a person's word does.
    assert_eq!(world.tools(&[("good", "fine")]).verdict, Verdict::Hide(vec![0]));
    let key = world.key("bad");
    drop(
        world
            .monitor
            .approve(world.now, &key, "eve")
            .expect("it was listed"),
    );
    assert_eq!(blocked_by(&world.call("good")), None);
    assert_eq!(world.tools(&[("good", "fine")]).verdict, Verdict::Allow);
}

#[test]
fn a_suppression_lets_a_finding_pass_until_it_ends() {
    let mut policy = policy();
    policy.suppressions.push(mcpmon_policy::Suppression {
        rule: mcpmon_model::NameGlob::new("evil_*"),
        server: mcpmon_model::NameGlob::new("files"),
        tool: mcpmon_model::NameGlob::new("bad"),
        until: Some(Timestamp(1000)),
        reason: "known".to_owned(),
    });
    let mut world = World::new(policy);
    let items = [("bad", "EVIL-HIGH"), ("worse", "EVIL-HIGH")];
    assert_eq!(world.tools(&items).verdict, Verdict::Hide(vec![1]));
    assert_eq!(blocked_by(&world.call("bad")), None);
    world.now = Timestamp(1000);
    assert_eq!(blocked_by(&world.call("bad")), Some("tool_poisoning"));
    assert_eq!(world.tools(&items).verdict, Verdict::Hide(vec![0, 1]));
}

#[test]
fn another_policy_judges_what_is_known_anew() {
    let mut world = World::new(policy());
    drop(world.tools(&[("bad", "EVIL-HIGH")]));
    assert_eq!(blocked_by(&world.call("bad")), Some("tool_poisoning"));
    let mut milder = policy();
    milder.inspection.act_threshold = Severity::Critical;
    world.install(milder);
    assert_eq!(blocked_by(&world.call("bad")), None);
}

#[test_case("b", Verdict::Hide(vec![0, 1]), Some("duplicate_name"), "block"; "two definitions")]
#[test_case("a", Verdict::Allow, None, "audit"; "the same twice")]
fn one_name_twice_is_judged_strictly(second: &str, verdict: Verdict, rule: Option<&str>, action: &str) {
    let mut world = World::new(policy());
    let listed = world.tools(&[("read", "a"), ("read", second)]);
    assert_eq!(listed.verdict, verdict);
    assert!(
        told(&listed).contains(&format!("mcp_tool_seen {action} duplicate_name")),
        "{:?}",
        told(&listed)
    );
    assert_eq!(blocked_by(&world.call("read")), rule);
    assert_eq!(world.tools(&[("read", "a")]).verdict, Verdict::Allow);
    assert_eq!(blocked_by(&world.call("read")), None);
}

#[test]
fn an_attack_in_the_second_definition_of_a_name_counts() {
    let mut policy = policy();
    policy.definition_pinning.on_change = OnChange::Allow;
    let mut world = World::new(policy);
    assert_eq!(
        world.tools(&[("read", "a"), ("read", "EVIL-HIGH")]).verdict,
        Verdict::Hide(vec![0, 1])
    );
    assert_eq!(world.tools(&[("read", "a")]).verdict, Verdict::Allow);
}

#[test]
fn tools_beyond_the_limit_are_left_out_and_cannot_be_called() {
    let mut policy = policy();
    policy.limits.max_tools = 2;
    let mut world = World::new(policy);
    let listed = world.tools(&[("a", ""), ("b", ""), ("c", ""), ("d", "")]);
    assert_eq!(listed.verdict, Verdict::Hide(vec![2, 3]));
    assert_eq!(
        told(&listed).last().map(String::as_str),
        Some("mcp_request_judged block max_tools")
    );
    assert_eq!(blocked_by(&world.call("c")), Some("max_tools"));
    assert_eq!(blocked_by(&world.call("a")), None);
    drop(world.tools(&[("a", "")]));
    assert_eq!(blocked_by(&world.call("c")), None);
}

#[test]
fn names_that_come_and_go_do_not_pile_up() {
    let mut policy = policy();
    policy.limits.max_tools = 2;
    let mut world = World::new(policy);
    for round in 0..10 {
        drop(world.tools(&[(&format!("tool-{round}"), "")]));
    }
    assert_eq!(world.monitor.definitions().count(), 4);
    assert_eq!(blocked_by(&world.call("tool-9")), Some("max_tools"));
}

#[test]
fn a_definition_without_end_is_left_out() {
    let mut world = World::new(policy());
    let long = "x".repeat((1 << 20) + 1);
    assert_eq!(
        world.tools(&[("long", &long), ("short", "x")]).verdict,
        Verdict::Hide(vec![0])
    );
    let name = "n".repeat((1 << 10) + 1);
    assert_eq!(
        world.tools(&[(&name, "x"), ("short", "x")]).verdict,
        Verdict::Hide(vec![0])
    );
    assert_eq!(world.monitor.definitions().count(), 1);
}

#[test]
fn instructions_are_pinned_and_inspected() {
    let mut world = World::new(policy());
    assert_eq!(world.introduce(Some("Call read first.")).verdict, Verdict::Allow);
    assert_eq!(world.introduce(None).verdict, Verdict::Allow);
    let changed = world.introduce(Some("Call write first."));
    assert_eq!(changed.verdict, Verdict::StripInstructions);
    let Some(EventKind::ToolChanged {
        definition, changes, ..
    }) = change(&changed).map(|event| &event.kind)
    else {
        panic!("a change is told");
    };
    assert_eq!(*definition, DefinitionKind::Instructions);
    assert_eq!(changes[0].previous, "Call read first.");
    assert_eq!(
        world.introduce(Some("EVIL-HIGH")).verdict,
        Verdict::StripInstructions
    );
    assert_eq!(world.introduce(Some("Call read first.")).verdict, Verdict::Allow);
}

#[test_case(ListKind::Prompts)]
#[test_case(ListKind::Resources)]
#[test_case(ListKind::Templates)]
fn other_lists_are_pinned_and_inspected(kind: ListKind) {
    let mut world = World::new(policy());
    assert_eq!(
        world
            .page(kind, &[("one", "a"), ("two", "EVIL-HIGH")], false, false)
            .verdict,
        Verdict::Hide(vec![1])
    );
    assert_eq!(
        world
            .page(kind, &[("one", "b"), ("two", "c")], false, false)
            .verdict,
        Verdict::Hide(vec![0])
    );
}

/// A list of tools as a server may send it.
fn lists() -> impl Strategy<Value = Vec<Vec<(String, String)>>> {
    let description = prop::sample::select(vec!["a", "b", "EVIL-LOW", "EVIL-HIGH", "EVIL-CRITICAL"]);
    let tool = ("[a-d]", description.prop_map(str::to_owned));
    prop::collection::vec(prop::collection::vec(tool, 0..5), 1..5)
}

fn run(policy: Policy, lists: &[Vec<(String, String)>]) -> Vec<(Judgement, Vec<Judgement>)> {
    let mut world = World::new(policy);
    let mut judged = |list: &Vec<(String, String)>| {
        let items: Vec<(&str, &str)> = list
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let listed = world.tools(&items);
        (listed, ["a", "b", "c", "d"].map(|tool| world.call(tool)).into())
    };
    lists.iter().map(&mut judged).collect()
}

fn hidden(judgement: &Judgement) -> Vec<usize> {
    match &judgement.verdict {
        Verdict::Hide(hidden) => hidden.clone(),
        Verdict::Allow
        | Verdict::StripInstructions
        | Verdict::Redact(_)
        | Verdict::Ask(_)
        | Verdict::Block(_) => Vec::new(),
    }
}

proptest! {
    #[test]
    fn observing_stops_nothing(lists in lists()) {
        for (listed, calls) in run(observing(policy()), &lists) {
            prop_assert!(lets_everything_through(&listed));
            prop_assert!(calls.iter().all(lets_everything_through));
        }
    }

    #[test]
    fn hidden_positions_ascend_and_exist(lists in lists()) {
        for ((listed, _), list) in run(policy(), &lists).iter().zip(&lists) {
            let hidden = hidden(listed);
            prop_assert!(hidden.is_sorted() && hidden.iter().all(|position| *position < list.len()));
        }
    }

    #[test]
    fn what_is_hidden_cannot_be_called(lists in lists()) {
        for ((listed, calls), list) in run(policy(), &lists).iter().zip(&lists) {
            for position in hidden(listed) {
                let tool = usize::from(list[position].0.as_bytes()[0] - b'a');
                prop_assert!(matches!(calls[tool].verdict, Verdict::Block(_)));
            }
        }
    }

    #[test]
    fn what_is_stricter_hides_no_less(list in lists()) {
        // One list: what was pinned before it depends on the policy too.
        let list = &list[..1];
        let mut milder = policy();
        milder.inspection.on_detection = OnDetection::Alert;
        milder.approvals.required_for = Severity::Critical;
        let mut stricter = milder.clone();
        stricter.inspection.on_detection = OnDetection::Hide;
        stricter.inspection.act_threshold = Severity::Low;
        stricter.definition_pinning.auto_trust_first = false;
        let (milder, stricter) = (run(milder, list), run(stricter, list));
        let (milder, stricter) = (hidden(&milder[0].0), hidden(&stricter[0].0));
        prop_assert!(milder.iter().all(|position| stricter.contains(position)));
    }
}

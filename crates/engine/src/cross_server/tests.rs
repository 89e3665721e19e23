//! The seeds' cases, one by one, then what they leave open.

use mcpmon_detect::{arguments::Arguments, category};
use mcpmon_model::{
    CallOrigin, Digest, Fingerprint, Recent, RecentIntent, SensitivityLabel, ServerType, SharedCallAnswer,
};
use mcpmon_policy::{CrossServer, Mode};
use proptest::prelude::*;
use test_case::test_case;

use super::*;
use crate::{
    cross_server::shadow::{Visible, naming, shadowed},
    names::NamingClient,
    registry::Registry,
};

const SECOND: i64 = 1_000_000_000;

/// A window, its rules, and a clock.
struct World {
    policy: Policy,
    window: CallWindow,
    several: bool,
}

fn id(name: &str) -> ServerId {
    ServerId::new(name).expect("an id")
}

fn call(seconds: f64, server: &str, tool: &str) -> SharedCall {
    SharedCall {
        at: at(seconds),
        server: id(server),
        tool: tool.to_owned(),
        category: category::by_prefix(tool),
        request: Some("7".into()),
        tool_call: None,
        turn: None,
        labels: Vec::new(),
        arguments: Fingerprint::default(),
        resumes: false,
        several: true,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of a test")]
fn at(seconds: f64) -> Timestamp {
    Timestamp((seconds * 1e9) as i64)
}

impl World {
    fn new(decision: CrossServerDecision) -> Self {
        let mut policy = Policy::default();
        policy.cross_server.decision = decision;
        Self {
            policy,
            window: CallWindow::default(),
            several: true,
        }
    }

    fn seeds() -> Self {
        Self::new(CrossServerDecision::Block)
    }

    fn ask(&mut self, mut call: SharedCall) -> SharedCallAnswer {
        call.several &= self.several;
        self.window.admit(&self.policy, &call).0
    }

    fn say(&mut self, seconds: f64, server: &str, tool: &str) -> Vec<(CrossServerRule, bool)> {
        let checked = self.ask(call(seconds, server, tool));
        checked
            .crossings
            .iter()
            .map(|crossing| (crossing.rule, crossing.blocks))
            .collect()
    }

    fn output(&mut self, seconds: f64, server: &str, text: &str) {
        let output = RecentOutput {
            at: at(seconds),
            server: id(server),
            tool: "read_file".to_owned(),
            labels: Vec::new(),
            print: Fingerprint::default(),
        };
        let result = serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
        let read = read_result(output, &result).expect("it says something");
        self.window.take(Recent::Output(read));
    }
}

fn with_arguments(mut call: SharedCall, text: &str) -> SharedCall {
    let json = serde_json::json!({"body": text}).to_string();
    call.arguments = fingerprint::of_arguments(&Arguments::walk(RawJson::trusted(&json)));
    call
}

const SENT: [(CrossServerRule, bool); 1] = [(CrossServerRule::ReadThenSend, true)];

// 1
#[test]
fn with_one_server_nothing_is_found() {
    let mut world = World::seeds();
    world.several = false;
    for second in 0..30 {
        assert_eq!(world.say(f64::from(second) / 10.0, "a", "read_file"), []);
    }
    assert_eq!(world.say(3.5, "a", "send_email"), []);
}

// 2: what happened before the second server came is in the window when it comes.
#[test]
fn a_read_before_the_second_server_came_counts() {
    let mut world = World::seeds();
    world.several = false;
    assert_eq!(world.say(0.0, "a", "read_file"), []);
    world.several = true;
    assert_eq!(world.say(3.0, "b", "send_email"), SENT);
}

// 3 to 5
#[test_case("a", 3.0, "b" => SENT.to_vec(); "3: a read of one server and a send of another")]
#[test_case("a", 3.0, "a" => Vec::<(CrossServerRule, bool)>::new(); "4: both of one server")]
#[test_case("a", 30.0, "b" => SENT.to_vec(); "at the very end of the window")]
#[test_case("a", 30.1, "b" => Vec::<(CrossServerRule, bool)>::new(); "5: later than that")]
fn read_then_send(read: &str, after: f64, sends: &str) -> Vec<(CrossServerRule, bool)> {
    let mut world = World::seeds();
    world.say(0.0, read, "query_database");
    world.say(after, sends, "send_email")
}

#[test]
fn the_match_says_by_what_it_goes() {
    let mut world = World::seeds();
    world.say(0.0, "db", "query_database");
    let checked = world.ask(call(2.5, "mail", "send_email"));
    let crossing = &checked.crossings[0];
    assert_eq!(
        crossing.reason,
        "`send_email` (server `mail`) would send data within 30 s after `query_database` (server `db`) read data"
    );
    let related = &crossing.related[0];
    assert_eq!(
        (
            related.timestamp,
            related.server_id.as_str(),
            related.category,
            related.action
        ),
        (at(0.0), "db", ToolCategory::Read, Action::Allow)
    );
    assert_eq!(
        (related.tool_name.as_str(), related.request_id.as_deref()),
        ("query_database", Some("7"))
    );
}

#[test_case(&[SensitivityLabel::SecretTool], "`read_secret` (server `secrets`) was asked for a secret"; "by its name")]
#[test_case(&[SensitivityLabel::Secret, SensitivityLabel::Unread], "`read_secret` (server `secrets`) returned a secret and returned more than could be inspected in time"; "by its result")]
#[test_case(&[], "`read_secret` (server `secrets`) read data"; "without evidence")]
fn the_reason_names_both_tools_and_what_the_earlier_one_did(labels: &[SensitivityLabel], earlier: &str) {
    let mut world = World::new(CrossServerDecision::Evidence);
    let mut read = call(0.0, "secrets", "read_secret");
    read.labels = labels.to_vec();
    world.ask(read);
    let checked = world.ask(call(1.0, "mail", "send_email"));
    let reasons: Vec<&str> = checked
        .crossings
        .iter()
        .map(|crossing| crossing.reason.as_str())
        .collect();
    let sends = "`send_email` (server `mail`) would send data";
    assert_eq!(
        reasons,
        [
            format!("{sends} within 30 s after {earlier}"),
            format!("{sends} in the same turn in which {earlier}"),
        ]
    );
}

// 6 and 7
#[test_case(10 => true; "6: the eleventh call within the window")]
#[test_case(9 => false; "7: the tenth")]
fn burst(before: u32) -> bool {
    let mut world = World::seeds();
    for number in 0..before {
        assert_eq!(world.say(f64::from(number) / 10.0, "a", "compute_it"), []);
    }
    world.say(4.9, "a", "compute_it") == [(CrossServerRule::Burst, true)]
}

#[test]
fn a_burst_is_over_with_its_window_and_each_server_has_its_own() {
    let mut world = World::seeds();
    for number in 0..10 {
        world.say(f64::from(number) / 10.0, "a", "x");
    }
    assert_eq!(world.say(1.0, "b", "x"), []);
    assert_eq!(world.say(1.0, "a", "x"), [(CrossServerRule::Burst, true)]);
    // Calls that were stopped by it were none.
    assert_eq!(world.say(5.05, "a", "x"), []);
}

#[test]
fn calls_that_a_policy_refused_count_for_a_burst_and_are_no_reads() {
    let mut world = World::seeds();
    let refused = |seconds| {
        Recent::Call(RecentCall {
            origin: None,
            at: at(seconds),
            server: id("a"),
            tool: "read_file".to_owned(),
            category: ToolCategory::Read,
            request: None,
            turn: None,
            action: Action::Block,
            labels: vec![SensitivityLabel::SensitivePath],
            left: None,
        })
    };
    (0..10).for_each(|number| world.window.take(refused(f64::from(number) / 10.0)));
    assert_eq!(world.say(1.0, "b", "send_email"), []);
    assert_eq!(world.say(1.0, "a", "x"), [(CrossServerRule::Burst, true)]);
}

// 8 and 9
#[test_case(Some("r1"), Some("r1"), 20.0 => true; "8: the same turn by name, however long it takes")]
#[test_case(Some("r1"), Some("r2"), 0.1 => false; "9: another turn by name, however short after")]
#[test_case(None, None, 1.9 => true; "the same turn by time")]
#[test_case(None, None, 2.1 => false; "another turn by time")]
fn flow_within_a_turn(first: Option<&str>, second: Option<&str>, after: f64) -> bool {
    let mut world = World::seeds();
    let of_turn = |call: SharedCall, turn: Option<&str>| SharedCall {
        turn: turn.map(Into::into),
        ..call
    };
    world.ask(of_turn(call(0.0, "a", "read_file"), first));
    let checked = world.ask(of_turn(call(after, "b", "write_file"), second));
    checked
        .crossings
        .iter()
        .any(|crossing| crossing.rule == CrossServerRule::CrossServerFlow)
}

#[test]
fn a_turn_goes_on_while_calls_follow_each_other() {
    let mut world = World::seeds();
    world.policy.cross_server.burst = None;
    world.say(0.0, "a", "read_file");
    for step in 1..5 {
        world.say(f64::from(step) * 1.5, "b", "x");
    }
    assert_eq!(
        world.say(7.5, "b", "write_file"),
        [(CrossServerRule::CrossServerFlow, true)]
    );
}

#[test]
fn without_turns_the_window_counts() {
    let mut world = World::seeds();
    world
        .policy
        .cross_server
        .flow
        .as_mut()
        .expect("it is on")
        .same_turn_only = false;
    world.say(0.0, "a", "read_file");
    assert_eq!(
        world.say(29.0, "b", "write_file"),
        [(CrossServerRule::CrossServerFlow, true)]
    );
    assert_eq!(world.say(31.0, "b", "write_file"), []);
}

fn shadow(decision: CrossServerDecision, client: Option<NamingClient>, server: &str) -> Option<bool> {
    let mut policy = Policy::default();
    policy.cross_server.decision = decision;
    let mut registry = Registry::default();
    for (second, name) in ["a", "b"].into_iter().enumerate() {
        let since = Timestamp(second as i64);
        registry.register(since, &id(name), ServerType::Stdio, "search", Digest::of(b""));
    }
    let visible = Visible::renewed(None, &registry, naming(decision, client));
    let since = registry
        .lookup("search")
        .iter()
        .find(|entry| entry.server == id(server));
    let since = since.map(|entry| entry.registered_at);
    let found = shadowed(
        &policy,
        &visible,
        client.is_some(),
        (&id(server), "search", since),
    );
    found.map(|crossing| crossing.blocks)
}

// 10 and 11: nothing but the registry is asked, so it holds from the first call on.
#[test_case(CrossServerDecision::Block, None, "b" => Some(true); "10: the one that took the name over")]
#[test_case(CrossServerDecision::Block, None, "a" => Some(true); "the one that had it")]
#[test_case(CrossServerDecision::Block, Some(NamingClient::ClaudeCode), "b" => Some(true); "whatever the client makes of it")]
#[test_case(CrossServerDecision::Evidence, Some(NamingClient::ClaudeCode), "b" => None; "the client puts the server in front")]
#[test_case(CrossServerDecision::Evidence, Some(NamingClient::Bare), "b" => Some(true); "the client does not, and it came later")]
#[test_case(CrossServerDecision::Evidence, Some(NamingClient::Bare), "a" => Some(false); "it came first")]
#[test_case(CrossServerDecision::Evidence, None, "b" => Some(false); "nobody knows what the client does")]
#[test_case(CrossServerDecision::Audit, Some(NamingClient::Bare), "b" => Some(false); "it is only recorded")]
fn a_tool_with_the_name_of_anothers(
    decision: CrossServerDecision,
    client: Option<NamingClient>,
    server: &str,
) -> Option<bool> {
    shadow(decision, client, server)
}

#[test]
fn names_that_become_one_for_a_client_are_one() {
    let mut registry = Registry::default();
    for (server, tool) in [("a.b", "read"), ("a_b", "read"), ("c", "read")] {
        registry.register(
            Timestamp(1),
            &id(server),
            ServerType::Stdio,
            tool,
            Digest::of(b""),
        );
    }
    let visible = Visible::renewed(None, &registry, NamingClient::Codex);
    let found = |server: &str| {
        shadowed(
            &Policy::default(),
            &visible,
            true,
            (&id(server), "read", Some(Timestamp(2))),
        )
        .is_some()
    };
    assert_eq!(["a.b", "a_b", "c"].map(found), [true, true, false]);
}

// 12
#[test]
fn what_no_rule_reaches_is_forgotten() {
    let mut world = World::seeds();
    for second in 0..100 {
        world.say(f64::from(second), "a", "read_file");
        world.output(
            f64::from(second),
            "a",
            "a text that is long enough to leave a fingerprint behind it",
        );
    }
    assert_eq!(world.window.calls().count(), 31);
    world.say(99.5, "b", "x");
    assert_eq!(world.window.outputs().count(), 30);
    assert!(world.window.is_over(at(200.0), &world.policy));
}

#[test]
fn a_window_is_bounded_whatever_comes() {
    let mut world = World::seeds();
    let long: String = (0..20_000).map(|number| format!("{number} ")).collect();
    for number in 0..2000 {
        world.window.take(Recent::Call(RecentCall {
            origin: None,
            at: at(1.0),
            server: id(&format!("s{number}")),
            tool: String::new(),
            category: ToolCategory::Read,
            request: None,
            turn: None,
            action: Action::Allow,
            labels: Vec::new(),
            left: Some(0),
        }));
    }
    for _ in 0..100 {
        world.output(1.0, "a", &long);
    }
    let hashes: usize = world.window.outputs().map(|output| output.print.len()).sum();
    assert!(hashes <= 1 << 17, "{hashes}");
    assert!(!world.window.is_over(at(1.0), &world.policy));
}

// 14
#[test_case(|rules| rules.enabled = false => true; "14: all of them")]
#[test_case(|rules| rules.read_then_send = None => true; "the rule")]
#[test_case(|rules| rules.burst = None => false; "another rule")]
fn what_is_switched_off_finds_nothing(change: fn(&mut CrossServer)) -> bool {
    let mut world = World::seeds();
    change(&mut world.policy.cross_server);
    world.say(0.0, "a", "read_file");
    world.say(3.0, "b", "send_email").is_empty()
}

const RECORD: &str = "Maria Lindqvist, born 4 May 1971, account DE09 1204 0000 0532 0130 17, owes 14,210.55";

#[test_case(CrossServerDecision::Evidence, RECORD, "Hello, here it is" => vec![(CrossServerRule::ReadThenSend, false)]; "nothing speaks for it")]
#[test_case(CrossServerDecision::Evidence, RECORD, RECORD => SENT.to_vec(); "what was read is sent")]
#[test_case(CrossServerDecision::Audit, RECORD, RECORD => vec![(CrossServerRule::ReadThenSend, false)]; "it is only recorded")]
fn evidence_of_content(
    decision: CrossServerDecision,
    read: &str,
    sent: &str,
) -> Vec<(CrossServerRule, bool)> {
    let mut world = World::new(decision);
    world.say(0.0, "a", "read_file");
    world.output(1.0, "a", read);
    let checked = world.ask(with_arguments(call(4.0, "b", "send_email"), sent));
    checked
        .crossings
        .iter()
        .map(|crossing| (crossing.rule, crossing.blocks))
        .collect()
}

#[test]
fn evidence_says_of_which_kind_it_is_and_nothing_of_what_was_read() {
    let mut world = World::new(CrossServerDecision::Evidence);
    let labelled = SharedCall {
        labels: vec![SensitivityLabel::SensitivePath],
        ..call(0.0, "a", "read_file")
    };
    world.ask(labelled);
    world.output(
        1.0,
        "a",
        &format!(
            "{} {RECORD}",
            concat!("gh", "p_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
        ),
    );
    let checked = world.ask(with_arguments(call(4.0, "b", "send_email"), RECORD));
    let evidence: Vec<_> = checked.crossings[0]
        .evidence
        .iter()
        .map(|evidence| evidence.kind)
        .collect();
    assert_eq!(
        evidence,
        [
            EvidenceKind::Secret,
            EvidenceKind::Overlap,
            EvidenceKind::SensitivePath
        ]
    );
    let told = serde_json::to_string(&checked).expect("plain");
    assert!(!told.contains("Lindqvist") && !told.contains("a1B2c3"), "{told}");
}

#[test_case(ToolCategory::Read, "a" => true; "a read")]
#[test_case(ToolCategory::Compute, "a" => true; "a command that reads")]
#[test_case(ToolCategory::Unknown, "a" => true; "nobody knows")]
#[test_case(ToolCategory::Write, "a" => false; "a write to such a file")]
#[test_case(ToolCategory::Read, "b" => false; "a read of the same server")]
fn a_label_counts_where_something_can_have_been_read(category: ToolCategory, server: &str) -> bool {
    let mut world = World::new(CrossServerDecision::Evidence);
    world.ask(SharedCall {
        labels: vec![SensitivityLabel::SensitivePath],
        category,
        ..call(0.0, server, "x")
    });
    world.say(4.0, "b", "send_email") == SENT
}

#[test]
fn a_call_that_goes_on_is_counted_once_and_judged_again() {
    let mut world = World::seeds();
    world.policy.rate_limits.default.burst = 3;
    for _ in 0..50 {
        let again = SharedCall {
            resumes: true,
            ..call(0.0, "a", "read_file")
        };
        assert_eq!(world.ask(again), SharedCallAnswer::default());
    }
    assert_eq!(world.say(0.1, "b", "send_email"), []);
    world.say(0.2, "a", "read_file");
    let resumed = SharedCall {
        resumes: true,
        ..call(4.0, "b", "send_email")
    };
    assert!(world.ask(resumed).blocks(), "its answers can carry what was read");
}

#[test]
fn a_call_over_the_rate_spends_nothing_and_is_no_read() {
    let mut world = World::new(CrossServerDecision::Evidence);
    world.policy.rate_limits.default.burst = 1;
    world.policy.rate_limits.default.per_minute = 60;
    assert_eq!(world.ask(call(0.0, "a", "x")), SharedCallAnswer::default());
    let refused = world.ask(call(0.5, "a", "read_file"));
    assert_eq!(
        refused.over_rate.as_deref(),
        Some(
            "server a may be called 60 times a minute and 1 times at once; the next call may be made in 0.5 s"
        )
    );
    assert_eq!(world.say(0.6, "b", "send_email"), []);
    assert!(!world.ask(call(1.0, "a", "x")).blocks());
}

#[test]
fn a_call_that_a_rule_stops_spends_nothing() {
    let mut world = World::seeds();
    world.policy.rate_limits.default.burst = 1;
    world.policy.rate_limits.default.per_minute = 1;
    world.say(0.0, "a", "read_file");
    assert_eq!(world.say(3.0, "b", "send_email"), SENT);
    assert!(!world.ask(call(3.0, "b", "x")).blocks());
}

#[test]
fn in_observe_mode_what_would_be_stopped_happens_and_counts() {
    let mut world = World::seeds();
    world.policy.mode = Mode::Observe;
    world.say(0.0, "a", "read_file");
    assert_eq!(world.say(1.0, "b", "send_email").len(), 2);
    assert_eq!(world.window.calls().count(), 2);
}

#[test]
fn a_suppressed_rule_is_silent() {
    let mut world = World::seeds();
    world.policy.suppressions.push(mcpmon_policy::Suppression {
        rule: mcpmon_model::NameGlob::new("read_then_send"),
        server: mcpmon_model::NameGlob::new("b"),
        tool: mcpmon_model::NameGlob::new("send_*"),
        until: None,
        reason: String::new(),
    });
    world.say(0.0, "a", "read_file");
    assert_eq!(world.say(3.0, "b", "send_email"), []);
    assert_eq!(world.say(3.0, "c", "send_email"), SENT);
}

/// Calls of few servers and tools, a fifth of a second apart or more.
fn histories() -> impl Strategy<Value = Vec<(i64, usize, usize)>> {
    prop::collection::vec((0..60 * SECOND, 0..3_usize, 0..4_usize), 0..40).prop_map(|mut calls| {
        calls.sort_unstable();
        calls
    })
}

fn told(policy: &Policy, window: &mut CallWindow, history: &[(i64, usize, usize)]) -> Vec<SharedCallAnswer> {
    let calls = history.iter().map(|(at, server, tool)| SharedCall {
        at: Timestamp(*at),
        ..call(
            0.0,
            ["a", "b", "c"][*server],
            ["read_x", "write_x", "send_x", "x"][*tool],
        )
    });
    calls.map(|call| window.admit(policy, &call).0).collect()
}

proptest! {
    #[test]
    fn what_is_forgotten_was_of_no_use(history in histories()) {
        let policy = World::seeds().policy;
        // The rules on all there ever was say the same as on what is kept.
        let mut kept = CallWindow::default();
        let pruned = told(&policy, &mut kept, &history);
        let mut all: Vec<Recent> = Vec::new();
        for ((at, server, tool), pruned) in history.iter().zip(&pruned) {
            let mut window = CallWindow::default();
            all.iter().cloned().for_each(|recent| window.take(recent));
            let call = SharedCall {
                at: Timestamp(*at),
                ..call(0.0, ["a", "b", "c"][*server], ["read_x", "write_x", "send_x", "x"][*tool])
            };
            let (checked, recent) = window.check(&policy, &call);
            prop_assert_eq!(&checked.crossings, &pruned.crossings);
            all.extend(recent);
        }
    }

    #[test]
    fn the_order_in_which_others_tell_does_not_matter(history in histories(), seed in any::<u64>()) {
        let policy = World::seeds().policy;
        let mut first = CallWindow::default();
        let mut recents = Vec::new();
        for (at, server, tool) in &history {
            let call = SharedCall {
                at: Timestamp(*at),
                ..call(0.0, ["a", "b", "c"][*server], ["read_x", "write_x", "send_x", "x"][*tool])
            };
            recents.extend(first.admit(&policy, &call).1);
        }
        let mut shuffled = recents.clone();
        shuffled.sort_by_key(|recent| (recent.at().0 as u64).wrapping_mul(seed | 1).rotate_left(17));
        let mut second = CallWindow::default();
        shuffled.into_iter().for_each(|recent| second.take(recent));
        let last = SharedCall { at: Timestamp(61 * SECOND), ..call(0.0, "b", "send_x") };
        let kinds = |checked: SharedCallAnswer| {
            checked.crossings.into_iter().map(|crossing| (crossing.rule, crossing.blocks)).collect::<Vec<_>>()
        };
        prop_assert_eq!(kinds(first.check(&policy, &last).0), kinds(second.check(&policy, &last).0));
    }

    #[test]
    fn the_stricter_decision_stops_no_less(history in histories()) {
        let stops = |decision| {
            let policy = World::new(decision).policy;
            let checked = told(&policy, &mut CallWindow::default(), &history);
            checked.iter().position(SharedCallAnswer::blocks)
        };
        let by_block = stops(CrossServerDecision::Block);
        for laxer in [CrossServerDecision::Evidence, CrossServerDecision::Audit] {
            if let Some(first) = stops(laxer) {
                prop_assert!(by_block.is_some_and(|block| block <= first));
            }
        }
    }
}

#[test]
fn long_names_do_not_fill_memory() {
    let mut window = CallWindow::default();
    let policy = Policy::default();
    for number in 0..4000_i64 {
        let long = SharedCall {
            at: Timestamp(number),
            tool: "x".repeat(4096),
            ..call(0.0, "a", "x")
        };
        window.admit(&policy, &long);
    }
    let bytes: usize = window.calls().map(|known| known.tool.len()).sum();
    assert!(bytes <= 1 << 19, "{bytes}");
}

/// The model wants code run; it names no tool of a server.
fn wants_code(world: &mut World, seconds: f64, turn: &str) {
    world.window.take(Recent::Intent(RecentIntent {
        at: at(seconds),
        server: id("agent"),
        tool: "exec".to_owned(),
        tool_call: Some("call_1".into()),
        turn: turn.into(),
        origin: Some(CallOrigin::Code),
    }));
}

#[test]
fn calls_in_code_are_those_that_nobody_wanted() {
    let mut world = World::seeds();
    assert_eq!(world.ask(call(0.0, "a", "read")).origin, None);
    wants_code(&mut world, 1.0, "req_1");
    assert_eq!(world.ask(call(1.1, "a", "read")).origin, Some(CallOrigin::Code));
    let by_model = SharedCall {
        tool_call: Some("toolu_1".into()),
        ..call(1.2, "a", "read")
    };
    assert_eq!(world.ask(by_model).origin, None, "the model makes it");
    world.window.take(Recent::Intent(RecentIntent {
        at: at(1.3),
        server: id("a"),
        tool: "write".to_owned(),
        tool_call: None,
        turn: "req_2".into(),
        origin: None,
    }));
    assert_eq!(
        world.ask(call(1.4, "a", "write")).origin,
        None,
        "the model wants it"
    );
    assert_eq!(world.ask(call(1.5, "a", "write")).origin, Some(CallOrigin::Code));
    assert!(world.window.runs_code(at(2.0)));
    assert!(!world.window.runs_code(at(700.0)), "it is over");
    assert_eq!(world.ask(call(700.0, "a", "read")).origin, None);
}

#[test]
fn the_code_of_one_intent_is_one_call_for_a_burst_and_a_rate_up_to_a_bound() {
    let mut world = World::seeds();
    world.policy.rate_limits.default.burst = 3;
    world.policy.rate_limits.default.per_minute = 1;
    wants_code(&mut world, 0.0, "req_1");
    for number in 0..100_u32 {
        let checked = world.ask(call(0.1 + f64::from(number) / 1000.0, "a", "read"));
        assert_eq!(checked.over_rate, None, "call {number}");
        assert_eq!(checked.crossings, [], "call {number}");
    }
    // Each of the next is counted: two of a rate of three are left.
    let over: Vec<bool> = (0..4_u32)
        .map(|number| {
            let checked = world.ask(call(0.3 + f64::from(number) / 1000.0, "a", "read"));
            checked.over_rate.is_some()
        })
        .collect();
    assert_eq!(over, [false, false, true, true]);
    assert_eq!(
        world
            .window
            .count_of_intents(&id("a"), at(0.4), Duration::from_secs(5)),
        3
    );
}

#[test]
fn each_intent_for_code_counts() {
    let mut world = World::seeds();
    for turn in 0..11_u32 {
        wants_code(&mut world, f64::from(turn) / 10.0, &format!("req_{turn}"));
        let matched = world.say(f64::from(turn) / 10.0 + 0.05, "a", "read");
        let is_burst = matched.iter().any(|(rule, _)| *rule == CrossServerRule::Burst);
        assert_eq!(is_burst, turn == 10, "turn {turn}");
    }
}

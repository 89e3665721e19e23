//! A second policy on top of another: together they stop whatever either stops.

use std::time::Duration;

use mcpmon_model::{Fingerprint, Recent};
use mcpmon_policy::{CrossServer, Mode};
use proptest::prelude::*;

use super::*;

fn cross_server() -> impl Strategy<Value = CrossServer> {
    use CrossServerDecision::{Audit, Block, Evidence};
    let decision = prop::sample::select(&[Evidence, Block, Audit][..]);
    let window = || (0..9_u64).prop_map(Duration::from_secs);
    let burst = (1..9_u32, window()).prop_map(|(max_calls, window)| Burst { max_calls, window });
    let categories = prop::sample::subsequence(&[ToolCategory::Write, ToolCategory::Send][..], 1..=2);
    let flow = (any::<bool>(), window(), categories).prop_map(|(same_turn_only, window, categories)| Flow {
        same_turn_only,
        window,
        categories: categories.into_iter().collect(),
    });
    let switches = any::<[bool; 2]>();
    let parts = (
        prop::option::of(window()),
        prop::option::of(burst),
        prop::option::of(flow),
    );
    (switches, decision, parts).prop_map(|([enabled, shadow_tool], decision, parts)| CrossServer {
        enabled,
        decision,
        shadow_tool,
        read_then_send: parts.0,
        burst: parts.1,
        flow: parts.2,
        ..CrossServer::default()
    })
}

/// Returns calls: second, server, and the effect of the tool.
fn calls() -> impl Strategy<Value = Vec<(u8, &'static str, ToolCategory)>> {
    let categories = &[ToolCategory::Read, ToolCategory::Write, ToolCategory::Send][..];
    let call = (
        0..6_u8,
        prop::sample::select(&["files", "mail"][..]),
        prop::sample::select(categories),
    );
    prop::collection::vec(call, 1..12)
}

fn call(second: u8, server: &str, category: ToolCategory) -> SharedCall {
    SharedCall {
        at: Timestamp(i64::from(second) * 1_000_000_000),
        server: ServerId::new(server).expect("an id"),
        tool: "tool".to_owned(),
        category,
        request: None,
        tool_call: None,
        turn: None,
        labels: Vec::new(),
        arguments: Fingerprint::default(),
        resumes: false,
        several: true,
    }
}

fn made(call: SharedCall) -> Recent {
    Recent::Call(RecentCall {
        origin: None,
        at: call.at,
        server: call.server,
        tool: call.tool,
        category: call.category,
        request: None,
        turn: None,
        action: Action::Allow,
        labels: Vec::new(),
        left: None,
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    (any::<bool>(), cross_server()).prop_map(|(observes, cross_server)| Policy {
        mode: if observes { Mode::Observe } else { Mode::Enforce },
        cross_server,
        ..Policy::default()
    })
}

/// Returns whether the last of these calls is stopped, after the others were made.
fn stops(policy: &Policy, calls: &[(u8, &'static str, ToolCategory)]) -> bool {
    let mut window = CallWindow::default();
    let Some(((second, server, category), before)) = calls.split_last() else {
        return false;
    };
    for (second, server, category) in before {
        window.take(made(call(*second, server, *category)));
    }
    let (checked, _) = window.check(policy, &call(*second, server, *category));
    checked.crossings.iter().any(|crossing| crossing.blocks)
}

proptest! {
    #[test]
    fn what_either_stops_is_stopped(own in policy(), other in policy(), calls in calls()) {
        let is_stopped = stops(&own, &calls)
            || (other.mode == Mode::Enforce || own.mode == Mode::Observe) && stops(&other, &calls);
        prop_assert!(!is_stopped || stops(&own.tightened_by(&other), &calls));
    }
}

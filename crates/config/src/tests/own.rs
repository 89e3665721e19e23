//! A user's own file on top of a host's policy.

use insta::assert_snapshot;
use mcpmon_model::{ServerId, Severity};
use mcpmon_policy::{
    Admission, CrossServerDecision, Decision, Handling, Mode, OnDetection, Policy, Unwrapped,
};
use test_case::test_case;

use crate::{Sources, load_sources, on_top};

fn try_merged(host: &str, own: &str) -> Result<Policy, String> {
    let host = load_sources(&Sources::of_texts(&[("host.yaml", host)]))
        .unwrap_or_else(|invalid| panic!("{invalid}"));
    let merged = on_top(&host, &Sources::of_texts(&[("own.yaml", own)]));
    let merged = merged.map_err(|invalid| invalid.to_string())?;
    assert_eq!(merged.hash, host.hash);
    let sources: Vec<String> = merged.sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["host.yaml", "own.yaml"]);
    Ok(Policy::clone(&merged.policy))
}

fn merged(host: &str, own: &str) -> Policy {
    try_merged(host, own).unwrap_or_else(|invalid| panic!("{invalid}"))
}

fn host(text: &str) -> Policy {
    let loaded = load_sources(&Sources::of_texts(&[("host.yaml", text)]));
    Policy::clone(&loaded.unwrap_or_else(|invalid| panic!("{invalid}")).policy)
}

fn admits(policy: &Policy, id: &str) -> bool {
    policy.admits(&ServerId::new(id).expect("an id")) == Admission::Admitted
}

#[test]
fn a_file_that_says_nothing_changes_nothing() {
    let loose = "
mode: observe
mcp:
  servers: [{id: a, command: x, env_deny: [B]}]
  sampling: allow
  detection: {on_detection: alert, alert_threshold: critical}
  version_pinning: {on_change: alert}
  defaults: {decision: BLOCK}
  tool_policy: allowlist
  allowed_tools: [{tool: read_*}]
  limits: {max_line: 64MiB}
  suppressions: [{rule: '*', reason: known}]
";
    let (before, mut after) = (host(loose), merged(loose, "version: 1\n"));
    let own = after.rules.on_top.take().expect("rules on top");
    assert_eq!(
        *own,
        mcpmon_policy::Rules {
            default: Decision::Allow,
            ..Default::default()
        }
    );
    assert_eq!(after, before);
}

#[test]
fn what_a_file_says_can_only_tighten() {
    let policy = merged(
        "mcp: {sampling: block, elicitation: allow, detection: {on_detection: hide}, fail_closed: false}",
        "mcp: {sampling: allow, elicitation: block, fail_closed: true,
               detection: {on_detection: alert, alert_threshold: low}}",
    );
    assert_eq!(
        (policy.requests.sampling, policy.requests.elicitation),
        (Handling::Block, Handling::Block)
    );
    assert_eq!(policy.inspection.on_detection, OnDetection::Hide);
    assert_eq!(policy.inspection.alert_threshold, Severity::Low);
    assert!(policy.fail_closed);
}

#[test]
fn lists_of_both_hold() {
    let policy = merged(
        "mcp: {server_policy: allowlist, allowed_servers: [{id: 'a*'}], blocked_tools: [run_shell]}",
        "mcp: {server_policy: denylist, denied_servers: [{id: 'ab'}], blocked_tools: [send_*],
               rules: [{id: mine, match: {tool_name: '*'}, decision: ALLOW}]}",
    );
    assert!(admits(&policy, "a") && !admits(&policy, "ab") && !admits(&policy, "b"));
    let blocked: Vec<_> = policy
        .rules
        .layers()
        .flat_map(|rules| rules.blocked_tools.iter().map(|glob| glob.as_str()))
        .collect();
    assert_eq!(blocked, ["run_shell", "send_*"]);
    assert!(
        policy.rules.calls.is_empty(),
        "an ALLOW of the user lifts nothing of the host"
    );
}

#[test]
fn servers_of_the_host_need_not_be_declared_again() {
    let policy = merged(
        "mcp: {servers: [{id: a, command: x}]}",
        "mcp: {fail_closed: true, servers: [{id: a, command: x}, {id: b, command: y}]}",
    );
    assert!(admits(&policy, "a") && admits(&policy, "b") && !admits(&policy, "c"));
    let policy = merged(
        "mcp: {fail_closed: true, servers: [{id: a, command: x}]}",
        "mcp: {servers: [{id: b, command: y}]}",
    );
    assert!(
        admits(&policy, "a") && !admits(&policy, "b"),
        "nor does a user declare for the host"
    );
}

#[test]
fn who_observes_takes_nothing_away() {
    let policy = merged("mode: enforce", "mode: observe\nmcp: {blocked_tools: [x]}");
    assert_eq!((policy.mode, policy.rules.on_top), (Mode::Enforce, None));
    assert_eq!(merged("mode: observe", "mode: enforce").mode, Mode::Enforce);
    assert_eq!(
        merged("mode: observe", "mcp: {blocked_tools: [x]}").mode,
        Mode::Observe
    );
}

#[test_case("alert", "observe" => Unwrapped::Observe; "a user's")]
#[test_case("observe", "allow" => Unwrapped::Observe; "the host's")]
#[test_case("deny", "observe" => Unwrapped::Deny; "refused by the host")]
fn the_stricter_word_on_unwrapped_servers_holds(host: &str, own: &str) -> Unwrapped {
    let exec = |word: &str| format!("exec: {{unwrapped: {word}}}");
    merged(&exec(host), &exec(own)).exec.unwrapped
}

#[test]
fn limits_and_rules_over_several_servers_are_tightened() {
    let policy = merged(
        "mcp: {rate_limits: {default_rpm: 600, default_burst: 9}, suppressions: [{rule: '*', reason: known}],
               cross_server: {decision: audit, burst: {max_calls: 20}}}",
        "mcp: {rate_limits: {enabled: false, default_rpm: 60, per_server: {a: {calls_per_minute: 5, burst: 20}}},
               suppressions: [{rule: persona, reason: mine}], cross_server: {decision: block, burst: {max_calls: 5}}}\nexec: {unwrapped: deny}",
    );
    let limit = |server: &str| {
        let limit = policy.rate_limits.of(&ServerId::new(server).expect("an id"));
        limit.map(|limit| (limit.per_minute, limit.burst))
    };
    assert_eq!(limit("a"), Some((600, 9)), "limits that are off add none");
    assert_eq!(policy.cross_server.strictest(), CrossServerDecision::Block);
    assert_eq!(policy.cross_server.burst.map(|burst| burst.max_calls), Some(5));
    assert_eq!(policy.exec.unwrapped, Unwrapped::Deny);
    assert_eq!(
        policy.suppressions.len(),
        1,
        "what a user accepts counts for nothing"
    );
    let policy = merged(
        "mcp: {rate_limits: {enabled: false}}",
        "mcp: {rate_limits: {enabled: true, default_rpm: 60}}",
    );
    let limit = policy.rate_limits.of(&ServerId::new("a").expect("an id"));
    assert_eq!(limit.map(|limit| limit.per_minute), Some(60));
}

#[test]
fn mistakes_are_told_where_they_stand() {
    let error = try_merged(
        "mcp: {rules: [{id: a, match: {tool_name: x}, decision: BLOCK}]}",
        "mcp:\n  rules: [{id: a, match: {tool_name_regex: '('}, decision: BLOCK}]\n  blocked_toolz: [x]\n",
    )
    .expect_err("two mistakes");
    assert_snapshot!(error);
}

#[test]
fn a_file_declares_no_server_that_reaches_into_any_process() {
    use mcpmon_policy::ProcessAccess;
    let own = "mcp: {servers: [{id: a, command: x, sandbox: {processes: any}}, {id: b, command: y, sandbox: {processes: any}},
                               {id: c, command: z, sandbox: {processes: own}}]}";
    let policy = merged(
        "mcp: {servers: [{id: a, command: x, sandbox: {processes: any}}]}",
        own,
    );
    let written: Vec<_> = policy.servers.iter().map(|server| server.processes).collect();
    assert_eq!(
        written,
        [Some(ProcessAccess::Any), None, Some(ProcessAccess::Own)]
    );
}

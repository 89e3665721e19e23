//! The state of a process as metrics: the content of `mcpmon status`, under the names in the table of metrics.

use mcpmon_store::metrics::{
    MetricFamily,
    table::{
        BUILD, ENFORCEMENT_EFFECTIVE, KERNEL, KILL_SWITCHES, POLICY, QUEUE, SERVER_STARTS, SERVERS, SESSIONS,
        START, STORE_SIZE,
    },
};

use crate::app::{
    metrics::now_seconds,
    proxy::ProxyStatus,
    selftest::{CheckOutcome, Component, SelfTestCheck},
    status::{BundleStatus, Status},
};

type Labels = Vec<(&'static str, String)>;

/// The components that the self-test checks, each with its name in `degraded`.
const TESTED: [(Component, &str); 6] = [
    (Component::NetworkGate, "network gate"),
    (Component::PacketGate, "packet gate"),
    (Component::ExecSensor, "exec sensor"),
    (Component::Pins, "pins"),
    (Component::ExecGate, "exec gate"),
    (Component::StartCheck, "start check"),
];

/// Returns the state of the daemon as metrics.
pub(crate) fn of_daemon(status: &Status) -> Vec<MetricFamily> {
    let kernel = status.counters.iter().map(|(name, count)| (name.clone(), *count));
    let records = [
        ("missing_records".to_owned(), status.missing_records),
        ("malformed_records".to_owned(), status.malformed_records),
    ];
    let mut sessions = vec![
        (label("layer", "stdio"), size(status.wrappers)),
        (label("layer", "run"), size(status.runs.len())),
    ];
    let mut servers = vec![(label("layer", "kernel"), size(status.servers.len()))];
    if let Some(proxy) = &status.proxy {
        sessions.extend(proxy_sessions(proxy));
        servers.push((label("layer", "mcp_http"), size(proxy.servers.len())));
    }
    let kills = u64::from(status.kills.host.is_some()) + size(status.kills.sessions.len());
    let starts = [
        (label("wrapped", "true"), status.coverage.wrapped),
        (
            label("wrapped", "false"),
            status.coverage.seen.saturating_sub(status.coverage.wrapped),
        ),
    ];
    vec![
        MetricFamily::labelled(ENFORCEMENT_EFFECTIVE, effective(status)),
        MetricFamily::labelled(
            KERNEL,
            kernel
                .chain(records)
                .map(|(name, count)| (label("counter", &name), count)),
        ),
        policy(
            &status.policy.hash,
            status.state.as_str(),
            status.policy.bundle.as_ref(),
        ),
        build(),
        MetricFamily::single(START, now_seconds().saturating_sub(status.uptime)),
        MetricFamily::labelled(SERVERS, servers),
        MetricFamily::labelled(SESSIONS, sessions),
        MetricFamily::labelled(SERVER_STARTS, starts),
        MetricFamily::single(KILL_SWITCHES, kills),
        MetricFamily::single(STORE_SIZE, status.store.size),
        MetricFamily::single(QUEUE, size(status.store.queued)),
    ]
}

/// Returns the state of a proxy without a daemon, which has no self-test. `started` is in seconds since the epoch.
pub(crate) fn of_proxy(proxy: &ProxyStatus, policy_hash: &str, started: u64) -> Vec<MetricFamily> {
    vec![
        policy(policy_hash, "proxy", None),
        build(),
        MetricFamily::single(START, started),
        MetricFamily::labelled(SERVERS, [(label("layer", "mcp_http"), size(proxy.servers.len()))]),
        MetricFamily::labelled(SESSIONS, proxy_sessions(proxy)),
    ]
}

fn proxy_sessions(proxy: &ProxyStatus) -> [(Labels, u64); 2] {
    [
        (label("layer", "llm"), size(proxy.sessions)),
        (label("layer", "mcp_http"), size(proxy.conversations)),
    ]
}

fn policy(hash: &str, state: &str, bundle: Option<&BundleStatus>) -> MetricFamily {
    let digest = bundle.and_then(|bundle| bundle.digest.clone());
    let serial = bundle.and_then(|bundle| bundle.serial);
    let labels = vec![
        ("digest", hash.to_owned()),
        ("state", state.to_owned()),
        ("bundle", digest.unwrap_or_default()),
        (
            "serial",
            serial.map_or_else(String::new, |serial| serial.to_string()),
        ),
    ];
    MetricFamily::labelled(POLICY, [(labels, 1)])
}

fn build() -> MetricFamily {
    MetricFamily::labelled(BUILD, [(label("version", env!("CARGO_PKG_VERSION")), 1)])
}

/// Returns 1 for each component that passed the latest self-test. Returns 0 for each that did not, and for every other
/// degraded component. Checked starts are a component where a self-test says so: not before the first one, and not where
/// this host has nothing for them.
fn effective(status: &Status) -> Vec<(Labels, u64)> {
    let is_here = |(component, _): &&(Component, &str)| is_here(&status.checks, *component);
    let tested = TESTED.iter().filter(is_here).map(|(component, name)| {
        let works = is_proved(&status.checks, *component) && !status.degraded.contains_key(*name);
        (*name, u64::from(works))
    });
    let others = status.degraded.keys().map(String::as_str);
    let others = others.filter(|name| TESTED.iter().all(|(_, tested)| tested != name));
    tested
        .chain(others.map(|name| (name, 0)))
        .map(|(name, works)| (label("component", &name.replace(' ', "_")), works))
        .collect()
}

/// Returns whether a check of this component passed and none failed.
fn is_proved(checks: &[SelfTestCheck], component: Component) -> bool {
    let outcomes = || checks.iter().filter(|check| check.component == component);
    let is_passed = |check: &SelfTestCheck| check.outcome == CheckOutcome::Passed;
    let is_failed = |check: &SelfTestCheck| matches!(check.outcome, CheckOutcome::Failed(_));
    outcomes().any(is_passed) && !outcomes().any(is_failed)
}

/// Returns whether this host has a component. Checked starts are the only one that it may have nothing for.
fn is_here(checks: &[SelfTestCheck], component: Component) -> bool {
    let is_absent = |check: &SelfTestCheck| matches!(check.outcome, CheckOutcome::Absent(_));
    let is_told = |check: &SelfTestCheck| check.component == component && !is_absent(check);
    component != Component::StartCheck || checks.iter().any(is_told)
}

fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}

fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(component: Component, outcome: CheckOutcome) -> SelfTestCheck {
        SelfTestCheck {
            component,
            name: String::new(),
            outcome,
        }
    }

    #[test]
    fn what_was_not_proved_does_not_count_as_effective() {
        let checks = [
            check(Component::NetworkGate, CheckOutcome::Passed),
            check(
                Component::NetworkGate,
                CheckOutcome::Skipped("no IPv6".to_owned()),
            ),
            check(Component::ExecSensor, CheckOutcome::Passed),
            check(
                Component::ExecSensor,
                CheckOutcome::Failed("it saw nothing".to_owned()),
            ),
            check(
                Component::ExecGate,
                CheckOutcome::Skipped("no CAP_KILL".to_owned()),
            ),
        ];
        let proved = TESTED.map(|(component, _)| is_proved(&checks, component));
        assert_eq!(proved, [true, false, false, false, false, false]);
    }

    #[test]
    fn what_a_host_has_nothing_for_is_told_from_what_does_not_work() {
        let is_here = |checks: &[SelfTestCheck]| is_here(checks, Component::StartCheck);
        let is_here_after = |outcome| is_here(&[check(Component::StartCheck, outcome)]);
        assert!(!is_here_after(CheckOutcome::Absent("no BPF LSM".to_owned())));
        assert!(is_here_after(CheckOutcome::Failed("not refused".to_owned())));
        assert!(is_here_after(CheckOutcome::Passed));
        assert!(!is_here(&[]), "before the first self-test");
        assert!(
            super::is_here(&[], Component::ExecGate),
            "every host must have one"
        );
    }
}

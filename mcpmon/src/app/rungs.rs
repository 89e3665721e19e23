//! Description of the ways in which starts of changed servers are refused: those in use on this host, and why no
//! stricter one is.

use mcpmon_policy::{Gate, Mode, OnChange, Policy};

use super::selftest::{CheckOutcome, Component, SelfTestCheck};

/// Returns what is done at starts under this policy.
fn exec_gate(policy: &Policy) -> &'static str {
    if blocks(policy) {
        return "pinned servers are stopped at start, compared, and killed if changed; changed programs are killed at exec";
    }
    match (policy.mode, policy.exec.gate) {
        (_, Gate::Off) => "off (exec.gate)",
        (Mode::Observe, _) => "observing",
        (Mode::Enforce, Gate::Auto) => "off (nothing blocks on change)",
    }
}

fn blocks(policy: &Policy) -> bool {
    let pinning = policy.pinning;
    let is_blocking = pinning.enabled && pinning.on_change == OnChange::Block;
    is_blocking && policy.mode == Mode::Enforce && policy.exec.gate == Gate::Auto
}

/// Describes how starts are refused, by the latest self-test.
pub(crate) fn in_force(policy: &Policy, checks: &[SelfTestCheck]) -> String {
    let words = exec_gate(policy);
    let check = checks
        .iter()
        .find(|check| check.component == Component::StartCheck);
    match check.map(|check| &check.outcome) {
        Some(CheckOutcome::Passed) if blocks(policy) => {
            format!(
                "{words}; changed programs that are servers themselves are not started at all (BPF LSM, IMA)"
            )
        }
        Some(CheckOutcome::Absent(cause) | CheckOutcome::Failed(cause) | CheckOutcome::Skipped(cause))
            if blocks(policy) =>
        {
            format!("{words}; not by BPF LSM and IMA: {cause}")
        }
        Some(_) | None => words.to_owned(),
    }
}

/// Describes how starts are refused, and why not in a stricter way. `unchecked` is why this kernel cannot refuse them by
/// their digest, if that is known.
pub(crate) fn rungs(policy: &Policy, unchecked: Option<&str>) -> String {
    let by_digest = match unchecked {
        None => "Changed programs that are servers themselves are refused by BPF LSM with the digest of IMA, if the \
                 self-test proves it"
            .to_owned(),
        Some(cause) => format!("Not by BPF LSM with the digest of IMA: {cause}"),
    };
    format!(
        "{}. {by_digest}. Starts with the name of a pinned server are stopped in the kernel before their first instruction, \
         others by the daemon just after exec. Not by fanotify: a start that waits for its answer goes on when the daemon is \
         killed",
        exec_gate(policy)
    )
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(None => true; "that may be")]
    #[test_case(Some("kernel 5.10 is older") => false; "too old")]
    fn the_reason_against_a_digest_is_that_of_this_host(unchecked: Option<&str>) -> bool {
        let said = rungs(&Policy::default(), unchecked);
        assert!(unchecked.is_none_or(|cause| said.contains(cause)), "{said}");
        said.contains("if the self-test proves it")
    }

    #[test_case(CheckOutcome::Passed, true => "not started at all (BPF LSM, IMA)"; "proved")]
    #[test_case(CheckOutcome::Absent("no `bpf`".to_owned()), true => "killed at exec; not by BPF LSM and IMA: no `bpf`"; "absent")]
    #[test_case(CheckOutcome::Passed, false => "observing"; "nothing is refused")]
    fn the_self_test_says_what_is_in_force(outcome: CheckOutcome, enforces: bool) -> String {
        let mut policy = Policy::default();
        if !enforces {
            policy.mode = Mode::Observe;
        }
        let check = SelfTestCheck {
            component: Component::StartCheck,
            name: String::new(),
            outcome,
        };
        let said = in_force(&policy, &[check]);
        let of_interest = ["not started at all", "killed at exec; not", "observing"];
        let from = of_interest.iter().find_map(|words| said.find(words));
        said.get(from.unwrap_or(0)..).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_policy_that_refuses_no_start_says_so() {
        let mut policy = Policy::default();
        policy.exec.gate = Gate::Off;
        assert!(rungs(&policy, None).starts_with("off (exec.gate)."));
        policy = Policy::default();
        policy.pinning.on_change = OnChange::Alert;
        assert!(rungs(&policy, None).starts_with("off (nothing blocks on change)."));
    }
}

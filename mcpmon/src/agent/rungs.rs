//! Description of the ways in which starts of changed servers are refused: the one in use on this host, and why no
//! stricter one is.

use mcpmon_policy::{Gate, Mode, OnChange, Policy};

/// Returns what is done at starts under this policy.
pub(crate) fn exec_gate(policy: &Policy) -> &'static str {
    let blocks = policy.pinning.enabled && policy.pinning.on_change == OnChange::Block;
    match (policy.mode, policy.exec.gate, blocks) {
        (_, Gate::Off, _) => "off (exec.gate)",
        (Mode::Observe, _, _) => "observing",
        (Mode::Enforce, Gate::Auto, false) => "off (nothing blocks on change)",
        (Mode::Enforce, Gate::Auto, true) => {
            "pinned servers are stopped at start, compared, and killed if changed; changed programs are killed at exec"
        }
    }
}

/// Describes how starts are refused, and why not in a stricter way. `lsm` is the kernel's list of active security
/// modules.
pub(crate) fn rungs(policy: &Policy, lsm: &str) -> String {
    let lsm = lsm.trim();
    let hook = match lsm.split(',').any(|name| name == "bpf") {
        true => "`bpf` is among the active security modules here, and this version has no program for it"
            .to_owned(),
        false => {
            let active = if lsm.is_empty() { "none are told" } else { lsm };
            format!(
                "`bpf` is not among the active security modules ({active}), and the kernel would never call a program for it"
            )
        }
    };
    format!(
        "{}. Starts with the name of a pinned server are stopped in the kernel before their first instruction, others by the \
         daemon just after exec. Not by BPF LSM: {hook}. Not by fanotify: a start that waits for its answer goes on when the \
         daemon is killed",
        exec_gate(policy)
    )
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("lockdown,capability,bpf\n", "is among the active" ; "active")]
    #[test_case("lockdown,capability,bpfx\n", "is not among the active security modules (lockdown,capability,bpfx)" ; "another")]
    #[test_case("", "(none are told)" ; "no security file system")]
    fn the_reason_against_a_hook_is_that_of_this_host(lsm: &str, expected: &str) {
        let said = rungs(&Policy::default(), lsm);
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn a_policy_that_refuses_no_start_says_so() {
        let mut policy = Policy::default();
        policy.exec.gate = Gate::Off;
        assert!(rungs(&policy, "bpf").starts_with("off (exec.gate)."));
        policy = Policy::default();
        policy.pinning.on_change = OnChange::Alert;
        assert!(rungs(&policy, "bpf").starts_with("off (nothing blocks on change)."));
    }
}

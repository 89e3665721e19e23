//! Self-test of the enforcement: connections that must be refused, and an exec that must be reported.
//!
//! The test goes through the whole path, so it finds any fault on it: wrong offsets, a wrong cgroup, lost links, a
//! stuck ring.

mod refusals;

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use mcpmon_kernel::{
    children::{self, CANARY_LIMIT},
    links::{LinkState, Links},
    preflight,
    programs::EGRESS,
    rings::Rings,
    starts::{StartCanary, Unproved},
};
use mcpmon_pins::Process;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use uuid::Uuid;

pub(crate) use refusals::is_refusing;

use super::{
    engine::{EngineMessage, TIMEOUT},
    inbox::Sender,
    probe::{CANARY_COMMAND, Probe, Sightings},
};

/// The longest time until the engine reports the test's actions.
const DEADLINE: Duration = Duration::from_secs(1);

/// A part of the enforcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// Connections that a rule refuses are refused.
    NetworkGate,
    /// Packets to addresses that a rule refuses are dropped, whichever system call they come from.
    PacketGate,
    /// Starts of processes are seen.
    ExecSensor,
    /// Files of servers can be compared with their pins.
    Pins,
    /// Servers of every user can be stopped if they may not run.
    ExecGate,
    /// Changed programs are refused when they are started, by the digest that the kernel takes.
    StartCheck,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfTestCheck {
    /// The component it tests.
    pub component: Component,
    /// The property it proves.
    pub name: String,
    /// The outcome.
    pub outcome: CheckOutcome,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// The outcome is as it must be.
    Passed,
    /// The outcome is wrong; the reason.
    Failed(String),
    /// The check is not possible on this host; the reason.
    Skipped(String),
    /// This host has nothing for it, and another way enforces the same; the reason.
    Absent(String),
}

/// Runs the test against a running engine, on a thread of the runtime that may block. Takes about a second; a few
/// seconds if the engine does not answer.
pub(crate) fn run(
    engine: &Sender<EngineMessage>,
    links: &Links,
    canary: &mut Result<StartCanary, Unproved>,
) -> Vec<SelfTestCheck> {
    let nonce = Uuid::now_v7().to_string();
    let (reply, ready) = oneshot::channel();
    let sent = engine.send_blocking(EngineMessage::Probe(Probe::new(nonce.clone()), reply));
    if sent.is_err() || wait(ready).is_none() {
        return impossible(
            "the engine thread has ended or is stuck: restart the daemon",
            canary,
        );
    }
    perform(&nonce, links, canary, || {
        std::thread::sleep(Duration::from_millis(5));
        let (reply, answer) = oneshot::channel();
        engine
            .send_blocking(EngineMessage::Sightings(reply))
            .ok()
            .and_then(|()| wait(answer))
            .unwrap_or_default()
    })
}

/// Waits for the engine's answer. Returns `None` if the engine has ended or does not answer in time.
fn wait<T>(answer: oneshot::Receiver<T>) -> Option<T> {
    let answer = async { tokio::time::timeout(TIMEOUT, answer).await };
    tokio::runtime::Handle::current().block_on(answer).ok()?.ok()
}

/// Runs the test without an engine, on rings that have no other reader.
pub(crate) fn run_alone(
    rings: &mut Rings,
    links: &Links,
    canary: &mut Result<StartCanary, Unproved>,
) -> Vec<SelfTestCheck> {
    let nonce = Uuid::now_v7().to_string();
    let mut probe = Probe::new(nonce.clone());
    perform(&nonce, links, canary, move || {
        if let Err(error) = rings.wait(None) {
            tracing::warn!(%error, "failed to wait for records from the kernel");
        }
        rings.drain(|record| probe.see(&record));
        probe.sightings()
    })
}

/// Runs the test with the program for packets attached, which it is not while nothing is refused.
fn perform(
    nonce: &str,
    links: &Links,
    changed: &mut Result<StartCanary, Unproved>,
    look: impl FnMut() -> Sightings,
) -> Vec<SelfTestCheck> {
    links.require(EGRESS);
    let checks = perform_attached(nonce, links, changed, look);
    if let Err(error) = links.release(EGRESS) {
        tracing::warn!(%error, "the program for packets stays attached after the self-test");
    }
    checks
}

/// Does what must be refused or reported, then looks for the records of it until the deadline.
fn perform_attached(
    nonce: &str,
    links: &Links,
    changed: &mut Result<StartCanary, Unproved>,
    mut look: impl FnMut() -> Sightings,
) -> Vec<SelfTestCheck> {
    let attempts = refusals::attempts();
    let canary = start_canary(nonce);
    let expected = attempts.iter().filter(|attempt| attempt.refused()).count();
    let deadline = Instant::now() + DEADLINE;
    let mut seen = look();
    while (seen.refusals.len() < expected || seen.exec.is_none()) && Instant::now() < deadline {
        seen = look();
    }
    let mut checks: Vec<SelfTestCheck> = attempts.iter().map(|attempt| attempt.check(&seen)).collect();
    checks.extend(links.states().map(|(program, state)| link_check(program, state)));
    checks.push(exec_check(canary, &seen));
    checks.push(start_check(changed));
    checks.push(files_check());
    checks.push(signals_check(preflight::can_signal_everyone()));
    checks.push(leases_check(preflight::can_lease_everything()));
    checks
}

/// Checks that a kernel program is attached. This is needed because not every hook can be tried on every host: without
/// a route to the canary's address no packet is made, and without SCTP no SCTP socket.
fn link_check(program: &str, state: LinkState) -> SelfTestCheck {
    SelfTestCheck {
        component: match program {
            EGRESS => Component::PacketGate,
            _ => Component::NetworkGate,
        },
        name: format!("the kernel program `{program}` is attached"),
        outcome: match state {
            LinkState::Attached => CheckOutcome::Passed,
            LinkState::Detached => CheckOutcome::Failed(
                "another process detached it: what it refuses is let through; restart the daemon".to_owned(),
            ),
            LinkState::NotAttached => CheckOutcome::Failed(
                "the kernel refused to attach it: what it refuses is let through; the daemon tries again"
                    .to_owned(),
            ),
            LinkState::NotNeeded => CheckOutcome::Passed,
            LinkState::Unknown => {
                CheckOutcome::Skipped("/proc/self/fdinfo does not tell on this host".to_owned())
            }
        },
    }
}

/// Checks that the kernel refuses a changed program when it is started. A kernel may accept the program for that and
/// never call it.
fn start_check(canary: &mut Result<StartCanary, Unproved>) -> SelfTestCheck {
    // The interpreter is this program, which is there in an image without any other.
    let script = format!("#!/proc/self/exe {CANARY_COMMAND}\n");
    let proof = match canary {
        Ok(canary) => canary.prove(&script),
        Err(cause) => Err(cause.clone()),
    };
    SelfTestCheck {
        component: Component::StartCheck,
        name: "changed programs are refused when they are started, by BPF LSM and IMA".to_owned(),
        outcome: proved(proof),
    }
}

fn proved(proof: Result<(), Unproved>) -> CheckOutcome {
    match proof {
        Ok(()) => CheckOutcome::Passed,
        Err(Unproved::Absent(cause)) => CheckOutcome::Absent(cause),
        Err(Unproved::Failed(cause)) => CheckOutcome::Failed(cause),
    }
}

/// Checks that files are found inside the root of a process: a sandbox around the daemon may forbid the calls for that.
fn files_check() -> SelfTestCheck {
    let looked_up = Process::open(std::process::id())
        .and_then(|process| process.root())
        .map_err(|error| error.to_string())
        .and_then(|root| root.find(Path::new("/")).map_err(|error| error.to_string()));
    SelfTestCheck {
        component: Component::Pins,
        name: "files inside a process's root are found".to_owned(),
        outcome: match looked_up {
            Ok(_) => CheckOutcome::Passed,
            Err(cause) => CheckOutcome::Failed(format!("{cause}; scripts and packages are not compared")),
        },
    }
}

/// Checks for the capability to signal every process; without it, only servers of the daemon's own user are stopped and
/// killed.
fn signals_check(can_signal_everyone: bool) -> SelfTestCheck {
    SelfTestCheck {
        component: Component::ExecGate,
        name: "servers of every user can be stopped".to_owned(),
        outcome: match can_signal_everyone {
            true => CheckOutcome::Passed,
            false => CheckOutcome::Failed(
                "CAP_KILL is missing: servers that may not run go on; grant it to the daemon".to_owned(),
            ),
        },
    }
}

/// Checks for the capability to lease every file; without it, writers to a file of another user are not noticed while
/// it is hashed.
fn leases_check(can_lease_everything: bool) -> SelfTestCheck {
    SelfTestCheck {
        component: Component::Pins,
        name: "nobody writes to a file while it is hashed".to_owned(),
        outcome: match can_lease_everything {
            true => CheckOutcome::Passed,
            false => CheckOutcome::Failed(
                "CAP_LEASE is missing: writers to files of other users are not seen, and digests of these not kept; grant it to the daemon"
                    .to_owned(),
            ),
        },
    }
}

/// Identity of the canary process, as the kernel must report it.
struct Canary {
    pid: u32,
    inode: u64,
    size: u64,
}

fn start_canary(nonce: &str) -> io::Result<Canary> {
    // Not `current_exe`: after an upgrade that path names another file.
    let path = "/proc/self/exe";
    let file = fs::metadata(path)?;
    let child = Command::new(path)
        .args([CANARY_COMMAND, nonce])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let pid = child.id();
    children::wait(child, CANARY_LIMIT)?;
    Ok(Canary {
        pid,
        inode: file.ino(),
        size: file.size(),
    })
}

fn exec_check(canary: io::Result<Canary>, seen: &Sightings) -> SelfTestCheck {
    let outcome = match (canary, &seen.exec) {
        (Err(error), _) => CheckOutcome::Failed(format!("failed to run a process: {error}")),
        (Ok(_), None) => CheckOutcome::Failed("an exec was not reported within a second".to_owned()),
        (Ok(canary), Some(exec)) => {
            let right = exec.pid == canary.pid
                && exec.parent == std::process::id()
                && exec.inode == canary.inode
                && exec.size == canary.size
                && exec.filename.as_os_str() == "/proc/self/exe";
            if right {
                CheckOutcome::Passed
            } else {
                CheckOutcome::Failed(
                    "an exec was reported with wrong facts: the kernel's structures are not as its BTF says"
                        .to_owned(),
                )
            }
        }
    };
    let name = "a process start is seen, with its file and parent".to_owned();
    SelfTestCheck {
        component: Component::ExecSensor,
        name,
        outcome,
    }
}

/// Returns a failed check for every component, because the test itself could not be done. Checked starts are a
/// component where they were proved before: this host may have nothing for them.
pub(crate) fn impossible(cause: &str, canary: &Result<StartCanary, Unproved>) -> Vec<SelfTestCheck> {
    let has_start_check = canary.as_ref().is_ok_and(StartCanary::is_proved);
    all_failed(cause, has_start_check)
}

fn all_failed(cause: &str, has_start_check: bool) -> Vec<SelfTestCheck> {
    let components = [
        Component::NetworkGate,
        Component::PacketGate,
        Component::ExecSensor,
        Component::Pins,
        Component::ExecGate,
    ];
    let of_starts = has_start_check.then_some(Component::StartCheck);
    let failed = |component| SelfTestCheck {
        component,
        name: "the self-test can be done".to_owned(),
        outcome: CheckOutcome::Failed(cause.to_owned()),
    };
    components.into_iter().chain(of_starts).map(failed).collect()
}

/// Returns the reasons why a component does not work; `None` if it works.
pub fn cause(checks: &[SelfTestCheck], component: Component) -> Option<String> {
    let causes: Vec<String> = checks
        .iter()
        .filter(|check| check.component == component)
        .filter_map(|check| match &check.outcome {
            CheckOutcome::Failed(cause) => Some(format!("{}: {cause}", check.name)),
            CheckOutcome::Passed | CheckOutcome::Skipped(_) | CheckOutcome::Absent(_) => None,
        })
        .collect();
    (!causes.is_empty()).then(|| causes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_for_its_own_component() {
        let check = |component, name: &str, outcome| SelfTestCheck {
            component,
            name: name.to_owned(),
            outcome,
        };
        let checks = [
            check(
                Component::NetworkGate,
                "TCP is refused",
                CheckOutcome::Failed("let through".to_owned()),
            ),
            check(Component::NetworkGate, "UDP is refused", CheckOutcome::Passed),
            check(
                Component::ExecSensor,
                "a start is seen",
                CheckOutcome::Skipped("why".to_owned()),
            ),
        ];
        let told = cause(&checks, Component::NetworkGate);
        assert_eq!(told.as_deref(), Some("TCP is refused: let through"));
        assert_eq!(cause(&checks, Component::ExecSensor), None);
    }

    #[test]
    fn a_test_that_cannot_be_done_fails_every_component() {
        let checks = all_failed("why", true);
        for component in [
            Component::NetworkGate,
            Component::PacketGate,
            Component::ExecSensor,
            Component::Pins,
            Component::ExecGate,
            Component::StartCheck,
        ] {
            let told = cause(&checks, component);
            assert_eq!(told.as_deref(), Some("the self-test can be done: why"));
        }
        // Not where this host may have nothing for it.
        let never_proved = Err(Unproved::Absent("no `bpf`".to_owned()));
        let checks = impossible("why", &never_proved);
        assert_eq!(cause(&checks, Component::StartCheck), None);
    }

    #[test]
    fn starts_that_are_not_checked_are_told_unless_this_host_has_nothing_for_it() {
        let told = |proof| {
            let check = start_check(&mut Err(proof));
            cause(&[check], Component::StartCheck)
        };
        assert_eq!(told(Unproved::Absent("no `bpf`".to_owned())), None);
        let failed = told(Unproved::Failed("the exec gate is closed".to_owned()));
        assert!(failed.is_some_and(|cause| cause.ends_with("IMA: the exec gate is closed")));
        assert_eq!(proved(Ok(())), CheckOutcome::Passed);
    }

    #[test]
    fn a_program_that_is_detached_fails_its_component() {
        let told = |program, state| cause(&[link_check(program, state)], Component::PacketGate);
        let detached = told(EGRESS, LinkState::Detached);
        assert!(detached.is_some_and(|cause| cause.contains("`egress` is attached: another process")));
        let refused = told(EGRESS, LinkState::NotAttached);
        assert!(refused.is_some_and(|cause| cause.contains("`egress` is attached: the kernel refused")));
        assert_eq!(told(EGRESS, LinkState::Attached), None);
        assert_eq!(told("sock_create", LinkState::Detached), None);
        let of_sockets = cause(
            &[link_check("sock_create", LinkState::Detached)],
            Component::NetworkGate,
        );
        assert!(of_sockets.is_some());
    }

    #[test]
    fn where_nothing_is_forbidden_files_are_found() {
        let check = files_check();
        assert_eq!(
            (check.component, check.outcome),
            (Component::Pins, CheckOutcome::Passed)
        );
    }

    #[test]
    fn who_may_not_signal_everyone_stops_nobody_for_certain() {
        assert_eq!(signals_check(true).outcome, CheckOutcome::Passed);
        let told = cause(&[signals_check(false)], Component::ExecGate);
        assert!(told.is_some_and(|cause| cause.contains("CAP_KILL")));
    }

    #[test]
    fn who_may_not_lease_everything_does_not_see_writers() {
        assert_eq!(leases_check(true).outcome, CheckOutcome::Passed);
        let told = cause(&[leases_check(false)], Component::Pins);
        assert!(told.is_some_and(|cause| cause.contains("CAP_LEASE")));
    }
}

//! The exec gate and the held processes: keeps the gate up to date with the Monitor, and makes sure that every stopped
//! process is resumed or killed.

use std::{
    collections::BTreeSet,
    io,
    path::Path,
    process::Child,
    time::{Duration, Instant},
};

use mcpmon_common::{
    event::ProcessKey,
    gate::{ANY_USER, GateKind, Hold},
    limits::GATE_NAMES_OF_USER,
    process::ProcessEntry,
};
use mcpmon_engine::{CandidateName, CheckedProgram, GatedName, GatedPart, KernelEffect, Observation};
use mcpmon_kernel::{
    gate::{self, ExecGate},
    preflight,
    records::{RefusedStart, Resume},
    starts::{AcceptedProgram, CANARY_PATH, StartTables},
};
use mcpmon_model::{self as model, Digest, ProcessId, Timestamp};
use mcpmon_session::clock;
use nix::sys::signal::Signal;

use super::Core;
use crate::app::{host, releaser};

/// The time for which the kernel programs stop starts without hearing from this thread.
const OPEN: Duration = Duration::from_secs(2);
/// The interval at which this time is extended.
const RENEWAL: Duration = Duration::from_millis(250);
/// The interval of the checks for candidates that stay stopped too long. One that is stopped at two of them in a row
/// continues before it is judged.
const CANDIDATE_CHECK: Duration = Duration::from_secs(1);
/// The component that is degraded if starts cannot be stopped.
const COMPONENT: &str = "exec gate";

/// The held processes, and the kernel tables for them.
pub(super) struct Holds {
    gate: ExecGate,
    starts: StartTables,
    /// Servers that are held until their files are compared.
    held: BTreeSet<ProcessId>,
    /// Processes that the kernel stopped, and that were not judged at the last check.
    unjudged: BTreeSet<ProcessId>,
    /// Held servers that were running at the last check.
    running: BTreeSet<ProcessId>,
    /// Candidates that were stopped at the last check of candidates.
    candidates: BTreeSet<ProcessId>,
    candidates_checked: Instant,
    /// Candidates that continued, restricted, because they were not judged in time.
    expired: u64,
    /// False if this process may not signal others: it could not resume them, so the kernel stops nothing.
    may_signal: bool,
    /// The reason why the kernel does not know all names, if so.
    unfit: Option<String>,
    renewed: Option<Instant>,
    is_closed: bool,
    /// The process that resumes everything when this one ends.
    releaser: Option<Child>,
}

/// The warning about programs without room in the kernel's tables.
const UNCHECKED: &str =
    "not every program of a pinned server is checked when it is started; those beyond are stopped";

impl Holds {
    pub(super) fn new(gate: ExecGate, starts: StartTables) -> Self {
        Self {
            gate,
            starts,
            held: BTreeSet::new(),
            unjudged: BTreeSet::new(),
            running: BTreeSet::new(),
            candidates: BTreeSet::new(),
            candidates_checked: Instant::now(),
            expired: 0,
            may_signal: preflight::can_signal_everyone(),
            unfit: None,
            renewed: None,
            is_closed: false,
            releaser: None,
        }
    }

    /// Returns whether a server is held until it is compared.
    pub(super) fn is_any_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Closes the gate: the kernel stops no further process.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        if let Err(error) = self.gate.close() {
            tracing::error!(%error, "the exec gate closes by itself in {} s", OPEN.as_secs());
        }
    }

    /// Extends the time for which the kernel stops starts, if it is time to.
    fn renew(&mut self, now: Instant, stops_candidates: bool) -> io::Result<()> {
        let is_due = self
            .renewed
            .is_none_or(|last| now.duration_since(last) >= RENEWAL);
        if self.is_closed || !self.may_signal || !is_due {
            return Ok(());
        }
        self.ensure_releaser()?;
        self.gate.open_for(OPEN, stops_candidates)?;
        self.renewed = Some(now);
        Ok(())
    }

    /// Starts the process that resumes everything, unless it runs: without it the kernel stops nothing.
    fn ensure_releaser(&mut self) -> io::Result<()> {
        let runs = match &mut self.releaser {
            Some(child) => child.try_wait()?.is_none(),
            None => false,
        };
        if !runs {
            self.releaser = Some(releaser::start(self.gate.share()?)?);
        }
        Ok(())
    }

    /// Notes that a process is held. Returns whether another process has resumed it before.
    fn note(&mut self, process: ProcessId) -> bool {
        let hold = Hold {
            process: ProcessKey {
                start: process.start,
                pid: process.pid,
                reserved: 0,
            },
            flags: Hold::FLAG_SERVER,
            reserved: 0,
        };
        self.held.insert(process);
        self.gate.hold(process.pid, hold).unwrap_or_else(|error| {
            tracing::error!(%error, pid = process.pid, "nobody is told who resumes a held process");
            false
        })
    }

    fn forget(&mut self, process: ProcessId) {
        self.gate.release(process.pid);
        self.held.remove(&process);
    }
}

impl Core {
    /// Keeps the kernel's gate open, and its table of names up to date with the pinned servers.
    pub(super) fn keep_gate(&mut self, now: Instant) {
        if let Some(names) = self.monitor.changed_start_names() {
            let pinned = names.pinned.into_iter().flat_map(gated);
            let candidates = names.candidates.into_iter().map(candidate);
            let names = pinned.chain(candidates).collect();
            self.holds.unfit = unfit(self.holds.gate.replace(&names).map_err(|error| error.to_string()));
            let programs = self.monitor.checked_programs().into_iter().map(accepted);
            match self.holds.starts.replace(&programs.collect()) {
                Ok(beyond) if beyond.is_empty() => {}
                Ok(users) => tracing::warn!(?users, "{UNCHECKED}: their users have too many"),
                Err(error) => tracing::warn!(%error, "{UNCHECKED}"),
            }
        }
        if let Some(cause) = &self.holds.unfit {
            self.troubles.note(now, COMPONENT, cause);
        }
        if let Err(error) = self.holds.renew(now, self.monitor.may_stop_candidates()) {
            let cause = format!("the kernel cannot be told to stop starts: {error}");
            self.troubles.note(now, COMPONENT, &cause);
        }
    }

    /// Holds a process until its files are compared.
    pub(super) fn hold(&mut self, process: ProcessId) {
        let was_resumed = self.holds.note(process);
        // If this fails, a kill of the process fails too, and reports that.
        drop(self.signal(process, Signal::SIGSTOP));
        if was_resumed {
            self.observe_resume(process, "another process".to_owned());
        }
    }

    /// Resumes a held process.
    pub(super) fn release(&mut self, process: ProcessId) {
        self.holds.forget(process);
        drop(self.signal(process, Signal::SIGCONT));
    }

    /// Reports that a start was refused by the digest of its program.
    pub(super) fn refused_start(&mut self, now: Timestamp, start: &RefusedStart) {
        let record = &start.record;
        if start.path == Path::new(CANARY_PATH) {
            return;
        }
        let refused = model::RefusedStart {
            process: host::process_id(record.process),
            comm: start.comm.clone(),
            uid: record.uid,
            path: start.path.clone(),
            digest: Digest::from_bytes(record.digest),
        };
        let judgement = self.monitor.observe(now, Observation::RefusedStart(&refused));
        self.carry_out(judgement, None);
    }

    /// Reports that a held process was resumed by another process.
    pub(super) fn resumed(&mut self, resume: &Resume) {
        let record = &resume.record;
        let by = format!(
            "process {} (`{}`) of user {}",
            record.sender.pid, resume.comm, record.uid
        );
        self.observe_resume(host::process_id(record.process), by);
    }

    fn observe_resume(&mut self, process: ProcessId, by: String) {
        let resume = model::Resume { process, by };
        let judgement = self.monitor.observe(clock::now(), Observation::Resumed(&resume));
        let is_killed = judgement
            .kernel_effects
            .iter()
            .any(|effect| matches!(effect, KernelEffect::Kill { .. }));
        self.carry_out(judgement, None);
        if !is_killed {
            self.pardon(process);
        }
    }

    /// Removes the kernel's mark of a process that was resumed just when the daemon released it: the kernel marks every
    /// process that is resumed for a kill.
    fn pardon(&mut self, process: ProcessId) {
        let Some(mut entry) = self.processes.get(process.pid) else {
            return;
        };
        let is_doomed = super::observe::instance(entry).is_some_and(|number| self.doomed.contains(&number));
        if entry.has(ProcessEntry::FLAG_DOOMED) && !is_doomed {
            entry.flags &= !ProcessEntry::FLAG_DOOMED;
            self.set(process, entry);
        }
    }

    /// Checks everything that is stopped. Processes that ended are forgotten. A process that was not judged for a whole
    /// interval is judged now: its record was lost, or the daemon that stopped it ended. A held server that runs at two
    /// checks in a row was resumed by a tracer, which the kernel does not report.
    pub(super) fn look_at_holds(&mut self) {
        let stopped: Vec<(ProcessId, u32)> = self
            .holds
            .gate
            .holds()
            .map(|(_, hold)| (host::process_id(hold.process), hold.flags))
            .collect();
        self.holds.held.retain(|process| host::is_alive(*process));
        let before = std::mem::take(&mut self.holds.unjudged);
        let ran = std::mem::take(&mut self.holds.running);
        for (process, flags) in stopped {
            if !host::is_alive(process) {
                self.holds.forget(process);
            } else if self.holds.held.contains(&process) {
                if flags & Hold::FLAG_RESUMED != 0 {
                    self.observe_resume(process, "another process".to_owned());
                } else if !runs(process) {
                    // It is still stopped, as it should be.
                } else if ran.contains(&process) {
                    self.observe_resume(process, "a tracer".to_owned());
                } else {
                    self.holds.running.insert(process);
                }
            } else if before.contains(&process) {
                self.look_at(process);
                if !self.holds.held.contains(&process) {
                    self.release(process);
                }
            } else {
                self.holds.unjudged.insert(process);
            }
        }
    }

    /// Lets candidates continue that were not judged in time. They stay restricted until they are.
    pub(super) fn expire_candidates(&mut self, now: Instant) {
        if now.duration_since(self.holds.candidates_checked) < CANDIDATE_CHECK {
            return;
        }
        self.holds.candidates_checked = now;
        let stopped = self.holds.gate.holds();
        let stopped: BTreeSet<ProcessId> = stopped
            .filter(|(_, hold)| hold.flags & Hold::FLAG_CANDIDATE != 0)
            .map(|(_, hold)| host::process_id(hold.process))
            .filter(|process| !self.holds.held.contains(process))
            .collect();
        let before = std::mem::take(&mut self.holds.candidates);
        for process in stopped.intersection(&before) {
            tracing::warn!(
                pid = process.pid,
                "not judged in time: it continues, restricted by every egress list"
            );
            self.holds.expired += 1;
            self.release(*process);
        }
        self.holds.candidates = stopped;
    }

    /// Ends all restrictions of processes that are not judged yet, because no daemon will judge them.
    pub(super) fn lift_pending(&mut self) {
        if let Err(error) = self.addresses.lift_pending() {
            tracing::error!(%error, "programs that are not judged yet stay restricted for some seconds");
        }
        let pending: Vec<(u32, ProcessEntry)> = self
            .processes
            .iter()
            .filter(|(_, entry)| entry.has(ProcessEntry::FLAG_PENDING))
            .collect();
        for (pid, entry) in pending {
            if let Some(process) = host::identify(pid) {
                self.let_go(process, entry);
            }
        }
    }

    /// Returns the number of candidates that continued before they were judged.
    pub(super) const fn expired_candidates(&self) -> u64 {
        self.holds.expired
    }

    /// Ends all comparisons: servers that are held for one are killed, and all other processes are resumed.
    pub(super) fn end_holds(&mut self) {
        let judgement = self.monitor.observe(clock::now(), Observation::Ending);
        self.carry_out(judgement, None);
        let stopped: Vec<ProcessId> = self
            .holds
            .gate
            .holds()
            .map(|(_, hold)| host::process_id(hold.process))
            .chain(self.holds.held.iter().copied())
            .collect();
        for process in stopped {
            self.release(process);
        }
    }
}

/// Returns whether a process is running, and no stop signal is pending.
fn runs(process: ProcessId) -> bool {
    std::fs::read_to_string(format!("/proc/{}/status", process.pid)).is_ok_and(|status| is_running(&status))
}

fn is_running(status: &str) -> bool {
    const STOP: u64 = 1 << (Signal::SIGSTOP as u64 - 1);
    let values = |name: &'static str| {
        let lines = status.lines();
        lines.filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let is_state = values("State").any(|state| state.trim_start().starts_with(['R', 'S', 'D']));
    let waits = values("SigPnd")
        .chain(values("ShdPnd"))
        .any(|pending| u64::from_str_radix(pending.trim(), 16).is_ok_and(|pending| pending & STOP != 0));
    is_state && !waits
}

/// Describes names that the kernel's table has no room for: users with more than their share, or an error of the table.
fn unfit(replaced: Result<BTreeSet<u32>, String>) -> Option<String> {
    let whose = match replaced {
        Ok(users) if users.is_empty() => return None,
        Ok(users) => {
            let users: Vec<String> = users.iter().map(u32::to_string).collect();
            format!(
                "more than {GATE_NAMES_OF_USER} names of user {}",
                users.join(", of user ")
            )
        }
        Err(error) => error,
    };
    Some(format!(
        "not every name of a pinned server fits the kernel's table, and servers beyond are stopped later: {whose}"
    ))
}

fn accepted(program: CheckedProgram) -> AcceptedProgram {
    let CheckedProgram {
        uid,
        path,
        digest,
        is_whole,
    } = program;
    AcceptedProgram {
        uid,
        path,
        digest,
        is_whole,
    }
}

fn candidate((part, name): CandidateName) -> gate::GatedName {
    gate::GatedName {
        uid: ANY_USER,
        kind: match part {
            GatedPart::Program => GateKind::Program,
            GatedPart::Interpreter => GateKind::Interpreter,
            GatedPart::Argument => GateKind::Argument,
        },
        name,
    }
}

fn gated(name: GatedName) -> Vec<gate::GatedName> {
    let GatedName { uid, part, name } = name;
    let kinds: &[GateKind] = match part {
        GatedPart::Program => &[GateKind::Program, GateKind::First],
        GatedPart::Interpreter => &[GateKind::Interpreter],
        GatedPart::Argument => &[GateKind::Argument],
    };
    kinds
        .iter()
        .map(|kind| gate::GatedName {
            uid,
            kind: *kind,
            name: name.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("Name:\tState: T\nState:\tR (running)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n" => true; "runs")]
    #[test_case("State:\tS (sleeping)\nSigPnd:\t0000000000020000\nShdPnd:\t0000000000000000\n" => true; "another signal waits")]
    #[test_case("State:\tR (running)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000040000\n" => false; "the stop waits")]
    #[test_case("State:\tD (disk sleep)\nSigPnd:\t0000000000040000\nShdPnd:\t0000000000000000\n" => false; "the stop of a thread waits")]
    #[test_case("State:\tT (stopped)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n" => false; "stopped")]
    #[test_case("State:\tt (tracing stop)\nSigPnd:\t0\nShdPnd:\t0\n" => false; "stopped by a tracer")]
    #[test_case("State:\tZ (zombie)\n" => false; "ended")]
    #[test_case("" => false; "nothing is known")]
    fn a_process_runs(status: &str) -> bool {
        is_running(status)
    }

    #[test]
    fn names_without_room_name_their_users() {
        assert_eq!(unfit(Ok(BTreeSet::new())), None);
        let two = unfit(Ok(BTreeSet::from([7, 8]))).unwrap_or_default();
        assert!(
            two.ends_with("more than 4096 names of user 7, of user 8"),
            "{two}"
        );
        assert!(unfit(Err("full".to_owned())).is_some_and(|cause| cause.ends_with("later: full")));
    }
}

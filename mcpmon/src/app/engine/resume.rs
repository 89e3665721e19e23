//! The state that an earlier daemon left in the kernel: adopted at the start, and kept up to date for the next one.

use std::{collections::BTreeMap, path::Path};

use mcpmon_common::{
    event::{Action, ExecRecord},
    process::ProcessEntry,
    watch::RULE_CANARY,
};
use mcpmon_kernel::{records::Record, rings::Rings, sensor::Adopted, starts::CANARY_PATH};
use mcpmon_model::{Event, EventKind, InstanceId, Layer, ProcessId, Severity};
use mcpmon_session::clock;

use super::Core;
use crate::app::host;

/// Most passes over the rings for records that were written before the start; each pass reads at least a part of what
/// the rings hold.
const MAX_LOOKS: usize = 1024;
/// The name of this component in events and `mcpmon status`.
pub(crate) const KERNEL_STATE: &str = "kernel state";

/// Counts of the records from the time without a daemon.
#[derive(Debug, Default)]
struct Recovered {
    records: u64,
    refused: u64,
    killed: u64,
}

impl Core {
    /// Adopts the state of an earlier daemon, reads the records since its end, and records the gap as an event.
    pub(super) fn resume(&mut self, adopted: Adopted, stopped: bool, rings: &mut Rings) {
        self.know_refused();
        let missing_before = rings.missing();
        let mut recovered = Recovered::default();
        for _ in 0..MAX_LOOKS {
            let before = recovered.records;
            rings.drain(|record| {
                recovered.note(&record);
                self.record(record);
            });
            if recovered.records == before {
                break;
            }
        }
        let missing = rings.missing().saturating_sub(missing_before);
        if adopted.last_beat.boot != 0 {
            let gap = host::since_boot().saturating_sub(adopted.last_beat.boot);
            self.recorder.push(recovered.event(gap, stopped, missing));
        }
    }

    /// Follows the remaining processes of former servers that the scan did not find.
    pub(super) fn restore(&mut self) {
        let mut left: BTreeMap<InstanceId, Vec<ProcessId>> = BTreeMap::new();
        for (pid, entry) in self.processes.iter() {
            if entry.instance != 0
                && !self.is_followed(entry)
                && let Some(process) = host::identify(pid)
            {
                left.entry(InstanceId(entry.instance)).or_default().push(process);
            }
        }
        for (number, members) in left {
            let is_doomed = members.iter().any(|process| {
                let entry = self.processes.get(process.pid).unwrap_or_default();
                entry.has(ProcessEntry::FLAG_DOOMED)
            });
            if is_doomed {
                self.doomed.insert(number);
            }
            let judgement = self.monitor.restore(number, &members);
            self.carry_out(judgement, None);
        }
        if !self.doomed.is_empty() {
            self.kill_doomed();
        }
        self.judge_pending();
    }

    /// Returns whether a process belongs to a server that is followed.
    pub(super) fn is_followed(&self, entry: ProcessEntry) -> bool {
        entry.instance != 0 && self.monitor.follows(InstanceId(entry.instance))
    }

    /// Reads the files that are refused already. A file whose server is not known is not refused any longer, because no
    /// command could undo that.
    fn know_refused(&mut self) {
        let known: Vec<_> = self.refused.iter().collect();
        for (file, number) in known {
            match self.handover.refused.get(&number) {
                Some(server) => self.refusals.entry(server.clone()).or_default().push(file),
                None => self.refused.accept(&file),
            }
        }
    }

    /// Makes the state in the kernel stay when this process ends.
    pub(super) fn keep(&mut self) {
        if !self.attached.can_keep() {
            return;
        }
        self.not_kept = self.attached.keep().err().map(|error| {
            let mut causes = vec![error.to_string()];
            causes.extend(std::error::Error::source(&error).map(ToString::to_string));
            format!("{}; the enforcement ends with the daemon", causes.join(": "))
        });
    }

    /// Writes the notes for the next daemon, if they changed.
    pub(super) fn write_handover(&mut self) {
        if !self.has_news {
            return;
        }
        self.handover.set_instances(self.monitor.followed());
        self.handover.told.clone_from(self.losses.told());
        let written = serde_json::to_vec(&self.handover).map_err(|error| error.to_string());
        let outcome = written.and_then(|bytes| self.notes.write(&bytes).map_err(|error| error.to_string()));
        self.has_news = false;
        if let Err(error) = outcome {
            let cause = format!("{error}: the next daemon will not know all that the kernel's tables mean");
            self.troubles
                .note(std::time::Instant::now(), KERNEL_STATE, &cause);
        }
    }
}

impl Recovered {
    fn note(&mut self, record: &Record) {
        self.records += 1;
        match record {
            Record::Connect(connect) => {
                let counts = connect.action == Action::Deny && connect.record.rule != RULE_CANARY;
                self.refused += u64::from(counts);
            }
            Record::Exec(exec) => {
                self.killed += u64::from(exec.record.flags & ExecRecord::FLAG_KILLED != 0);
            }
            Record::RefusedStart(start) => self.killed += u64::from(start.path != Path::new(CANARY_PATH)),
            Record::Fork(_) | Record::Exit(_) | Record::Resume(_) | Record::Close(_) => {}
        }
    }

    /// Builds the event; `gap` is in nanoseconds.
    fn event(&self, gap: u64, stopped: bool, missing: u64) -> Event {
        let kind = EventKind::DaemonGap {
            duration_ms: gap / 1_000_000,
            stopped,
            records: self.records,
            refused: self.refused,
            killed: self.killed,
            missing,
        };
        let mut event = Event::new(clock::now(), Layer::Kernel, kind);
        event.severity = match (missing, stopped) {
            (0, true) => Severity::Info,
            (0, false) => Severity::Medium,
            (_, _) => Severity::High,
        };
        event.reason = Some("no daemon ran: the kernel went on refusing what it was told to".to_owned());
        event
    }
}

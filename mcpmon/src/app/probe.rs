//! Probes: the traces of a self-test in the records that the engine reads.

use std::{net::IpAddr, path::PathBuf};

use mcpmon_common::{
    address::Form,
    event::{Action, Hook},
    watch::RULE_CANARY,
};
use mcpmon_kernel::records::{Connect, ExecReport, Record};

/// First argument of the process that a self-test starts; the second is the test's nonce.
pub(crate) const CANARY_COMMAND: &str = "self-test-exec";

/// A self-test that is running.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Identifies this test's processes.
    pub(crate) nonce: String,
    /// Process that makes the connections.
    pub(crate) pid: u32,
    pub(crate) seen: Sightings,
}

/// The traces that were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sightings {
    /// Refused connections.
    pub(crate) refusals: Vec<ObservedRefusal>,
    /// The process that was started.
    pub(crate) exec: Option<SeenExec>,
}

/// A refused connection, as the kernel reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedRefusal {
    pub(crate) address: IpAddr,
    pub(crate) form: Form,
    pub(crate) hook: Hook,
}

/// An exec as the kernel reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenExec {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) filename: PathBuf,
}

impl Probe {
    pub(crate) fn new(nonce: String) -> Self {
        Self {
            nonce,
            pid: std::process::id(),
            seen: Sightings::default(),
        }
    }

    /// Notes the record if it is a trace of this test.
    pub(super) fn see(&mut self, record: &Record) {
        match record {
            Record::Exec(exec) => self.see_exec(exec),
            Record::Connect(connect) => self.see_connection(connect),
            Record::Fork(_)
            | Record::Exit(_)
            | Record::RefusedStart(_)
            | Record::Resume(_)
            | Record::Close(_) => {}
        }
    }

    pub(super) fn see_exec(&mut self, exec: &ExecReport) {
        let [_, command, nonce] = exec.argv.as_slice() else {
            return;
        };
        if command == CANARY_COMMAND && *nonce == self.nonce {
            self.seen.exec = Some(SeenExec {
                pid: exec.record.process.pid,
                parent: exec.record.parent.pid,
                inode: exec.record.file.inode,
                size: exec.record.file.size,
                filename: exec.filename.clone().into(),
            });
        }
    }

    pub(super) fn see_connection(&mut self, connect: &Connect) {
        let own = connect.record.rule == RULE_CANARY
            && connect.record.process.pid == self.pid
            && connect.action == Action::Deny;
        if own && self.seen.refusals.len() < 64 {
            self.seen.refusals.push(ObservedRefusal {
                address: connect.address,
                form: connect.form,
                hook: connect.hook,
            });
        }
    }

    pub(super) fn sightings(&self) -> Sightings {
        self.seen.clone()
    }
}

//! What the shell has to do after a judgement. The core decides it; the shell carries it out.

use super::pins::{Added, Ground};
use crate::{
    inspect::launch::Stage,
    model::{DefinitionKey, DefinitionRecord, Event, FileId, InstanceId, ProcessId, ServerId, Verdict},
};

/// What follows from an observation.
#[derive(Debug, Default)]
pub struct Judgement {
    /// What is to become of the message; of anything else, nothing.
    pub verdict: Verdict,
    /// To be recorded, in order.
    pub events: Vec<Event>,
    /// To be carried out, in order.
    pub orders: Vec<Order>,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Tell the kernel that a process, and what it already started, belongs to a server.
    Track {
        /// The process.
        process: ProcessId,
        /// Its server.
        instance: InstanceId,
        /// Egress lists that hold for it: its server's, and that of the server which started this one; 0 for none.
        egress: [u32; 2],
    },
    /// Tell the kernel that a process is no server: it is not held to the egress lists any longer.
    Settle {
        /// The process.
        process: ProcessId,
    },
    /// Find who started a server and mark it as an agent.
    MarkStarter {
        /// Parent of the launch.
        process: ProcessId,
    },
    /// Stop a process until its files are compared.
    Hold {
        /// The process.
        process: ProcessId,
    },
    /// Let a held process go on.
    Release {
        /// The process.
        process: ProcessId,
    },
    /// Hash what a process runs from, and report it as [`Monitor::hashed`](super::Monitor::hashed).
    Hash {
        /// Its server.
        instance: InstanceId,
        /// The serving process.
        process: ProcessId,
        /// Its real user id: users take turns.
        uid: u32,
        /// Tells this program of the process from one it may execute meanwhile.
        attempt: u64,
        /// What it serves, as its arguments say.
        stage: Stage,
    },
    /// Keep pins.
    StorePins {
        /// What is accepted from now on.
        added: Added,
        /// Why it is.
        ground: Ground,
    },
    /// Keep a definition as it is now.
    StoreDefinition(Box<DefinitionRecord>),
    /// Keep a definition no longer.
    ForgetDefinition(DefinitionKey),
    /// Kill every process of a server.
    Kill {
        /// The server.
        instance: InstanceId,
    },
    /// Kill one process.
    KillProcess {
        /// The process.
        process: ProcessId,
    },
    /// Kill whatever executes this file from now on.
    Refuse {
        /// The server whose file it is.
        server: ServerId,
        /// The file.
        file: FileId,
    },
}

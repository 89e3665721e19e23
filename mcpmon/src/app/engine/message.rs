//! Messages from other threads to the engine, and its answer about its state.

use std::{path::PathBuf, sync::Arc};

use mcpmon_engine::{
    ConnectionCut, MonitoredServer, ProxiedSession,
    pins::{AddedSet, PinnedFile, PinsFull, ServerFiles},
};
use mcpmon_kernel::{
    addresses::{Enforcement, InstallError},
    sockets::SocketSurvey,
};
use mcpmon_model::{CutOutcome, InstanceId, Kills, ProcessId, ServerId, SessionId};
use mcpmon_policy::{
    Policy,
    network::table::{Numbering, ResolvedNames, Tables},
};
use tokio::sync::oneshot;

use super::{Coverage, WrapperQuestion};
use crate::app::{
    probe::{Probe, Sightings},
    runs::Group,
    status::KeptStatus,
    tap::TapHandle,
};

/// A message of another thread to the engine.
#[derive(Debug)]
pub(crate) enum EngineMessage {
    /// Files of a serving process were hashed.
    Hashed {
        instance: InstanceId,
        attempt: u64,
        files: Box<ServerFiles>,
        /// Names of its environment variables.
        environment: Vec<String>,
    },
    /// Code was replaced or written since it was hashed, or may have been (`path` is `None` then).
    Touched {
        instance: InstanceId,
        attempt: u64,
        path: Option<PathBuf>,
    },
    /// Files of a server are compared without being watched.
    Unwatched { cause: String },
    /// A server was started, with files of code that are not watched by themselves if it `is_crowded`.
    Crowded {
        instance: InstanceId,
        uid: u32,
        is_crowded: bool,
    },
    /// Another policy, or other addresses.
    Install {
        policy: Arc<Policy>,
        tables: Arc<Tables>,
        enforcement: Enforcement,
        agents: Vec<String>,
        kills: Kills,
        numbering: Numbering,
        resolved: ResolvedNames,
        reply: oneshot::Sender<Result<(), InstallError>>,
    },
    /// Forget the pins of a server, and let its refused files run again.
    ForgetPins {
        server: ServerId,
        reply: oneshot::Sender<bool>,
    },
    /// Pin the files with which a server was last refused. The answer is the added set.
    TrustRefused {
        server: ServerId,
        reply: oneshot::Sender<Option<AddedSet>>,
    },
    /// Accept an executable for every server that is pinned with another one at its path. The answer is the added sets.
    TrustExecutable {
        executable: PinnedFile,
        reply: oneshot::Sender<Vec<AddedSet>>,
    },
    /// A session has a proxy: hold its processes to its list. The answer comes when this is done.
    EnterSession {
        proxied: ProxiedSession,
        group: Option<Group>,
        reply: oneshot::Sender<()>,
    },
    /// The question whether a process belongs to an agent, a server, or their descendants.
    IsWatched {
        process: ProcessId,
        reply: oneshot::Sender<bool>,
    },
    /// A session is over.
    SessionOver(SessionId),
    /// The result of a search for open connections that rules refuse.
    OpenSockets(SocketSurvey),
    /// The results of cuts of connections.
    Cut(Vec<(ConnectionCut, CutOutcome)>),
    /// A question that is answered when all records before it are read.
    AfterRecords(WrapperQuestion),
    /// Collect the traces of a self-test. The answer comes when this has begun.
    Probe(Probe, oneshot::Sender<()>),
    /// The request for the collected traces.
    Sightings(oneshot::Sender<Sightings>),
    /// All parts of the daemon run: from now on, the state in the kernel is to stay when the daemon ends.
    Keep,
    /// The tap was switched on or off.
    Tap(Option<TapHandle>),
    /// The request for the running servers and the counters.
    Snapshot(oneshot::Sender<EngineSnapshot>),
    /// End. The state that is kept in the kernel stays.
    Stop,
}

/// The engine's state, for `status`.
#[derive(Clone, Debug, Default)]
pub(crate) struct EngineSnapshot {
    pub(crate) running: Vec<MonitoredServer>,
    /// The users, or the host, for whom nothing more is pinned.
    pub(crate) without_room: Vec<PinsFull>,
    pub(crate) counters: Vec<(&'static str, u64)>,
    pub(crate) missing: u64,
    pub(crate) malformed: u64,
    pub(crate) tracked: usize,
    pub(crate) coverage: Coverage,
    pub(crate) kept: Option<KeptStatus>,
}

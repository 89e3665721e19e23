//! Messages of other threads to the engine, and its answer about its state.

use std::{path::PathBuf, sync::Arc};

use mcpmon_engine::{
    ConnectionCut, MonitoredServer, ProxiedSession,
    pins::{AddedSet, PinnedFile, PinsFull, ServerFiles},
};
use mcpmon_kernel::{
    addresses::{Enforcement, InstallError},
    sockets::SocketSurvey,
};
use mcpmon_model::{CutOutcome, InstanceId, Kills, ServerId, SessionId};
use mcpmon_policy::{
    Policy,
    network::table::{Numbering, ResolvedNames, Tables},
};
use tokio::sync::oneshot;

use super::{Coverage, WrapperQuestion};
use crate::agent::{
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
        /// Names of its variables.
        environment: Vec<String>,
    },
    /// Code was replaced or written since it was hashed, or may have been.
    Touched {
        instance: InstanceId,
        attempt: u64,
        path: Option<PathBuf>,
    },
    /// Files of a server are compared without being watched.
    Unwatched { cause: String },
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
    /// Pin the files with which a server was last refused; the answer is what is accepted now.
    TrustRefused {
        server: ServerId,
        reply: oneshot::Sender<Option<AddedSet>>,
    },
    /// Accept an executable wherever another one is pinned at its path; the answer is what is accepted now.
    TrustExecutable {
        executable: PinnedFile,
        reply: oneshot::Sender<Vec<AddedSet>>,
    },
    /// A session has a proxy: hold its processes to its list; the answer says that they are.
    EnterSession {
        proxied: ProxiedSession,
        group: Option<Group>,
        reply: oneshot::Sender<()>,
    },
    /// A session is over.
    SessionOver(SessionId),
    /// Open connections that rules refuse by now.
    OpenSockets(SocketSurvey),
    /// Connections were cut, or could not be.
    Cut(Vec<(ConnectionCut, CutOutcome)>),
    /// To be answered once every record is read that was there when it was asked.
    AfterRecords(WrapperQuestion),
    /// Look out for the self-test's traces; the answer says that it does.
    Probe(Probe, oneshot::Sender<()>),
    /// The request for the traces that were seen.
    Sightings(oneshot::Sender<Sightings>),
    /// Every part of the daemon runs: have what is in the kernel stay there from now on.
    Keep,
    /// The tap is on, or off.
    Tap(Option<TapHandle>),
    /// The request for the running servers and the counters.
    Snapshot(oneshot::Sender<EngineSnapshot>),
    /// End. What is kept in the kernel stays.
    Stop,
}

/// The engine's state, for `status`.
#[derive(Clone, Debug, Default)]
pub(crate) struct EngineSnapshot {
    pub(crate) running: Vec<MonitoredServer>,
    /// For whom nothing more is pinned.
    pub(crate) without_room: Vec<PinsFull>,
    pub(crate) counters: Vec<(&'static str, u64)>,
    pub(crate) missing: u64,
    pub(crate) malformed: u64,
    pub(crate) tracked: usize,
    pub(crate) coverage: Coverage,
    pub(crate) kept: Option<KeptStatus>,
}

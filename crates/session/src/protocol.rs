//! The protocol between wrappers and the daemon: one JSON object a line, each answered by one.

use std::path::PathBuf;

use mcpmon_config::Source;
use mcpmon_model::{
    AnsweredCall, DefinitionKey, DefinitionRecord, Denial, Digest, HeldCall, Kills, PinKey, ProcessId,
    Recent, ServerId, SessionId, SharedCall, SharedCallAnswer, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest line of a wrapper, bytes: a batch is cut to fit.
pub const MAX_SAID: usize = 4 << 20;
/// Longest answer, bytes: policy and definitions of one server.
pub(crate) const MAX_HEARD: usize = 64 << 20;

/// The introduction of a wrapper. Its user and process come from the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Server and package; the user is that of the socket's other end.
    pub identity: PinKey,
    /// Agent session, where known.
    pub session: Option<SessionId>,
    /// The agent's command name, where known.
    pub agent: Option<String>,
    /// True if it starts its server as a process of this host.
    pub starts_server: bool,
    /// The started process, if there is one.
    pub child: Option<StartedProcess>,
}

/// A message of a wrapper. The type comes before the content, so that it is read in one pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "say",
    content = "content",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum Say {
    /// Entries to keep.
    Keep {
        /// Events in their JSON form.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        events: Vec<Map<String, Value>>,
        /// Events of a wrapper that was killed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rescued: Vec<Map<String, Value>>,
        /// Definitions as they were seen.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        definitions: Vec<DefinitionRecord>,
        /// Definitions to forget.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        forget: Vec<DefinitionKey>,
        /// Calls that wait for a person.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        held: Vec<HeldCall>,
        /// Ids of held calls for whose answers nobody waits any longer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        released: Vec<String>,
        /// The recent calls in the session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        recent: Vec<Recent>,
    },
    /// Asks whether a call may be made beside the others of its session, and counts it if so.
    Check {
        /// The call.
        call: Box<SharedCall>,
    },
    /// Asks for what is shared, without a policy of this digest.
    State {
        /// The policy that is held already.
        policy: Digest,
    },
    /// To [`Hear::Challenge`].
    Repeat {
        /// The nonce to be repeated.
        nonce: String,
    },
    /// A server is about to be started. The daemon takes hold of what it is started from: the server may end before
    /// anybody can look at it.
    Starts {
        /// Its program, by its number among the wrapper's descriptors.
        program: i32,
        /// Variables that it gets, of those by which its files are found.
        variables: Vec<(String, String)>,
        /// Names of all that it gets.
        names: Vec<String>,
    },
    /// This process was started to serve.
    Serves {
        /// Its number and start.
        process: StartedProcess,
    },
}

/// A process, as both sides see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedProcess {
    /// Number in the initial pid namespace.
    pub(crate) pid: u32,
    /// Start since boot, nanoseconds, rounded down to a clock tick.
    pub(crate) start: u64,
}

impl From<ProcessId> for StartedProcess {
    fn from(process: ProcessId) -> Self {
        Self {
            pid: process.pid,
            start: process.start,
        }
    }
}

impl From<StartedProcess> for ProcessId {
    fn from(process: StartedProcess) -> Self {
        Self {
            pid: process.pid,
            start: process.start,
        }
    }
}

/// An answer of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "hear", content = "content", rename_all = "snake_case")]
pub enum Hear {
    /// To the introduction, and to [`Say::State`].
    State(Box<SharedSessionState>),
    /// To [`Say::Check`].
    Checked(Box<SharedCallAnswer>),
    /// The answer to the question why a process must not run, once its files are compared.
    Fate(Option<Denial>),
    /// Asks the process that connected to repeat this, before it is told anything.
    Challenge(String),
    /// The entry is kept, or noted.
    Done,
    /// The entry is not known to be kept: the wrapper has to keep it.
    Unkept(String),
    /// The request was refused or failed.
    Error(String),
}

/// The state that wrappers share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedSessionState {
    /// The policy, unless it is held already.
    pub policy: Option<Vec<(Source, String)>>,
    /// Definitions of this server.
    pub definitions: Vec<DefinitionRecord>,
    /// The definitions that a person refused, and the person.
    pub refused: Vec<(DefinitionKey, String)>,
    /// The forget orders of persons for its definitions: the name, `None` for all names, and the time.
    #[serde(default)]
    pub forgotten: Vec<(Option<String>, Timestamp)>,
    /// Tools of the session's other servers, without their texts.
    pub of_others: Vec<DefinitionRecord>,
    /// The session's other servers.
    pub others: Vec<ServerId>,
    /// True if another wrapper speaks for this server in the session.
    #[serde(default)]
    pub twins: bool,
    /// Servers of this user that anything is pinned for.
    pub pinned: Vec<ServerId>,
    /// The kill switches in force.
    #[serde(default)]
    pub kills: Kills,
    /// The answers of persons to held calls of this server.
    #[serde(default)]
    pub answers: Vec<AnsweredCall>,
    /// File whose number rises when any of this changes.
    pub generation: PathBuf,
    /// The number of changes before this state was read.
    #[serde(default)]
    pub changes: u64,
}

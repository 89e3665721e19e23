//! The protocol between wrappers and the daemon: each line is a JSON object, and each is answered by one.

use std::path::PathBuf;

use mcpmon_config::Source;
use mcpmon_model::{
    AnsweredCall, DefinitionKey, DefinitionRecord, Denial, Digest, HeldCall, Kills, PinKey, ProcessId,
    Recent, ServerId, SessionId, SharedCall, SharedCallAnswer, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest line of a wrapper, bytes; longer batches are split.
pub const MAX_SAID: usize = 4 << 20;
/// Longest answer, bytes: policy and definitions of one server.
pub(crate) const MAX_HEARD: usize = 64 << 20;

/// The introduction of a wrapper. Its user and process come from the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Server and package; the user is known from the socket.
    pub identity: PinKey,
    /// The agent's session, if known.
    pub session: Option<SessionId>,
    /// The agent's command name, if known.
    pub agent: Option<String>,
    /// True if the wrapper starts its server as a process of this host.
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
    /// Entries to be stored.
    Keep {
        /// Events in their JSON form.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        events: Vec<Map<String, Value>>,
        /// Events of a wrapper that was killed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rescued: Vec<Map<String, Value>>,
        /// Definitions, as the server listed them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        definitions: Vec<DefinitionRecord>,
        /// Definitions to forget.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        forget: Vec<DefinitionKey>,
        /// Calls that are held until a person answers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        held: Vec<HeldCall>,
        /// Ids of held calls whose clients no longer wait.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        released: Vec<String>,
        /// Recent calls in the session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        recent: Vec<Recent>,
    },
    /// Asks whether a call may be made, considering the other calls of its session, and counts it if so.
    Check {
        /// The call.
        call: Box<SharedCall>,
    },
    /// Asks for the shared state. The policy is omitted from the answer if it has this digest.
    State {
        /// The policy that the wrapper has.
        policy: Digest,
    },
    /// The answer to [`Hear::Challenge`].
    Repeat {
        /// The nonce to be repeated.
        nonce: String,
    },
    /// A server is about to be started. The daemon opens the program, because the server may end before its files can
    /// be found.
    Starts {
        /// Its program, as a descriptor number of the wrapper.
        program: i32,
        /// The variables of its environment by which its files are found.
        variables: Vec<(String, String)>,
        /// The names of all variables of its environment.
        names: Vec<String>,
    },
    /// This process was started to serve.
    Serves {
        /// Its number and start time.
        process: StartedProcess,
    },
}

/// A process, identified the same way on both sides.
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
    /// The answer to the introduction, and to [`Say::State`].
    State(Box<SharedSessionState>),
    /// The answer to [`Say::Check`].
    Checked(Box<SharedCallAnswer>),
    /// The answer to the question why a process must not run, once its files are compared.
    Fate(Option<Denial>),
    /// Asks the connected process to repeat this nonce before it gets any state.
    Challenge(String),
    /// The entries are stored, or the report was noted.
    Done,
    /// The entries may not be stored: the wrapper has to store them.
    Unkept(String),
    /// The request was refused or failed.
    Error(String),
}

/// The state that the servers of a session share, at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedSessionState {
    /// The daemon's policy, unless the wrapper has it already.
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
    /// The session's other servers, each once.
    pub others: Vec<ServerId>,
    /// True if another process serves the same server in the session.
    #[serde(default)]
    pub twins: bool,
    /// Servers of this user that have pins.
    pub pinned: Vec<ServerId>,
    /// The kill switches in force.
    #[serde(default)]
    pub kills: Kills,
    /// The answers of persons to held calls of this server.
    #[serde(default)]
    pub answers: Vec<AnsweredCall>,
    /// The file with a number that rises when any of this changes.
    pub generation: PathBuf,
    /// The number of changes before this state was read.
    #[serde(default)]
    pub changes: u64,
}

//! States of pins, definitions, calls, approvals and the kill switch, as events report them.

use serde::{Deserialize, Serialize};

/// The relation of a start to the pins of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinState {
    /// Pins are switched off.
    Off,
    /// Pinned now, because nothing was pinned before.
    Pinned,
    /// Equal to the pins.
    Match,
    /// There is no pin, and none is made without approval.
    NotPinned,
    /// Differs from a pin.
    Mismatch,
    /// Could not be hashed.
    Unknown,
}

/// The relation of a definition to its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionStatus {
    /// Seen for the first time.
    New,
    /// Equal to its pin.
    Unchanged,
    /// Differs from its pin.
    Changed,
}

/// The outcome of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// A result.
    Ok,
    /// A result with `isError`.
    Failed,
    /// A JSON-RPC error.
    Error,
    /// The server asks for input first.
    InputRequired,
    /// The result comes later, as a task.
    Task,
    /// The result was withheld.
    Withheld,
}

/// The progress of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// A person is asked.
    Requested,
    /// Given.
    Granted,
    /// Refused.
    Denied,
    /// The answer did not come in time.
    TimedOut,
    /// The client stopped waiting for the answer: it cancelled its call, or disconnected.
    Withdrawn,
}

/// The reason why a server is an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrphanCause {
    /// The client that started it has ended.
    ClientEnded,
    /// Its session has ended.
    SessionEnded,
}

/// The state of the kill switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillState {
    /// Set.
    Set,
    /// Lifted.
    Lifted,
}

/// The place where a call was made, if not by the model itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOrigin {
    /// In code that the model wrote, which the agent runs.
    Code,
}

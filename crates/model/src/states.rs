//! How things stand, as events tell it.

use serde::{Deserialize, Serialize};

/// How a start compares with the pins of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinState {
    /// Pins are switched off.
    Off,
    /// Pinned now, on first sight.
    Pinned,
    /// Equal to the pins.
    Match,
    /// No pin, and none is made without approval.
    NotPinned,
    /// Differs from a pin.
    Mismatch,
    /// Could not be hashed.
    Unknown,
}

/// How a definition compares with its pin.
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

/// What became of a tool call.
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

/// How far an approval is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// A person is asked.
    Requested,
    /// Given.
    Granted,
    /// Refused.
    Denied,
    /// It did not come in time.
    TimedOut,
}

/// How the kill switch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillState {
    /// Set.
    Set,
    /// Lifted.
    Lifted,
}

//! Properties of types of events: how much of a queue they may fill, and the activity and outcome that they report.

/// The share of a bounded queue that events of a type may fill.
///
/// Events that any process can cause by the thousand must not push out a pin, or a report that something was refused or
/// does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPriority {
    /// All but an eighth: connections and calls.
    Bulk,
    /// All but a sixteenth: other consequences of ordinary activity.
    Ordinary,
    /// All of it.
    Critical,
}

/// The activity that events of a type report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventActivity {
    /// A process began to serve.
    Launch,
    /// A process ended.
    Exit,
    /// A connection was requested.
    Connection,
    /// A connection was closed.
    Close,
    /// A connection was cut.
    Cut,
    /// Something was requested from a server and read.
    Read,
    /// A message was judged.
    Judgement,
    /// A tool was called.
    Call,
    /// A tool returned.
    Return,
    /// Something is wrong.
    Finding,
    /// A state of the enforcement was set.
    Setting,
    /// The daemon started again.
    Restart,
    /// Records are missing.
    Loss,
    /// A person was asked, or answered.
    Approval,
}

/// The outcome that the type of an event implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// It succeeded.
    Success,
    /// It failed.
    Failure,
    /// It was begun or requested.
    Open,
}

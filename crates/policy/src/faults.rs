//! The response to faults of mcpmon itself: in which mode an unusable policy works, and whether a server is used
//! during a fault.

use super::Mode;

/// A fault that a wrapper meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The policy cannot be used: it has mistakes, cannot be read, or is missing.
    Policy,
    /// Nothing can be recorded. Earlier records can be read, or there are none.
    Record,
    /// Earlier records exist and cannot be read, so that pins, approvals and kill switches are unknown.
    Pins,
    /// The daemon does not answer.
    Daemon,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 4] = [Self::Policy, Self::Record, Self::Pins, Self::Daemon];
}

/// The response to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultResponse {
    /// The server is used, and judged by what is known. The fault is reported.
    Continue,
    /// The server is not used. Each request of its client is answered with the fault.
    Answer,
}

/// Returns the response to a fault. A policy that observes takes no server away. A policy that enforces refuses only
/// what cannot be judged: without its rules, or without the pins that exist.
pub const fn respond(fault: Fault, mode: Mode) -> FaultResponse {
    match (mode, fault) {
        (Mode::Observe, _) | (Mode::Enforce, Fault::Record | Fault::Daemon) => FaultResponse::Continue,
        (Mode::Enforce, Fault::Policy | Fault::Pins) => FaultResponse::Answer,
    }
}

/// The owner of a policy's file, from the point of view of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOwner {
    /// The user, who may as well write another mode into the file.
    User,
    /// Another user, such as root.
    Host,
}

/// Returns the mode of a policy that cannot be used. `last` is the mode of its last valid version as the user has noted
/// it, and `written` the mode that can be read from the text alone.
///
/// The user can change the note, so it never makes a policy of the host observe.
pub const fn mode_of_unusable(owner: PolicyOwner, last: Option<Mode>, written: Option<Mode>) -> Mode {
    match (owner, last, written) {
        (PolicyOwner::User, Some(mode), _) | (_, None, Some(mode)) => mode,
        (PolicyOwner::Host, Some(Mode::Observe), Some(mode)) => mode,
        (PolicyOwner::Host, Some(Mode::Enforce), _) | (PolicyOwner::Host, Some(Mode::Observe), None) => {
            Mode::Enforce
        }
        (_, None, None) => Mode::Enforce,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::{
        FaultResponse::{Answer, Continue},
        *,
    };

    #[test_case(Mode::Observe => [Continue; 4]; "observe takes nothing away")]
    #[test_case(Mode::Enforce => [Answer, Continue, Answer, Continue]; "enforce answers what cannot be judged")]
    fn responses(mode: Mode) -> [FaultResponse; 4] {
        Fault::ALL.map(|fault| respond(fault, mode))
    }

    const O: Option<Mode> = Some(Mode::Observe);
    const E: Option<Mode> = Some(Mode::Enforce);

    #[test_case(PolicyOwner::User, O, E => Mode::Observe; "the last valid mode")]
    #[test_case(PolicyOwner::User, E, O => Mode::Enforce; "a typo does not turn enforcement off")]
    #[test_case(PolicyOwner::User, None, O => Mode::Observe; "written")]
    #[test_case(PolicyOwner::User, None, None => Mode::Enforce; "unknown")]
    #[test_case(PolicyOwner::Host, O, E => Mode::Enforce; "a note does not loosen the host's policy")]
    #[test_case(PolicyOwner::Host, O, None => Mode::Enforce; "nor one that cannot be read")]
    #[test_case(PolicyOwner::Host, O, O => Mode::Observe; "the host's policy observes")]
    #[test_case(PolicyOwner::Host, E, O => Mode::Enforce; "a note may tighten it")]
    #[test_case(PolicyOwner::Host, None, O => Mode::Observe; "the host's policy as written")]
    fn modes(owner: PolicyOwner, last: Option<Mode>, written: Option<Mode>) -> Mode {
        mode_of_unusable(owner, last, written)
    }
}

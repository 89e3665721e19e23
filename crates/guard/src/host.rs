//! The questions that a guard asks its host.

use mcpmon_detect::protected_paths::{Lookup, RealPath};
use mcpmon_engine::SharedOutcome;
use mcpmon_model::{DefinitionRecord, SharedCall, Timestamp};
use mcpmon_policy::Policy;

/// The reason why the shared state of a session is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The reason that a denial gives.
    pub reason: &'static str,
    /// The command that the denial names as its remedy.
    pub remedy: &'static str,
}

/// Answers the guard's questions about files and about the session.
pub trait GuardHost {
    /// Resolves the links among these paths. Paths that take too long are left out.
    fn real_paths(&mut self, lookups: Vec<Lookup>) -> Vec<RealPath>;

    /// Checks a call with the other calls of its session, under `policy`, and counts it.
    fn check(&mut self, now: Timestamp, policy: &Policy, call: &SharedCall) -> SharedOutcome;

    /// Returns the reason why the shared state is not available; `None` while it is.
    fn absence(&self) -> Option<Absence>;

    /// Returns the definitions of the server as other conversations have recorded them, before an offer is compared
    /// with them; `None` if they are unchanged. No other process may compare an offer of the server until the outcome
    /// is recorded.
    fn definitions(&mut self) -> Option<Vec<DefinitionRecord>> {
        None
    }
}

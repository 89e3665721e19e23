//! The parts of `mcpmon setup` that `mcpmon-clients` does not have: the policy for wrapped servers, and the program
//! that clients start.

mod policy;
mod program;

pub use self::{
    policy::{
        PolicyChange, PolicyError, PolicyReport, PolicyWish, SHIPPED_POLICIES, provide_policy, write_policy,
    },
    program::{Program, ProgramError},
};

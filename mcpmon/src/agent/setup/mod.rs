//! `mcpmon setup`, as far as `mcpmon-clients` does not do it: the policy that holds for wrapped servers, and the program
//! that clients start.

mod policy;
mod program;

pub use self::{
    policy::{PolicyChange, PolicyError, PolicyReport, provide_policy, write_policy},
    program::{Program, ProgramError},
};

//! The parts of `mcpmon setup` that `mcpmon-clients` does not have: the policy for wrapped servers, and the program
//! that clients start.

mod mismatch;
mod options;
mod policy;
mod program;

pub use self::{
    mismatch::{WrappedServers, wrapped_servers},
    options::wrapper_options,
    policy::{
        PolicyChange, PolicyError, PolicyReport, PolicyWish, SHIPPED_POLICIES, provide_policy, write_policy,
    },
    program::{Program, ProgramError},
};

//! The stdio sense: one MCP server, executed by the descriptor of a file that was looked at, with everything
//! between it and its client passed through a filter.
//!
//! Two processes: the one that the client started watches over the other, which starts the server and relays.
//! Whichever of them, of the server's processes or of the client ends, nothing is left running.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

mod check;
mod client;
mod domain;
mod end;
mod family;
mod guard;
mod polling;
mod program;
mod relay;
mod routing;
mod server;
mod shebang;
mod sink;
mod sys;
pub mod tree;

pub use self::{
    check::{CheckStart, HoldUntil, Verification},
    client::Client,
    domain::{Domain, DomainError},
    end::End,
    guard::{Guarded, WrapperProcess, divide},
    program::{Program, ProgramError},
    relay::{JudgementInput, Relay, RelayError, RelayOutcome},
    server::{Server, StartError},
};

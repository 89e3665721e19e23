//! The stdio sense: one MCP server, executed by the descriptor of a file that was looked at, and a relay between it and its
//! client. The driver of the relay decides which bytes go from one to the other.
//!
//! Two processes: the one that the client started watches over the other, which starts the server and relays.
//! Whichever of them, of the server's processes or of the client ends, nothing is left running.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

mod check;
mod client;
mod domain;
mod end;
mod event;
mod family;
mod polling;
mod program;
mod relay;
mod routing;
mod server;
mod shebang;
mod sink;
mod stderr;
mod sys;
pub mod tree;
mod watcher;

pub use self::{
    check::{CheckStart, HoldUntil, Verification},
    client::ClientSide,
    domain::{Domain, DomainError, SandboxDomain, SandboxFeature, landlock_version, unsupported_features},
    end::ProcessEnd,
    event::{RelayError, RelayEvent, RelayOutcome},
    program::{OpenProgram, ProgramError},
    relay::Relay,
    server::{RunningChild, StartError},
    stderr::{ServerStderr, StderrCopies, StderrCopy},
    watcher::{RelayProcess, WrapperProcess, divide},
};

//! The stdio transport: one MCP server, executed by the descriptor of a file that was examined, and a relay between the
//! server and its client. The driver of the relay decides which bytes are forwarded.
//!
//! There are two processes: the one that the client started watches the other, which starts the server and relays. When
//! either of them, the server or the client ends, no process is left running.

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

//! A suite of attacks and near misses. A case is a conversation in YAML, with its expected outcome and the reason for
//! it. Each is run twice: through the core alone, and through `mcpmon wrap` with a real process as its server.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]

mod bait;
mod case;
mod core;
mod live;
mod outcome;
mod play;
mod table;

pub use self::{
    case::{Act, Base, Call, Case, Exchange, Server, Step, load},
    core::Core,
    live::{Live, bridge},
    outcome::Outcome,
    play::{Heard, Report, Stage, play},
    table::{json, table},
};

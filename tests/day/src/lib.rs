//! Honest actions of ordinary days. Each is performed by real tools, and the server that it affects is started through
//! mcpmon before and after.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]

mod action;
mod actions;
mod cache;
mod client;
mod day;
mod suite;
mod table;

pub use self::{
    action::{Action, Config, Expectation, Outcome},
    actions::{all, groups},
    cache::Cache,
    client::serve,
    suite::{Row, run},
    table::{json, page, summary, table},
};

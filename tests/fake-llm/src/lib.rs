//! A model that says what a script tells it to, in the dialect that it is asked in: for tests of what stands between
//! an agent and its model.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]

mod dialect;
mod kept;
mod script;
mod server;

pub use script::{Item, Script};
pub use server::{FakeLlm, Received};

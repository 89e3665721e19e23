//! A model that answers as a script says, in the API dialect of the request. It serves the tests of proxies between an
//! agent and its model.

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

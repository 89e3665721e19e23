//! An MCP server on the official Rust SDK with everything that the conformance suite asks for: sessions and their
//! resumption for the protocol versions with a handshake, and the stateless version. It serves the tests of proxies in
//! front of a server.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]
#![expect(
    deprecated,
    reason = "sampling, roots and logging are part of the older versions"
)]

mod apps;
mod content;
mod http;
mod input;
mod lists;
mod prompts;
mod resources;
mod server;
mod skills;
mod tools;

pub use http::{Answers, ConformantServer};
pub use server::serve_stdio;

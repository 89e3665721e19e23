//! An MCP server on the official Rust SDK that has everything the conformance suite asks for: sessions and their
//! resumption for the versions with a handshake, and the stateless era. For tests of what stands before a server.

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

//! MCP servers over HTTP behind `mcpmon proxy`: the official conformance suite, the official SDKs, and messages that no
//! official client or server would send. Needs no root.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]
#![cfg(test)]

mod certificates;
mod conformance;
mod discovery;
mod hostile;
mod http2;
mod oauth;
mod sdks;
mod skills;
mod suite;

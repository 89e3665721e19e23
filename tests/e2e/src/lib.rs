//! The parts of the end-to-end tests: the built program, a separate daemon for each test, real MCP servers, and a
//! client that talks to them. The tests themselves are in `tests/host/`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]

pub mod agents;
pub mod background;
pub mod client;
pub mod collector;
pub mod daemon;
pub mod daemon_set;
pub mod disk;
pub mod host;
pub mod json;
pub mod kernel;
pub mod mcp_proxy;
pub mod network;
pub mod notes_server;
pub mod ocsf;
pub mod podman;
pub mod program;
pub mod prometheus;
pub mod proxy;
pub mod raw;
pub mod real;
pub mod remote;
pub mod scanned;
pub mod servers;
pub mod site;
pub mod skip;
pub mod tls_end;
pub mod tmux;
pub mod wait;
pub mod wrapped;

//! The proxy between a client and a provider whose messages a test determines, and the connections to servers.

mod bodies;
mod kept;
mod limits;
mod mcp;
mod pinned;
mod scene;
mod streams;
mod wire;

//! The proxy between a client and a provider that say exactly what a test has them say, and the connections to servers.

mod bodies;
mod kept;
mod limits;
mod mcp;
mod pinned;
mod scene;
mod streams;
mod wire;

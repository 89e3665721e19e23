//! Clients, the proxy, and an MCP server whose answers a test determines.

mod crowds;
mod documents;
mod limits;
mod lists;
mod old;
mod scene;
mod sessions;
mod streams;
mod waits;
mod wire;

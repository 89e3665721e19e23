//! Clients, the proxy, and an MCP server that says exactly what a test has it say.

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

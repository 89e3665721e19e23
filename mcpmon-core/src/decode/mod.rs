//! Bytes to messages: framing, strict JSON, JSON-RPC, MCP of both eras; incremental, capped, lossless.

pub mod json;
pub mod jsonrpc;
pub mod lines;
mod limits;
pub mod oversize;

pub use limits::Limits;

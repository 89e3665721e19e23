//! Bytes to messages: framing, strict JSON, JSON-RPC, MCP of both eras; incremental, capped, lossless.

pub mod json;
pub mod jsonrpc;
mod limits;
pub mod lines;
pub mod mcp;
pub mod outline;
pub mod sse;
pub mod url;

pub use limits::DecodeLimits;

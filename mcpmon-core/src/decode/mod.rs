//! Bytes to messages: framing, strict JSON, JSON-RPC, MCP of both eras; incremental, capped, lossless.

pub mod json;

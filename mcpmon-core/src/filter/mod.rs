//! Decode, judge and rewrite for one transport, as one function over chunks of bytes.

pub mod llm;
pub mod mcp_http;
mod message;
pub mod stdio;

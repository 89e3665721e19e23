//! Bytes to messages: framing, strict JSON, JSON-RPC, MCP of both eras; incremental, capped, lossless.

pub mod json;
pub mod jsonrpc;
pub mod lines;
pub mod mcp;
pub mod outline;
pub mod sse;
pub mod url;

use std::time::Duration;

use json::MAX_DEPTH;

/// The bounds of what is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest line, bytes without its terminator.
    pub max_line: usize,
    /// Deepest nesting of a message; never more than [`MAX_DEPTH`].
    pub max_depth: usize,
    /// Most messages in a batch.
    pub max_batch: usize,
    /// Most requests of one side that wait for an answer.
    pub max_pending: usize,
    /// The time a request may wait; zero for no limit.
    pub request_timeout: Duration,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self {
            max_line: 16 << 20,
            max_depth: MAX_DEPTH,
            max_batch: 64,
            max_pending: 10_000,
            request_timeout: Duration::ZERO,
        }
    }
}

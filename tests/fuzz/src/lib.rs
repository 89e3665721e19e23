//! Fuzz targets: for each decoder, and for the filters of stdio, of MCP over HTTP and of model responses, what holds
//! for any bytes.
//!
//! `cargo test -p mcpmon-fuzz` replays the committed corpus; `cargo xtask fuzz TARGET` looks for more, with coverage
//! as its guide, and with `--keep` adds to the corpus what reaches new code.

mod json;
mod lines;
mod llm_response;
mod mcp_http;
mod oversize;
mod stdio;

pub use json::fuzz_json;
pub use lines::fuzz_lines;
pub use llm_response::fuzz_llm_response;
pub use mcp_http::fuzz_mcp_http;
pub use oversize::fuzz_oversize;
pub use stdio::fuzz_stdio;

/// A target: it panics where something does not hold.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: [(&str, Target); 6] = [
    ("json", fuzz_json),
    ("lines", fuzz_lines),
    ("llm_response", fuzz_llm_response),
    ("mcp_http", fuzz_mcp_http),
    ("oversize", fuzz_oversize),
    ("stdio", fuzz_stdio),
];

//! Fuzz targets for each decoder, and for the filters of stdio, of MCP over HTTP and of model responses. Each checks
//! properties that must hold for any bytes.
//!
//! `cargo test -p mcpmon-fuzz` replays the committed corpus. `cargo xtask fuzz TARGET` searches for new inputs, guided
//! by coverage, and with `--keep` adds those that reach new code to the corpus.

mod json;
mod lines;
mod llm_response;
mod llm_turn;
mod mcp_http;
mod oversize;
mod stdio;

pub use json::fuzz_json;
pub use lines::fuzz_lines;
pub use llm_response::{
    fuzz_llm_anthropic, fuzz_llm_gemini, fuzz_llm_ollama, fuzz_llm_openai_chat, fuzz_llm_openai_responses,
};
pub use llm_turn::fuzz_llm_turn;
pub use mcp_http::fuzz_mcp_http;
pub use oversize::fuzz_oversize;
pub use stdio::fuzz_stdio;

/// A target, which panics if a property does not hold.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: [(&str, Target); 11] = [
    ("json", fuzz_json),
    ("lines", fuzz_lines),
    ("llm_anthropic", fuzz_llm_anthropic),
    ("llm_gemini", fuzz_llm_gemini),
    ("llm_ollama", fuzz_llm_ollama),
    ("llm_openai_chat", fuzz_llm_openai_chat),
    ("llm_openai_responses", fuzz_llm_openai_responses),
    ("llm_turn", fuzz_llm_turn),
    ("mcp_http", fuzz_mcp_http),
    ("oversize", fuzz_oversize),
    ("stdio", fuzz_stdio),
];

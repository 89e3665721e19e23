//! Compiles what the LLM proxy judges by: `proxy.mode`, `dlp.mode`, `mcp.native_tools`.

use mcpmon_policy::{Handling, LlmPolicy};

use crate::raw;

/// Compiles the handling of the traffic between agents and models.
pub(super) const fn policy(config: &raw::Config) -> LlmPolicy {
    LlmPolicy {
        mode: config.proxy.mode,
        dlp: config.dlp.mode,
        native_tools: match config.mcp.enforce_policy {
            true => config.mcp.native_tools,
            false => Handling::Allow,
        },
    }
}

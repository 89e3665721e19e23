//! Compiles what the LLM proxy judges by: `proxy.mode`, `dlp.mode`, `mcp.native_tools`.

use mcpmon_policy::{DlpMode, Handling, LlmPolicy, ProxyMode};

use super::inspection::handling;
use crate::raw;

/// Compiles the handling of the traffic between agents and models.
pub(super) const fn policy(config: &raw::Config) -> LlmPolicy {
    LlmPolicy {
        mode: match config.proxy.mode {
            raw::ProxyMode::Embedded => ProxyMode::Embedded,
            raw::ProxyMode::McpOnly => ProxyMode::McpOnly,
            raw::ProxyMode::Disabled => ProxyMode::Disabled,
        },
        dlp: match config.dlp.mode {
            raw::DlpMode::Redact => DlpMode::Redact,
            raw::DlpMode::Disabled => DlpMode::Disabled,
        },
        native_tools: match config.mcp.enforce_policy {
            true => handling(config.mcp.native_tools),
            false => Handling::Allow,
        },
    }
}

//! Compiles `mcp.argument_inspection`.

use mcpmon_policy::{ArgumentInspection, OnSecret};

use crate::raw;

/// Compiles the handling of secrets in the arguments of calls.
pub(super) const fn compile(raw: &raw::ArgumentInspection) -> ArgumentInspection {
    ArgumentInspection {
        enabled: raw.enabled,
        on_detection: match raw.on_detection {
            raw::OnArgument::Alert => OnSecret::Alert,
            raw::OnArgument::Block => OnSecret::Block,
            raw::OnArgument::Redact => OnSecret::Redact,
        },
    }
}

//! Files that no call may write.

use mcpmon_model::PathPattern;

/// `mcp.config_guard`. What is built in is always protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Further protected paths.
    pub extra_paths: Vec<PathPattern>,
}

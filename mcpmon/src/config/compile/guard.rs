//! Files that no call may write, beside the built-in ones.

use mcpmon_core::{model::PathPattern, policy::Guard};

use super::Finding;
use crate::config::{load::KeyPath, raw};

/// Compiles `mcp.config_guard`.
pub(super) fn guard(raw: &raw::ConfigGuard, findings: &mut Vec<Finding>) -> Guard {
    let list = KeyPath::root().key("mcp").key("config_guard").key("extra_paths");
    let mut extra_paths = Vec::with_capacity(raw.extra_paths.len());
    for (index, text) in raw.extra_paths.iter().enumerate() {
        match PathPattern::new(text) {
            Ok(pattern) => extra_paths.push(pattern),
            Err(error) => findings.push(Finding::new(list.index(index), error.to_string())),
        }
    }
    Guard { extra_paths }
}

//! Handling of the traffic between agents and models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Handling;

/// The LLM proxy, as far as it judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlmPolicy {
    /// `proxy.mode`.
    pub mode: ProxyMode,
    /// `dlp.mode`.
    pub dlp: DlpMode,
    /// `mcp.native_tools`: calls of tools that are no MCP tools.
    pub native_tools: Handling,
}

impl Default for LlmPolicy {
    fn default() -> Self {
        Self {
            mode: ProxyMode::default(),
            dlp: DlpMode::default(),
            native_tools: Handling::Allow,
        }
    }
}

/// The mode of the LLM proxy, from the least to the most it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyMode {
    /// Nothing.
    Disabled,
    /// Judges tool calls; no redaction, bodies are stored.
    McpOnly,
    /// Judges tool calls and redacts secrets.
    #[default]
    Embedded,
}

/// The treatment of secrets on the way to an LLM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DlpMode {
    /// Nothing.
    Disabled,
    /// The secrets are replaced.
    #[default]
    Redact,
}

impl LlmPolicy {
    /// Returns whether requests to a model are searched for secrets.
    pub const fn redacts(&self) -> bool {
        matches!((self.mode, self.dlp), (ProxyMode::Embedded, DlpMode::Redact))
    }

    /// Combines two policies by the stricter setting.
    pub(super) fn tightened_by(self, other: Self) -> Self {
        Self {
            mode: self.mode.max(other.mode),
            dlp: self.dlp.max(other.dlp),
            native_tools: self.native_tools.max(other.native_tools),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(ProxyMode::Embedded, DlpMode::Redact => true; "embedded")]
    #[test_case(ProxyMode::Embedded, DlpMode::Disabled => false; "switched off")]
    #[test_case(ProxyMode::McpOnly, DlpMode::Redact => false; "tool calls only")]
    #[test_case(ProxyMode::Disabled, DlpMode::Redact => false; "no proxy")]
    fn secrets_are_replaced(mode: ProxyMode, dlp: DlpMode) -> bool {
        LlmPolicy {
            mode,
            dlp,
            ..LlmPolicy::default()
        }
        .redacts()
    }
}

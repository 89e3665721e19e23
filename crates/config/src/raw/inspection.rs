//! Inspection of definitions, results and arguments, and the effect of findings.

use mcpmon_model::Category;
use mcpmon_policy::{OnDetection, OnNewTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Level;

/// Recognition of MCP servers and inspection of tool definitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Detection {
    /// True if server launches are recognised and definitions inspected.
    pub(crate) enabled: bool,
    /// Globs over commands that are MCP servers; replaces the built-in ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_patterns: Option<Vec<String>>,
    /// Globs over further commands that are MCP servers.
    pub(crate) custom_servers: Vec<String>,
    /// Globs over commands that match a pattern and are no MCP servers.
    pub(crate) exclude_servers: Vec<String>,
    /// Built-in patterns over tool definitions.
    pub(crate) builtin: Builtin,
    /// Patterns of your own.
    pub(crate) custom_patterns: Vec<CustomPattern>,
    /// Severity from which on a finding is reported; what is below is recorded.
    pub(crate) alert_threshold: Level,
    /// Severity from which on `on_detection` holds; no less than `alert_threshold`.
    pub(crate) act_threshold: Level,
    /// The effect of a finding in a definition.
    pub(crate) on_detection: OnDetection,
    /// The effect of a tool that a pinned server did not list before.
    pub(crate) on_new_tool: OnNewTool,
}

impl Default for Detection {
    fn default() -> Self {
        Self {
            enabled: true,
            server_patterns: None,
            custom_servers: Vec::new(),
            exclude_servers: Vec::new(),
            builtin: Builtin::default(),
            custom_patterns: Vec::new(),
            alert_threshold: Level::Medium,
            act_threshold: Level::default(),
            on_detection: OnDetection::default(),
            on_new_tool: OnNewTool::default(),
        }
    }
}

/// Built-in patterns over tool definitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Builtin {
    /// Requests for keys, tokens and passwords.
    pub(crate) credential_theft: bool,
    /// Requests to send data elsewhere.
    pub(crate) exfiltration: bool,
    /// Instructions a person does not see.
    pub(crate) hidden_instructions: bool,
    /// Shell commands in places where text belongs.
    pub(crate) shell_injection: bool,
    /// Paths that climb out of where they should be.
    pub(crate) path_traversal: bool,
    /// Instructions about other tools.
    pub(crate) cross_tool_override: bool,
    /// Instructions to keep something from the user.
    pub(crate) stealth_instruction: bool,
}

impl Default for Builtin {
    fn default() -> Self {
        Self {
            credential_theft: true,
            exfiltration: true,
            hidden_instructions: true,
            shell_injection: true,
            path_traversal: true,
            cross_tool_override: true,
            stealth_instruction: true,
        }
    }
}

/// A pattern of your own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomPattern {
    /// The name in events.
    pub(crate) name: String,
    /// Regular expression, without look-around.
    pub(crate) pattern: String,
    /// The kind of attack it finds.
    #[serde(default = "custom")]
    pub(crate) category: Category,
    /// The severity of its findings.
    #[serde(default)]
    pub(crate) severity: Level,
    /// A description for people.
    #[serde(default)]
    pub(crate) description: String,
}

const fn custom() -> Category {
    Category::Custom
}

/// Protection of the files that configure agents and servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConfigGuard {
    /// Globs over further protected paths; the built-in ones cannot be switched off.
    pub(crate) extra_paths: Vec<String>,
}

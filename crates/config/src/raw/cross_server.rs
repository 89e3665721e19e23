//! `mcp.cross_server` and `mcp.categories`: attacks that span servers.

use std::time::Duration;

use mcpmon_model::ToolCategory;
use mcpmon_policy::{Classifier, CrossServerDecision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lapse, Text};

/// Rules over the calls to several servers of one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CrossServer {
    /// True if these rules are checked.
    pub(crate) enabled: bool,
    /// The effect of a rule that matches.
    pub(crate) decision: CrossServerDecision,
    /// The source of a tool's category: reads, writes or sends.
    pub(crate) classifier: Classifier,
    /// A tool that bears the name of another server's tool.
    pub(crate) shadow_tool: ShadowTool,
    /// Something read from one server is sent through another.
    pub(crate) read_then_send: ReadThenSend,
    /// Many calls in a short time.
    pub(crate) burst: Burst,
    /// Calls that follow a read on another server.
    pub(crate) cross_server_flow: CrossServerFlow,
}

impl Default for CrossServer {
    fn default() -> Self {
        Self {
            enabled: true,
            decision: CrossServerDecision::default(),
            classifier: Classifier::default(),
            shadow_tool: ShadowTool::default(),
            read_then_send: ReadThenSend::default(),
            burst: Burst::default(),
            cross_server_flow: CrossServerFlow::default(),
        }
    }
}

/// A tool that bears the name of another server's tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ShadowTool {
    /// True if this is checked.
    pub(crate) enabled: bool,
    /// True if similar names count too.
    pub(crate) similarity_check: bool,
    /// Similarity from which on a name counts, from 0 to 1: 1 minus the edit distance by the longer name's length. Without
    /// it, mcpmon's own rule decides.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) similarity_threshold: Option<f64>,
}

impl Default for ShadowTool {
    fn default() -> Self {
        Self {
            enabled: true,
            similarity_check: true,
            similarity_threshold: None,
        }
    }
}

/// Something read from one server is sent through another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReadThenSend {
    /// True if this is checked.
    pub(crate) enabled: bool,
    /// The time after the read.
    pub(crate) window: Text<Lapse>,
}

impl Default for ReadThenSend {
    fn default() -> Self {
        Self {
            enabled: true,
            window: Text(Lapse(Duration::from_secs(30))),
        }
    }
}

/// Many calls in a short time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Burst {
    /// True if this is checked.
    pub(crate) enabled: bool,
    /// Most calls within `window`.
    pub(crate) max_calls: u32,
    /// The time for which a call counts.
    pub(crate) window: Text<Lapse>,
}

impl Default for Burst {
    fn default() -> Self {
        Self {
            enabled: true,
            max_calls: 10,
            window: Text(Lapse(Duration::from_secs(5))),
        }
    }
}

/// Calls that follow a read on another server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CrossServerFlow {
    /// True if this is checked.
    pub(crate) enabled: bool,
    /// True if only calls of one turn of the model count.
    pub(crate) same_turn_only: bool,
    /// The time after the read.
    pub(crate) window: Text<Lapse>,
    /// The categories of calls that count.
    pub(crate) categories: Vec<ToolCategory>,
}

impl Default for CrossServerFlow {
    fn default() -> Self {
        Self {
            enabled: true,
            same_turn_only: true,
            window: Text(Lapse(Duration::from_secs(30))),
            categories: vec![ToolCategory::Write, ToolCategory::Send],
        }
    }
}

/// Overrides of the classifier: globs over `TOOL` or `SERVER:TOOL`, by category.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Categories {
    /// Tools that read.
    pub(crate) read: Vec<String>,
    /// Tools that write.
    pub(crate) write: Vec<String>,
    /// Tools that send.
    pub(crate) send: Vec<String>,
    /// Tools that compute.
    pub(crate) compute: Vec<String>,
    /// Tools of which nothing is to be assumed.
    pub(crate) unknown: Vec<String>,
}

//! Lists and rules over servers, tools, resources and values of arguments.

use std::collections::BTreeMap;

use jiff::civil::Date;
use mcpmon_core::model::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;

/// Which of two lists is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListMode {
    /// The `allowed_…` list: nothing else is allowed.
    Allowlist,
    /// The `denied_…` list: everything else is allowed.
    Denylist,
    /// Neither.
    #[default]
    None,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Decision {
    /// Lets the call through.
    Allow,
    /// Lets it through and records it as notable.
    #[default]
    Audit,
    /// Stops it.
    Block,
}

/// Tools, by server and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ToolMatch {
    /// Glob over server ids.
    pub(crate) server: String,
    /// Glob over tool names.
    pub(crate) tool: String,
    /// Only with this definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_hash: Option<Text<Digest>>,
}

impl Default for ToolMatch {
    fn default() -> Self {
        Self {
            server: "*".to_owned(),
            tool: "*".to_owned(),
            content_hash: None,
        }
    }
}

/// What holds where no rule matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Defaults {
    /// What is done.
    pub(crate) decision: Decision,
}

/// A rule over tool calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// What events call it.
    pub(crate) id: String,
    /// Calls it holds for: all of the given conditions must be met.
    #[serde(rename = "match")]
    pub(crate) condition: CallMatch,
    /// What it does.
    pub(crate) decision: Decision,
    /// Why, for the person whose call is stopped.
    #[serde(default)]
    pub(crate) reason: String,
}

/// Conditions on a tool call; one that is missing is met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CallMatch {
    /// Glob over the tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_name: Option<String>,
    /// Regular expression over the tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_name_regex: Option<String>,
    /// Globs over the tool's name, one of which must match.
    pub(crate) tool_name_any: Vec<String>,
    /// Glob over the server's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// Globs over arguments, by their name.
    pub(crate) argument_patterns: BTreeMap<String, String>,
}

/// A rule over resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceRule {
    /// What events call it.
    pub(crate) id: String,
    /// Resources it holds for: all of the given conditions must be met.
    #[serde(rename = "match")]
    pub(crate) condition: ResourceMatch,
    /// What it does.
    pub(crate) decision: Decision,
    /// Why.
    #[serde(default)]
    pub(crate) reason: String,
}

/// Conditions on a resource; one that is missing is met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ResourceMatch {
    /// Glob over the URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri_pattern: Option<String>,
    /// Regular expression over the URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri_regex: Option<String>,
    /// Scheme of the URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheme: Option<String>,
}

/// Bounds of a number in a call's arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValueLimit {
    /// What events call it.
    pub(crate) id: String,
    /// Glob over the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_pattern: Option<String>,
    /// Regular expression over the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_name_regex: Option<String>,
    /// Name of the argument.
    pub(crate) argument: String,
    /// Smallest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<f64>,
    /// Largest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<f64>,
    /// What happens outside of them.
    pub(crate) decision: Decision,
    /// Why.
    #[serde(default)]
    pub(crate) reason: String,
}

/// A finding that is known and accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Suppression {
    /// Rule or pattern that fires.
    pub(crate) rule: String,
    /// Glob over server ids; all where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// Glob over tool names; all where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    /// Last day it is accepted; for ever where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Text<Date>>,
    /// Why it is accepted.
    pub(crate) reason: String,
}

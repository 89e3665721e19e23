//! Lists and rules over servers, tools, resources and values of arguments.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use jiff::civil::Date;
use mcpmon_model::Digest;
use mcpmon_policy::Decision;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::Text;

/// The list that is used, of two.
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

/// Tools, by server and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ToolMatch {
    /// Glob over server ids.
    pub(crate) server: String,
    /// Glob over tool names.
    pub(crate) tool: String,
    /// Only with this definition: `sha256:` and its digest, as `mcpmon registry show` has it.
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

/// The decision if no rule matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Defaults {
    /// The decision.
    pub(crate) decision: Decision,
}

/// A rule over tool calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// The name in events.
    pub(crate) id: String,
    /// Calls it holds for: all of the given conditions must be met.
    #[serde(rename = "match")]
    pub(crate) condition: CallMatch,
    /// The decision.
    pub(crate) decision: Decision,
    /// The reason, for the person whose call is stopped.
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
    /// Regular expression that is found in the tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_name_regex: Option<String>,
    /// Globs over the tool's name, one of which must match.
    pub(crate) tool_name_any: Vec<String>,
    /// Glob over the server's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// Globs over arguments, all of which must match: by a name, or by a way such as `order.path` or `files[].path`.
    /// `*` stops at `/`, `**` does not.
    pub(crate) argument_patterns: BTreeMap<String, String>,
}

/// A rule over resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceRule {
    /// The name in events.
    pub(crate) id: String,
    /// Resources it holds for: all of the given conditions must be met.
    #[serde(rename = "match")]
    pub(crate) condition: ResourceMatch,
    /// The decision.
    pub(crate) decision: Decision,
    /// The reason.
    #[serde(default)]
    pub(crate) reason: String,
}

/// Conditions on a resource; one that is missing is met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ResourceMatch {
    /// Glob over the whole URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri_pattern: Option<String>,
    /// Regular expression that is found in the URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri_regex: Option<String>,
    /// Scheme of the URI, without `:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheme: Option<String>,
}

/// Bounds of a number in a call's arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValueLimit {
    /// The name in events.
    pub(crate) id: String,
    /// Glob over the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_pattern: Option<String>,
    /// Regular expression that is found in the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_name_regex: Option<String>,
    /// The argument: a name, or a way such as `order.amount` or `items[].price`.
    pub(crate) argument: String,
    /// Smallest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<Number>,
    /// Largest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<Number>,
    /// The decision outside the limits: `AUDIT` or `BLOCK`.
    pub(crate) decision: Decision,
    /// The reason.
    #[serde(default)]
    pub(crate) reason: String,
}

/// A number as it is written: whole ones exactly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Number {
    /// Without a fraction.
    Whole(i128),
    /// Any other.
    Double(f64),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;

        impl de::Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number::Whole(number.into()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number::Whole(number.into()))
            }

            fn visit_i128<E: de::Error>(self, number: i128) -> Result<Number, E> {
                Ok(Number::Whole(number))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
                Ok(Number::Double(number))
            }
        }

        deserializer.deserialize_f64(NumberVisitor)
    }
}

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Number")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number"})
    }
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
    /// The reason for accepting it.
    pub(crate) reason: String,
}

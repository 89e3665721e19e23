//! Inspection of texts that a model reads: what is searched for, the effect of a finding, and the limits of what is
//! read.

use std::{collections::BTreeSet, time::Duration};

use mcpmon_model::{Category, CustomPattern, NameGlob, Severity, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OnSecret;

/// `mcp.detection`, as far as it concerns definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionInspection {
    /// True if definitions are inspected.
    pub enabled: bool,
    /// Built-in categories that are looked for.
    pub builtin: BTreeSet<Category>,
    /// Patterns of the configuration, looked for in definitions and outputs.
    pub custom: Vec<CustomPattern>,
    /// The severity from which a finding is reported; less severe ones are only recorded.
    pub alert_threshold: Severity,
    /// The severity from which `on_detection`, and the effect of secrets, apply.
    pub act_threshold: Severity,
    /// The effect of a finding in a definition.
    pub on_detection: OnDetection,
    /// The effect of a tool that a pinned server did not list before.
    pub on_new_tool: OnNewTool,
}

impl Default for DefinitionInspection {
    fn default() -> Self {
        Self {
            enabled: true,
            builtin: BTreeSet::from([
                Category::CredentialTheft,
                Category::Exfiltration,
                Category::HiddenInstructions,
                Category::ShellInjection,
                Category::PathTraversal,
                Category::CrossToolOverride,
                Category::StealthInstruction,
            ]),
            custom: Vec::new(),
            alert_threshold: Severity::Medium,
            act_threshold: Severity::High,
            on_detection: OnDetection::Hide,
            on_new_tool: OnNewTool::Alert,
        }
    }
}

impl DefinitionInspection {
    /// Combines two sections by the stricter settings.
    pub(super) fn tightened_by(&self, other: &Self) -> Self {
        match (self.enabled, other.enabled) {
            (true, true) => {
                let new = other
                    .custom
                    .iter()
                    .filter(|pattern| !self.custom.contains(pattern));
                Self {
                    enabled: true,
                    builtin: self.builtin.union(&other.builtin).copied().collect(),
                    custom: self.custom.iter().chain(new).cloned().collect(),
                    alert_threshold: self.alert_threshold.min(other.alert_threshold),
                    act_threshold: self.act_threshold.min(other.act_threshold),
                    on_detection: self.on_detection.max(other.on_detection),
                    on_new_tool: self.on_new_tool.max(other.on_new_tool),
                }
            }
            (false, true) => other.clone(),
            (_, false) => self.clone(),
        }
    }
}

/// The effect of a finding in a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDetection {
    /// The finding is reported.
    Alert,
    /// The item is left out of its list, and cannot be called.
    #[default]
    Hide,
    /// The whole server is blocked.
    Block,
}

/// The effect of a tool that a pinned server did not list before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnNewTool {
    /// The tool is pinned like any other.
    Allow,
    /// The tool is reported, and pinned.
    #[default]
    Alert,
    /// The tool is reported, and each call of it waits for a person's answer until a person accepts the tool.
    Ask,
    /// The tool is left out of its list, and cannot be called, until a person accepts it.
    Hide,
}

/// Inspection of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputInspection {
    /// True if results are inspected.
    pub enabled: bool,
    /// The effect of a finding.
    pub on_detection: OnOutput,
    /// The effect of a secret in a result or an error message.
    pub secrets: OnSecret,
}

impl Default for OutputInspection {
    fn default() -> Self {
        Self {
            enabled: true,
            on_detection: OnOutput::Block,
            secrets: OnSecret::Alert,
        }
    }
}

impl OutputInspection {
    /// Combines two sections by the stricter settings.
    pub(super) fn tightened_by(self, other: Self) -> Self {
        match (self.enabled, other.enabled) {
            (true, true) => Self {
                enabled: true,
                on_detection: self.on_detection.max(other.on_detection),
                secrets: self.secrets.stricter(other.secrets),
            },
            (false, true) => other,
            (_, false) => self,
        }
    }
}

/// The effect of a finding in a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnOutput {
    /// The finding is reported.
    Alert,
    /// The result is withheld.
    #[default]
    Block,
}

/// A finding that is known and accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// The id of a rule, the name of what several find, or the rule that acts upon it.
    pub rule: NameGlob,
    /// Servers it holds for.
    pub server: NameGlob,
    /// Tools it holds for.
    pub tool: NameGlob,
    /// First instant at which it holds no longer.
    pub until: Option<Timestamp>,
    /// The reason for accepting it.
    pub reason: String,
}

impl Suppression {
    /// Returns whether a suppression that names `name` can apply to other names too, because it would be a glob.
    pub fn is_pattern(name: &str) -> bool {
        name.contains(['*', '?'])
    }

    /// Returns whether a finding with one of these `names` in `tool` of `server` is accepted at `now`.
    pub fn covers(&self, names: &[&str], server: &str, tool: &str, now: Timestamp) -> bool {
        let is_meant = names.iter().any(|name| self.rule.matches(name));
        let holds = self.until.is_none_or(|until| now < until);
        holds && is_meant && self.server.matches(server) && self.tool.matches(tool)
    }
}

/// The handling of requests other than tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// LLM calls that a server asks for.
    pub sampling: Handling,
    /// Questions a server asks the user; one for credentials is blocked whatever this says.
    pub elicitation: Handling,
    /// Prompts a server offers.
    pub prompts: Handling,
    /// Completions a server offers.
    pub completion: Handling,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            sampling: Handling::Block,
            elicitation: Handling::Audit,
            prompts: Handling::Audit,
            completion: Handling::Allow,
        }
    }
}

impl Requests {
    /// Combines two sections by the stricter settings.
    pub(super) fn tightened_by(self, other: Self) -> Self {
        Self {
            sampling: self.sampling.max(other.sampling),
            elicitation: self.elicitation.max(other.elicitation),
            prompts: self.prompts.max(other.prompts),
            completion: self.completion.max(other.completion),
        }
    }
}

/// The handling of a kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Handling {
    /// The request passes.
    Allow,
    /// The request passes and is recorded as notable.
    Audit,
    /// The request is stopped.
    Block,
}

/// `mcp.limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest message, bytes.
    pub max_line: usize,
    /// Most tools of one server.
    pub max_tools: usize,
    /// Deepest nesting of a message.
    pub max_schema_depth: usize,
    /// Most messages in a batch.
    pub max_batch: usize,
    /// Most requests of one side that wait for an answer.
    pub max_pending: usize,
    /// The time a request may wait; zero for no limit.
    pub request_timeout: Duration,
    /// Most open streams of one server that is reached over the network.
    pub max_streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line: 16 << 20,
            max_tools: 2000,
            max_schema_depth: 128,
            max_batch: 64,
            max_pending: 10_000,
            request_timeout: Duration::ZERO,
            max_streams: 256,
        }
    }
}

impl Limits {
    /// Combines two sections by the stricter settings.
    pub(super) fn tightened_by(self, other: Self) -> Self {
        Self {
            max_line: self.max_line.min(other.max_line),
            max_tools: self.max_tools.min(other.max_tools),
            max_schema_depth: self.max_schema_depth.min(other.max_schema_depth),
            max_batch: self.max_batch.min(other.max_batch),
            max_pending: self.max_pending.min(other.max_pending),
            request_timeout: match (self.request_timeout, other.request_timeout) {
                (Duration::ZERO, timeout) | (timeout, Duration::ZERO) => timeout,
                (own, other) => own.min(other),
            },
            max_streams: self.max_streams.min(other.max_streams),
        }
    }
}

/// `mcp.approvals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approvals {
    /// From which severity of a finding on a person is asked.
    pub required_for: Severity,
    /// The time to wait for the answer.
    pub timeout: Duration,
    /// The decision if no answer comes.
    pub on_timeout: OnTimeout,
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            required_for: Severity::Critical,
            timeout: Duration::from_secs(300),
            on_timeout: OnTimeout::Deny,
        }
    }
}

impl Approvals {
    /// Combines two sections by the stricter settings.
    pub(super) fn tightened_by(self, other: Self) -> Self {
        Self {
            required_for: self.required_for.min(other.required_for),
            timeout: self.timeout.min(other.timeout),
            on_timeout: match (self.on_timeout, other.on_timeout) {
                (OnTimeout::Allow, OnTimeout::Allow) => OnTimeout::Allow,
                (OnTimeout::Deny, _) | (_, OnTimeout::Deny) => OnTimeout::Deny,
            },
        }
    }
}

/// The decision if no approval comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// The call is stopped.
    #[default]
    Deny,
    /// The call goes out.
    Allow,
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("read_file" => false)]
    #[test_case("" => false; "no name")]
    #[test_case("a.b+[c]{d}" => false; "signs that are patterns elsewhere")]
    #[test_case("*" => true; "all")]
    #[test_case("?*" => true; "all that have a name")]
    #[test_case("read?" => true; "one more")]
    fn names_that_are_patterns(name: &str) -> bool {
        Suppression::is_pattern(name)
    }

    #[test_case("secret-file-1", "fs", "read", 9 => true; "by id")]
    #[test_case("secret-file-2", "fs", "read", 9 => false; "another id")]
    #[test_case("secret_file", "fs", "read", 9 => true; "by pattern")]
    #[test_case("tool_poisoning", "fs", "read", 9 => true; "by rule")]
    #[test_case("override", "fs", "read", 9 => false; "another pattern")]
    #[test_case("*", "other", "read", 9 => false; "another server")]
    #[test_case("*", "fs", "write", 9 => false; "another tool")]
    #[test_case("*", "*", "*", 9 => true; "everything")]
    #[test_case("*", "*", "*", 10 => false; "over")]
    fn findings_are_accepted(rule: &str, server: &str, tool: &str, now: i64) -> bool {
        let suppression = Suppression {
            rule: NameGlob::new(rule),
            server: NameGlob::new(server),
            tool: NameGlob::new(tool),
            until: Some(Timestamp(10)),
            reason: String::new(),
        };
        suppression.covers(
            &["tool_poisoning", "secret_file", "secret-file-1"],
            "fs",
            "read",
            Timestamp(now),
        )
    }
}

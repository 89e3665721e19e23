//! Cases, as they are written in `cases/*.yaml`.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::{bait, outcome::Outcome};

/// A case: a conversation and its expected outcome.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name, which is the file's area and the case's own id.
    pub id: String,
    /// The reason for the expectation.
    pub why: String,
    /// The shipped policy that the case is based on.
    #[serde(default)]
    pub base: Base,
    /// Additions to the policy for this case.
    #[serde(default)]
    pub policy: Value,
    /// Servers of the session, in the order in which they join, with the tools that each lists.
    #[serde(default)]
    pub servers: Vec<Server>,
    /// The steps, which follow after every server was introduced and its tools were listed.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The expected outcome of the last step, or of the lists if there is no step.
    pub expect: Outcome,
    /// The rule that events must name for this outcome.
    #[serde(default)]
    pub rule: Option<String>,
    /// Text that must not appear in any passed message, answer or record.
    #[serde(default)]
    pub never: Option<String>,
}

/// A shipped policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// `policies/default.yaml`.
    #[default]
    Default,
    /// `policies/strict.yaml`.
    Strict,
    /// `policies/observe.yaml`.
    Observe,
    /// `policies/agentshield.yaml`.
    Agentshield,
}

/// A server of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The name.
    pub id: String,
    /// The text in which the server describes itself to the model.
    #[serde(default)]
    pub instructions: Option<String>,
    /// The tools, as names or as whole definitions.
    #[serde(default)]
    pub tools: Vec<Value>,
}

/// A message of the conversation. Every step but the last must pass unchanged, unless it has another `expect`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The server that the message is for or from; the first one if missing.
    #[serde(default)]
    pub server: Option<String>,
    /// The expected outcome, if this is not the last step.
    #[serde(default)]
    pub expect: Option<Outcome>,
    /// The message; exactly one of its fields is set.
    #[serde(flatten)]
    pub act: Act,
}

/// The message of a step.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Act {
    /// A tool call.
    pub call: Option<Call>,
    /// `resources/read` of a URI.
    pub read: Option<String>,
    /// `prompts/get` of a name.
    pub prompt: Option<String>,
    /// Another request of the client: `METHOD`, or `{METHOD: PARAMS}`.
    pub request: Option<BTreeMap<String, Value>>,
    /// A request of the client together with the server's whole answer.
    pub exchange: Option<Exchange>,
    /// A request of the server: `{METHOD: PARAMS}`.
    pub ask: Option<BTreeMap<String, Value>>,
    /// The tools that the server lists from now on.
    pub list: Option<Vec<Value>>,
    /// A line that the client writes as it is.
    pub client: Option<String>,
    /// A line that the server writes as it is.
    pub says: Option<String>,
    /// The number of milliseconds that pass.
    pub wait: Option<u64>,
}

/// A request, and the server's answer to it if the request reaches the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// The parameters.
    #[serde(default)]
    pub params: Value,
    /// The whole result.
    pub result: Value,
}

/// A tool call, and the server's answer to it if the call reaches the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Value,
    /// The text of the result, or a whole result.
    #[serde(default)]
    pub result: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cases: Vec<Case>,
}

/// Loads every case, in the order of the files' names.
///
/// # Errors
/// Returns an error if a file cannot be read or parsed, or two cases have the same name.
pub fn load() -> Result<Vec<Case>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut paths: Vec<_> = fs::read_dir(&directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    let mut cases: Vec<Case> = Vec::new();
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|kind| kind == "yaml"))
    {
        let area = path.file_stem().context("a name")?.to_string_lossy();
        let text = bait::baited(&fs::read_to_string(path)?)?;
        let file: File = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is no list of cases", path.display()))?;
        for mut case in file.cases {
            case.id = format!("{area}/{}", case.id);
            ensure!(
                cases.iter().all(|other| other.id != case.id),
                "{} is there twice",
                case.id
            );
            cases.push(case);
        }
    }
    Ok(cases)
}

impl Case {
    /// Returns the whole configuration as JSON, which is YAML too.
    ///
    /// # Errors
    /// Returns an error if the shipped policy is not YAML.
    pub fn configuration(&self) -> Result<String> {
        let base = match self.base {
            Base::Default => include_str!("../../../policies/default.yaml"),
            Base::Strict => include_str!("../../../policies/strict.yaml"),
            Base::Observe => include_str!("../../../policies/observe.yaml"),
            Base::Agentshield => include_str!("../../../policies/agentshield.yaml"),
        };
        let mut whole: Value = serde_saphyr::from_str(base)?;
        overlay(&mut whole, &self.policy);
        Ok(serde_json::to_string_pretty(&whole)?)
    }

    /// Returns the servers of the case. If the case names none, there is one, which offers every tool that is called.
    #[must_use]
    pub fn cast(&self) -> Vec<Server> {
        let mut cast = self.servers.clone();
        if cast.is_empty() {
            cast.push(Server {
                id: "files".to_owned(),
                instructions: None,
                tools: Vec::new(),
            });
        }
        let first = cast[0].id.clone();
        for step in &self.steps {
            let Some(call) = &step.act.call else { continue };
            let id = step.server.as_ref().unwrap_or(&first);
            let Some(server) = cast.iter_mut().find(|server| server.id == *id) else {
                continue;
            };
            // A server with tools in the case offers only those.
            let is_given = self
                .servers
                .iter()
                .any(|given| given.id == *id && !given.tools.is_empty());
            if !is_given && !server.tools.iter().any(|tool| tool.as_str() == Some(&call.tool)) {
                server.tools.push(Value::String(call.tool.clone()));
            }
        }
        cast
    }
}

/// Merges `top` into `base`: objects member by member, anything else as a whole.
fn overlay(base: &mut Value, top: &Value) {
    match (base, top) {
        (_, Value::Null) => {}
        (Value::Object(base), Value::Object(top)) => {
            for (key, value) in top {
                overlay(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, top) => *base = top.clone(),
    }
}

//! Cases as they are written in `cases/*.yaml`.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::{bait, outcome::Outcome};

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name: the file's area and the case's own id.
    pub id: String,
    /// The reason for the expectation.
    pub why: String,
    /// The policy it starts from.
    #[serde(default)]
    pub base: Base,
    /// The policy's additions for this case.
    #[serde(default)]
    pub policy: Value,
    /// Servers of the session, in the order in which they join, with what each lists.
    #[serde(default)]
    pub servers: Vec<Server>,
    /// The steps, after every server was introduced and listed.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The expected outcome of the last step, or of the lists if there is no step.
    pub expect: Outcome,
    /// The rule that events name for it.
    #[serde(default)]
    pub rule: Option<String>,
    /// Text that must be nowhere: not in what goes on, not in an answer, not in a record.
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
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name.
    pub id: String,
    /// The text in which the server describes itself to the model.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Its tools: names, or whole definitions.
    #[serde(default)]
    pub tools: Vec<Value>,
}

/// Something that is said. Every step but the last must go on as it is, unless it says otherwise.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The server it concerns; the first one if missing.
    #[serde(default)]
    pub server: Option<String>,
    /// The expected outcome, if this is not the last step.
    #[serde(default)]
    pub expect: Option<Outcome>,
    /// The message; exactly one of these.
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
    /// A request of the client with the server's whole answer.
    pub exchange: Option<Exchange>,
    /// A request of the server: `{METHOD: PARAMS}`.
    pub ask: Option<BTreeMap<String, Value>>,
    /// The server lists these tools now.
    pub list: Option<Vec<Value>>,
    /// The client's line as it is.
    pub client: Option<String>,
    /// The server's line as it is.
    pub says: Option<String>,
    /// So many milliseconds pass.
    pub wait: Option<u64>,
}

/// A request, and what the server answers if it gets it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// Its parameters.
    #[serde(default)]
    pub params: Value,
    /// The whole result.
    pub result: Value,
}

/// A tool call, and what the server answers if it gets it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Value,
    /// The text of its result, or a whole result.
    #[serde(default)]
    pub result: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cases: Vec<Case>,
}

/// Every case, in the order of the files' names.
///
/// # Errors
/// Returns an error if a file cannot be read or understood, or two cases have one name.
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
    /// The whole configuration, as JSON, which is YAML.
    ///
    /// # Errors
    /// Returns an error if the shipped policy is no YAML.
    pub fn configuration(&self) -> Result<String> {
        let base = match self.base {
            Base::Default => include_str!("../../../policies/default.yaml"),
            Base::Strict => include_str!("../../../policies/strict.yaml"),
            Base::Observe => include_str!("../../../policies/observe.yaml"),
        };
        let mut whole: Value = serde_saphyr::from_str(base)?;
        overlay(&mut whole, &self.policy);
        Ok(serde_json::to_string_pretty(&whole)?)
    }

    /// The servers; one that offers whatever is called where the case names none.
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
            // A server whose tools are given offers those alone.
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

/// Puts `top` on `base`: objects member by member, anything else whole.
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

//! What servers offer, inspected: tool definitions in a text, or what a server that is asked lists.

use std::io;

use mcpmon_core::{
    inspect::scan::{PatternError, Scanner, Scene},
    model::{DefinitionKind, Finding, ListKind, RawJson},
};
use serde_json::Value;

use crate::{
    config::Loaded,
    intercept::http::client::{self, Asking, ClientError, Way},
};

pub use crate::intercept::http::client::Offer;

/// One definition with what was found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// What it defines.
    pub kind: DefinitionKind,
    /// Its name; a resource's URI; empty for instructions.
    pub name: String,
    /// What it says of itself, as far as that is a text.
    pub description: Option<String>,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// Why nothing is inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The text is none.
    #[error("the text is no JSON")]
    NotJson(#[source] serde_json::Error),
    /// The JSON is something else.
    #[error("there is no tool: expected an object with a name, a list of them, or the result of tools/list")]
    NoTool,
    /// Of the configuration.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// Inspects a tool, an array of them, or the result of `tools/list`, with the patterns of a configuration.
///
/// # Errors
/// Where the text holds no tools.
pub fn inspect(text: &str, loaded: &Loaded) -> Result<Vec<Inspected>, InspectError> {
    let value: Value = serde_json::from_str(text).map_err(InspectError::NotJson)?;
    let tools = tools(value).ok_or(InspectError::NoTool)?;
    let detection = &loaded.policy.inspection;
    let scanner = Scanner::new(&detection.builtin, &detection.custom)?;
    let own: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let inspected = tools
        .iter()
        .map(|tool| one(&scanner, DefinitionKind::Tool, tool, &own));
    Ok(inspected.collect())
}

/// Why a server's offer is not inspected.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// This process.
    #[error("failed to start")]
    Start(#[from] io::Error),
}

/// Asks a remote server what it offers.
///
/// # Errors
/// Where it cannot be asked.
pub fn ask(asking: Asking, way: Way) -> Result<Offer, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(client::list(asking, way))?)
}

/// Inspects what a server offers, its instructions first.
///
/// # Errors
/// Where a pattern of the configuration cannot be used.
pub fn inspect_offer(offer: &Offer, loaded: &Loaded) -> Result<Vec<Inspected>, InspectError> {
    let detection = &loaded.policy.inspection;
    let scanner = Scanner::new(&detection.builtin, &detection.custom)?;
    let tools = offer.of(ListKind::Tools);
    let own: Vec<&str> = tools.filter_map(|tool| tool["name"].as_str()).collect();
    let instructions = offer.instructions.iter().map(|text| Inspected {
        kind: DefinitionKind::Instructions,
        name: String::new(),
        description: Some(text.clone()),
        findings: scanner.instructions(text, &scene(&own)),
    });
    let items = offer.items.iter();
    let listed = items.map(|(list, item)| one(&scanner, (*list).into(), item, &own));
    Ok(instructions.chain(listed).collect())
}

fn one(scanner: &Scanner, kind: DefinitionKind, definition: &Value, own: &[&str]) -> Inspected {
    let name = match kind {
        DefinitionKind::Tool | DefinitionKind::Prompt => &definition["name"],
        DefinitionKind::Resource => &definition["uri"],
        DefinitionKind::Template => &definition["uriTemplate"],
        DefinitionKind::Instructions => &Value::Null,
    };
    Inspected {
        kind,
        name: name.as_str().unwrap_or_default().to_owned(),
        description: definition["description"].as_str().map(str::to_owned),
        findings: scanner.definition(RawJson::trusted(&definition.to_string()), &scene(own)),
    }
}

const fn scene<'a>(own: &'a [&'a str]) -> Scene<'a> {
    Scene {
        own,
        others: &[],
        previous: None,
    }
}

/// The tools in a response, a result, an array, or alone; `None` where one of them is no object with a name.
fn tools(value: Value) -> Option<Vec<Value>> {
    let tools = match value {
        Value::Array(tools) => tools,
        Value::Object(mut object) => {
            if let Some(Value::Object(result)) = object.remove("result") {
                return tools(Value::Object(result));
            }
            match object.remove("tools") {
                Some(Value::Array(tools)) => tools,
                Some(_) => return None,
                None => vec![Value::Object(object)],
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    tools.iter().all(|tool| tool["name"].is_string()).then_some(tools)
}

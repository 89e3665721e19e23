//! Tool definitions in a text, inspected without a server.

use mcpmon_core::{
    inspect::scan::{PatternError, Scanner, Scene},
    model::{Finding, RawJson},
};
use serde_json::Value;

use crate::config::Loaded;

/// One tool with what was found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Its name.
    pub tool: String,
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
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = tools.iter().map(name).collect();
    let own: Vec<&str> = names.iter().map(String::as_str).collect();
    let scene = Scene {
        own: &own,
        others: &[],
        previous: None,
    };
    let inspected = tools.iter().map(|tool| Inspected {
        tool: name(tool),
        findings: scanner.definition(RawJson::trusted(&tool.to_string()), &scene),
    });
    Ok(inspected.collect())
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

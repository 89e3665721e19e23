//! Inspection of offers: tool definitions in a text, or the lists of a server that is asked.

use std::io;

use mcpmon_config::LoadedConfiguration;
use mcpmon_detect::scan::{PatternError, Scanner, Scene};
use mcpmon_http::client::{self, ClientError, ServerEndpoint, ServerTransport};
use mcpmon_model::{DefinitionKind, Finding, ListKind, RawJson};
use mcpmon_protocol::decode::json;
use serde_json::Value;

pub use mcpmon_http::client::{PublishedCard, ServerOffer};

/// One definition with what was found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedDefinition {
    /// The kind of definition.
    pub kind: DefinitionKind,
    /// Its name; a resource's URI; empty for instructions.
    pub name: String,
    /// The description, if it is a text.
    pub description: Option<String>,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// The reason why nothing is inspected.
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
/// Returns an error if the text holds no tools.
pub fn inspect(text: &str, loaded: &LoadedConfiguration) -> Result<Vec<InspectedDefinition>, InspectError> {
    let value: Value = serde_json::from_str(text).map_err(InspectError::NotJson)?;
    let tools = tools(value).ok_or(InspectError::NoTool)?;
    let detection = &loaded.policy.inspection;
    let scanner = Scanner::new(&detection.builtin, &detection.custom)?;
    let own: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let inspected = tools.iter().map(|tool| one(&scanner, tool, &own));
    Ok(inspected.collect())
}

/// The reason why a server's lists are not inspected.
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
/// Returns an error if it cannot be asked.
pub fn ask(asking: ServerEndpoint, way: ServerTransport) -> Result<ServerOffer, AskError> {
    Ok(runtime()?.block_on(client::list(asking, way))?)
}

/// Asks a remote server for the card that it publishes of itself.
///
/// # Errors
/// Returns an error if it cannot be asked.
pub fn ask_for_card(asking: ServerEndpoint) -> Result<Option<PublishedCard>, AskError> {
    Ok(runtime()?.block_on(client::published_card(asking))?)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Inspects what a server offers, its instructions first.
///
/// # Errors
/// Returns an error if a pattern of the configuration cannot be used.
pub fn inspect_offer(
    offer: &ServerOffer,
    loaded: &LoadedConfiguration,
) -> Result<Vec<InspectedDefinition>, InspectError> {
    let detection = &loaded.policy.inspection;
    let scanner = Scanner::new(&detection.builtin, &detection.custom)?;
    let mut own = Vec::new();
    offer.definitions(|kind, tool| {
        if kind == ListKind::Tools {
            own.extend(text(tool, "name"));
        }
    });
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let instructions = offer.instructions.iter().map(|text| InspectedDefinition {
        kind: DefinitionKind::Instructions,
        name: String::new(),
        description: Some(text.clone()),
        findings: scanner.instructions(text, &scene(&own)),
    });
    let mut inspected: Vec<InspectedDefinition> = instructions.collect();
    offer.definitions(|list, definition| {
        let name = match list {
            ListKind::Tools | ListKind::Prompts => "name",
            ListKind::Resources | ListKind::Skills => "uri",
            ListKind::Templates => "uriTemplate",
        };
        inspected.push(InspectedDefinition {
            kind: list.into(),
            name: text(definition, name).unwrap_or_default(),
            description: match list {
                ListKind::Skills => definition
                    .member("frontmatter")
                    .and_then(|frontmatter| text(frontmatter, "description")),
                ListKind::Tools | ListKind::Prompts | ListKind::Resources | ListKind::Templates => {
                    text(definition, "description")
                }
            },
            findings: scanner.definition(definition.raw(), &scene(&own)),
        });
    });
    Ok(inspected)
}

fn text(definition: json::Value<'_>, member: &str) -> Option<String> {
    Some(definition.member(member)?.string()?.into_owned())
}

fn one(scanner: &Scanner, definition: &Value, own: &[&str]) -> InspectedDefinition {
    InspectedDefinition {
        kind: DefinitionKind::Tool,
        name: definition["name"].as_str().unwrap_or_default().to_owned(),
        description: definition["description"].as_str().map(str::to_owned),
        findings: scanner.definition(RawJson::trusted(&definition.to_string()), &scene(own)),
    }
}

const fn scene<'a>(own: &'a [&'a str]) -> Scene<'a> {
    Scene {
        own,
        others: &[],
        accepted: None,
        before: None,
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

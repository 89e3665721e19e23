//! Inspection of definitions: the tools in a JSON text, or the lists of a remote server.

use std::io;

use mcpmon_config::LoadedConfiguration;
use mcpmon_detect::scan::{PatternError, Scanner, Scene};
use mcpmon_http::client::{self, ClientError, ServerEndpoint, ServerTransport};
use mcpmon_model::{DefinitionKind, Finding, ListKind, RawJson};
use mcpmon_protocol::decode::json;
use serde_json::Value;

pub use mcpmon_http::client::{PublishedCard, ServerOffer};

/// A definition and the findings in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedDefinition {
    /// The kind of definition.
    pub kind: DefinitionKind,
    /// Its name; a resource's URI; empty for instructions.
    pub name: String,
    /// The description, if it is a string.
    pub description: Option<String>,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// The reason why nothing was inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The text is not JSON.
    #[error("the text is no JSON")]
    NotJson(#[source] serde_json::Error),
    /// The JSON is neither a tool nor a list of tools.
    #[error("there is no tool: expected an object with a name, a list of them, or the result of tools/list")]
    NoTool,
    /// A pattern of the configuration cannot be used.
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

/// The reason why a server's lists could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ServerListsError {
    /// The server did not answer as it should.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// This process could not start a runtime.
    #[error("failed to start")]
    Start(#[from] io::Error),
}

/// Reads the lists of a remote server.
///
/// # Errors
/// Returns an error if the server does not answer as it should.
pub fn ask(asking: ServerEndpoint, way: ServerTransport) -> Result<ServerOffer, ServerListsError> {
    Ok(runtime()?.block_on(client::list(asking, way))?)
}

/// Reads the card that a remote server publishes about itself.
///
/// # Errors
/// Returns an error if the server does not answer as it should.
pub fn ask_for_card(asking: ServerEndpoint) -> Result<Option<PublishedCard>, ServerListsError> {
    Ok(runtime()?.block_on(client::published_card(asking))?)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Inspects a server's instructions and the definitions in its lists, in this order.
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

/// Returns the tools of a response, a result or an array, or the object itself. Returns `None` if one of them is not an
/// object with a name.
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

//! Decoding of Responses: events and bodies.

use std::borrow::Cow;

use mcpmon_model::{Offered, ToolName};

use crate::{
    decode::json::Value,
    llm::{
        ApiViolation,
        fields::{count, fields, items, text},
    },
};

/// An event of a stream.
#[derive(Clone, Debug)]
pub(super) struct Event<'t> {
    /// The type of the event; empty if it has none.
    pub(super) kind: Cow<'t, str>,
    /// Its number among the events.
    pub(super) sequence: Option<u64>,
    /// The position of the item that it is about.
    pub(super) output_index: Option<u64>,
    /// The id of that item; empty if the event does not give it.
    pub(super) item_id: Cow<'t, str>,
    /// The item itself.
    pub(super) item: Option<Value<'t>>,
    /// The current state of the response.
    pub(super) response: Option<Value<'t>>,
    /// The event's information about a call's arguments.
    pub(super) told: Option<ArgumentsUpdate<'t>>,
}

/// The information an event gives about a call's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArgumentsUpdate<'t> {
    /// The next part of them.
    Part(Cow<'t, str>),
    /// All of them, and the name of the tool; empty if the event does not give it.
    All(Cow<'t, str>, Cow<'t, str>),
}

/// An item of a model's output.
#[derive(Clone, Debug)]
pub(super) struct OutputItem<'t> {
    /// Its type.
    pub(super) kind: Cow<'t, str>,
    /// Its id; empty if it has none.
    pub(super) id: Cow<'t, str>,
    /// The meaning of the item for tools.
    pub(super) what: ItemKind<'t>,
}

/// The meaning of an item for tools.
#[derive(Clone, Debug)]
pub(super) enum ItemKind<'t> {
    /// A call that the agent is to make, or to approve.
    Call(Call<'t>),
    /// A call that the provider made; with its MCP server, if the tool is one of a server.
    Called(Option<Cow<'t, str>>, Call<'t>),
    /// The tools of an MCP server.
    Listed(Cow<'t, str>, Vec<Offered<'t>>),
    /// No meaning.
    Nothing,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call<'t> {
    /// The model's id of it; empty if it has none.
    pub(super) call_id: Cow<'t, str>,
    /// The tool.
    pub(super) name: ToolName<'t>,
    /// The input of the call.
    pub(super) given: CallInput<'t>,
}

/// The input of a tool call.
#[derive(Clone, Debug)]
pub(super) enum CallInput<'t> {
    /// Text that should be JSON.
    Arguments(Cow<'t, str>),
    /// Text.
    Text(Cow<'t, str>),
    /// JSON.
    Json(Value<'t>),
}

/// Reads an event.
///
/// # Errors
/// Returns an error if readers could differ about the calls in it.
pub(super) fn event(root: Value<'_>) -> Result<Event<'_>, ApiViolation> {
    let names = [
        "type",
        "sequence_number",
        "output_index",
        "item_id",
        "item",
        "response",
        "output",
    ];
    let [kind, sequence, output_index, item_id, item, response, output] = fields(root, names)?;
    if output.is_some_and(has_call) {
        return Err(ApiViolation("a tool call is in the output of an event"));
    }
    let kind = text(kind)?;
    Ok(Event {
        told: told(&kind, root)?,
        kind,
        sequence: count(sequence)?,
        output_index: count(output_index)?,
        item_id: text(item_id)?,
        item,
        response,
    })
}

/// Returns whether an event's own `output` contains anything that could be a call; the output of a shell is none.
fn has_call(output: Value<'_>) -> bool {
    let is_call = |value: Value<'_>| item(value).map_or(true, |item| matches!(item.what, ItemKind::Call(_)));
    output.items().filter(|value| value.is_object()).any(is_call)
}

fn told<'t>(kind: &str, root: Value<'t>) -> Result<Option<ArgumentsUpdate<'t>>, ApiViolation> {
    let all = match kind {
        "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
            let [delta] = fields(root, ["delta"])?;
            return Ok(Some(ArgumentsUpdate::Part(text(delta)?)));
        }
        "response.function_call_arguments.done" => "arguments",
        "response.custom_tool_call_input.done" => "input",
        _ => return Ok(None),
    };
    let [all, name] = fields(root, [all, "name"])?;
    Ok(Some(ArgumentsUpdate::All(text(all)?, text(name)?)))
}

/// Returns the items of a response.
///
/// # Errors
/// Returns an error if readers could differ about them.
pub(super) fn output<'t>(response: Value<'t>) -> Result<impl Iterator<Item = Value<'t>>, ApiViolation> {
    let [output] = fields(response, ["output"])?;
    items(output)
}

/// Reads an item.
///
/// # Errors
/// Returns an error if readers could differ about the call in it.
pub(super) fn item(value: Value<'_>) -> Result<OutputItem<'_>, ApiViolation> {
    let [kind, id] = fields(value, ["type", "id"])?;
    let kind = text(kind)?;
    let what = match &*kind {
        "function_call" => ItemKind::Call(call(value, "namespace", "arguments")?),
        "custom_tool_call" => ItemKind::Call(call(value, "namespace", "input")?),
        "mcp_approval_request" => ItemKind::Call(call(value, "server_label", "arguments")?),
        "mcp_call" => {
            let [server] = fields(value, ["server_label"])?;
            let mut call = call(value, "server_label", "arguments")?;
            call.name.namespace = None;
            ItemKind::Called(server.map(|server| text(Some(server))).transpose()?, call)
        }
        "mcp_list_tools" => listed(value)?,
        "web_search_call" | "file_search_call" | "code_interpreter_call" | "image_generation_call" => {
            ItemKind::Called(None, built_in(value, &kind)?)
        }
        "tool_search_call" if is_executed_by_server(value)? => {
            ItemKind::Called(None, built_in(value, &kind)?)
        }
        other if is_call(value, other)? => ItemKind::Call(built_in(value, &kind)?),
        _ => ItemKind::Nothing,
    };
    Ok(OutputItem {
        kind,
        id: text(id)?,
        what,
    })
}

/// Returns whether an item of an unknown type requests something from the agent.
fn is_call(value: Value<'_>, kind: &str) -> Result<bool, ApiViolation> {
    let [call_id] = fields(value, ["call_id"])?;
    let answers = kind.ends_with("_output") || kind.ends_with("_response");
    Ok(kind.ends_with("_call") || kind.ends_with("_request") || call_id.is_some() && !answers)
}

fn is_executed_by_server(value: Value<'_>) -> Result<bool, ApiViolation> {
    let [execution] = fields(value, ["execution"])?;
    Ok(text(execution)? == "server")
}

fn call<'t>(value: Value<'t>, space: &str, input: &'static str) -> Result<Call<'t>, ApiViolation> {
    let [call_id, space, name, given] = fields(value, ["call_id", space, "name", input])?;
    let given = text(given)?;
    Ok(Call {
        call_id: text(call_id)?,
        name: ToolName {
            namespace: space.map(|space| text(Some(space))).transpose()?,
            name: text(name)?,
        },
        given: if input == "input" {
            CallInput::Text(given)
        } else {
            CallInput::Arguments(given)
        },
    })
}

/// Reads a call of a built-in tool of the API: it is named after its type. Its input is the member that describes the
/// action, if there is exactly one, otherwise the whole item.
fn built_in<'t>(value: Value<'t>, kind: &str) -> Result<Call<'t>, ApiViolation> {
    let names = ["call_id", "action", "actions", "operation", "arguments"];
    let [call_id, action, actions, operation, arguments] = fields(value, names)?;
    let places = [action, actions, operation, arguments];
    let mut given = places.into_iter().flatten();
    let name = kind.strip_suffix("_call").unwrap_or(kind).to_owned();
    Ok(Call {
        call_id: text(call_id)?,
        name: ToolName {
            namespace: None,
            name: Cow::Owned(name),
        },
        given: CallInput::Json(match (given.next(), given.next()) {
            (Some(given), None) if given.is_object() => given,
            (_, _) => value,
        }),
    })
}

fn listed(value: Value<'_>) -> Result<ItemKind<'_>, ApiViolation> {
    let [server, tools] = fields(value, ["server_label", "tools"])?;
    let mut offered = Vec::new();
    for definition in items(tools)? {
        let [name] = fields(definition, ["name"])?;
        offered.push(Offered {
            name: ToolName {
                namespace: None,
                name: text(name)?,
            },
            definition: definition.raw(),
        });
    }
    Ok(ItemKind::Listed(text(server)?, offered))
}

//! Replacements for messages that are stopped.

use mcpmon_model::{
    AnswerOutcome, ClientRequestKind, Content, Denial, Era, FromClient, FromServer, Message, RequestId,
    ServerRequestKind,
};

use super::{
    edit::MessageEdit,
    refuse::{error_answer, error_into},
};
use crate::decode::{
    json::quote_into,
    jsonrpc::{Envelope, Payload, integer},
    mcp::ResultShape,
};

/// JSON-RPC's code for a request that the policy forbids; MCP does not use it.
const DENIED: i64 = -32_003;

/// MCP's code for an LLM call that the user rejects.
const SAMPLING_REJECTED: i64 = -1;

/// Longest part of a name that is repeated in an answer, characters.
const MAX_NAME: usize = 128;

/// The replacement for a message, without the end of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoppedMessage {
    /// Its sender waits for an answer, and gets this one.
    ToSender(String),
    /// Its receiver waits for it, and gets this instead.
    ToReceiver(String),
    /// Neither side waits for it.
    Dropped,
}

/// Builds the replacement for a message.
pub fn stop(
    envelope: &Envelope<'_>,
    message: &Message<'_>,
    shape: ResultShape,
    denial: &Denial,
) -> StoppedMessage {
    match &message.content {
        Content::Client(said) => stop_client(envelope, said, message.era, denial),
        Content::Server(said) => stop_server(envelope, said, shape, message.era, denial),
    }
}

/// Returns the answer to a request that will get no other answer.
pub fn denied(id: &RequestId, denial: &Denial) -> String {
    error_answer(Some(id), DENIED, &text("Request", denial))
}

fn stop_client(envelope: &Envelope<'_>, said: &FromClient<'_>, era: Era, denial: &Denial) -> StoppedMessage {
    let error = |what: &str| {
        let mut answer = String::new();
        error_into(DENIED, &text(what, denial), &mut answer);
        StoppedMessage::ToSender(reply(envelope, "error", &answer))
    };
    match said {
        FromClient::Call(call) => {
            let tool = named("Tool", &call.tool, denial);
            if era == Era::Handshake && wants_task(envelope) {
                return error(&tool);
            }
            let result = failed_call(&text(&tool, denial), era);
            StoppedMessage::ToSender(reply(envelope, "result", &result))
        }
        FromClient::Read { uri } => error(&named("Resource", uri, denial)),
        FromClient::Prompt { name, .. } => error(&named("Prompt", name, denial)),
        FromClient::Request { method, .. } => error(&named("Request", method, denial)),
        FromClient::Reply { to, .. } => StoppedMessage::ToReceiver(rejection(envelope, *to, "Reply", denial)),
        FromClient::Notice { .. } => StoppedMessage::Dropped,
    }
}

fn stop_server(
    envelope: &Envelope<'_>,
    said: &FromServer<'_>,
    shape: ResultShape,
    era: Era,
    denial: &Denial,
) -> StoppedMessage {
    match said {
        FromServer::Listing(_) => StoppedMessage::ToReceiver(as_error(envelope, "List", denial)),
        FromServer::Introduction(_) => StoppedMessage::ToReceiver(as_error(envelope, "Server", denial)),
        FromServer::Answer(answer) => {
            let what = match &answer.to.what {
                ClientRequestKind::Call { tool: Some(tool) } => named("Result of tool", tool, denial),
                ClientRequestKind::Call { tool: None } => "Result of a task".to_owned(),
                ClientRequestKind::Read { uri } => named("Content of resource", uri, denial),
                ClientRequestKind::Prompt { name } => named("Content of prompt", name, denial),
                ClientRequestKind::List(_) => "Answer".to_owned(),
                ClientRequestKind::Part { uri, .. } => named("Answer about", uri, denial),
                ClientRequestKind::Other { method } => named("Answer to", method, denial),
            };
            StoppedMessage::ToReceiver(match (&answer.outcome, shape, &envelope.payload) {
                (AnswerOutcome::Result { .. }, ResultShape::Call, Payload::Result(part)) => {
                    let mut edit = MessageEdit::of(envelope.whole);
                    edit.replace(part.value.range(), &failed_call(&text(&what, denial), era));
                    edit.finish()
                }
                (AnswerOutcome::Result { .. } | AnswerOutcome::Error { .. }, _, _) => {
                    as_error(envelope, &what, denial)
                }
            })
        }
        FromServer::Ask { ask, method, .. } => {
            let what = named("Request", method, denial);
            StoppedMessage::ToSender(rejection(envelope, *ask, &what, denial))
        }
        FromServer::ListChanged(_) | FromServer::Notice { .. } => StoppedMessage::Dropped,
    }
}

/// Returns whether a call is to become a task (2025-11-25). Its client accepts a task or an error, but no result of a
/// call.
fn wants_task(envelope: &Envelope<'_>) -> bool {
    let Payload::Method { params, .. } = &envelope.payload else {
        return false;
    };
    params
        .as_ref()
        .is_some_and(|params| params.member("task").is_some())
}

/// Returns an answer to a message, with its id as written.
fn reply(envelope: &Envelope<'_>, member: &str, value: &str) -> String {
    let id = envelope.whole.member("id").map_or("null", |id| id.text());
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":{value}}}")
}

/// Builds the client's rejection of a server request.
fn rejection(envelope: &Envelope<'_>, ask: ServerRequestKind, what: &str, denial: &Denial) -> String {
    let code = match ask {
        ServerRequestKind::Elicitation => return reply(envelope, "result", "{\"action\":\"decline\"}"),
        ServerRequestKind::Sampling => SAMPLING_REJECTED,
        ServerRequestKind::Roots | ServerRequestKind::Other => DENIED,
    };
    let mut error = String::new();
    error_into(code, &text(what, denial), &mut error);
    reply(envelope, "error", &error)
}

/// Turns an answer of the server into an error. An error keeps its code.
fn as_error(envelope: &Envelope<'_>, what: &str, denial: &Denial) -> String {
    let (part, code) = match &envelope.payload {
        Payload::Error(part) => (*part, part.value.member("code").and_then(integer)),
        Payload::Result(part) => (*part, None),
        Payload::Method { .. } => return rejection(envelope, ServerRequestKind::Other, what, denial),
    };
    let mut error = "\"error\":".to_owned();
    error_into(code.unwrap_or(DENIED), &text(what, denial), &mut error);
    let mut edit = MessageEdit::of(envelope.whole);
    edit.replace(part.start..part.value.range().end, &error);
    edit.finish()
}

/// Returns the result of a failed call.
fn failed_call(text: &str, era: Era) -> String {
    let mut result = "{\"content\":[{\"type\":\"text\",\"text\":".to_owned();
    quote_into(text, &mut result);
    result.push_str("}],\"isError\":true");
    match era {
        Era::Handshake => {}
        Era::Stateless => result.push_str(",\"resultType\":\"complete\""),
    }
    result.push('}');
    result
}

/// Builds the text for something that was stopped: the reason, the rule and the recorded event. A model reads it, so
/// the remedy, which is for a person, is left out; `mcpmon explain` shows it.
pub(crate) fn text(what: &str, denial: &Denial) -> String {
    let Denial {
        rule,
        reason,
        remedy: _,
        event,
    } = denial;
    let (verb, rule) = if denial.is_fault() {
        ("failed", None)
    } else {
        ("blocked by policy", Some(format!("rule {rule}")))
    };
    let recorded = event.map(|event| format!("event {event}"));
    let sources: Vec<String> = rule.into_iter().chain(recorded).collect();
    let sources = match &sources[..] {
        [] => String::new(),
        sources => format!(" ({})", sources.join(", ")),
    };
    let look_up = event.map_or_else(String::new, |event| {
        format!(" The user can look it up with: mcpmon explain {event}")
    });
    format!("[mcpmon] {what} {verb}: {reason}{sources}.{look_up}")
}

/// Returns the stopped item with its name, or without the name if that contains a secret, because answers are logged.
fn named(what: &str, name: &str, denial: &Denial) -> String {
    match denial.is_masked() {
        true => what.to_owned(),
        false => format!("{what} '{}'", shown(name)),
    }
}

/// Returns the part of a name that is repeated.
pub(crate) fn shown(name: &str) -> &str {
    name.char_indices()
        .nth(MAX_NAME)
        .map_or(name, |(end, _)| &name[..end])
}

//! The five APIs: parsing the calls that a request reports, and writing an answer.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
pub(crate) mod openai_responses;

use serde_json::Value;

use crate::script::{Item, Script};

/// An API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Anthropic,
    OpenaiChat,
    OpenaiResponses,
    Gemini { stream: bool },
    Ollama,
}

/// The answer to send.
pub(crate) struct Answer {
    pub(crate) content_type: &'static str,
    pub(crate) parts: Vec<Part>,
    /// Ids of the calls in the answer.
    pub(crate) calls: Vec<String>,
}

/// A piece of an answer, or a pause.
pub(crate) enum Part {
    Bytes(String),
    Pause(u64),
}

/// A request, and the number from which the ids of its answer are made.
pub(crate) struct Asked<'a> {
    pub(crate) script: &'a Script,
    pub(crate) body: &'a Value,
    pub(crate) number: usize,
    /// The number of turns that called tools and are not part of the request.
    pub(crate) before: usize,
}

impl Dialect {
    /// Returns the API that a path belongs to.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let is = |end| path.ends_with(end);
        if is("/v1/messages") {
            Some(Self::Anthropic)
        } else if is("/chat/completions") {
            Some(Self::OpenaiChat)
        } else if is("/responses") {
            Some(Self::OpenaiResponses)
        } else if is(":generateContent") {
            Some(Self::Gemini { stream: false })
        } else if is(":streamGenerateContent") {
            Some(Self::Gemini { stream: true })
        } else {
            is("/api/chat").then_some(Self::Ollama)
        }
    }

    pub(crate) fn answer(self, asked: &Asked<'_>) -> Answer {
        let flag = |default| asked.body["stream"].as_bool().unwrap_or(default);
        let (stream, calls) = match self {
            Self::Anthropic => (flag(false), anthropic::calls(asked.body)),
            Self::OpenaiChat => (flag(false), openai_chat::calls(asked.body)),
            Self::OpenaiResponses => (flag(false), asked.before + openai_responses::calls(asked.body)),
            Self::Gemini { stream } => (stream, gemini::calls(asked.body)),
            Self::Ollama => (flag(true), openai_chat::calls(asked.body)),
        };
        let has_tools = offers_tools(asked.body);
        let turn = asked.script.turn(calls, has_tools);
        let parts = match self {
            Self::Anthropic if stream => anthropic::stream(asked, &turn),
            Self::OpenaiChat if stream => openai_chat::stream(asked, &turn),
            Self::OpenaiResponses if stream => openai_responses::stream(asked, &turn),
            Self::Gemini { .. } if stream => gemini::stream(asked, &turn),
            Self::Ollama if stream => ollama::stream(asked, &turn),
            Self::Anthropic => whole(&anthropic::whole(asked, &turn)),
            Self::OpenaiChat => whole(&openai_chat::whole(asked, &turn)),
            Self::OpenaiResponses => whole(&openai_responses::whole(asked, &turn)),
            Self::Gemini { .. } => whole(&gemini::whole(asked, &turn)),
            Self::Ollama => whole(&ollama::whole(asked, &turn)),
        };
        let content_type = match self {
            _ if !stream => "application/json",
            Self::Ollama => "application/x-ndjson",
            Self::Anthropic | Self::OpenaiChat | Self::OpenaiResponses | Self::Gemini { .. } => {
                "text/event-stream"
            }
        };
        let id = |item: &Item| match item {
            Item::Tool { id, .. } => Some(id.clone()),
            Item::Text { .. } | Item::Thinking { .. } | Item::Pause { .. } => None,
        };
        Answer {
            content_type,
            parts,
            calls: turn.iter().filter_map(id).collect(),
        }
    }
}

/// Returns whether a request offers tools. Codex offers them in an item of the input.
fn offers_tools(body: &Value) -> bool {
    let is_some = |value: &Value| value["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    is_some(body)
        || body["input"]
            .as_array()
            .is_some_and(|items| items.iter().any(is_some))
}

fn whole(body: &Value) -> Vec<Part> {
    vec![Part::Bytes(body.to_string())]
}

/// Returns an event that has the name of its data's type.
fn named(data: &Value) -> Part {
    let name = data["type"].as_str().unwrap_or_default();
    Part::Bytes(format!("event: {name}\ndata: {data}\n\n"))
}

/// Returns an event without a name.
fn event(data: &Value) -> Part {
    Part::Bytes(format!("data: {data}\n\n"))
}

/// Returns all text of a turn.
fn text_of(turn: &[Item]) -> String {
    let texts = turn.iter().filter_map(|item| match item {
        Item::Text { text } => Some(text.as_str()),
        Item::Thinking { .. } | Item::Tool { .. } | Item::Pause { .. } => None,
    });
    texts.collect()
}

fn has_calls(turn: &[Item]) -> bool {
    turn.iter().any(Item::is_tool)
}

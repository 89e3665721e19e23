//! Tool-related content of requests to models and of their answers, in one form for all APIs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{RawJson, SessionId};

/// The API of a request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Chat Completions.
    OpenaiChat,
    /// `OpenAI` Responses.
    OpenaiResponses,
    /// Gemini `generateContent`.
    Gemini,
    /// Ollama chat.
    Ollama,
}

impl Dialect {
    /// Returns the name in events and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiChat => "openai_chat",
            Self::OpenaiResponses => "openai_responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }
}

/// One request to a model, with its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Agent session, if known.
    pub session: Option<SessionId>,
    /// User who asks, if known.
    pub uid: Option<u32>,
    /// The API.
    pub dialect: Dialect,
    /// The agent's own name (`User-Agent`): only a hint, because any program can send any name.
    pub agent: Option<Box<str>>,
    /// mcpmon's own id of the request.
    pub request: Box<str>,
    /// The trace that the request belongs to, if the agent sends one (W3C Trace Context).
    pub trace_parent: Option<Box<str>>,
}

/// A request to a model, or its answer, that was stopped because it could not be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltedExchange {
    /// The half of the exchange: request or response.
    pub half: ExchangeHalf,
    /// True if it is too long, false if it cannot be read.
    pub is_too_long: bool,
    /// The cause, as the user is told.
    pub cause: String,
}

/// A half of an [`Exchange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeHalf {
    /// The agent's request.
    Request,
    /// The provider's response.
    Response,
}

/// A fact about tools in a request or a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LlmMention<'a> {
    /// A request offers tools to the model; [`super::Verdict::Hide`] leaves some out.
    Offered(Vec<Offered<'a>>),
    /// A request has the provider use an MCP server without the client; no other layer sees its calls.
    Remote(ProviderServer<'a>),
    /// A request has the provider run one of its own tools: web search, code execution.
    Hosted {
        /// The type of the tool, as the API names it: `web_search_20250305`, `code_interpreter`.
        kind: Cow<'a, str>,
    },
    /// The model wants a tool called by the agent.
    Call(Intent<'a>),
    /// The provider has already called a tool.
    Called {
        /// The MCP server, by the label the request gave it; `None` for one of the provider's own tools.
        server: Option<Cow<'a, str>>,
        /// The call that was answered.
        intent: Intent<'a>,
    },
    /// The provider reports which tools an MCP server of the request offers.
    Listed {
        /// The server, by the label the request gave it.
        server: Cow<'a, str>,
        /// Its tools.
        tools: Vec<Offered<'a>>,
    },
}

/// A tool that a model may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered<'a> {
    /// Its name, as the model knows it.
    pub name: ToolName<'a>,
    /// Its whole definition, an object.
    pub definition: RawJson<'a>,
}

/// A tool's name, as a model knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolName<'a> {
    /// The namespace of the tool, in APIs that have one (Codex: one per MCP server).
    pub namespace: Option<Cow<'a, str>>,
    /// The name, or the name in the namespace.
    pub name: Cow<'a, str>,
}

/// An MCP server that a provider is to use without the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderServer<'a> {
    /// The label of the server in the request.
    pub label: Cow<'a, str>,
    /// The server's URL; `None` if the provider knows the server by another name (a connector).
    pub url: Option<Cow<'a, str>>,
    /// The tools of it that may be used; `None` for all.
    pub tools: Option<Vec<Cow<'a, str>>>,
}

/// A call that a model wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent<'a> {
    /// The model's id of the call: `tool_use` id, `call_id`.
    pub id: Option<Cow<'a, str>>,
    /// The tool.
    pub name: ToolName<'a>,
    /// The input of the call.
    pub input: Input<'a>,
}

/// The input of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// JSON.
    Json(RawJson<'a>),
    /// Text that need not be JSON: a custom tool, or a shell's command.
    Text(Cow<'a, str>),
    /// Text that should be JSON and is not (the model's output was cut off, or is wrong).
    Malformed(Cow<'a, str>),
}

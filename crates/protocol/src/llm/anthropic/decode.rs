//! Decoding of Anthropic Messages: events of a stream, blocks of a message.

use std::borrow::Cow;

use mcpmon_model::{Offered, ToolName};

use crate::{
    decode::{
        json::{Value, ValueKind},
        jsonrpc::MISSPELLED,
    },
    llm::ApiViolation,
};

/// An event of a stream.
#[derive(Clone, Debug)]
pub(super) enum Event<'t> {
    /// A message starts; it may have content already.
    MessageStart(Value<'t>),
    /// A block of the message starts.
    Start {
        /// The index of the block.
        index: usize,
        /// The block, as far as it is known.
        block: Block<'t>,
    },
    /// More of a block.
    Delta {
        /// The index of the block.
        index: usize,
        /// The delta.
        delta: Delta<'t>,
    },
    /// A block is complete.
    Stop {
        /// The index of the block.
        index: usize,
    },
    /// The end of the message is described.
    MessageDelta {
        /// The reason why the message ends.
        stop_reason: Option<Value<'t>>,
    },
    /// The message is over.
    MessageStop,
    /// The stream ended with an error.
    Error,
    /// An event that cannot be part of a call.
    Other,
}

impl<'t> Event<'t> {
    /// Reads an event's data.
    ///
    /// # Errors
    /// Returns an error if it is about a message and breaks the rules of the API.
    pub(super) fn read(data: Value<'t>) -> Result<Self, ApiViolation> {
        let names = ["type", "index", "message", "content_block", "delta"];
        let [kind, index, message, block, delta] = pick(data, names)?;
        let kind = kind.and_then(Value::string);
        Ok(match kind.as_deref() {
            Some("message_start") => Self::MessageStart(object(message)?),
            Some("content_block_start") => Self::Start {
                index: position(index)?,
                block: Block::read(object(block)?)?,
            },
            Some("content_block_delta") => Self::Delta {
                index: position(index)?,
                delta: Delta::read(object(delta)?)?,
            },
            Some("content_block_stop") => Self::Stop {
                index: position(index)?,
            },
            Some("message_delta") => {
                let [stop_reason] = pick(object(delta)?, ["stop_reason"])?;
                Self::MessageDelta { stop_reason }
            }
            Some("message_stop") => Self::MessageStop,
            Some("error") => Self::Error,
            _ if message.is_some() || block.is_some() || delta.is_some() => {
                return Err(ApiViolation(
                    "an event of an unknown type has a part of a message",
                ));
            }
            _ => Self::Other,
        })
    }

    /// Returns the event's name on the wire, if the event is part of a message.
    pub(super) const fn name(&self) -> Option<&'static str> {
        match self {
            Self::MessageStart(_) => Some("message_start"),
            Self::Start { .. } => Some("content_block_start"),
            Self::Delta { .. } => Some("content_block_delta"),
            Self::Stop { .. } => Some("content_block_stop"),
            Self::MessageDelta { .. } => Some("message_delta"),
            Self::MessageStop => Some("message_stop"),
            Self::Error | Self::Other => None,
        }
    }
}

/// A block of a message.
#[derive(Clone, Debug)]
pub(super) enum Block<'t> {
    /// The client has to call a tool.
    Call(Call<'t>),
    /// The provider called a tool.
    Called {
        /// The MCP server; `None` for a tool of the provider.
        server: Option<Cow<'t, str>>,
        /// The call.
        call: Call<'t>,
    },
    /// The provider listed an MCP server's tools.
    Listed {
        /// The server.
        server: Cow<'t, str>,
        /// Its tools.
        tools: Vec<Offered<'t>>,
    },
    /// Text, thinking or a result, which no side executes.
    Other,
}

/// A call, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Call<'t> {
    /// Its id.
    pub(super) id: Option<Cow<'t, str>>,
    /// The tool.
    pub(super) name: ToolName<'t>,
    /// The input of the call; `None` if it is empty, as it is before a stream delivers it.
    pub(super) input: Option<Value<'t>>,
}

impl<'t> Block<'t> {
    /// Reads a block.
    ///
    /// # Errors
    /// Returns an error if it is a call whose name is uncertain.
    pub(super) fn read(block: Value<'t>) -> Result<Self, ApiViolation> {
        let names = ["type", "id", "name", "input", "toolset_name", "server_name"];
        let [kind, id, name, input, toolset, server] = pick(block, names)?;
        let kind = kind.and_then(Value::string);
        let kind = kind.as_deref().unwrap_or_default();
        if kind == "mcp_tool_listing" {
            return Self::listed(block);
        }
        // A new type of executable block is assumed to have the members of a call.
        if !kind.ends_with("tool_use") && input.is_none() {
            return Ok(Self::Other);
        }
        let call = Call {
            id: id.and_then(Value::string),
            name: ToolName {
                namespace: toolset.and_then(Value::string),
                name: name
                    .and_then(Value::string)
                    .ok_or(ApiViolation("a call has no name"))?,
            },
            input: input.filter(|input| !is_empty(*input)),
        };
        Ok(match kind {
            "server_tool_use" => Self::Called { server: None, call },
            "mcp_tool_use" => Self::Called {
                server: Some(server.and_then(Value::string).unwrap_or_default()),
                call,
            },
            _ => Self::Call(call),
        })
    }

    fn listed(block: Value<'t>) -> Result<Self, ApiViolation> {
        let [server, tools] = pick(block, ["mcp_server_name", "tools"])?;
        let mut offered = Vec::new();
        for tool in tools.into_iter().flat_map(Value::items) {
            let [name] = pick(tool, ["name"])?;
            offered.push(Offered {
                name: ToolName {
                    namespace: None,
                    name: name.and_then(Value::string).unwrap_or_default(),
                },
                definition: tool.raw(),
            });
        }
        Ok(Self::Listed {
            server: server.and_then(Value::string).unwrap_or_default(),
            tools: offered,
        })
    }
}

/// The content that a delta adds.
#[derive(Clone, Debug)]
pub(super) enum Delta<'t> {
    /// A part of a call's input, which is JSON once it is complete.
    Input(Cow<'t, str>),
    /// A part of a text, thinking, a signature or citations.
    Text,
    /// A delta of an unknown type.
    Unknown,
}

impl<'t> Delta<'t> {
    fn read(delta: Value<'t>) -> Result<Self, ApiViolation> {
        let [kind, input] = pick(delta, ["type", "partial_json"])?;
        let kind = kind.and_then(Value::string);
        match (kind.as_deref(), input) {
            (Some("input_json_delta"), input) => {
                let input = input.and_then(Value::string);
                input
                    .map(Self::Input)
                    .ok_or(ApiViolation("a part of an input is no text"))
            }
            (_, Some(_)) => Err(ApiViolation("a delta of another type has a part of an input")),
            (
                Some(
                    "text_delta" | "thinking_delta" | "signature_delta" | "citations_delta"
                    | "compaction_delta",
                ),
                None,
            ) => Ok(Self::Text),
            (_, None) => Ok(Self::Unknown),
        }
    }
}

/// A whole message, as far as it concerns calls.
#[derive(Clone, Debug)]
pub(super) struct Message<'t> {
    /// Its blocks, as written and as decoded.
    pub(super) content: Vec<(Value<'t>, Block<'t>)>,
    /// The reason why it ended.
    pub(super) stop_reason: Option<Value<'t>>,
}

impl<'t> Message<'t> {
    /// Reads a message; a value that is no message has no content.
    ///
    /// # Errors
    /// Returns an error if a block cannot be read.
    pub(super) fn read(message: Value<'t>) -> Result<Self, ApiViolation> {
        let [content, stop_reason] = pick(message, ["content", "stop_reason"])?;
        if content.is_some_and(Value::is_object) {
            return Err(ApiViolation("the content of a message is an object"));
        }
        let mut blocks = Vec::new();
        for block in content.into_iter().flat_map(Value::items) {
            blocks.push((block, Block::read(block)?));
        }
        Ok(Self {
            content: blocks,
            stop_reason,
        })
    }
}

/// Returns the members that decide the type of a value. Some writers write absent members as null.
fn pick<'t, const N: usize>(
    object: Value<'t>,
    names: [&str; N],
) -> Result<[Option<Value<'t>>; N], ApiViolation> {
    let picked = object.pick(names).ok_or(ApiViolation(MISSPELLED))?;
    Ok(picked.map(|value| value.filter(|value| !value.is_null())))
}

fn object(value: Option<Value<'_>>) -> Result<Value<'_>, ApiViolation> {
    value
        .filter(|value| value.is_object())
        .ok_or(ApiViolation("an event lacks what it is about"))
}

/// Reads an index into an array. SDKs differ in what they accept as an integer, so only plain digits are one.
fn position(value: Option<Value<'_>>) -> Result<usize, ApiViolation> {
    let digits = value.map_or("", Value::text);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let position = is_plain.then(|| digits.parse().ok()).flatten();
    position.ok_or(ApiViolation("an index is no position"))
}

/// Returns whether an input is empty, as it is before the stream delivers it.
fn is_empty(input: Value<'_>) -> bool {
    match input.kind() {
        ValueKind::Null => true,
        ValueKind::Object => input.members().next().is_none(),
        ValueKind::String => input.text() == "\"\"",
        ValueKind::Boolean | ValueKind::Number | ValueKind::Array => false,
    }
}

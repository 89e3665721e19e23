//! Messages of both sides of an MCP conversation, decoded and matched to the requests they answer. Every
//! transport builds these; the Monitor judges them.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{DefinitionKind, Digest, Layer, PinKey, RawJson, ServerType, SessionId, Timestamp};

/// A client and a server over one transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The server, as the owner of the pins of its definitions.
    pub identity: PinKey,
    /// The way the server is reached.
    pub server_type: ServerType,
    /// Agent session, if known.
    pub session: Option<SessionId>,
    /// The layer that observes it.
    pub layer: Layer,
}

/// A user id for no user of this host: the kernel uses it for none.
pub const NO_USER: u32 = u32::MAX;

impl Conversation {
    /// Returns the user who asks, if no process on this host serves, whose user would be known otherwise.
    pub fn client_uid(&self) -> Option<u32> {
        let uid = self.identity.uid;
        (self.layer == Layer::McpHttp && uid != NO_USER).then_some(uid)
    }
}

/// The side of a conversation that sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The agent's side.
    Client,
    /// The server.
    Server,
}

/// The kind of protocol revision of a message. One channel can carry both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Era {
    /// Revisions 2024-11-05 to 2025-11-25: `initialize`, then requests of both sides.
    #[default]
    Handshake,
    /// Revisions from 2026-07-28: no handshake, no requests of the server; `resultType` in every result.
    Stateless,
}

/// Id of a JSON-RPC request. Numbers are integers, kept as written: MCP allows no others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestId {
    /// An integer, in the digits it was written with.
    Number(Box<str>),
    /// A string, unescaped.
    Text(Box<str>),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for RequestId {
    /// Serializes the id as it is in a message; a number beyond 64 bits becomes a string of its digits.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(digits) => match (digits.parse::<i64>(), digits.parse::<u64>()) {
                (Ok(number), _) => serializer.serialize_i64(number),
                (Err(_), Ok(number)) => serializer.serialize_u64(number),
                (Err(_), Err(_)) => serializer.serialize_str(digits),
            },
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Id;

        impl de::Visitor<'_> for Id {
            type Value = RequestId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a string")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<RequestId, E> {
                Ok(RequestId::Number(number.to_string().into()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<RequestId, E> {
                Ok(RequestId::Number(number.to_string().into()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RequestId, E> {
                Ok(RequestId::Text(text.into()))
            }
        }

        deserializer.deserialize_any(Id)
    }
}

/// The ids by which other layers know a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace<'a> {
    /// `_meta["claudecode/toolUseId"]` or `_meta.callId`.
    pub tool_call: Option<Cow<'a, str>>,
    /// `_meta.traceparent` (W3C Trace Context).
    pub parent: Option<Cow<'a, str>>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The revision it was written under.
    pub era: Era,
    /// Id of the request, or of the request that it answers; `None` for a notification.
    pub id: Option<&'a RequestId>,
    /// Ids of other layers.
    pub trace: Trace<'a>,
    /// Its length, bytes.
    pub size: usize,
    /// The content of the message.
    pub content: Content<'a>,
}

/// The content of a message, by its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The client sent it.
    Client(FromClient<'a>),
    /// The server sent it.
    Server(FromServer<'a>),
}

/// The content of a client's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient<'a> {
    /// `tools/call`.
    Call(Call<'a>),
    /// `resources/read`, and `resources/subscribe`.
    Read {
        /// The resource.
        uri: Cow<'a, str>,
    },
    /// `prompts/get`.
    Prompt {
        /// The prompt.
        name: Cow<'a, str>,
        /// Its arguments.
        arguments: Option<RawJson<'a>>,
    },
    /// Any other request: `initialize`, lists, `completion/complete`, `tasks/*`…
    Request {
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<RawJson<'a>>,
    },
    /// The answer to a request of the server.
    Reply {
        /// The server request that this answers.
        to: ServerRequestKind,
        /// `result`, or `error`.
        body: RawJson<'a>,
    },
    /// A notification.
    Notice {
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<RawJson<'a>>,
    },
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The tool, as the server knows it.
    pub tool: Cow<'a, str>,
    /// Its arguments; `None` if the member is missing.
    pub arguments: Option<RawJson<'a>>,
    /// The members by which the call resumes one that asked for input: `inputResponses`, `requestState`.
    pub resumes: Option<RawJson<'a>>,
}

/// The content of a server's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromServer<'a> {
    /// One page of a list.
    Listing(Listing<'a>),
    /// The result of `initialize` or `server/discover`.
    Introduction(Introduction<'a>),
    /// Any other answer.
    Answer(Answer<'a>),
    /// A request of the server.
    Ask {
        /// The kind of request.
        ask: ServerRequestKind,
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<RawJson<'a>>,
    },
    /// A list has changed.
    ListChanged(ListKind),
    /// Any other notification: progress, log messages, task status, resource updates.
    Notice {
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<RawJson<'a>>,
    },
}

/// The kinds of requests a server makes to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerRequestKind {
    /// `sampling/createMessage`: an LLM call.
    Sampling,
    /// `elicitation/create`: a question to the user.
    Elicitation,
    /// `roots/list`.
    Roots,
    /// `ping`, tasks of the client, and what later revisions add.
    Other,
}

/// The kind of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
    /// `skills/list`.
    Skills,
}

impl ListKind {
    /// Returns the list that offers definitions of this kind; `None` for instructions and apps, which are on no list.
    pub const fn of(kind: DefinitionKind) -> Option<Self> {
        match kind {
            DefinitionKind::Tool => Some(Self::Tools),
            DefinitionKind::Prompt => Some(Self::Prompts),
            DefinitionKind::Resource => Some(Self::Resources),
            DefinitionKind::Template => Some(Self::Templates),
            DefinitionKind::Skill => Some(Self::Skills),
            DefinitionKind::Instructions | DefinitionKind::App => None,
        }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<'a> {
    /// The kind of list.
    pub kind: ListKind,
    /// The items on the page, in the server's order.
    pub items: Vec<ListedItem<'a>>,
    /// True if it continues an earlier page: the request had a cursor.
    pub continued: bool,
    /// True if another page follows: the result has a cursor.
    pub more: bool,
    /// True if it is no page of the list but a part that was requested by its URI: one skill, or one directory of
    /// resources. A definition that is not in it is not gone.
    pub is_part: bool,
    /// The whole result.
    pub result: RawJson<'a>,
    /// Digest of its text, if the same text was read before, byte for byte.
    pub again: Option<Digest>,
}

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedItem<'a> {
    /// Its name; a resource's or skill's URI, a template's URI template.
    pub name: Cow<'a, str>,
    /// Its whole definition, an object.
    pub definition: RawJson<'a>,
}

/// A server's introduction: its name, version and instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction<'a> {
    /// The text in which the server describes itself to the model.
    pub instructions: Option<Cow<'a, str>>,
    /// `serverInfo.name`.
    pub name: Option<Cow<'a, str>>,
    /// The whole result.
    pub result: RawJson<'a>,
}

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The request that it answers.
    pub to: AnsweredRequest,
    /// The outcome of the request.
    pub outcome: AnswerOutcome<'a>,
}

/// A pending request, with what is needed to judge its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredRequest {
    /// The content of the request that judging the answer needs.
    pub what: ClientRequestKind,
    /// The time at which the request was forwarded.
    pub at: Timestamp,
}

/// The kinds of requests a client makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRequestKind {
    /// `tools/call`, or `tasks/get` and `tasks/result` for a call that became a task.
    Call {
        /// The tool; `None` for a task whose call was not seen.
        tool: Option<Box<str>>,
    },
    /// `resources/read`.
    Read {
        /// The resource.
        uri: Box<str>,
    },
    /// `prompts/get`.
    Prompt {
        /// The prompt.
        name: Box<str>,
    },
    /// A list. Its answer comes as [`FromServer::Listing`], unless it is an error.
    List(ListKind),
    /// One entry of a list (`skills/get`), or one directory (`resources/directory/read`). Its answer comes as
    /// [`FromServer::Listing`], unless it is an error.
    Part {
        /// The list.
        of: ListKind,
        /// The URI of the entry or directory.
        uri: Box<str>,
    },
    /// Any other method.
    Other {
        /// The method.
        method: Box<str>,
    },
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerOutcome<'a> {
    /// `result`.
    Result {
        /// The whole result.
        result: RawJson<'a>,
        /// The kind of result.
        kind: ResultKind,
    },
    /// `error`.
    Error {
        /// Its code.
        code: i64,
        /// Its message: clients give it to the model unchanged.
        message: Cow<'a, str>,
        /// The whole error object.
        error: RawJson<'a>,
    },
}

/// The kinds of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResultKind {
    /// The request succeeded.
    Complete,
    /// The request failed: `isError: true`.
    Failed,
    /// The server needs input first: `resultType: "input_required"` with `inputRequests`.
    InputRequired,
    /// The result comes later: `resultType: "task"`, or a task of 2025-11-25.
    Task,
}

/// Bytes that are no message, or a message that may not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// The client's message is not strict JSON-RPC; it was answered with an error and not forwarded.
    Unparsable {
        /// The cause, with the position.
        cause: String,
    },
    /// The headers of a request differ from its body; it was answered with an error and not forwarded.
    HeaderMismatch {
        /// The difference.
        cause: String,
    },
    /// A message exceeded the limit; it was not forwarded, and both sides were told.
    TooLong {
        /// The sender.
        side: Side,
        /// The limit, bytes.
        limit: usize,
    },
    /// The server's output is not a message; it did not reach the client.
    Noise {
        /// Its length.
        bytes: usize,
    },
    /// An answer to a request that was not made, or was answered already; it was dropped.
    Unasked {
        /// The sender.
        side: Side,
        /// Its id.
        id: RequestId,
    },
    /// A request with the id of another pending one, or beyond the limit of pending ones; it was refused.
    Refused {
        /// The sender.
        side: Side,
        /// Its id.
        id: RequestId,
        /// The cause.
        cause: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(RequestId::Number("-7".into()) => "-7"; "a number")]
    #[test_case(RequestId::Number("18446744073709551615".into()) => "18446744073709551615"; "a large number")]
    #[test_case(RequestId::Text("a\"b".into()) => r#""a\"b""#; "a text")]
    #[test_case(RequestId::Text("7".into()) => r#""7""#; "a text of digits")]
    fn an_id_is_written_as_it_stands_in_a_message(id: RequestId) -> String {
        let json = serde_json::to_string(&id).expect("plain");
        assert_eq!(serde_json::from_str::<RequestId>(&json).expect("as written"), id);
        json
    }

    #[test]
    fn a_number_beyond_64_bits_is_its_digits() {
        let digits = "9".repeat(40);
        let json = serde_json::to_string(&RequestId::Number(digits.clone().into())).expect("plain");
        assert_eq!(json, format!("\"{digits}\""));
    }
}

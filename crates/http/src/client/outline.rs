//! Outlines of messages, as far as HTTP depends on them: the requests that await an answer, and the required headers.

use std::borrow::Cow;

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use mcpmon_model::RequestId;
use mcpmon_protocol::{
    decode::{
        json::{LoneSurrogate, MAX_DEPTH, Scanner, Value, ValueKind, quote_into},
        jsonrpc::{Envelope, Payload},
    },
    filter::mcp_http::value,
};

use super::{params::ToolHeaders, wire::VERSION};

/// The `_meta` key under which a request of the stateless era gives its revision.
pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Code of an error: a required header is missing, or does not match the body.
const HEADER_MISMATCH: &str = "-32020";
/// Longest name that is sent in a header, bytes: servers limit the size of a request's head.
const MAX_NAME: usize = 4096;

/// The kind of a client's message, as far as HTTP is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientMessageKind {
    /// `initialize`, with its parameters.
    Handshake(String),
    /// `notifications/initialized`.
    Ready,
    /// A request.
    Request,
    /// `notifications/cancelled`, with the cancelled request.
    Cancelled(RequestId),
    /// A notification, or an answer to the server.
    Other,
    /// Several messages in an array.
    Batch,
}

/// A message of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientMessage {
    pub(crate) what: ClientMessageKind,
    /// The requests whose answers are awaited.
    pub(crate) requests: Vec<RequestId>,
    pub(crate) method: Option<String>,
    /// The revision that the message itself names; only messages of the stateless era do.
    pub(crate) version: Option<String>,
    /// The headers that the stateless era requires.
    pub(crate) headers: HeaderMap,
}

impl ClientMessage {
    /// Reads a message of a client. Returns `None` if the text is not a message.
    pub(crate) fn read(line: &[u8], tools: &ToolHeaders) -> Option<Self> {
        let mut scanner = Scanner::new(MAX_DEPTH);
        let root = scanner.scan(line, LoneSurrogate::Replace).ok()?.document.root();
        if root.kind() == ValueKind::Array {
            let envelopes = root.items().filter_map(|item| Envelope::read(item).ok());
            return Some(Self {
                what: ClientMessageKind::Batch,
                requests: envelopes.filter_map(awaited).collect(),
                method: None,
                version: None,
                headers: HeaderMap::new(),
            });
        }
        let envelope = Envelope::read(root).ok()?;
        let Payload::Method { method, params } = &envelope.payload else {
            return Some(Self {
                what: ClientMessageKind::Other,
                requests: Vec::new(),
                method: None,
                version: None,
                headers: HeaderMap::new(),
            });
        };
        let version = params.and_then(version);
        let headers = version
            .as_deref()
            .map(|version| headers(version, method, *params, tools));
        Some(Self {
            what: what(method, *params, envelope.id.is_some()),
            requests: awaited(envelope.clone()).into_iter().collect(),
            method: Some(method.to_string()),
            headers: headers.unwrap_or_default(),
            version,
        })
    }
}

/// Returns the id of a request; an answer awaits nothing.
fn awaited(envelope: Envelope<'_>) -> Option<RequestId> {
    match envelope.payload {
        Payload::Method { .. } => envelope.id,
        Payload::Result(_) | Payload::Error(_) => None,
    }
}

fn what(method: &str, params: Option<Value<'_>>, is_request: bool) -> ClientMessageKind {
    match (method, is_request) {
        ("initialize", true) => ClientMessageKind::Handshake(
            params.map_or_else(|| "{}".to_owned(), |params| params.text().to_owned()),
        ),
        (_, true) => ClientMessageKind::Request,
        ("notifications/initialized", false) => ClientMessageKind::Ready,
        ("notifications/cancelled", false) => {
            let id = params.and_then(|params| request_id(params.member("requestId")?));
            id.map_or(ClientMessageKind::Other, ClientMessageKind::Cancelled)
        }
        (_, false) => ClientMessageKind::Other,
    }
}

fn request_id(value: Value<'_>) -> Option<RequestId> {
    match value.kind() {
        ValueKind::Number => Some(RequestId::Number(value.text().into())),
        ValueKind::String => Some(RequestId::Text(value.string()?.into())),
        ValueKind::Null | ValueKind::Boolean | ValueKind::Array | ValueKind::Object => None,
    }
}

fn version(params: Value<'_>) -> Option<String> {
    let version = params.member("_meta")?.member(META_VERSION)?.string()?;
    Some(version.into_owned())
}

/// Returns the headers that the stateless era requires. They repeat parts of the body, and must not differ from it.
fn headers(version: &str, method: &str, params: Option<Value<'_>>, tools: &ToolHeaders) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name: HeaderName, text: &str| {
        if text.len() <= MAX_NAME {
            headers.insert(name, encoded(text));
        }
    };
    put(VERSION, version);
    put(METHOD, method);
    let member = |name: &str| params?.member(name)?.string();
    let name: Option<Cow<'_, str>> = match method {
        "tools/call" | "prompts/get" => member("name"),
        "resources/read" => member("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => member("taskId"),
        _ => None,
    };
    if let Some(name) = &name {
        put(NAME, name);
    }
    if method == "tools/call"
        && let (Some(tool), Some(arguments)) = (&name, params.and_then(|params| params.member("arguments")))
    {
        headers.extend(tools.of_call(tool, arguments));
    }
    headers
}

/// Encodes a text as the value of a header: unchanged if that is valid, else in base64.
pub(super) fn encoded(text: &str) -> HeaderValue {
    HeaderValue::from_str(&value::encode(text)).expect("visible ASCII can stand in a header")
}

/// The request that a server's message answers, and the one that it makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnsweredByServer {
    /// Requests that it answers; `None` for an error that names none.
    pub(crate) answers: Vec<Option<RequestId>>,
    /// Requests of the server, with their methods.
    pub(crate) asks: Vec<(RequestId, String)>,
}

/// Reads a message of a server, or several in an array. Returns `None` if the text is not a message.
pub(crate) fn heard(text: &[u8]) -> Option<AnsweredByServer> {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let root = scanner.scan(text, LoneSurrogate::Replace).ok()?.document.root();
    let mut heard = AnsweredByServer::default();
    let mut take = |value: Value<'_>| {
        if let Ok(envelope) = Envelope::read(value) {
            match (envelope.payload, envelope.id) {
                (Payload::Method { method, .. }, Some(id)) => heard.asks.push((id, method.into_owned())),
                (Payload::Method { .. }, None) => {}
                (Payload::Result(_) | Payload::Error(_), id) => heard.answers.push(id),
            }
            return true;
        }
        // A server that could not read a request answers with an error without an id.
        let is_error = value.member("error").is_some_and(Value::is_object);
        if is_error && value.member("id").is_none_or(Value::is_null) {
            heard.answers.push(None);
        }
        is_error
    };
    let is_message = match root.kind() == ValueKind::Array {
        true => root.items().map(&mut take).fold(false, |any, is| any | is),
        false => take(root),
    };
    is_message.then_some(heard)
}

/// Returns the error in a server's answer, as JSON, whatever the answer's id is.
pub(crate) fn error_of(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let root = scanner.scan(text, LoneSurrogate::Replace).ok()?.document.root();
    let error = root.member("error")?;
    let code = error.member("code")?;
    let is_error = code.kind() == ValueKind::Number && error.member("message")?.string().is_some();
    is_error.then(|| error.text().to_owned())
}

/// Returns whether a server refused a request because its headers and its body differ.
pub(crate) fn is_header_mismatch(text: &[u8]) -> bool {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let root = scanner
        .scan(text, LoneSurrogate::Replace)
        .ok()
        .map(|scan| scan.document.root());
    let code = root.and_then(|root| root.member("error")?.member("code"));
    code.is_some_and(|code| code.text() == HEADER_MISMATCH)
}

/// Returns the revision that the server names in its answer to `initialize`.
pub(crate) fn agreed(answer: &[u8]) -> Option<String> {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let root = scanner.scan(answer, LoneSurrogate::Replace).ok()?.document.root();
    let version = root.member("result")?.member("protocolVersion")?.string()?;
    Some(version.into_owned())
}

/// Returns the capabilities of a server for which it announces `listChanged`.
pub(crate) fn tells_changes(answer: &[u8]) -> Vec<String> {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let scan = scanner.scan(answer, LoneSurrogate::Replace).ok();
    let capabilities = scan.and_then(|scan| scan.document.root().member("result")?.member("capabilities"));
    let told = |name: &&str| {
        let capability = capabilities.and_then(|capabilities| capabilities.member(name));
        let tells = capability.and_then(|capability| capability.member("listChanged"));
        tells.is_some_and(Value::is_true)
    };
    ["tools", "prompts", "resources"]
        .iter()
        .filter(|name| told(name))
        .map(|name| (*name).to_owned())
        .collect()
}

/// Returns an answer to `id` with an error object, as JSON.
pub(crate) fn with_error(id: &RequestId, error: &str) -> String {
    let mut answer = "{\"jsonrpc\":\"2.0\",\"id\":".to_owned();
    match id {
        RequestId::Number(digits) => answer.push_str(digits),
        RequestId::Text(text) => quote_into(text, &mut answer),
    }
    answer.push_str(",\"error\":");
    answer.push_str(error);
    answer.push('}');
    answer
}

/// Returns an error object, as JSON.
pub(crate) fn error(code: i64, message: &str) -> String {
    let mut error = format!("{{\"code\":{code},\"message\":");
    quote_into(message, &mut error);
    error.push('}');
    error
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn number(id: &str) -> RequestId {
        RequestId::Number(id.into())
    }

    fn outline(line: &str) -> ClientMessage {
        ClientMessage::read(line.as_bytes(), &ToolHeaders::default()).expect("a message")
    }

    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"a":1}}"# => (ClientMessageKind::Handshake(r#"{"a":1}"#.to_owned()), 1); "handshake")]
    #[test_case(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"# => (ClientMessageKind::Ready, 0); "ready")]
    #[test_case(r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"# => (ClientMessageKind::Request, 1); "request")]
    #[test_case(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345678901234567890123}}"# => (ClientMessageKind::Cancelled(number("12345678901234567890123")), 0); "cancelled")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{}}"# => (ClientMessageKind::Other, 0); "reply")]
    #[test_case(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"# => (ClientMessageKind::Batch, 2); "batch")]
    fn messages(line: &str) -> (ClientMessageKind, usize) {
        let outline = outline(line);
        (outline.what, outline.requests.len())
    }

    #[test]
    fn a_request_of_the_stateless_era_is_told_by_headers_too() {
        let line = concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"notes://a/é","#,
            r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#
        );
        let headers = outline(line).headers;
        let value = |name: &str| headers[name].to_str().unwrap().to_owned();
        assert_eq!(value("mcp-protocol-version"), "2026-07-28");
        assert_eq!(value("mcp-method"), "resources/read");
        assert_eq!(value("mcp-name"), "=?base64?bm90ZXM6Ly9hL8Op?=");
        let earlier = outline(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#);
        assert!(earlier.headers.is_empty());
    }

    #[test_case("plain text" => "plain text"; "plain")]
    #[test_case(" a" => "=?base64?IGE=?="; "white space around it")]
    #[test_case("=?base64?eA==?=" => "=?base64?PT9iYXNlNjQ/ZUE9PT89?="; "what looks encoded")]
    #[test_case("a\r\nX: b" => "=?base64?YQ0KWDogYg==?="; "the end of a line")]
    fn values(text: &str) -> String {
        encoded(text).to_str().unwrap().to_owned()
    }

    #[test]
    fn what_a_server_says_is_told_by_what_it_answers() {
        let answered = |text: &str| heard(text.as_bytes()).map(|heard| heard.answers);
        let one = Some(vec![Some(number("1"))]);
        assert_eq!(answered(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), one);
        assert_eq!(
            answered(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#),
            Some(vec![None])
        );
        assert_eq!(answered(r#"[{"jsonrpc":"2.0","id":1,"result":{}},7]"#), one);
        assert_eq!(answered("<html>"), None);
        let asks = heard(br#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#)
            .unwrap()
            .asks;
        assert_eq!(asks, [(RequestId::Text("x".into()), "ping".to_owned())]);
    }
}

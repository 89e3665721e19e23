//! JSON-RPC 2.0 envelopes: what a value is, or why it is none. MCP's narrower rules hold: ids are integers or
//! strings, parameters are objects.

use std::borrow::Cow;

use mcpmon_model::RequestId;

use super::json::{Value, is_spelled_like};

/// Members that an envelope can have.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The cause reported for an object that not all readers understand alike: see [`is_spelled_like`].
pub const MISSPELLED: &str = "a member's name is another spelling of a known one";

/// One message.
#[derive(Clone, Debug)]
pub struct Envelope<'t> {
    /// The whole message.
    pub whole: Value<'t>,
    /// Its id; `None` for a notification.
    pub id: Option<RequestId>,
    /// The payload of the message.
    pub payload: Payload<'t>,
}

/// The payload of a message.
#[derive(Clone, Debug)]
pub enum Payload<'t> {
    /// A request, if there is an id; otherwise a notification.
    Method {
        /// The method.
        method: Cow<'t, str>,
        /// An object, if there is one; `null` is none.
        params: Option<Value<'t>>,
    },
    /// The result of a request, an object.
    Result(EnvelopeMember<'t>),
    /// The error in place of a result, an object with a code and a message.
    Error(EnvelopeMember<'t>),
}

/// A member of an envelope.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeMember<'t> {
    /// The position of its name.
    pub start: usize,
    /// Its value.
    pub value: Value<'t>,
}

/// A value that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEnvelope {
    /// Its id, where it has one that can be read.
    pub id: Option<RequestId>,
    /// True if it has a method, so that its sender may wait for an answer.
    pub has_method: bool,
    /// The cause.
    pub cause: &'static str,
}

impl<'t> Envelope<'t> {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// Returns an error if it is none, with its id if that could be read.
    pub fn read(whole: Value<'t>) -> Result<Self, InvalidEnvelope> {
        let parts = EnvelopeMembers::of(whole);
        let id = parts.id.map(request_id);
        let invalid = |cause| InvalidEnvelope {
            id: id.clone().flatten().or_else(|| parts.id.and_then(whole_number)),
            has_method: parts.method.is_some(),
            cause,
        };
        if !whole.is_object() {
            return Err(invalid("a message is an object"));
        }
        if parts.misspelled {
            return Err(invalid(MISSPELLED));
        }
        if parts.version.and_then(Value::string).as_deref() != Some("2.0") {
            return Err(invalid("jsonrpc is not \"2.0\""));
        }
        if id == Some(None) {
            return Err(invalid("the id is neither an integer nor a string"));
        }
        let payload = match (parts.method, parts.result, parts.error) {
            (Some(method), None, None) => Payload::Method {
                method: method
                    .string()
                    .ok_or_else(|| invalid("the method is not a string"))?,
                params: parts.params.filter(|params| !params.is_null()),
            },
            (None, Some(result), None) => Payload::Result(result),
            (None, None, Some(error)) => Payload::Error(error),
            (None, None, None) => return Err(invalid("neither method nor result nor error")),
            _ => return Err(invalid("more than one of method, result and error")),
        };
        match &payload {
            // Readers that end a text there see another method.
            Payload::Method { method, .. } if method.contains('\0') => {
                Err(invalid("the method has a NUL in it"))
            }
            Payload::Method { params, .. } if params.is_some_and(|params| !params.is_object()) => {
                Err(invalid("params is not an object"))
            }
            Payload::Method { .. } => Ok(()),
            Payload::Result(_) | Payload::Error(_) if id.is_none() => Err(invalid("an answer without an id")),
            Payload::Result(part) if part.value.is_object() => Ok(()),
            Payload::Result(_) => Err(invalid("the result is not an object")),
            Payload::Error(part) if is_error(part.value) => Ok(()),
            Payload::Error(_) => Err(invalid("the error has no integer code or no message")),
        }?;
        Ok(Self {
            whole,
            id: id.flatten(),
            payload,
        })
    }
}

/// The members of an envelope, whatever they are.
#[derive(Default)]
struct EnvelopeMembers<'t> {
    version: Option<Value<'t>>,
    id: Option<Value<'t>>,
    method: Option<Value<'t>>,
    params: Option<Value<'t>>,
    result: Option<EnvelopeMember<'t>>,
    error: Option<EnvelopeMember<'t>>,
    misspelled: bool,
}

impl<'t> EnvelopeMembers<'t> {
    fn of(whole: Value<'t>) -> Self {
        let mut parts = Self::default();
        for member in whole.members() {
            let part = EnvelopeMember {
                start: member.start,
                value: member.value,
            };
            match member.name {
                "jsonrpc" => parts.version = Some(member.value),
                "id" => parts.id = Some(member.value),
                "method" => parts.method = Some(member.value),
                "params" => parts.params = Some(member.value),
                "result" => parts.result = Some(part),
                "error" => parts.error = Some(part),
                other => parts.misspelled |= MEMBERS.iter().any(|known| is_spelled_like(other, known)),
            }
        }
        parts
    }
}

fn is_error(error: Value<'_>) -> bool {
    let code = error.member("code").and_then(integer);
    code.is_some() && error.member("message").and_then(Value::string).is_some()
}

/// The integer that a value is, if it is a small one.
pub fn integer(value: Value<'_>) -> Option<i64> {
    value.text().parse().ok()
}

/// The id that a value is: an integer, written as one, or a string.
pub fn request_id(value: Value<'_>) -> Option<RequestId> {
    if let Some(text) = value.string() {
        return Some(RequestId::Text(text.into()));
    }
    let digits = value.text();
    let is_integer = digits
        .strip_prefix('-')
        .unwrap_or(digits)
        .bytes()
        .all(|byte| byte.is_ascii_digit());
    (is_integer && digits != "-0").then(|| RequestId::Number(digits.into()))
}

/// The id for which readers take a number whose fraction is nothing (`3.0`).
fn whole_number(value: Value<'_>) -> Option<RequestId> {
    let (digits, fraction) = value.text().split_once('.')?;
    let is_whole = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_nothing = fraction.bytes().all(|byte| byte == b'0');
    (is_whole(digits) && is_nothing).then(|| RequestId::Number(digits.into()))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::{
        super::json::{LoneSurrogate, Scanner},
        *,
    };

    /// Describes a line: `request 1 m`, `notification m`, `result "a"`, or the reason why it is not a
    /// message.
    fn read(line: &str) -> String {
        let mut scanner = Scanner::new(8);
        let scan = scanner
            .scan(line.as_bytes(), LoneSurrogate::Refuse)
            .expect("the tables are JSON");
        match Envelope::read(scan.document.root()) {
            Ok(envelope) => match (envelope.id, envelope.payload) {
                (Some(id), Payload::Method { method, .. }) => format!("request {id:?} {method}"),
                (None, Payload::Method { method, .. }) => format!("notification {method}"),
                (Some(id), Payload::Result(part)) => format!("result {id:?} {}", part.value.text()),
                (Some(id), Payload::Error(part)) => format!("error {id:?} {}", part.value.text()),
                (None, Payload::Result(_) | Payload::Error(_)) => "an answer to nothing".to_owned(),
            },
            Err(invalid) => format!("{:?} {}", invalid.id.map(|id| id.to_string()), invalid.cause),
        }
    }

    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"x":[]}"#, r#"request Number("1") m"#; "request")]
    #[test_case(r#"{"method":"\u006d","id":"1","jsonrpc":"2.0"}"#, r#"request Text("1") m"#; "a text as id")]
    #[test_case(r#"{"jsonrpc":"2.0","id":-36893488147419103232,"method":"m"}"#, r#"request Number("-36893488147419103232") m"#; "more than 64 bits")]
    #[test_case(r#"{"jsonrpc":"2.0","method":"m"}"#, "notification m"; "notification")]
    #[test_case(r#"{"jsonrpc":"2.0","method":"m","params":null}"#, "notification m"; "no parameters")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, r#"result Number("1") {"a":1}"#; "result")]
    #[test_case(r#"{"jsonrpc":"2.0","id":"1.0","result":{}}"#, r#"result Text("1.0") {}"#; "a text that reads like a number")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}"#, r#"error Number("1") {"code":-1,"message":""}"#; "error")]
    fn messages(line: &str, expected: &str) {
        assert_eq!(read(line), expected);
    }

    #[test_case("1", "None a message is an object"; "a number")]
    #[test_case(r#"{"id":1,"method":"m"}"#, r#"Some("1") jsonrpc is not "2.0""#; "no version")]
    #[test_case(r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, r#"Some("1") jsonrpc is not "2.0""#; "a number as version")]
    #[test_case(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "None the id is neither an integer nor a string"; "null as id")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, r#"Some("1") the id is neither an integer nor a string"#; "a fraction of nothing as id")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, "None the id is neither an integer nor a string"; "a fraction as id")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1e2,"method":"m"}"#, "None the id is neither an integer nor a string"; "an exponent in an id")]
    #[test_case(r#"{"jsonrpc":"2.0","id":-0,"method":"m"}"#, "None the id is neither an integer nor a string"; "minus zero")]
    #[test_case(r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "None the id is neither an integer nor a string"; "true as id")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":1}"#, r#"Some("1") the method is not a string"#; "a number as method")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#, r#"Some("1") params is not an object"#; "an array as params")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#, r#"Some("1") more than one of method, result and error"#; "method and result")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, r#"Some("1") more than one of method, result and error"#; "result and error")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1}"#, r#"Some("1") neither method nor result nor error"#; "nothing")]
    #[test_case(r#"{"jsonrpc":"2.0","result":{}}"#, "None an answer without an id"; "an answer without id")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, r#"Some("1") the result is not an object"#; "an array as result")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#, r#"Some("1") the error has no integer code or no message"#; "a text as error")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"a","Method":"tools/call"}"#, r#"Some("1") a member's name is another spelling of a known one"#; "a capital")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"a","param\u017f":{}}"#, r#"Some("1") a member's name is another spelling of a known one"#; "a long s, escaped")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"a","json_rpc":"1.0"}"#, r#"Some("1") a member's name is another spelling of a known one"#; "an underscore")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"a\u0000"}"#, r#"Some("1") the method has a NUL in it"#; "a NUL in the method")]
    fn no_messages(line: &str, expected: &str) {
        let mut scanner = Scanner::new(8);
        let scan = scanner
            .scan(line.as_bytes(), LoneSurrogate::Refuse)
            .expect("the tables are JSON");
        assert_eq!(read(&super::super::json::canonical(scan.document)), expected);
    }
}

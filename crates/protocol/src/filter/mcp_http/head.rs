//! The headers of a request that repeat parts of its body, and the check that both agree.
//!
//! The body is judged. Intermediaries and the server may use the headers instead: if the two differ, it is unknown
//! which request the server executes.

use std::borrow::Cow;

use mcpmon_model::{Decimal, Era};

use super::{
    annotations::Annotation,
    value::{decode, encode, plain},
};
use crate::decode::{
    json::{Value, ValueKind},
    jsonrpc::{Envelope, Payload},
    mcp::{VERSION, era_of},
};

const CONTENT_TYPE: &str = "Content-Type";
const PROTOCOL_VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";
/// The prefix of headers that carry arguments.
pub(super) const PARAM: &str = "Mcp-Param-";

/// Longest revision, bytes.
const MAX_VERSION: usize = 64;

/// The first revision in which a body is one message.
const NO_BATCHES: &str = "2025-06-18";

/// The headers of a request that repeat parts of its body.
#[derive(Clone, Debug, Default)]
pub struct Head<'a> {
    version: SingleHeader<'a>,
    method: SingleHeader<'a>,
    name: SingleHeader<'a>,
    content_type: SingleHeader<'a>,
    /// Names after the prefix, with values.
    params: Vec<(&'a str, &'a [u8])>,
}

/// A header that may occur once.
#[derive(Clone, Copy, Debug, Default)]
enum SingleHeader<'a> {
    #[default]
    Missing,
    Once(&'a [u8]),
    Again,
}

impl<'a> SingleHeader<'a> {
    fn add(&mut self, value: &'a [u8]) {
        *self = match self {
            Self::Missing => Self::Once(value),
            Self::Once(_) | Self::Again => Self::Again,
        };
    }

    /// Returns the value of the header called `name`, if it occurs.
    fn value(self, name: &str) -> Result<Option<&'a [u8]>, String> {
        match self {
            Self::Missing => Ok(None),
            Self::Once(value) => Ok(Some(value)),
            Self::Again => Err(format!("{name} is there more than once")),
        }
    }

    /// Returns the header's value as it is.
    fn plain(self, name: &str) -> Result<Option<&'a str>, String> {
        let value = self.value(name)?;
        value
            .map(|value| plain(value).ok_or_else(|| unreadable(name)))
            .transpose()
    }

    /// Returns the header's value, decoded from Base64 if need be.
    fn text(self, name: &str) -> Result<Option<Cow<'a, str>>, String> {
        let value = self.value(name)?;
        value
            .map(|value| decode(value).ok_or_else(|| unreadable(name)))
            .transpose()
    }
}

impl<'a> Head<'a> {
    /// Collects these headers from all headers of a request, which may repeat.
    pub fn of(fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut head = Self::default();
        for (name, value) in fields {
            if name.eq_ignore_ascii_case(PROTOCOL_VERSION) {
                head.version.add(value);
            } else if name.eq_ignore_ascii_case(METHOD) {
                head.method.add(value);
            } else if name.eq_ignore_ascii_case(NAME) {
                head.name.add(value);
            } else if name.eq_ignore_ascii_case(CONTENT_TYPE) {
                head.content_type.add(value);
            } else if let Some(param) = after_prefix(name) {
                head.params.push((param, value));
            }
        }
        head
    }

    /// Returns the revision that the headers give; `None` if they give none, or it cannot be read.
    pub fn version(&self) -> Option<&'a str> {
        match self.version {
            SingleHeader::Once(value)
                if value.len() <= MAX_VERSION && value.iter().all(u8::is_ascii_graphic) =>
            {
                str::from_utf8(value).ok()
            }
            SingleHeader::Missing | SingleHeader::Once(_) | SingleHeader::Again => None,
        }
    }

    /// Returns the era of that revision.
    pub fn era(&self) -> Era {
        self.version().map_or(Era::Handshake, era_of)
    }

    /// Returns the headers with arguments: names after their prefix, and values.
    pub(super) fn params(&self) -> &[(&'a str, &'a [u8])] {
        &self.params
    }

    /// Returns the reason why the body may not be read as UTF-8, if there is one: a server that assumes another
    /// encoding would read another message.
    pub(super) fn objection_to_charset(&self) -> Option<String> {
        match self.content_type.plain(CONTENT_TYPE) {
            Ok(Some(value)) if !is_utf8(value) => {
                Some(format!("{CONTENT_TYPE} names another charset than UTF-8"))
            }
            Ok(Some(_) | None) => None,
            Err(cause) => Some(cause),
        }
    }

    /// Returns the reason why an array of messages may not have these headers, if there is one.
    pub(super) fn objection_to_batch(&self, batch: Value<'_>) -> Option<String> {
        let version = match self.version.plain(PROTOCOL_VERSION) {
            Ok(version) => version,
            Err(cause) => return Some(cause),
        };
        if let Some(version) = version.filter(|version| *version >= NO_BATCHES) {
            return Some(format!(
                "there are no batches in revision {version} of the protocol"
            ));
        }
        if batch.items().any(|item| era_told(item) == Era::Stateless) {
            return Some("there are no batches in the revision of one of its messages".to_owned());
        }
        let is_bare = matches!(
            (self.method, self.name),
            (SingleHeader::Missing, SingleHeader::Missing)
        );
        if is_bare && self.params.is_empty() {
            return None;
        }
        Some(format!(
            "{METHOD}, {NAME} and {PARAM}* are about one message, and the body is a batch"
        ))
    }

    /// Checks that the headers agree with the message; `known` are the arguments of the tool that headers repeat.
    ///
    /// # Errors
    ///
    /// Returns the difference between headers and body.
    pub(super) fn check(&self, envelope: &Envelope<'_>, known: &[Annotation]) -> Result<(), String> {
        let told = version(envelope.whole);
        let era = told.as_deref().map_or(Era::Handshake, era_of).max(self.era());
        self.check_version(told.as_deref())?;
        let (method, params) = match &envelope.payload {
            Payload::Method { method, params } => (Some(&**method), *params),
            Payload::Result(_) | Payload::Error(_) => (None, None),
        };
        let demanded = is_demanded(era, method.is_some());
        compare(METHOD, self.method.plain(METHOD)?, method, demanded)?;
        let Some(method) = method else { return Ok(()) };
        let (member, is_required) = name_of(method);
        let name = member.and_then(|member| last(params?, member)?.string());
        if member.is_some() {
            let required = is_demanded(era, is_required && name.is_some());
            compare(NAME, self.name.text(NAME)?.as_deref(), name.as_deref(), required)?;
        } else {
            self.name.text(NAME)?;
        }
        if method == "tools/call" {
            let arguments = params.and_then(|params| last(params, "arguments"));
            self.check_params(era, arguments, known)?;
        }
        Ok(())
    }

    fn check_version(&self, told: Option<&str>) -> Result<(), String> {
        let header = self.version.plain(PROTOCOL_VERSION)?;
        match (header, told) {
            (Some(header), Some(told)) if header != told => Err(format!(
                "{PROTOCOL_VERSION} is not the revision that the body tells"
            )),
            (None, Some(told)) if era_of(told) == Era::Stateless => {
                Err(format!("{PROTOCOL_VERSION} is missing"))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    fn check_params(
        &self,
        era: Era,
        arguments: Option<Value<'_>>,
        known: &[Annotation],
    ) -> Result<(), String> {
        for Annotation { header, path } in known {
            let mut values = self
                .params
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(header));
            let value = values.next().map(|(_, value)| *value);
            let called = || format!("{PARAM}{header}");
            if values.next().is_some() {
                return Err(format!("{} is there more than once", called()));
            }
            let argument = arguments.and_then(|arguments| at(arguments, path));
            let argument = argument.filter(|argument| !argument.is_null());
            match (value, argument) {
                (None, Some(argument)) if scalar(argument).is_some() && era == Era::Stateless => {
                    return Err(format!("{} is missing", called()));
                }
                (None, _) => {}
                (Some(_), None) => {
                    return Err(format!("{} is there, and the argument is not", called()));
                }
                (Some(value), Some(argument)) => {
                    let value = decode(value).ok_or_else(|| unreadable(&called()))?;
                    if !says(&value, argument) {
                        return Err(format!("{} is not what the argument is", called()));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a content type allows reading the text as UTF-8.
pub(super) fn is_utf8(content_type: &str) -> bool {
    let lower = content_type.to_ascii_lowercase();
    let mut charsets = lower
        .match_indices("charset")
        .map(|(at, name)| &lower[at + name.len()..]);
    charsets.all(|rest| {
        let value = rest.trim_start_matches([' ', '\t', '=', '"']);
        let end = value.find([';', '"', ' ', '\t', ',']).unwrap_or(value.len());
        matches!(&value[..end], "utf-8" | "utf8" | "us-ascii" | "ascii")
    })
}

fn unreadable(header: &str) -> String {
    format!("{header} cannot be read")
}

fn after_prefix(name: &str) -> Option<&str> {
    let (prefix, rest) = name.split_at_checked(PARAM.len())?;
    prefix.eq_ignore_ascii_case(PARAM).then_some(rest)
}

fn is_demanded(era: Era, applies: bool) -> bool {
    era == Era::Stateless && applies
}

/// Compares a header with the body.
fn compare(header: &str, value: Option<&str>, body: Option<&str>, is_required: bool) -> Result<(), String> {
    match (value, body) {
        (Some(value), Some(body)) if value == body => Ok(()),
        (Some(_), _) => Err(format!("{header} is not what the body says")),
        (None, _) if is_required => Err(format!("{header} is missing")),
        (None, _) => Ok(()),
    }
}

/// Returns the parameter that a header repeats for this method, and whether the header is required.
fn name_of(method: &str) -> (Option<&'static str>, bool) {
    match method {
        "tools/call" | "prompts/get" => (Some("name"), true),
        "resources/read" => (Some("uri"), true),
        "resources/subscribe" | "resources/unsubscribe" | "resources/directory/read" | "skills/get" => {
            (Some("uri"), false)
        }
        "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => (Some("taskId"), false),
        _ => (None, false),
    }
}

/// Returns the revision that a message gives.
pub(in crate::filter) fn version(message: Value<'_>) -> Option<String> {
    let meta = last(last(message, "params")?, "_meta")?;
    Some(last(meta, VERSION)?.string()?.into_owned())
}

fn era_told(message: Value<'_>) -> Era {
    version(message).map_or(Era::Handshake, |version| era_of(&version))
}

/// Returns the last of the members with this name: readers use the last one.
pub(in crate::filter) fn last<'t>(object: Value<'t>, name: &str) -> Option<Value<'t>> {
    let members = object.members().filter(|member| member.name == name);
    members.last().map(|member| member.value)
}

/// Returns the argument at this path.
pub(super) fn at<'t>(arguments: Value<'t>, path: &[Box<str>]) -> Option<Value<'t>> {
    path.iter().try_fold(arguments, |value, name| last(value, name))
}

/// Returns the value of the header that repeats an argument; `None` if no header can.
pub(super) fn header_value(argument: Value<'_>) -> Option<String> {
    scalar(argument).map(|text| encode(&text))
}

/// Returns an argument in the form that a header has.
pub(super) fn scalar(argument: Value<'_>) -> Option<String> {
    match argument.kind() {
        ValueKind::String => argument.string().map(|text| text.into_owned()),
        ValueKind::Boolean | ValueKind::Number => Some(argument.text().to_owned()),
        ValueKind::Null | ValueKind::Array | ValueKind::Object => None,
    }
}

/// Returns whether a header has the value of an argument; numbers are compared by value.
pub(super) fn says(value: &str, argument: Value<'_>) -> bool {
    let Some(text) = scalar(argument) else {
        return false;
    };
    let number = |text: &str| text.parse::<Decimal>().ok();
    value == text
        || argument.kind() == ValueKind::Number
            && number(value).is_some_and(|value| Some(value) == number(&text))
}

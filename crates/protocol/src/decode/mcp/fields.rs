//! The members of parameters and results that decide what a message is.

use std::borrow::Cow;

use mcpmon_model::{Era, Trace};

use super::{
    super::json::{Value, is_spelled_like},
    InvalidMessage, MAX_NAME,
};

/// The `_meta` key under which a message of the stateless era gives its protocol revision.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The first revision without a handshake.
const STATELESS: &str = "2026-07-28";

/// The parameters that determine the kind of a request.
#[derive(Debug, Default)]
pub(super) struct Params<'a> {
    pub(super) whole: Option<Value<'a>>,
    pub(super) arguments: Option<Value<'a>>,
    pub(super) cursor: Option<Value<'a>>,
    pub(super) input_responses: Option<Value<'a>>,
    pub(super) meta: Option<Value<'a>>,
    pub(super) request_state: Option<Value<'a>>,
    pub(super) task: Option<Value<'a>>,
    pub(super) task_id: Option<Value<'a>>,
    name: Option<Value<'a>>,
    pub(super) uri: Option<Value<'a>>,
    misspelled: bool,
}

impl<'a> Params<'a> {
    pub(super) fn of(whole: Option<Value<'a>>) -> Self {
        const NAMES: [&str; 9] = [
            "arguments",
            "cursor",
            "inputResponses",
            "_meta",
            "requestState",
            "task",
            "taskId",
            "name",
            "uri",
        ];
        let mut params = Self {
            whole,
            ..Self::default()
        };
        for member in whole.into_iter().flat_map(Value::members) {
            let place = match member.name {
                "arguments" => &mut params.arguments,
                "cursor" => &mut params.cursor,
                "inputResponses" => &mut params.input_responses,
                "_meta" => &mut params.meta,
                "requestState" => &mut params.request_state,
                "task" => &mut params.task,
                "taskId" => &mut params.task_id,
                "name" => &mut params.name,
                "uri" => &mut params.uri,
                other => {
                    params.misspelled |= NAMES.iter().any(|known| is_spelled_like(other, known));
                    continue;
                }
            };
            *place = Some(member.value);
        }
        params
    }

    /// Returns the parameters for a method that is judged by them.
    ///
    /// # Errors
    ///
    /// Returns an error if a name is another spelling of a known one, because some servers take it for the known one.
    pub(super) fn strict(&self) -> Result<&Self, InvalidMessage> {
        if self.misspelled {
            return Err(InvalidMessage::Invalid(
                "a parameter's name is another spelling of a known one",
            ));
        }
        Ok(self)
    }

    pub(super) fn name(&self) -> Result<Cow<'a, str>, InvalidMessage> {
        self.strict()?;
        named(self.name)
    }

    pub(super) fn uri(&self) -> Result<Cow<'a, str>, InvalidMessage> {
        self.strict()?;
        named(self.uri)
    }
}

fn named(value: Option<Value<'_>>) -> Result<Cow<'_, str>, InvalidMessage> {
    let name = value.and_then(Value::string).ok_or(InvalidMessage::Invalid(
        "what is asked for is not named by a string",
    ))?;
    // Readers that end a text there see another name.
    if name.contains('\0') {
        return Err(InvalidMessage::Invalid("what is asked for has a NUL in its name"));
    }
    if name.len() > MAX_NAME {
        return Err(InvalidMessage::Refused("what is asked for has too long a name"));
    }
    Ok(name)
}

/// Returns the era and the trace in a `_meta`.
pub(super) fn meta(meta: Option<Value<'_>>) -> (Era, Trace<'_>) {
    let mut era = Era::Handshake;
    let mut trace = Trace::default();
    let Some(meta) = meta else {
        return (era, trace);
    };
    for member in meta.members() {
        match member.name {
            VERSION => {
                era = member
                    .value
                    .string()
                    .map_or(Era::Handshake, |version| era_of(&version))
            }
            "claudecode/toolUseId" => trace.tool_call = member.value.string(),
            "callId" if trace.tool_call.is_none() => trace.tool_call = member.value.string(),
            "traceparent" => trace.parent = member.value.string(),
            _ => {}
        }
    }
    (era, trace)
}

/// Returns the era of a revision. Revisions are dates, and sort as text.
pub fn era_of(version: &str) -> Era {
    if version >= STATELESS {
        Era::Stateless
    } else {
        Era::Handshake
    }
}

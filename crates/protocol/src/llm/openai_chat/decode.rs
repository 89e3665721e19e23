//! Chunks and bodies of Chat Completions.

use std::borrow::Cow;

use crate::{
    decode::json::Value,
    llm::{
        ApiViolation,
        fields::{count, fields, items, text},
    },
};

/// The part of a choice that holds the model's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChoicePart {
    /// In a chunk of a stream.
    Delta,
    /// In a body.
    Message,
}

impl ChoicePart {
    /// Returns the name of the member.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Message => "message",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Delta => Self::Message,
            Self::Message => Self::Delta,
        }
    }
}

/// One of the answers that were asked for.
#[derive(Clone, Debug)]
pub(super) struct Choice<'t> {
    /// The index of the choice.
    pub(super) index: u64,
    /// True if it gives the role of the speaker.
    pub(super) has_role: bool,
    /// True if it has text.
    pub(super) has_text: bool,
    /// Calls, or fragments of some: those of `tool_calls` in order, then `function_call`.
    pub(super) entries: Vec<CallFragment<'t>>,
    /// The reason why the model stopped.
    pub(super) finish: Option<Cow<'t, str>>,
}

/// A call, or a fragment of one.
#[derive(Clone, Debug)]
pub(super) struct CallFragment<'t> {
    /// The call it belongs to.
    pub(super) place: CallPosition,
    /// Its id; empty if it has none.
    pub(super) id: Cow<'t, str>,
    /// The kind of tool.
    pub(super) kind: ToolKind,
    /// The tool's name, or a part of it; empty if it has none.
    pub(super) name: Cow<'t, str>,
    /// Arguments, or a part of them; empty if it has none.
    pub(super) input: Cow<'t, str>,
    /// The whole value.
    pub(super) value: Value<'t>,
}

/// The position of a call within a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallPosition {
    /// The one with this index.
    At(u64),
    /// One of `tool_calls`, without an index.
    Unsaid,
    /// `function_call`.
    Function,
}

/// The kind of tool that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolKind {
    /// A function: its arguments are JSON.
    Function,
    /// A custom tool: its input is text.
    Custom,
    /// The fragment does not give the kind.
    Unsaid,
}

/// Returns the choices of a chunk or body, in order; none if it has none.
///
/// # Errors
/// Returns an error if readers could differ about the calls in it.
pub(super) fn choices(root: Value<'_>, part: ChoicePart) -> Result<Vec<Choice<'_>>, ApiViolation> {
    let [choices] = fields(root, ["choices"])?;
    items(choices)?.map(|value| choice(value, part)).collect()
}

fn choice(value: Value<'_>, part: ChoicePart) -> Result<Choice<'_>, ApiViolation> {
    let other = part.other();
    let names = ["index", part.name(), other.name(), "finish_reason"];
    let [index, said, unexpected, finish] = fields(value, names)?;
    if unexpected
        .is_some_and(|value| !value.is_object() || entries(value).is_ok_and(|found| !found.is_empty()))
    {
        return Err(ApiViolation("a tool call is where none is expected"));
    }
    let mut choice = Choice {
        index: count(index)?.unwrap_or(0),
        has_role: false,
        has_text: false,
        entries: Vec::new(),
        finish: finish.map(|_| text(finish)).transpose()?,
    };
    if let Some(said) = said {
        choice.entries = entries(said)?;
        let [role, content] = fields(said, ["role", "content"])?;
        choice.has_role = role.is_some();
        choice.has_text = content.is_some_and(|content| !matches!(content.text(), "\"\"" | "[]"));
    }
    Ok(choice)
}

fn entries(said: Value<'_>) -> Result<Vec<CallFragment<'_>>, ApiViolation> {
    let [calls, function] = fields(said, ["tool_calls", "function_call"])?;
    let calls = items(calls)?.map(entry);
    calls.chain(function.map(function_call)).collect()
}

fn entry(value: Value<'_>) -> Result<CallFragment<'_>, ApiViolation> {
    let names = ["index", "id", "function", "custom"];
    let [index, id, function, custom] = fields(value, names)?;
    let (kind, [name, input]) = match (function, custom) {
        (Some(function), None) => (ToolKind::Function, fields(function, ["name", "arguments"])?),
        (None, Some(custom)) => (ToolKind::Custom, fields(custom, ["name", "input"])?),
        (None, None) => (ToolKind::Unsaid, [None, None]),
        (Some(_), Some(_)) => return Err(ApiViolation("a tool call is of two kinds")),
    };
    Ok(CallFragment {
        place: count(index)?.map_or(CallPosition::Unsaid, CallPosition::At),
        id: text(id)?,
        kind,
        name: text(name)?,
        input: text(input)?,
        value,
    })
}

fn function_call(value: Value<'_>) -> Result<CallFragment<'_>, ApiViolation> {
    let [name, input] = fields(value, ["name", "arguments"])?;
    Ok(CallFragment {
        place: CallPosition::Function,
        id: Cow::Borrowed(""),
        kind: ToolKind::Function,
        name: text(name)?,
        input: text(input)?,
        value,
    })
}

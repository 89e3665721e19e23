//! A call, put together from its fragments.

use std::borrow::Cow;

use mcpmon_model::{Denial, Input, Intent, ToolName};

use crate::{
    decode::json::Value,
    llm::{
        ContentJudge, LlmFault,
        arguments::Arguments,
        blocked::blocked_text,
        openai::{denied, malformed},
        openai_chat::{
            decode::{CallFragment, CallPosition, ToolKind},
            rewrite::{EntryEdit, WholeCall, entry, function_call},
        },
    },
};

/// A call as far as it was read.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) answer: u64,
    pub(super) place: CallPosition,
    pub(super) id: String,
    kind: ToolKind,
    name: String,
    pub(super) input: String,
    /// True if every reader combines its fragments in the same way.
    pub(super) is_plain: bool,
    /// True if another call had its position, or it had none.
    pub(super) is_displaced: bool,
    /// True if no more of it can follow.
    pub(super) is_over: bool,
    /// True if the next call began before this one was complete.
    pub(super) is_interleaved: bool,
}

/// The decision about a call.
#[derive(Debug)]
pub(super) enum CallDecision {
    /// The call passes as it came.
    Keep,
    /// The call passes with another index.
    Renumber(u64),
    /// The call passes in one piece.
    Rewrite {
        /// Its index, if it has one.
        index: Option<u64>,
        /// Its arguments.
        arguments: String,
    },
    /// This text replaces the call.
    Block(String),
}

impl Call {
    /// Returns a call of which nothing was read.
    pub(super) const fn new(answer: u64, place: CallPosition, is_displaced: bool) -> Self {
        Self {
            answer,
            place,
            id: String::new(),
            kind: ToolKind::Unsaid,
            name: String::new(),
            input: String::new(),
            is_plain: !is_displaced,
            is_displaced,
            is_over: false,
            is_interleaved: false,
        }
    }

    /// Adds the next fragment. Of an id that comes twice the last one counts; the parts of a name are combined, unless
    /// the same name is repeated.
    pub(super) fn take(&mut self, entry: &CallFragment<'_>) -> Result<(), LlmFault> {
        match (self.kind, entry.kind) {
            (_, ToolKind::Unsaid) => {}
            (ToolKind::Unsaid, kind) => self.kind = kind,
            (known, kind) if known == kind => {}
            (_, _) => return Err(malformed("a tool call changes its kind")),
        }
        if !entry.id.is_empty() {
            self.is_plain &= self.id.is_empty();
            entry.id.as_ref().clone_into(&mut self.id);
        }
        if !entry.name.is_empty() {
            self.is_plain &= self.name.is_empty();
            if entry.name != self.name {
                self.name.push_str(&entry.name);
            }
        }
        self.input.push_str(&entry.input);
        Ok(())
    }

    /// Returns whether this is the start of another call at the same position.
    pub(super) fn is_left_by(&self, entry: &CallFragment<'_>) -> bool {
        is_another(&self.id, entry)
    }

    /// Returns whether its arguments are whole, as far as one can see.
    pub(super) fn is_whole(&self) -> bool {
        self.kind == ToolKind::Function && matches!(Arguments::read(&self.input), Ok(Arguments::Exact(_)))
    }

    /// Returns the denial, if the call is stopped, and new arguments in place of those that readers could
    /// understand differently.
    pub(super) fn judge(
        &self,
        judge: &mut dyn ContentJudge,
    ) -> Result<(Option<Denial>, Option<String>), LlmFault> {
        let arguments = match self.kind {
            ToolKind::Function => Some(Arguments::read(&self.input)?),
            ToolKind::Custom => None,
            ToolKind::Unsaid => return Err(malformed("a tool call is of no kind that is known")),
        };
        let text = || Input::Text(Cow::Borrowed(&self.input));
        let input = arguments.as_ref().map_or_else(text, Arguments::input);
        let denial = denied(
            judge,
            Intent {
                id: (!self.id.is_empty()).then_some(Cow::Borrowed(&self.id)),
                name: self.tool(),
                input,
            },
        );
        Ok((denial, arguments.and_then(Arguments::canonical)))
    }

    pub(super) fn blocked_text(&self, denial: &Denial) -> String {
        blocked_text(&self.tool(), denial)
    }

    /// Returns the edit of one of its fragments.
    pub(super) fn edit(&self, fate: &CallDecision, is_first: bool, fragment: Value<'_>) -> EntryEdit {
        match fate {
            CallDecision::Keep => EntryEdit::Keep,
            CallDecision::Renumber(index) => EntryEdit::Renumber(*index),
            CallDecision::Rewrite { index, arguments } if is_first => EntryEdit::Replace(match self.place {
                CallPosition::Function => function_call(&self.name, arguments),
                CallPosition::At(_) | CallPosition::Unsaid => entry(
                    WholeCall {
                        index: *index,
                        id: &self.id,
                        kind: self.kind,
                        name: &self.name,
                        input: arguments,
                    },
                    fragment,
                ),
            }),
            CallDecision::Rewrite { .. } | CallDecision::Block(_) => EntryEdit::Drop,
        }
    }

    fn tool(&self) -> ToolName<'_> {
        ToolName {
            namespace: None,
            name: Cow::Borrowed(&self.name),
        }
    }
}

/// Returns whether a fragment starts another call than the one with this id, although it has the same position.
pub(super) fn is_another(id: &str, entry: &CallFragment<'_>) -> bool {
    !id.is_empty() && !entry.id.is_empty() && entry.id != id && !entry.name.is_empty()
}

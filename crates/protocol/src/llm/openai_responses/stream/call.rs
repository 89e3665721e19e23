//! Calls, as the events of their items describe them.

use std::borrow::Cow;

use mcpmon_model::{Digest, Input, Intent, OmittedCall, OmittedToolKind, RawJson, ToolName};

use crate::llm::{
    ContentJudge, LlmFault,
    arguments::Arguments,
    blocked::blocked_text,
    openai::{denied, malformed},
    openai_responses::{
        decode as api,
        decode::{Call, CallInput, OutputItem},
    },
};

/// The information an event gives about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallUpdate {
    /// The call begins.
    Begun,
    /// A part of its arguments.
    Part,
    /// All of its arguments.
    All,
    /// All of it.
    Done,
    /// Nothing that matters.
    Nothing,
}

/// A call, as one item has it.
#[derive(Clone, Debug)]
pub(super) struct RequestedCall {
    kind: String,
    pub(super) item_id: String,
    pub(super) call_id: String,
    name: ToolName<'static>,
    given: With,
}

/// The input of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum With {
    Arguments(String),
    Text(String),
    Json(String),
}

impl RequestedCall {
    pub(super) fn new(item: &OutputItem<'_>, call: &Call<'_>) -> Self {
        let owned = |text: &str| Cow::Owned(text.to_owned());
        Self {
            kind: item.kind.as_ref().to_owned(),
            item_id: item.id.as_ref().to_owned(),
            call_id: call.call_id.as_ref().to_owned(),
            name: ToolName {
                namespace: call.name.namespace.as_deref().map(owned),
                name: owned(&call.name.name),
            },
            given: match &call.given {
                CallInput::Arguments(text) => With::Arguments(text.as_ref().to_owned()),
                CallInput::Text(text) => With::Text(text.as_ref().to_owned()),
                CallInput::Json(value) => With::Json(value.text().to_owned()),
            },
        }
    }

    /// Returns the digest that identifies the call; arguments that are to be rewritten count in their rewritten form.
    pub(super) fn digest(&self) -> Result<Digest, LlmFault> {
        let canonical = self.canonical()?;
        let (With::Arguments(given) | With::Text(given) | With::Json(given)) = &self.given;
        let space = self.name.namespace.as_deref();
        let parts = [
            &*self.kind,
            &*self.call_id,
            space.map_or("", |_| "in"),
            space.unwrap_or_default(),
            &*self.name.name,
            canonical.as_deref().unwrap_or(given),
        ];
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&part.len().to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        Ok(Digest::of(&bytes))
    }

    /// Returns the same for an action of the provider, which may have only the id of its item.
    pub(super) fn told_digest(&self, item_id: &str) -> Result<Digest, LlmFault> {
        let digest = self.digest()?;
        Ok(Digest::of(&[item_id.as_bytes(), digest.as_bytes()].concat()))
    }

    /// Arguments to be written in place of those that readers could differ about.
    pub(super) fn canonical(&self) -> Result<Option<String>, LlmFault> {
        Ok(match &self.given {
            With::Arguments(text) => Arguments::read(text)?.canonical(),
            With::Text(_) | With::Json(_) => None,
        })
    }

    /// Gives the intent to `tell`.
    pub(super) fn with_intent<T>(&self, tell: impl FnOnce(Intent<'_>) -> T) -> Result<T, LlmFault> {
        let arguments = match &self.given {
            With::Arguments(text) => Some(Arguments::read(text)?),
            With::Text(_) | With::Json(_) => None,
        };
        let input = match (&self.given, &arguments) {
            (With::Arguments(_), Some(arguments)) => arguments.input(),
            (With::Json(text), _) => Input::Json(RawJson::trusted(text)),
            (With::Arguments(text) | With::Text(text), _) => Input::Text(Cow::Borrowed(text)),
        };
        Ok(tell(Intent {
            id: (!self.call_id.is_empty()).then_some(Cow::Borrowed(&self.call_id)),
            name: self.name.clone(),
            input,
        }))
    }

    /// Returns the record of the call as left out, with this text in its place; `None` if no text can answer
    /// it.
    pub(super) fn left_out(&self, said: &str) -> Option<OmittedCall> {
        let called = match &*self.kind {
            "function_call" => OmittedToolKind::Function,
            "custom_tool_call" => OmittedToolKind::Custom,
            // No text answers it.
            _ => return None,
        };
        (!self.call_id.is_empty()).then(|| OmittedCall {
            call_id: self.call_id.clone(),
            called,
            said: said.to_owned(),
        })
    }

    /// Returns the text in its place; `None` if it passes.
    pub(super) fn denied(&self, judge: &mut dyn ContentJudge) -> Result<Option<String>, LlmFault> {
        let denial = self.with_intent(|intent| denied(judge, intent))?;
        Ok(denial.map(|denial| blocked_text(&self.name, &denial)))
    }

    const fn text(&self) -> Option<&String> {
        match &self.given {
            With::Arguments(text) | With::Text(text) => Some(text),
            With::Json(_) => None,
        }
    }

    fn with_text(&self, text: String) -> With {
        match &self.given {
            With::Arguments(_) => With::Arguments(text),
            With::Text(_) => With::Text(text),
            With::Json(given) => With::Json(given.clone()),
        }
    }
}

/// A call that is held.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) place: u64,
    /// The call as it began or, without a beginning, as it was done.
    pub(super) first: RequestedCall,
    parts: String,
    all: Option<(String, String)>,
    done: Option<RequestedCall>,
    /// True if no more of it can follow.
    pub(super) is_over: bool,
}

impl OpenCall {
    pub(super) const fn new(place: u64, first: RequestedCall, is_over: bool) -> Self {
        Self {
            place,
            first,
            parts: String::new(),
            all: None,
            done: None,
            is_over,
        }
    }

    /// Returns whether it began without arguments.
    pub(super) fn begins_empty(&self) -> bool {
        self.first.text().is_none_or(String::is_empty)
    }

    /// Adds what an event says about its arguments.
    pub(super) fn tell(&mut self, told: Option<&api::ArgumentsUpdate<'_>>) -> Result<CallUpdate, LlmFault> {
        if self.is_over && told.is_some() {
            return Err(malformed("a tool call goes on after it was done"));
        }
        Ok(match told {
            None => CallUpdate::Nothing,
            Some(api::ArgumentsUpdate::Part(part)) => {
                self.parts.push_str(part);
                CallUpdate::Part
            }
            Some(api::ArgumentsUpdate::All(_, _)) if self.all.is_some() => {
                return Err(malformed("the arguments of a tool call are done twice"));
            }
            Some(api::ArgumentsUpdate::All(all, name)) => {
                self.all = Some((all.as_ref().to_owned(), name.as_ref().to_owned()));
                CallUpdate::All
            }
        })
    }

    pub(super) fn done(&mut self, done: RequestedCall) -> Result<(), LlmFault> {
        if self.is_over || done.kind != self.first.kind {
            return Err(malformed("a tool call becomes another item"));
        }
        self.done = Some(done);
        self.is_over = true;
        Ok(())
    }

    /// Returns the call in every reading that some client could take from its events.
    pub(super) fn readings(&self) -> Vec<RequestedCall> {
        let last = self.done.as_ref().unwrap_or(&self.first);
        let mut readings: Vec<RequestedCall> = Vec::new();
        for name in self.names(last) {
            for given in self.given(last) {
                readings.push(RequestedCall {
                    name: name.clone(),
                    given,
                    ..last.clone()
                });
            }
        }
        readings
    }

    fn names(&self, last: &RequestedCall) -> Vec<ToolName<'static>> {
        let told = self.all.as_ref().map(|(_, name)| ToolName {
            namespace: last.name.namespace.clone(),
            name: Cow::Owned(name.clone()),
        });
        let mut names = vec![last.name.clone()];
        for name in [Some(self.first.name.clone()), told].into_iter().flatten() {
            if !name.name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn given(&self, last: &RequestedCall) -> Vec<With> {
        let (Some(first), Some(text)) = (self.first.text(), last.text()) else {
            return vec![last.given.clone()];
        };
        let all = self.all.as_ref().map(|(all, _)| all.clone());
        let texts = [
            Some(text.clone()),
            all,
            Some(format!("{first}{}", self.parts)),
            Some(self.parts.clone()),
        ];
        let mut given = Vec::new();
        for text in texts.into_iter().flatten().filter(|text| !text.is_empty()) {
            let with = last.with_text(text);
            if !given.contains(&with) {
                given.push(with);
            }
        }
        if given.is_empty() {
            given.push(last.with_text(String::new()));
        }
        given
    }
}

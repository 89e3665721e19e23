//! The content of one or several successive responses: calls from their first part to their last, with their positions.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use mcpmon_model::{Input, Intent, LlmMention, ToolName};

use super::arguments::{PartialArguments, WrittenArguments};
use crate::{
    decode::json::{Value, ValueKind, quote_into},
    llm::{
        ContentJudge, LlmFault,
        blocked::{blocked_text, denial},
        strict,
    },
    rewrite::Splices,
};

/// Most alternatives in one response.
const MAX_CANDIDATES: usize = 64;

/// Most calls of one candidate that are open at a time.
const MAX_OPEN: usize = 64;

/// The name of the provider's tool that runs code, as in a request.
const CODE: &str = "codeExecution";

/// The content since the last decision.
#[derive(Debug, Default)]
pub(super) struct ContentTurn {
    said: Vec<TurnItem>,
    /// The open calls, by their candidate.
    open: BTreeMap<u64, Vec<usize>>,
    /// Signatures of blocked calls, which have to move to another call, by candidate.
    signatures: BTreeMap<u64, String>,
}

#[derive(Debug)]
enum TurnItem {
    Call(Call),
    /// The provider ran something itself.
    Ran {
        name: String,
        input: Ran,
    },
}

#[derive(Debug)]
enum Ran {
    Code(String),
    Tool(WrittenArguments),
}

#[derive(Debug)]
struct Call {
    id: Option<String>,
    name: String,
    arguments: PartialArguments,
}

/// The parts of one candidate's content, some of which are calls or belong to one.
#[derive(Debug)]
pub(super) struct Group {
    candidate: u64,
    /// The candidate's members, and the index of the content among them.
    members: Vec<Range<usize>>,
    content: usize,
    parts: Vec<Range<usize>>,
    marks: Vec<Mark>,
}

/// A part that is a call, or belongs to one.
#[derive(Debug)]
struct Mark {
    part: usize,
    call: usize,
    place: PartPosition,
    /// The signature as written.
    signature: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartPosition {
    First,
    Later,
}

/// The decisions about that content: the text in place of each blocked call.
#[derive(Debug)]
pub(super) struct DecidedContent(Vec<Option<String>>);

impl ContentTurn {
    /// Returns whether more of a call has to come.
    pub(super) fn is_open(&self) -> bool {
        self.open.values().any(|open| !open.is_empty())
    }

    /// Reads a response, an array of responses, or either in the envelope of Google's Code Assist.
    pub(super) fn read(&mut self, root: Value<'_>) -> Result<Vec<Group>, LlmFault> {
        let mut groups = Vec::new();
        match root.kind() {
            ValueKind::Array => {
                for response in root.items() {
                    self.response(response, &mut groups)?;
                }
            }
            ValueKind::Object => self.response(root, &mut groups)?,
            ValueKind::Null | ValueKind::Boolean | ValueKind::Number | ValueKind::String => {}
        }
        Ok(groups)
    }

    fn response(&mut self, root: Value<'_>, groups: &mut Vec<Group>) -> Result<(), LlmFault> {
        let wrapped = strict::value(root, "response")?.filter(|value| value.is_object());
        for response in [Some(root), wrapped].into_iter().flatten() {
            for (position, candidate) in strict::items(response, "candidates")?.enumerate() {
                if position == MAX_CANDIDATES {
                    let cause = format!("more than {MAX_CANDIDATES} candidates in one response");
                    return Err(LlmFault::Malformed { cause });
                }
                self.candidate(position, candidate, groups)?;
            }
        }
        Ok(())
    }

    fn candidate(
        &mut self,
        position: usize,
        candidate: Value<'_>,
        groups: &mut Vec<Group>,
    ) -> Result<(), LlmFault> {
        let index = strict::value(candidate, "index")?.and_then(|index| index.text().parse().ok());
        let key = index.unwrap_or(position as u64);
        if let Some(content) = strict::member(candidate, "content")? {
            let parts: Vec<Value<'_>> = strict::items(content.value, "parts")?.collect();
            let mut group = Group {
                candidate: key,
                members: candidate
                    .members()
                    .map(|member| member.start..member.value.range().end)
                    .collect(),
                content: candidate
                    .members()
                    .take_while(|member| member.start < content.start)
                    .count(),
                parts: parts.iter().map(|part| part.range()).collect(),
                marks: Vec::new(),
            };
            for (position, part) in parts.into_iter().enumerate() {
                self.part(key, position, part, &mut group.marks)?;
            }
            if !group.marks.is_empty() {
                groups.push(group);
            }
        }
        if strict::value(candidate, "finishReason")?.is_some() {
            self.open.remove(&key);
        }
        Ok(())
    }

    fn part(
        &mut self,
        candidate: u64,
        position: usize,
        part: Value<'_>,
        marks: &mut Vec<Mark>,
    ) -> Result<(), LlmFault> {
        if let Some(code) = strict::value(part, "executableCode")? {
            let text = strict::text(code, "code")?.unwrap_or_default().into_owned();
            self.said.push(TurnItem::Ran {
                name: CODE.to_owned(),
                input: Ran::Code(text),
            });
        }
        if let Some(tool) = strict::value(part, "toolCall")? {
            let name = strict::text(tool, "toolType")?.unwrap_or_default().into_owned();
            let mut arguments = PartialArguments::default();
            if let Some(whole) = strict::value(tool, "args")? {
                arguments.put_whole(whole);
            }
            let input = Ran::Tool(arguments.written());
            self.said.push(TurnItem::Ran { name, input });
        }
        let Some(call) = strict::value(part, "functionCall")? else {
            return Ok(());
        };
        let (call, place) = self.call(candidate, call)?;
        let signature = strict::value(part, "thoughtSignature")?.map(|signature| signature.text().to_owned());
        marks.push(Mark {
            part: position,
            call,
            place,
            signature,
        });
        Ok(())
    }

    /// Adds a call, or a part of an open call. Returns its index among the content.
    fn call(&mut self, candidate: u64, call: Value<'_>) -> Result<(usize, PartPosition), LlmFault> {
        let name = strict::text(call, "name")?;
        let id = strict::text(call, "id")?;
        let (number, place) = match self.goes_on(candidate, name.as_deref(), id.as_deref())? {
            Some(open) => (open, PartPosition::Later),
            None => {
                self.said.push(TurnItem::Call(Call {
                    id: id.map(Cow::into_owned),
                    name: name.unwrap_or_default().into_owned(),
                    arguments: PartialArguments::default(),
                }));
                (self.said.len() - 1, PartPosition::First)
            }
        };
        if let Some(TurnItem::Call(said)) = self.said.get_mut(number) {
            if let Some(arguments) = strict::value(call, "args")? {
                said.arguments.put_whole(arguments);
            }
            for part in strict::items(call, "partialArgs")? {
                said.arguments.put(part)?;
            }
        }
        let open = self.open.entry(candidate).or_default();
        open.retain(|open| *open != number);
        if strict::value(call, "willContinue")?.is_some_and(Value::is_true) {
            open.push(number);
        }
        Ok((number, place))
    }

    /// Returns the call that this part continues, if it continues one. Some providers repeat name and id with every
    /// part, others only mark that more follows. If the part could belong to several calls, it is a fault, because
    /// readers could attach it to different ones.
    fn goes_on(
        &self,
        candidate: u64,
        name: Option<&str>,
        id: Option<&str>,
    ) -> Result<Option<usize>, LlmFault> {
        let open = self.open.get(&candidate).map_or(&[][..], Vec::as_slice);
        let call = |number: &usize| match self.said.get(*number) {
            Some(TurnItem::Call(call)) => Some((*number, call)),
            Some(TurnItem::Ran { .. }) | None => None,
        };
        let open: Vec<(usize, &Call)> = open.iter().filter_map(call).collect();
        let name = name.filter(|name| !name.is_empty());
        let found = match (id, open.as_slice()) {
            (Some(id), open) => open.iter().find(|(_, call)| call.id.as_deref() == Some(id)),
            (None, [alone]) => Some(alone),
            (None, _) => None,
        };
        // Only calls with ids can be open at the same time.
        let may_begin =
            open.len() < MAX_OPEN && id.is_some() && open.iter().all(|(_, call)| call.id.is_some());
        match found {
            Some((number, call)) if name.is_none_or(|name| name == call.name) => return Ok(Some(*number)),
            None if open.is_empty() || may_begin => return Ok(None),
            Some(_) | None => {}
        }
        Err(LlmFault::Malformed {
            cause: "a tool call begins in the middle of another".to_owned(),
        })
    }

    /// Judges the content.
    pub(super) fn decide(&mut self, judge: &mut dyn ContentJudge) -> DecidedContent {
        let said = std::mem::take(&mut self.said);
        self.open.clear();
        DecidedContent(said.into_iter().map(|said| said.blocked(judge)).collect())
    }

    /// Adds the changes to the parts of a response.
    pub(super) fn edit(&mut self, group: &Group, decided: &DecidedContent, splices: &mut Splices) {
        let mut gone = Vec::new();
        for mark in &group.marks {
            let place = group.parts[mark.part].clone();
            match (decided.0.get(mark.call).and_then(Option::as_ref), mark.place) {
                (Some(text), PartPosition::First) => {
                    splices.put(place, text.as_str());
                    self.take_off(group.candidate, mark);
                }
                (Some(_), PartPosition::Later) => {
                    gone.push(mark.part);
                    self.take_off(group.candidate, mark);
                }
                (None, PartPosition::First) => {
                    // Of parallel calls only the first one is signed, and the provider requires a signature back.
                    let signature = self.signatures.remove(&group.candidate);
                    if let (Some(signature), None) = (signature, &mark.signature) {
                        let end = place.end - 1;
                        splices.put(end..end, format!(",\"thoughtSignature\":{signature}"));
                    }
                }
                (None, PartPosition::Later) => {}
            }
        }
        if gone.len() == group.parts.len() {
            splices.leave_out(&group.members, |member| member == group.content);
        } else {
            splices.leave_out(&group.parts, |part| gone.binary_search(&part).is_ok());
        }
    }

    fn take_off(&mut self, candidate: u64, mark: &Mark) {
        if let Some(signature) = &mark.signature
            && self.signatures.len() < MAX_CANDIDATES
        {
            self.signatures
                .entry(candidate)
                .or_insert_with(|| signature.clone());
        }
    }
}

impl TurnItem {
    /// Judges the item. Returns the part in its place if it is blocked.
    fn blocked(self, judge: &mut dyn ContentJudge) -> Option<String> {
        match self {
            Self::Call(call) => {
                let written = call.arguments.written();
                let intent = intent(call.id.as_deref(), &call.name, written.input());
                let name = intent.name.clone();
                let denial = denial(judge.judge(&LlmMention::Call(intent)))?;
                Some(text_part(&blocked_text(&name, &denial)))
            }
            Self::Ran { name, input } => {
                let input = match &input {
                    Ran::Code(code) => Input::Text(Cow::Borrowed(code)),
                    Ran::Tool(written) => written.input(),
                };
                let intent = intent(None, &name, input);
                // The provider has already run it, so it is judged for the record only.
                drop(judge.judge(&LlmMention::Called { server: None, intent }));
                None
            }
        }
    }
}

fn intent<'a>(id: Option<&'a str>, name: &'a str, input: Input<'a>) -> Intent<'a> {
    Intent {
        id: id.map(Cow::Borrowed),
        name: ToolName {
            namespace: None,
            name: Cow::Borrowed(name),
        },
        input,
    }
}

fn text_part(text: &str) -> String {
    let mut part = "{\"text\":".to_owned();
    quote_into(text, &mut part);
    part.push('}');
    part
}

//! Ollama: `/api/chat` and `/api/generate`, one JSON text per line or a single one. Every call is complete in one text,
//! so nothing is held.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use mcpmon_model::{Dialect, Input, Intent, LlmMention, RawJson, ToolName};

use crate::{
    decode::json::{Document, Doubt, LoneSurrogate, MAX_DEPTH, Member, Scanner, TextForm, Value, quote_into},
    llm::{
        ContentJudge, HoldLimits, LlmFault, Piece, Stream,
        blocked::{blocked_text, denial},
        error_body,
        reframe::reframe,
        strict,
    },
    rewrite::Splices,
};

/// The reading of one stream.
#[derive(Debug, Default)]
pub(super) struct StreamReader {
    spoken: Spoke,
    calls: CallCounts,
}

/// The presence of text in the answer so far: text in place of a call is then separated from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Spoke {
    #[default]
    Nothing,
    Something,
}

/// The numbers of calls that passed and of those that were blocked.
#[derive(Clone, Copy, Debug, Default)]
struct CallCounts {
    kept: usize,
    blocked: usize,
}

impl StreamReader {
    pub(super) fn new(_limits: HoldLimits) -> Self {
        Self::default()
    }

    /// Judges the calls in a text. Returns the changed text; `None` if it is unchanged.
    fn judged(
        &mut self,
        document: Document<'_>,
        form: TextForm,
        judge: &mut dyn ContentJudge,
    ) -> Result<Option<String>, LlmFault> {
        let mut splices = Splices::default();
        let root = document.root();
        if let Some(message) = strict::value(root, "message")?.filter(|message| message.is_object()) {
            self.message(message, judge, &mut splices)?;
        }
        if let Some(reason) = strict::value(root, "done_reason")?
            && self.calls.blocked > 0
            && self.calls.kept == 0
            && reason.string().is_some_and(|reason| reason == "tool_calls")
        {
            splices.put(reason.range(), "\"stop\"");
        }
        let changes = form == TextForm::Ambiguous || !splices.is_empty();
        Ok(changes.then(|| splices.apply(document.text())))
    }

    fn message(
        &mut self,
        message: Value<'_>,
        judge: &mut dyn ContentJudge,
        splices: &mut Splices,
    ) -> Result<(), LlmFault> {
        let content = message
            .members()
            .find(|member| strict::stands_for(member.name, "content"));
        let before = strict::text(message, "content")?.unwrap_or_default();
        if !before.is_empty() {
            self.spoken = Spoke::Something;
        }
        let Some(calls) = strict::member(message, "tool_calls")? else {
            return Ok(());
        };
        let items: Vec<Value<'_>> = strict::items(message, "tool_calls")?.collect();
        let mut told = Vec::new();
        let mut blocked = Vec::with_capacity(items.len());
        for item in &items {
            let text = blocked_call(*item, judge)?;
            blocked.push(text.is_some());
            told.extend(text);
        }
        self.calls.blocked += told.len();
        self.calls.kept += items.len() - told.len();
        if told.is_empty() {
            return Ok(());
        }
        let mut text = "\"content\":".to_owned();
        quote_into(&self.answer(&before, &told), &mut text);
        let leaves_none = told.len() == items.len();
        match content {
            Some(content) => splices.put(content.start..content.value.range().end, text),
            // The text replaces the calls, or comes before the remaining ones.
            None if leaves_none => splices.put(calls.start..calls.value.range().end, text),
            None => splices.put(calls.start..calls.start, text + ","),
        }
        if !leaves_none {
            let places: Vec<_> = items.iter().map(|item| item.range()).collect();
            splices.leave_out(&places, |call| blocked[call]);
        } else if content.is_some() {
            let members: Vec<Member<'_>> = message.members().collect();
            let places: Vec<_> = members
                .iter()
                .map(|member| member.start..member.value.range().end)
                .collect();
            splices.leave_out(&places, |member| members[member].start == calls.start);
        }
        Ok(())
    }

    /// Returns the text of a message with the texts in place of its calls.
    fn answer(&mut self, before: &str, told: &[String]) -> String {
        let gap = match self.spoken {
            Spoke::Nothing => "",
            Spoke::Something => "\n\n",
        };
        self.spoken = Spoke::Something;
        format!("{before}{gap}{}", told.join("\n\n"))
    }
}

/// Returns the text in place of a call, if it is blocked.
fn blocked_call(call: Value<'_>, judge: &mut dyn ContentJudge) -> Result<Option<String>, LlmFault> {
    let function = strict::value(call, "function")?.unwrap_or(call);
    let name = ToolName {
        namespace: None,
        name: strict::text(function, "name")?.unwrap_or_default(),
    };
    let arguments = strict::value(function, "arguments")?;
    // Some gateways write arguments as OpenAI does: as a string that contains JSON.
    let written = arguments.and_then(Value::string);
    let input = match (&written, arguments) {
        (Some(text), _) if is_json(text) => Input::Json(RawJson::trusted(text)),
        (Some(text), _) => Input::Malformed(Cow::Borrowed(text)),
        (None, Some(arguments)) => Input::Json(arguments.raw()),
        (None, None) => Input::Json(RawJson::trusted("{}")),
    };
    let said = LlmMention::Call(Intent {
        id: strict::text(call, "id")?,
        name: name.clone(),
        input,
    });
    Ok(denial(judge.judge(&said)).map(|denial| blocked_text(&name, &denial)))
}

fn is_json(text: &str) -> bool {
    Scanner::new(MAX_DEPTH)
        .scan(text.as_bytes(), LoneSurrogate::Refuse)
        .is_ok_and(|scan| scan.doubt < Doubt::Surrogate)
}

impl Stream for StreamReader {
    fn piece(
        &mut self,
        piece: Piece<'_>,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let changed = match piece.data {
            Some(data) if !strict::is_silent(data) => {
                strict::read_line(data, |document, form| self.judged(document, form, judge))??
            }
            Some(_) | None => None,
        };
        match changed {
            Some(json) => reframe(piece, &json, out),
            None => out.extend_from_slice(piece.raw),
        }
        Ok(())
    }

    fn end(&mut self, _judge: &mut dyn ContentJudge, _out: &mut Vec<u8>) -> Result<(), LlmFault> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }

    fn broken(&self, fault: &LlmFault, out: &mut Vec<u8>) {
        out.extend_from_slice(&error_body(Dialect::Ollama, 502, &fault.to_string()));
        out.push(b'\n');
    }
}

/// Filters a whole body. Returns `None` if it is unchanged.
pub(super) fn whole(body: &[u8], judge: &mut dyn ContentJudge) -> Result<Option<Vec<u8>>, LlmFault> {
    if strict::is_silent(body) {
        return Ok(None);
    }
    let mut reading = StreamReader::default();
    let changed = strict::read(body, |document, form| reading.judged(document, form, judge))??;
    Ok(changed.map(String::into_bytes))
}

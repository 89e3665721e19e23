//! Anthropic Messages.
//!
//! SDKs append a block when it starts and find it by that position. So starts keep their order, the indexes of calls
//! count from zero without a gap, and a blocked call becomes a text of the same index. Events that neither belong to a
//! call nor come after the start of one are forwarded at once.

mod call;
#[cfg(test)]
mod tests;
mod waiting;
mod whole;

use std::collections::BTreeSet;

use mcpmon_model::{Dialect, LlmMention, Verdict};

pub(super) use self::whole::whole;
use self::{
    call::{CalledBy, OpenCall},
    waiting::PendingEvents,
    whole::{JudgedMessage, is_tool_use},
};
use crate::{
    decode::json::{Doubt, LoneSurrogate, MAX_DEPTH, Scanner, Value, canonical},
    llm::{
        ContentJudge, HoldLimits, LlmFault, Piece, Stream,
        anthropic::{
            decode::{Block, Delta, Event},
            rewrite::{with_texts, write_input, write_text_block},
        },
        blocked::blocked_text,
        error_body,
        reframe::write_event,
        strict,
    },
};

/// Most blocks of a message.
const MAX_BLOCKS: usize = 1 << 16;

/// The reading of one stream.
#[derive(Debug)]
pub(super) struct StreamReader {
    scanner: Scanner,
    content: MessageContent,
}

impl StreamReader {
    pub(super) fn new(limits: HoldLimits) -> Self {
        Self {
            scanner: Scanner::new(MAX_DEPTH),
            content: MessageContent::new(limits),
        }
    }
}

impl Stream for StreamReader {
    fn piece(
        &mut self,
        piece: Piece<'_>,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let Some(data) = piece.data.filter(|data| !is_word(data)) else {
            out.extend_from_slice(piece.raw);
            return Ok(());
        };
        let scan = self.scanner.scan(data, LoneSurrogate::Replace);
        let scan = scan.map_err(LlmFault::malformed)?;
        if scan.doubt <= Doubt::Space {
            let event = scan.document.root();
            return self.content.read(event, piece.name, piece.raw, judge, out);
        }
        let doubt = scan.doubt;
        let anew = canonical(scan.document);
        let scan = self.scanner.scan(anew.as_bytes(), LoneSurrogate::Refuse);
        let event = scan.map_err(LlmFault::malformed)?.document.root();
        if strict::is_half(doubt, piece.raw) && is_text(event) {
            return self.content.read(event, piece.name, piece.raw, judge, out);
        }
        let mut raw = Vec::with_capacity(anew.len() + 64);
        let name = piece.name.map(String::from_utf8_lossy);
        write_event(name.as_deref(), &anew, &mut raw);
        self.content.read(event, piece.name, &raw, judge, out)
    }

    fn end(&mut self, _judge: &mut dyn ContentJudge, _out: &mut Vec<u8>) -> Result<(), LlmFault> {
        if self.content.waiting.is_empty() || self.content.has_failed {
            return Ok(());
        }
        Err(LlmFault::malformed("the stream ended in a tool call"))
    }

    fn held(&self) -> usize {
        self.content.waiting.bytes()
    }

    fn broken(&self, fault: &LlmFault, out: &mut Vec<u8>) {
        let error = error_body(Dialect::Anthropic, fault.response_status(), &fault.to_string());
        write_event(Some("error"), &String::from_utf8_lossy(&error), out);
    }
}

/// Returns whether an event adds to a text.
fn is_text(event: Value<'_>) -> bool {
    let read = Event::read(event);
    matches!(
        read,
        Ok(Event::Delta {
            delta: Delta::Text,
            ..
        })
    )
}

/// The content of the message so far.
#[derive(Debug)]
struct MessageContent {
    limits: HoldLimits,
    /// Its blocks, by their index.
    blocks: Vec<BlockState>,
    /// The calls whose input may still grow.
    open: BTreeSet<usize>,
    /// Bytes of input of the open calls.
    inputs: usize,
    waiting: PendingEvents,
    /// True if its events have names. Either all have one or none: otherwise readers differ about which events there
    /// are.
    is_named: Option<bool>,
    has_started: bool,
    has_failed: bool,
    /// True if indexes and positions differ: some readers then add a delta to another block than others.
    is_skewed: bool,
    allowed: usize,
    blocked: usize,
}

/// A block.
#[derive(Debug)]
enum BlockState {
    /// A block that no side executes.
    Other,
    /// A call for the client that was not judged yet.
    Call(Box<OpenCall>),
    /// A call that the provider made, to a server or to its own tool.
    Called(Option<String>, Box<OpenCall>),
    /// A call that was forwarded, or that was judged too late to be stopped.
    Passed,
    /// A call that was replaced.
    Replaced,
}

impl MessageContent {
    const fn new(limits: HoldLimits) -> Self {
        Self {
            limits,
            blocks: Vec::new(),
            open: BTreeSet::new(),
            inputs: 0,
            waiting: PendingEvents::new(),
            is_named: None,
            has_started: false,
            has_failed: false,
            is_skewed: false,
            allowed: 0,
            blocked: 0,
        }
    }

    fn read(
        &mut self,
        data: Value<'_>,
        name: Option<&[u8]>,
        raw: &[u8],
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let event = Event::read(data)?;
        self.named(&event, name)?;
        match event {
            Event::MessageStart(message) => self.message(data, message, raw, judge, out),
            Event::Start { index, block } => self.start(index, block, raw, judge, out),
            Event::Delta { index, delta } => self.delta(index, &delta, raw, out),
            Event::Stop { index } => {
                self.end_block(index, judge)?;
                self.pass(index, raw, out)?;
                self.release(judge, out)
            }
            Event::MessageDelta { stop_reason } => {
                self.end_all(judge, out)?;
                self.end_turn(data, stop_reason, raw, out);
                Ok(())
            }
            Event::MessageStop => {
                self.end_all(judge, out)?;
                out.extend_from_slice(raw);
                Ok(())
            }
            Event::Error => {
                self.has_failed = true;
                out.extend_from_slice(raw);
                Ok(())
            }
            Event::Other => {
                out.extend_from_slice(raw);
                Ok(())
            }
        }
    }

    /// Checks the name of an event: some SDKs read no event without a name, others ignore names.
    fn named(&mut self, event: &Event<'_>, name: Option<&[u8]>) -> Result<(), LlmFault> {
        let Some(kind) = event.name() else {
            return Ok(());
        };
        let is_named = name.is_some();
        let fits = name.is_none_or(|name| name == kind.as_bytes());
        if !fits || *self.is_named.get_or_insert(is_named) != is_named {
            return Err(LlmFault::malformed("an event's name is not its type"));
        }
        Ok(())
    }

    fn message(
        &mut self,
        data: Value<'_>,
        message: Value<'_>,
        raw: &[u8],
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        if std::mem::replace(&mut self.has_started, true) || !self.blocks.is_empty() {
            return Err(LlmFault::malformed("a message starts within a message"));
        }
        let judged = JudgedMessage::read(message, judge)?;
        if judged.blocks > MAX_BLOCKS {
            return Err(LlmFault::malformed("too many blocks"));
        }
        self.blocks.resize_with(judged.blocks, || BlockState::Other);
        self.allowed += judged.allowed;
        self.blocked += judged.blocked.len();
        match judged.changed(data) {
            Some(anew) => write_event(self.name("message_start"), &anew, out),
            None => out.extend_from_slice(raw),
        }
        Ok(())
    }

    fn start(
        &mut self,
        index: usize,
        block: Block<'_>,
        raw: &[u8],
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        self.is_skewed |= index != self.blocks.len();
        let state = match block {
            Block::Other => BlockState::Other,
            Block::Listed { server, tools } => {
                drop(judge.judge(&LlmMention::Listed { server, tools }));
                BlockState::Other
            }
            Block::Call(call) => BlockState::Call(Box::new(OpenCall::new(&call))),
            Block::Called { server, call } => {
                BlockState::Called(server.map(Into::into), Box::new(OpenCall::new(&call)))
            }
        };
        if self.is_skewed {
            return match state {
                BlockState::Other => self.pass(usize::MAX, raw, out),
                BlockState::Call(_) | BlockState::Called(..) | BlockState::Passed | BlockState::Replaced => {
                    Err(LlmFault::malformed("the index of a call is not its position"))
                }
            };
        }
        if index == MAX_BLOCKS {
            return Err(LlmFault::malformed("too many blocks"));
        }
        if let BlockState::Call(open) | BlockState::Called(_, open) = &state {
            self.open.insert(index);
            self.inputs += open.size();
        }
        self.blocks.push(state);
        self.pass(index, raw, out)
    }

    fn delta(
        &mut self,
        index: usize,
        delta: &Delta<'_>,
        raw: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        match (self.blocks.get_mut(index), delta) {
            (Some(BlockState::Call(open) | BlockState::Called(_, open)), Delta::Input(part))
                if !open.is_whole && !self.is_skewed =>
            {
                open.tell(part);
                self.inputs += part.len();
            }
            (_, Delta::Input(_)) => return Err(LlmFault::malformed("an input for what is no call")),
            (Some(BlockState::Call(_) | BlockState::Called(..) | BlockState::Passed), Delta::Unknown) => {
                return Err(LlmFault::malformed("something unknown is added to a call"));
            }
            (_, Delta::Text | Delta::Unknown) => {}
        }
        self.pass(index, raw, out)
    }

    /// Forwards an event of a block, or keeps it until the call that it belongs to, or an earlier one, is decided.
    fn pass(&mut self, index: usize, raw: &[u8], out: &mut Vec<u8>) -> Result<(), LlmFault> {
        let waits = match self.blocks.get(index) {
            Some(BlockState::Replaced) => return Ok(()),
            Some(BlockState::Call(_)) => true,
            Some(BlockState::Other | BlockState::Called(..) | BlockState::Passed) => {
                self.waiting.has(index) || self.is_behind(index)
            }
            None => !self.waiting.is_empty(),
        };
        if waits {
            self.waiting.push(index, raw);
        } else {
            out.extend_from_slice(raw);
        }
        if self.waiting.bytes() + self.inputs > self.limits.max_held {
            return Err(LlmFault::TooLong {
                limit: self.limits.max_held,
            });
        }
        Ok(())
    }

    /// Returns whether a block starts after one that waits.
    fn is_behind(&self, index: usize) -> bool {
        self.waiting.first().is_some_and(|first| first < index)
    }

    /// Notes that a block is complete. A call that the provider made is recorded.
    fn end_block(&mut self, index: usize, judge: &mut dyn ContentJudge) -> Result<(), LlmFault> {
        if !self.open.remove(&index) {
            return Ok(());
        }
        match &mut self.blocks[index] {
            BlockState::Call(open) => open.is_whole = true,
            BlockState::Called(server, open) => {
                let arguments = open.arguments()?;
                drop(open.judge(&arguments, CalledBy::Provider(server.as_deref()), judge));
                self.inputs -= open.size();
                self.blocks[index] = BlockState::Passed;
            }
            BlockState::Other | BlockState::Passed | BlockState::Replaced => {}
        }
        Ok(())
    }

    /// Notes that all blocks are complete, announced or not.
    fn end_all(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        while let Some(index) = self.open.first() {
            self.end_block(*index, judge)?;
        }
        self.release(judge, out)
    }

    /// Judges the complete calls, and forwards the events that waited for them, in their order.
    fn release(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        while let Some(index) = self.waiting.first() {
            match self.blocks.get(index) {
                Some(BlockState::Call(open)) if !open.is_whole => return Ok(()),
                Some(BlockState::Call(_)) => self.decide(index, judge, out)?,
                Some(BlockState::Replaced) => drop(self.waiting.pop()),
                Some(BlockState::Other | BlockState::Called(..) | BlockState::Passed) | None => {
                    out.extend_from_slice(&self.waiting.pop());
                }
            }
        }
        Ok(())
    }

    /// Judges the call whose start has waited longest.
    fn decide(
        &mut self,
        index: usize,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let BlockState::Call(open) = std::mem::replace(&mut self.blocks[index], BlockState::Passed) else {
            return Ok(());
        };
        self.inputs -= open.size();
        let is_named = self.is_named.unwrap_or_default();
        let arguments = open.arguments()?;
        match open.judge(&arguments, CalledBy::Client, judge) {
            Verdict::Block(denial) => {
                self.blocked += 1;
                self.blocks[index] = BlockState::Replaced;
                write_text_block(index, &blocked_text(&open.name, &denial), is_named, out);
            }
            Verdict::Allow
            | Verdict::Hide(_)
            | Verdict::StripInstructions
            | Verdict::Redact(_)
            | Verdict::Ask(_) => {
                self.allowed += 1;
                if let Some(input) = arguments.canonical() {
                    self.blocks[index] = BlockState::Replaced;
                    out.extend_from_slice(&self.waiting.pop());
                    write_input(index, &input, is_named, out);
                }
            }
        }
        Ok(())
    }

    /// Forwards the end of the message; if all its calls were blocked, the stop reason becomes the end of the turn.
    fn end_turn(&self, data: Value<'_>, reason: Option<Value<'_>>, raw: &[u8], out: &mut Vec<u8>) {
        let is_over = self.blocked > 0 && self.allowed == 0;
        match reason.filter(|reason| is_over && is_tool_use(*reason)) {
            Some(reason) => {
                let anew = with_texts(data, &[], Some(reason));
                write_event(self.name("message_delta"), &anew, out);
            }
            None => out.extend_from_slice(raw),
        }
    }

    fn name(&self, name: &'static str) -> Option<&'static str> {
        self.is_named.unwrap_or_default().then_some(name)
    }
}

/// Returns whether data is empty, or the word that ends streams of other APIs.
fn is_word(data: &[u8]) -> bool {
    matches!(data.trim_ascii(), b"" | b"[DONE]")
}

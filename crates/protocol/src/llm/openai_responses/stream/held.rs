//! Pieces that are held until the end of a call.

use std::{collections::BTreeMap, ops::Range};

use memchr::memmem;

use super::{
    BlockedCall, DecidedCalls, EventOwner, ItemState,
    call::{CallUpdate, OpenCall, RequestedCall},
    named,
};
use crate::{
    decode::json::Value,
    llm::{
        ContentJudge, LlmFault,
        openai::{MAX_PARTS, malformed, scan, scanner, too_many},
        openai_responses::{
            decode as api,
            decode::{Event, ItemKind, item, output},
            rewrite::{ReplacementMessage, with_told},
        },
    },
};

/// Held events, and the calls that they are about.
#[derive(Debug, Default)]
pub(super) struct HeldPieces {
    events: Vec<HeldEvent>,
    calls: Vec<OpenCall>,
    places: BTreeMap<u64, usize>,
    bytes: usize,
}

/// A held event.
#[derive(Debug)]
pub(super) struct HeldEvent {
    raw: Vec<u8>,
    /// The range of its JSON.
    text: Range<usize>,
    sequence: Option<u64>,
    /// The call that it is about.
    call: Option<usize>,
    told: CallUpdate,
    has_response: bool,
}

impl HeldEvent {
    pub(super) fn new(
        root: Value<'_>,
        raw: &[u8],
        event: &Event<'_>,
        owner: EventOwner,
        told: CallUpdate,
    ) -> Self {
        let text = root.text();
        let start = memmem::find(raw, text.as_bytes()).expect("an event has its data in it");
        Self {
            raw: raw.to_vec(),
            text: start..start + text.len(),
            sequence: event.sequence,
            call: match owner {
                EventOwner::Held(at) => Some(at),
                EventOwner::Nobody | EventOwner::Blocked => None,
            },
            told,
            has_response: event.response.is_some(),
        }
    }
}

/// The decision about a call.
#[derive(Debug)]
enum CallDecision {
    /// The call passes as it came.
    Keep,
    /// The call passes with these arguments.
    Rewrite(String),
    /// The call was cut off, and is dropped.
    Drop,
    /// This message replaces the call.
    Replace(ReplacementMessage),
}

impl HeldPieces {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether something is held, and every call in it is complete.
    pub(super) fn is_over(&self) -> bool {
        !self.events.is_empty() && self.calls.iter().all(|call| call.is_over)
    }

    /// Returns the call at a position.
    pub(super) fn at(&self, place: u64) -> Option<usize> {
        self.places.get(&place).copied()
    }

    /// Returns the call whose item has this id.
    pub(super) fn with_id(&self, item_id: &str) -> Option<usize> {
        let has_id = |call: &OpenCall| !item_id.is_empty() && call.first.item_id == item_id;
        self.calls.iter().position(has_id)
    }

    pub(super) fn begin(&mut self, place: u64, wanted: RequestedCall) -> Result<usize, LlmFault> {
        self.open(OpenCall::new(place, wanted, false))
    }

    /// Adds a call that is complete without having begun.
    pub(super) fn done_only(&mut self, place: u64, wanted: RequestedCall) -> Result<usize, LlmFault> {
        self.open(OpenCall::new(place, wanted, true))
    }

    pub(super) fn done(&mut self, at: usize, wanted: RequestedCall) -> Result<(), LlmFault> {
        self.calls[at].done(wanted)
    }

    /// Adds what an event says about a call's arguments.
    pub(super) fn tell(
        &mut self,
        owner: EventOwner,
        told: Option<&api::ArgumentsUpdate<'_>>,
    ) -> Result<CallUpdate, LlmFault> {
        match owner {
            EventOwner::Held(at) => self.calls[at].tell(told),
            EventOwner::Nobody if told.is_some() => Err(malformed("arguments of no tool call")),
            EventOwner::Nobody | EventOwner::Blocked => Ok(CallUpdate::Nothing),
        }
    }

    /// Ends the incomplete calls: with the input in the response, or else as they are.
    pub(super) fn end_all(&mut self, response: Value<'_>) -> Result<(), LlmFault> {
        if self.calls.iter().all(|call| call.is_over) {
            return Ok(());
        }
        let items: Vec<Value<'_>> = output(response).map_err(malformed)?.collect();
        for call in self.calls.iter_mut().filter(|call| !call.is_over) {
            let last = usize::try_from(call.place)
                .ok()
                .and_then(|place| items.get(place));
            let last = last.map(|value| item(*value)).transpose().map_err(malformed)?;
            if let Some(item) = &last
                && let ItemKind::Call(last) = &item.what
            {
                call.done(RequestedCall::new(item, last))?;
            }
            call.is_over = true;
        }
        Ok(())
    }

    pub(super) fn push(&mut self, event: HeldEvent) {
        self.bytes += event.raw.len();
        self.events.push(event);
    }

    /// Forwards an event without content, after the held ones.
    pub(super) fn pass_or_wait(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        if self.is_empty() {
            out.extend_from_slice(raw);
            return;
        }
        self.push(HeldEvent {
            raw: raw.to_vec(),
            text: 0..0,
            sequence: None,
            call: None,
            told: CallUpdate::Nothing,
            has_response: false,
        });
    }

    /// Forwards everything, or its replacement, without the incomplete calls.
    pub(super) fn release(
        self,
        settled: &mut DecidedCalls,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let mut fates = Vec::new();
        for call in &self.calls {
            fates.push(settled.decide(call, judge)?);
        }
        let mut begun = vec![false; fates.len()];
        let mut told = vec![false; fates.len()];
        for (at, event) in self.events.iter().enumerate() {
            match event.call.map(|call| (call, &fates[call])) {
                None | Some((_, CallDecision::Keep)) => event.pass(settled, judge, out)?,
                Some((_, CallDecision::Drop)) => {}
                Some((call, CallDecision::Replace(message))) => {
                    if !std::mem::replace(&mut begun[call], true) {
                        self.replace(at, call, message, settled, out);
                    }
                }
                Some((call, CallDecision::Rewrite(arguments))) => {
                    let is_repeated =
                        event.told == CallUpdate::Part && std::mem::replace(&mut told[call], true);
                    let begins_empty = event.told == CallUpdate::Begun && self.calls[call].begins_empty();
                    match event.told == CallUpdate::Nothing || begins_empty {
                        true => event.pass(settled, judge, out)?,
                        false if is_repeated => {}
                        false => event.rewrite(settled.higher, arguments, out)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, call: OpenCall) -> Result<usize, LlmFault> {
        if self.calls.len() >= MAX_PARTS {
            return Err(too_many());
        }
        let at = self.calls.len();
        self.places.insert(call.place, at);
        self.calls.push(call);
        Ok(at)
    }

    /// Writes a message in place of a call. Its events are numbered from the call's first event on; if they are more
    /// than those of the call, later events get higher numbers.
    fn replace(
        &self,
        first: usize,
        call: usize,
        message: &ReplacementMessage,
        settled: &mut DecidedCalls,
        out: &mut Vec<u8>,
    ) {
        let event = &self.events[first];
        let mut next = event.sequence.map(|number| number.saturating_add(settled.higher));
        let events = message.events(self.calls[call].place, || {
            let number = next;
            next = number.map(|number| number.saturating_add(1));
            number
        });
        out.extend_from_slice(events.as_bytes());
        let run = self.events[first..]
            .iter()
            .take_while(|event| event.call == Some(call));
        let last = run.filter_map(|event| event.sequence).max();
        if let (Some(next), Some(last)) = (next, last) {
            settled.higher = settled.higher.max(next.saturating_sub(last.saturating_add(1)));
        }
    }
}

impl HeldEvent {
    /// Forwards the event, with the decisions applied to a response in it.
    fn pass(
        &self,
        settled: &mut DecidedCalls,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let has_response = self.has_response && self.call.is_none();
        if !has_response && (settled.higher == 0 || self.sequence.is_none()) {
            out.extend_from_slice(&self.raw);
            return Ok(());
        }
        let mut scanner = scanner();
        let root = scan(&mut scanner, &self.raw[self.text.clone()])?.document.root();
        let response = root.member("response").filter(|_| has_response);
        settled.pass(root, response, &self.raw, judge, out)
    }

    /// Forwards the event with other arguments.
    fn rewrite(&self, higher: u64, arguments: &str, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        let mut scanner = scanner();
        let root = scan(&mut scanner, &self.raw[self.text.clone()])?.document.root();
        out.extend_from_slice(named(root, &with_told(root, higher, arguments)).as_bytes());
        Ok(())
    }
}

impl DecidedCalls {
    /// Decides about a call: the strictest verdict on any of its readings counts.
    fn decide(&mut self, call: &OpenCall, judge: &mut dyn ContentJudge) -> Result<CallDecision, LlmFault> {
        if !call.is_over {
            return Ok(CallDecision::Drop);
        }
        let readings = call.readings();
        for wanted in &readings {
            if let Some(text) = wanted.denied(judge)? {
                self.left_out.extend(wanted.left_out(&text));
                let message = ReplacementMessage::new(&self.response, &call.first.item_id, call.place, &text);
                let blocked = BlockedCall {
                    item_id: call.first.item_id.clone(),
                    call_id: wanted.call_id.clone(),
                    message: message.clone(),
                };
                self.settle(call.place, ItemState::Blocked(blocked))?;
                return Ok(CallDecision::Replace(message));
            }
        }
        let mut arguments = None;
        for wanted in &readings {
            arguments = arguments.or(wanted.canonical()?);
            self.know(wanted.digest()?)?;
        }
        self.settle(call.place, ItemState::Allowed)?;
        match arguments {
            Some(_) if readings.len() > 1 => {
                Err(malformed("the arguments of a tool call are told in two ways"))
            }
            Some(arguments) => Ok(CallDecision::Rewrite(arguments)),
            None => Ok(CallDecision::Keep),
        }
    }
}

//! Responses. Agents take a call from any of the events about it: when it begins, in parts, when it is done, or from
//! the response at the end. So all of them wait for a decision, and all are replaced. Events are numbered, so those
//! after a held call wait too.

mod call;
mod held;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_model::{Digest, OmittedCall};

use self::{
    call::{CallUpdate, RequestedCall},
    held::{HeldEvent, HeldPieces},
};
use crate::{
    decode::json::{Scanner, TextForm, Value, canonical},
    llm::{
        ContentJudge, HoldLimits, LlmFault, Piece, Stream,
        openai::{DONE, MAX_PARTS, Raw, error_members, malformed, scan, scanner, too_many, whole_body},
        openai_responses::{
            decode::{Event, ItemKind, OutputItem, event, item},
            rewrite::{ReplacementMessage, with_response},
        },
        strict,
    },
};

/// Most items of a response.
const MAX_ITEMS: usize = 4 * MAX_PARTS;

/// The reading of one stream.
#[derive(Debug)]
pub(super) struct StreamReader {
    limits: HoldLimits,
    scanner: Scanner,
    held: HeldPieces,
    settled: DecidedCalls,
}

/// The decisions so far.
#[derive(Debug, Default)]
struct DecidedCalls {
    places: BTreeMap<u64, ItemState>,
    /// Digests of the allowed calls, and of the provider's reported actions.
    known: BTreeSet<Digest>,
    /// The response's id, once it is known.
    response: String,
    /// The blocked calls that were not reported yet.
    left_out: Vec<OmittedCall>,
    /// The difference between the forwarded event numbers and the provider's: a message in place of a call can have
    /// more events than the call.
    higher: u64,
}

/// The state of an item, by its place in the response.
#[derive(Debug)]
enum ItemState {
    /// The item is not a call.
    NoCall,
    /// The item is a call that passed.
    Allowed,
    /// The item is a call that was replaced by a message.
    Blocked(BlockedCall),
}

#[derive(Debug)]
struct BlockedCall {
    item_id: String,
    call_id: String,
    message: ReplacementMessage,
}

/// The call that an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventOwner {
    /// No call, or one that was forwarded.
    Nobody,
    /// A held call.
    Held(usize),
    /// A call that was replaced by a message.
    Blocked,
}

impl StreamReader {
    pub(super) fn new(limits: HoldLimits) -> Self {
        Self {
            limits,
            scanner: scanner(),
            held: HeldPieces::default(),
            settled: DecidedCalls::default(),
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
        let Some(data) = piece.data.filter(|data| !data.trim_ascii().is_empty()) else {
            out.extend_from_slice(piece.raw);
            return Ok(());
        };
        let Self { held, settled, .. } = self;
        if data.trim_ascii() == DONE {
            held.pass_or_wait(piece.raw, out);
            return Ok(());
        }
        let read = scan(&mut self.scanner, data)?;
        if read.form == TextForm::Exact {
            let raw = Raw::exact(piece.raw);
            take(held, settled, read.document.root(), raw, judge, out)?;
        } else {
            let is_half = strict::is_half(read.doubt, piece.raw);
            let text = canonical(read.document);
            let root = scan(&mut self.scanner, text.as_bytes())?.document.root();
            let anew = named(root, &text);
            let raw = Raw {
                read: anew.as_bytes(),
                unchanged: if is_half { piece.raw } else { anew.as_bytes() },
            };
            take(held, settled, root, raw, judge, out)?;
        }
        let limit = self.limits.max_held;
        if held.bytes() > limit {
            return Err(LlmFault::TooLong { limit });
        }
        Ok(())
    }

    fn end(&mut self, judge: &mut dyn ContentJudge, out: &mut Vec<u8>) -> Result<(), LlmFault> {
        std::mem::take(&mut self.held).release(&mut self.settled, judge, out)
    }

    fn held(&self) -> usize {
        self.held.bytes()
    }

    fn broken(&self, fault: &LlmFault, out: &mut Vec<u8>) {
        let (error, told) = error_members(fault);
        let event = format!("event: error\ndata: {{\"type\":\"error\",{told},{error}}}\n\n");
        out.extend_from_slice(event.as_bytes());
    }
}

/// Filters a whole body. Returns `None` if it is unchanged.
pub(super) fn whole(body: &[u8], judge: &mut dyn ContentJudge) -> Result<Option<Vec<u8>>, LlmFault> {
    whole_body(body, |root| {
        let mut settled = DecidedCalls::default();
        settled.is_of(root);
        let new = settled.response(root, judge)?;
        settled.tell_left_out(judge);
        Ok(new)
    })
}

/// Processes an event.
fn take(
    held: &mut HeldPieces,
    settled: &mut DecidedCalls,
    root: Value<'_>,
    raw: Raw<'_>,
    judge: &mut dyn ContentJudge,
    out: &mut Vec<u8>,
) -> Result<(), LlmFault> {
    let event = event(root).map_err(malformed)?;
    let item = event.item.map(item).transpose().map_err(malformed)?;
    let (owner, told) = match (&*event.kind, &item) {
        ("response.output_item.added", Some(item)) => {
            (begin(held, settled, &event, item)?, CallUpdate::Begun)
        }
        ("response.output_item.done", Some(item)) => {
            (done(held, settled, &event, item, judge)?, CallUpdate::Done)
        }
        (
            _,
            Some(OutputItem {
                what: ItemKind::Call(_),
                ..
            }),
        ) => {
            return Err(malformed(
                "a tool call is in an event that is not known to have one",
            ));
        }
        (_, _) => {
            let owner = owner(held, settled, &event)?;
            (owner, held.tell(owner, event.told.as_ref())?)
        }
    };
    if let Some(response) = event.response {
        settled.is_of(response);
    }
    if let (Some(response), true) = (event.response, is_end(&event.kind)) {
        held.end_all(response)?;
    }
    match owner {
        EventOwner::Blocked => {}
        EventOwner::Nobody if held.is_empty() => {
            let is_bare = event.response.is_none() && item.is_none();
            let raw = if is_bare { raw.unchanged } else { raw.read };
            settled.pass(root, event.response, raw, judge, out)?;
        }
        EventOwner::Nobody | EventOwner::Held(_) => {
            held.push(HeldEvent::new(root, raw.read, &event, owner, told))
        }
    }
    if held.is_over() {
        std::mem::take(held).release(settled, judge, out)?;
    }
    settled.tell_left_out(judge);
    Ok(())
}

/// Returns whether no event of a call can follow this event.
fn is_end(kind: &str) -> bool {
    let state = kind.strip_prefix("response.").unwrap_or_default();
    matches!(
        state,
        "completed" | "done" | "failed" | "incomplete" | "cancelled"
    )
}

fn begin(
    held: &mut HeldPieces,
    settled: &mut DecidedCalls,
    event: &Event<'_>,
    item: &OutputItem<'_>,
) -> Result<EventOwner, LlmFault> {
    let ItemKind::Call(call) = &item.what else {
        return settled.no_call(held, event);
    };
    let place = place(event)?;
    if held.at(place).is_some() || settled.places.contains_key(&place) {
        return Err(malformed("a tool call begins where another item is"));
    }
    held.begin(place, RequestedCall::new(item, call))
        .map(EventOwner::Held)
}

fn done(
    held: &mut HeldPieces,
    settled: &mut DecidedCalls,
    event: &Event<'_>,
    item: &OutputItem<'_>,
    judge: &mut dyn ContentJudge,
) -> Result<EventOwner, LlmFault> {
    let ItemKind::Call(call) = &item.what else {
        settled.tell(item, judge)?;
        return settled.no_call(held, event);
    };
    let place = place(event)?;
    let wanted = RequestedCall::new(item, call);
    if let Some(at) = held.at(place) {
        held.done(at, wanted)?;
        return Ok(EventOwner::Held(at));
    }
    match settled.places.get(&place) {
        None => held.done_only(place, wanted).map(EventOwner::Held),
        Some(ItemState::Blocked(_)) => Ok(EventOwner::Blocked),
        Some(ItemState::Allowed) if settled.known.contains(&wanted.digest()?) => Ok(EventOwner::Nobody),
        Some(ItemState::Allowed | ItemState::NoCall) => Err(malformed("an item becomes another one")),
    }
}

fn place(event: &Event<'_>) -> Result<u64, LlmFault> {
    event
        .output_index
        .ok_or_else(|| malformed("a tool call has no place in the response"))
}

/// Returns the owner of an event, by its position and by its id: readers use either.
fn owner(held: &HeldPieces, settled: &DecidedCalls, event: &Event<'_>) -> Result<EventOwner, LlmFault> {
    let by_place = event.output_index.and_then(|place| held.at(place));
    let by_id = held.with_id(&event.item_id);
    match (by_place, by_id) {
        (Some(at), Some(other)) if at != other => Err(malformed("an event belongs to two items")),
        (Some(at), _) | (None, Some(at)) => Ok(EventOwner::Held(at)),
        (None, None) if settled.is_blocked(event) => Ok(EventOwner::Blocked),
        (None, None) => Ok(EventOwner::Nobody),
    }
}

impl DecidedCalls {
    /// Notes an item that is no call.
    fn no_call(&mut self, held: &HeldPieces, event: &Event<'_>) -> Result<EventOwner, LlmFault> {
        let Some(place) = event.output_index else {
            return Ok(EventOwner::Nobody);
        };
        if held.at(place).is_some() {
            return Err(malformed("a tool call becomes another item"));
        }
        match self.places.get(&place) {
            Some(ItemState::NoCall) => {}
            None => self.settle(place, ItemState::NoCall)?,
            Some(ItemState::Allowed | ItemState::Blocked(_)) => {
                return Err(malformed("a tool call becomes another item"));
            }
        }
        Ok(EventOwner::Nobody)
    }

    fn settle(&mut self, place: u64, what: ItemState) -> Result<(), LlmFault> {
        if self.places.len() >= MAX_ITEMS {
            return Err(too_many());
        }
        self.places.insert(place, what);
        Ok(())
    }

    /// Notes the id of the response.
    fn is_of(&mut self, response: Value<'_>) {
        if let Some(id) = response.member("id").and_then(Value::string) {
            self.response = id.into_owned();
        }
    }

    /// Reports the blocked calls, once the id of their response is known.
    fn tell_left_out(&mut self, judge: &mut dyn ContentJudge) {
        if !self.response.is_empty() && !self.left_out.is_empty() {
            judge.left_out(&self.response, &std::mem::take(&mut self.left_out));
        }
    }

    fn is_blocked(&self, event: &Event<'_>) -> bool {
        let has_id = |place: &ItemState| match place {
            ItemState::Blocked(blocked) => !event.item_id.is_empty() && blocked.item_id == event.item_id,
            ItemState::NoCall | ItemState::Allowed => false,
        };
        let at = event.output_index.and_then(|place| self.places.get(&place));
        matches!(at, Some(ItemState::Blocked(_))) || self.places.values().any(has_id)
    }

    /// Forwards an event of no held call, with the decisions applied to a response in it.
    fn pass(
        &mut self,
        root: Value<'_>,
        response: Option<Value<'_>>,
        raw: &[u8],
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let new = match response {
            Some(response) => self.response(response, judge)?,
            None => None,
        };
        let is_numbered = self.higher > 0 && root.member("sequence_number").is_some();
        match new.is_some() || is_numbered {
            true => {
                let event = with_response(root, self.higher, new.as_deref());
                out.extend_from_slice(named(root, &event).as_bytes());
            }
            false => out.extend_from_slice(raw),
        }
        Ok(())
    }
}

/// Returns an event whose name is its type, if that is a valid name.
fn named(root: Value<'_>, text: &str) -> String {
    let kind = root.member("type").and_then(Value::string).unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'_');
    if kind.is_empty() || !kind.bytes().all(is_plain) {
        return format!("data: {text}\n\n");
    }
    format!("event: {kind}\ndata: {text}\n\n")
}

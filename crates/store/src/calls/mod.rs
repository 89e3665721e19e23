//! Tool calls: the model's intent, the judgements with what was sent to the server, and the result.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    hash::{BuildHasher as _, RandomState},
    rc::Rc,
};

use mcpmon_model::{Action, Definition, Digest, EventType, Layer, RawJson, SessionId, Severity, Timestamp};
use rusqlite::Connection;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    Filter, StoredEvent,
    query::{self, EventRange, Position},
};

const JUDGED: &str = EventType::ToolCallIntercepted.as_str();
const CALLED: &str = EventType::ToolCalled.as_str();
const RETURNED: &str = EventType::ToolReturned.as_str();

/// The time within which a call can follow its intent, nanoseconds: a person may be asked in between.
pub const MAX_WAIT: i64 = 300 * 1_000_000_000;
/// Most calls that may be made before the result of a call; a later result is not joined with it.
const MAX_LATER_CALLS: usize = 32_768;
/// Most intents whose calls have not come yet; beyond it, the oldest are forgotten.
const MAX_INTENTS: usize = 8_192;
/// Number of positions after which the memory of those that were processed is freed.
const CHUNK: usize = 65_536;
/// Most events of the same tool, server and session in which the other events of a call are searched, and how many
/// positions before the known event the search begins: processes write their events at different times.
const MAX_COMPANIONS: u32 = 64;
const POSITIONS_BEFORE: i64 = 64;
/// The number of positions after the known event at which the search ends: an answer that came later is not joined.
const POSITIONS_AFTER: i64 = 65_536;
/// The limit for both together.
const MAX_NEAR: u32 = MAX_COMPANIONS + POSITIONS_BEFORE as u32;

/// One tool call, as far as it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// The intent of the model.
    pub intent: Option<StoredEvent>,
    /// The finding or denial of the call, if there was one.
    pub judged: Option<StoredEvent>,
    /// The forwarding of the call to its server.
    pub called: Option<StoredEvent>,
    /// The result.
    pub returned: Option<StoredEvent>,
}

impl ToolCall {
    /// Returns the event with the most details: the judgement, else the call, else the result, else the intent.
    pub fn main(&self) -> Option<&StoredEvent> {
        self.judged
            .as_ref()
            .or(self.called.as_ref())
            .or(self.returned.as_ref())
            .or(self.intent.as_ref())
    }
}

/// The positions of one call's events; a missing one is 0, which is not a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPlaces {
    intent: i64,
    judged: i64,
    called: i64,
    returned: i64,
}

impl CallPlaces {
    /// Returns the positions of its events.
    pub fn positions(&self) -> impl Iterator<Item = i64> {
        let all = [self.intent, self.judged, self.called, self.returned];
        all.into_iter().filter(|position| *position != 0)
    }
}

/// Reads a call with its events.
pub(super) fn read(connection: &Connection, places: &CallPlaces) -> rusqlite::Result<ToolCall> {
    let event = |position| match position {
        0 => Ok(None),
        seq => query::event_at(connection, seq),
    };
    Ok(ToolCall {
        intent: event(places.intent)?,
        judged: event(places.judged)?,
        called: event(places.called)?,
        returned: event(places.returned)?,
    })
}

/// Returns the positions of the newest `limit` matching calls, oldest first. Events are read one after the other to
/// join those of one call, and are not kept in memory.
pub(super) fn find(
    connection: &Connection,
    filter: &Filter,
    limit: u32,
) -> rusqlite::Result<Vec<CallPlaces>> {
    let window = EventRange::Newest {
        limit: limit.saturating_mul(3),
    };
    let matching = query::find(connection, &of_types(filter, &[JUDGED, CALLED]), window)?;
    // Only judgements have these fields; other events of a call do not. The lowest severity matches every event.
    let severity = filter.severity.filter(|least| *least > Severity::Info);
    let is_of_judgement = filter.action.is_some() || severity.is_some() || filter.trace.is_some();
    let (meant, mut positions) = match is_of_judgement {
        true => {
            let meant: Vec<i64> = matching.iter().map(|position| position.seq).collect();
            (Some(meant), with_companions(connection, matching)?)
        }
        false => (None, with_answers(connection, filter, limit, matching)?),
    };
    // Latest first, so that they are taken from the end. Processes write their events at different times: an intent can
    // be written after its call.
    positions.sort_unstable_by_key(|position| std::cmp::Reverse((position.at, position.seq)));
    let mut joined = JoinedCalls::new(match meant {
        Some(_) => usize::MAX,
        None => limit as usize,
    });
    while let Some(position) = positions.pop() {
        if let Some(event) = query::event_at(connection, position.seq)? {
            joined.add(&event);
        }
        if positions.capacity() - positions.len() > CHUNK {
            positions.shrink_to_fit();
        }
    }
    let mut calls = Vec::from(joined.calls);
    if let Some(meant) = meant {
        calls.retain(|call| call.positions().any(|seq| meant.binary_search(&seq).is_ok()));
    }
    let beyond = calls.len().saturating_sub(limit as usize);
    calls.drain(..beyond);
    Ok(calls)
}

fn of_types(filter: &Filter, types: &[&str]) -> Filter {
    Filter {
        types: types.iter().map(|name| (*name).to_owned()).collect(),
        ..filter.clone()
    }
}

/// Returns the positions of calls, and of all results after the first of them.
fn with_answers(
    connection: &Connection,
    filter: &Filter,
    limit: u32,
    mut calls: Vec<Position>,
) -> rusqlite::Result<Vec<Position>> {
    let Some(first) = calls.first() else {
        return Ok(calls);
    };
    let answers = Filter {
        until: None,
        ..of_types(filter, &[RETURNED])
    };
    let window = EventRange::After {
        seq: first.seq,
        limit: limit.saturating_mul(3),
    };
    calls.extend(query::find(connection, &answers, window)?);
    Ok(calls)
}

/// Returns the positions of judgements, and of the events that can belong to the same calls.
fn with_companions(connection: &Connection, judged: Vec<Position>) -> rusqlite::Result<Vec<Position>> {
    let mut all = companions(connection, &judged)?;
    all.extend(judged);
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Returns the positions of events that can belong to the same calls as the judgements. Judgements of the same tool,
/// server and session are processed in order, because the companions of one are mostly those of the next too; each is
/// found once.
fn companions(connection: &Connection, judged: &[Position]) -> rusqlite::Result<Vec<Position>> {
    let hashes = RandomState::new();
    let mut alike = Vec::with_capacity(judged.len());
    for position in judged {
        let event = query::event_at(connection, position.seq)?;
        // A blocked call has no further events.
        if let Some(event) = event.filter(|event| event.action != Action::Block) {
            let Filter {
                tool,
                server,
                sessions,
                ..
            } = companions_of(event);
            alike.push((hashes.hash_one((tool, server, sessions)), position.seq));
        }
    }
    alike.sort_unstable();
    let mut all = Vec::new();
    for alike in alike.chunk_by(|(one, _), (other, _)| one == other) {
        let mut events = alike.iter().map(|(_, seq)| query::event_at(connection, *seq));
        let Some(event) = events.find_map(Result::transpose).transpose()? else {
            continue;
        };
        let companions = companions_of(event);
        // The positions that were found already and are near the next judgement too.
        let mut window: VecDeque<i64> = VecDeque::new();
        for (_, seq) in alike {
            let before = seq.saturating_sub(POSITIONS_BEFORE);
            while window.pop_front_if(|first| *first <= before).is_some() {}
            let more = EventRange::Near {
                seq: window.back().copied().unwrap_or(before),
                until: seq.saturating_add(POSITIONS_AFTER),
                limit: u32::try_from(window.len()).map_or(0, |known| MAX_NEAR.saturating_sub(known)),
            };
            let found = query::find(connection, &companions, more)?;
            window.extend(found.iter().map(|position| position.seq));
            all.extend(found);
        }
    }
    Ok(all)
}

/// Returns the filter for other events that can belong to the call of an event.
fn companions_of(event: StoredEvent) -> Filter {
    Filter {
        tool: event.server_id.as_ref().and_then(|_| text(&event, "tool_name")),
        server: event.server_id,
        sessions: event.session_id.into_iter().collect(),
        ..of_types(&Filter::default(), &[JUDGED, CALLED, RETURNED])
    }
}

/// Joins events, which come in the order of time, to calls: by session, server, request id and user. An id that is used
/// again belongs to a new call.
#[derive(Debug)]
struct JoinedCalls {
    /// The newest calls.
    calls: VecDeque<CallPlaces>,
    limit: usize,
    /// Number of older calls that were dropped.
    left_out: usize,
    /// Open calls, by a hash of session, server and request id.
    open: BTreeMap<u64, Vec<Open>>,
    hashes: RandomState,
    intents: UnmatchedIntents,
}

impl JoinedCalls {
    fn new(limit: usize) -> Self {
        Self {
            calls: VecDeque::new(),
            limit,
            left_out: 0,
            open: BTreeMap::new(),
            hashes: RandomState::new(),
            intents: UnmatchedIntents::default(),
        }
    }

    fn add(&mut self, event: &StoredEvent) {
        let (key, user) = (self.hashes.hash_one(key(event)), user(event));
        let of_others = |open: &Open| !may_share_user(open.user, user);
        let same = self.open.get(&key);
        let same = same.and_then(|open| open.iter().rfind(|open| !of_others(open)));
        let known = same.copied();
        self.intents.forget_before(event.timestamp);
        match event.kind.as_str() {
            JUDGED if event.layer == Layer::Llm => {
                let number = self.add_call(CallPlaces {
                    intent: event.seq,
                    ..CallPlaces::default()
                });
                self.intents.add(event, number);
            }
            CALLED if known.is_some_and(|open| open.awaits == Some(self.is_same(event))) => {
                if let Some(Open { number, .. }) = known {
                    self.change(number, |call| call.called = event.seq);
                    let same = self.open.get_mut(&key).into_iter().flatten();
                    same.filter(|open| open.number == number)
                        .for_each(|open| open.awaits = None);
                }
            }
            JUDGED | CALLED => {
                let number = match self.intents.take(event) {
                    Some(number) => number,
                    None => self.add_call(CallPlaces::default()),
                };
                let is_judged = event.kind == JUDGED;
                self.change(number, |call| match is_judged {
                    true => call.judged = event.seq,
                    false => call.called = event.seq,
                });
                // A blocked call has no further events: a later event with its id belongs to another call, on a later
                // connection.
                let awaits = (is_judged && event.action != Action::Block).then(|| self.is_same(event));
                let same = self.open.entry(key).or_insert_with(|| Vec::with_capacity(1));
                same.retain(of_others);
                same.push(Open { number, user, awaits });
            }
            _ => {
                if let Some(Open { number, .. }) = known {
                    self.change(number, |call| call.returned = event.seq);
                    if let Entry::Occupied(mut same) = self.open.entry(key) {
                        same.get_mut().retain(|open| open.number != number);
                        if same.get().is_empty() {
                            same.remove();
                        }
                    }
                }
            }
        }
    }

    /// Adds a call and returns its number.
    fn add_call(&mut self, call: CallPlaces) -> usize {
        let number = self.left_out + self.calls.len();
        self.calls.push_back(call);
        if self.calls.len() > self.limit {
            self.calls.pop_front();
            self.left_out += 1;
        }
        if number.is_multiple_of(MAX_LATER_CALLS) {
            let oldest = number.saturating_sub(MAX_LATER_CALLS);
            self.open.retain(|_, same| {
                same.retain(|open| open.number >= oldest);
                !same.is_empty()
            });
        }
        number
    }

    /// Changes a call that was not dropped.
    fn change(&mut self, number: usize, change: impl FnOnce(&mut CallPlaces)) {
        let place = number.checked_sub(self.left_out);
        if let Some(call) = place.and_then(|place| self.calls.get_mut(place)) {
            change(call);
        }
    }

    /// Returns a hash of the fields that a judgement and its call have in common.
    fn is_same(&self, event: &StoredEvent) -> u64 {
        self.hashes
            .hash_one(["tool_name", "tool_call_id"].map(|field| text(event, field)))
    }
}

/// A call of which more events may come.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The number of the call.
    number: usize,
    user: Option<u32>,
    /// Set for a judged call that may still be made: the hash of the fields that the call has in common with the
    /// judgement.
    awaits: Option<u64>,
}

/// Returns the user of an event's call: the client's, or else that of the serving process.
fn user(event: &StoredEvent) -> Option<u32> {
    let client = event.data.get("client_uid").and_then(Value::as_u64);
    let client = client.and_then(|uid| u32::try_from(uid).ok());
    client.or_else(|| event.process.as_ref()?.uid)
}

/// Returns whether two users may be the same: they are equal, or one is unknown.
fn may_share_user(one: Option<u32>, other: Option<u32>) -> bool {
    one.is_none() || other.is_none() || one == other
}

fn key(event: &StoredEvent) -> [String; 3] {
    [
        event.session_id.clone().unwrap_or_default(),
        event.server_id.clone().unwrap_or_default(),
        event
            .data
            .get("jsonrpc_id")
            .map(ToString::to_string)
            .unwrap_or_default(),
    ]
}

/// Intents whose calls have not come yet.
///
/// Each component records what it knows. The proxy may not know yet which server a tool's name belongs to, or which
/// connection it answers, and each may know the session under another name. What one of them does not know does not
/// count as a difference.
#[derive(Debug, Default)]
struct UnmatchedIntents {
    by_id: BTreeMap<String, VecDeque<Rc<UnmatchedIntent>>>,
    /// By the input of the call.
    by_input: BTreeMap<Option<Digest>, VecDeque<Rc<UnmatchedIntent>>>,
    /// All intents, including some that were matched meanwhile, oldest first.
    order: VecDeque<Rc<UnmatchedIntent>>,
}

/// Most waiting intents with the same id or the same input; beyond it, the oldest are forgotten.
const MAX_ALIKE: usize = 256;

#[derive(Debug)]
struct UnmatchedIntent {
    /// The number of the call.
    number: usize,
    at: Timestamp,
    user: Option<u32>,
    session: Option<SessionId>,
    server: Option<String>,
    /// The tool's name at its server, or the model's name for it if the server is unknown.
    tool: String,
    id: Option<String>,
    input: Option<Digest>,
}

impl UnmatchedIntent {
    fn of(event: &StoredEvent, number: usize) -> Self {
        let input = text(event, "input").filter(|input| serde_json::from_str::<IgnoredAny>(input).is_ok());
        Self {
            number,
            at: event.timestamp,
            user: user(event),
            session: event.session_id.as_deref().map(SessionId::new),
            server: event.server_id.clone(),
            tool: text(event, "tool_name").unwrap_or_default(),
            id: text(event, "tool_call_id"),
            // Each component records the input as it received it. In canonical form, equal inputs are identical.
            input: input.map(|input| Definition::of(RawJson::trusted(&input)).hash),
        }
    }

    /// Returns whether `call` comes in time for this intent.
    fn may_wait_for(&self, call: &Self) -> bool {
        let waited = call.at.0.saturating_sub(self.at.0);
        (0..=MAX_WAIT).contains(&waited)
    }

    /// Returns whether both have the same session. Returns `None` if one is unknown.
    fn shares_session(&self, call: &Self) -> Option<bool> {
        Some(self.session.as_ref()?.is_of_same_root(call.session.as_ref()?))
    }

    /// Returns whether `call` may have the same session and user.
    fn may_share_session(&self, call: &Self) -> bool {
        self.shares_session(call) != Some(false) && may_share_user(self.user, call.user)
    }

    /// Returns whether `call` may have the same tool.
    fn may_share_tool(&self, call: &Self) -> bool {
        match &self.server {
            Some(_) => self.server == call.server && self.tool == call.tool,
            None => {
                let name = letters(&call.tool);
                !name.is_empty() && letters(&self.tool).ends_with(&name)
            }
        }
    }

    /// Returns whether `call` may have this tool although the names differ. If the proxy did not know the tool, its
    /// client may have given it any name; a tool of the same name on another server is accepted too.
    fn may_be_named(&self, call: &Self) -> bool {
        self.server.is_none() || self.tool == call.tool
    }

    /// Returns whether `call` may be the call of this intent, judged by all but the id, and comes in time.
    fn is_alike(&self, call: &Self) -> bool {
        self.may_wait_for(call)
            && (self.id.is_none() || call.id.is_none())
            && self.may_share_session(call)
            && self.may_share_tool(call)
    }
}

/// Returns the characters of a tool's name that all clients keep when they rewrite names.
fn letters(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

impl UnmatchedIntents {
    /// Adds an intent. A blocked one has no call.
    fn add(&mut self, event: &StoredEvent, number: usize) {
        if event.action == Action::Block {
            return;
        }
        let intent = Rc::new(UnmatchedIntent::of(event, number));
        if self.order.len() == MAX_INTENTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.forget(&oldest);
        }
        self.order.push_back(Rc::clone(&intent));
        if let Some(id) = &intent.id {
            put(self.by_id.entry(id.clone()).or_default(), Rc::clone(&intent));
        }
        put(self.by_input.entry(intent.input).or_default(), intent);
    }

    /// Removes and returns the intent of a call: the one with the same id from the model, or else the oldest that
    /// agrees in everything that is known.
    fn take(&mut self, event: &StoredEvent) -> Option<usize> {
        let call = UnmatchedIntent::of(event, 0);
        let found = self.with_id(&call).or_else(|| {
            let mut same = self.by_input.get(&call.input)?.iter();
            same.find(|intent| intent.is_alike(&call))
        });
        let found = Rc::clone(found?);
        self.forget(&found);
        Some(found.number)
    }

    /// Forgets the intents that are too old at `now` for a call.
    fn forget_before(&mut self, now: Timestamp) {
        let is_late = |intent: &mut Rc<UnmatchedIntent>| now.0.saturating_sub(intent.at.0) > MAX_WAIT;
        while let Some(intent) = self.order.pop_front_if(is_late) {
            self.forget(&intent);
        }
    }

    fn forget(&mut self, intent: &UnmatchedIntent) {
        let is_other = |other: &Rc<UnmatchedIntent>| other.number != intent.number;
        if let Some(id) = &intent.id
            && let Some(same) = self.by_id.get_mut(id)
        {
            same.retain(is_other);
            if same.is_empty() {
                self.by_id.remove(id);
            }
        }
        if let Some(same) = self.by_input.get_mut(&intent.input) {
            same.retain(is_other);
            if same.is_empty() {
                self.by_input.remove(&intent.input);
            }
        }
    }

    /// Returns the intent with the call's id. Some models number their calls anew in every turn, so the latest match is
    /// taken. Such ids are not unique, so the id decides against different tool names only within one session.
    fn with_id(&self, call: &UnmatchedIntent) -> Option<&Rc<UnmatchedIntent>> {
        let same = self.by_id.get(call.id.as_ref()?)?.iter().rev();
        let mut same = same.filter(|intent| intent.may_wait_for(call) && intent.may_share_session(call));
        same.clone()
            .find(|intent| intent.may_share_tool(call))
            .or_else(|| {
                same.find(|intent| intent.shares_session(call) == Some(true) && intent.may_be_named(call))
            })
    }
}

fn put(same: &mut VecDeque<Rc<UnmatchedIntent>>, intent: Rc<UnmatchedIntent>) {
    if same.len() == MAX_ALIKE {
        same.pop_front();
    }
    same.push_back(intent);
}

fn text(event: &StoredEvent, field: &str) -> Option<String> {
    event.data.get(field).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests;

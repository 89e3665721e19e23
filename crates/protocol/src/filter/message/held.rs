//! Calls that are held until a person answers: their clients wait, and nothing of them has reached the server.

use std::{collections::BTreeMap, time::Duration};

use mcpmon_model::{RequestId, Timestamp};

use crate::decode::{
    json::{Value, ValueKind, quote_into},
    jsonrpc::{Envelope, Payload},
};

/// The interval of the progress notifications to a client whose call is held.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// Longest progress token that is repeated, bytes.
const MAX_TOKEN_BYTES: usize = 1 << 10;

/// The held calls of one conversation, by the ids of their requests.
#[derive(Debug, Default)]
pub(in crate::filter) struct HeldMessages(BTreeMap<RequestId, HeldMessage>);

/// A call that is held.
#[derive(Debug)]
pub(in crate::filter) struct HeldMessage {
    /// The id by which a person answers.
    held_call: String,
    /// The text, if it is kept here.
    pub(in crate::filter) text: String,
    /// The token of its progress notifications as written, if its client requested them.
    progress_token: Option<String>,
    /// The time of the last notification.
    told: Option<Timestamp>,
    /// The number of notifications so far.
    count: u32,
}

impl HeldMessage {
    pub(super) fn new(held_call: String, envelope: &Envelope<'_>, text: String) -> Self {
        Self {
            held_call,
            text,
            progress_token: progress_token(envelope),
            told: None,
            count: 0,
        }
    }

    /// Returns the notification that is due, if one is.
    fn progress(&mut self, now: Timestamp) -> Option<String> {
        let token = self.progress_token.as_ref()?;
        let is_due = |told: Timestamp| now < told || now.since(told) >= PROGRESS_INTERVAL;
        if !self.told.is_none_or(is_due) {
            return None;
        }
        self.told = Some(now);
        self.count += 1;
        // Progress may only grow, and the server's own begins later, so these steps are smaller than any of the
        // server's.
        let progress = f64::from(self.count) / 1e6;
        let message = format!(
            "mcpmon holds this call until a person answers: see `mcpmon approvals show {}`",
            self.held_call
        );
        let mut text = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":{progress:.6},\"message\":"
        );
        quote_into(&message, &mut text);
        text.push_str("}}");
        Some(text)
    }
}

impl HeldMessages {
    pub(super) fn insert(&mut self, id: RequestId, held: HeldMessage) {
        self.0.insert(id, held);
    }

    /// Returns whether a call with this id is held.
    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.0.contains_key(id)
    }

    /// Takes the call with this id of its request; the id by which a person answers.
    pub(super) fn cancel(&mut self, id: &RequestId) -> Option<String> {
        Some(self.0.remove(id)?.held_call)
    }

    /// Takes the call with this id by which a person answers.
    pub(in crate::filter) fn release(&mut self, held_call: &str) -> Option<HeldMessage> {
        let mut held = self.0.iter();
        let (id, _) = held.find(|(_, held)| held.held_call == held_call)?;
        let id = id.clone();
        self.0.remove(&id)
    }

    /// Returns whether a call is held that a person answers by this id.
    pub(in crate::filter) fn holds(&self, held_call: &str) -> bool {
        self.0.values().any(|held| held.held_call == held_call)
    }

    /// Takes every call, with the id of its request and the one by which a person answers.
    pub(in crate::filter) fn drain(&mut self) -> Vec<(RequestId, String)> {
        let held = std::mem::take(&mut self.0);
        held.into_iter().map(|(id, held)| (id, held.held_call)).collect()
    }

    /// Returns the progress notifications that are due.
    pub(in crate::filter) fn progress(&mut self, now: Timestamp) -> impl Iterator<Item = String> {
        self.0.values_mut().filter_map(move |held| held.progress(now))
    }

    /// Returns the progress notification of one call, if it is due.
    pub(in crate::filter) fn progress_of(&mut self, now: Timestamp, held_call: &str) -> Option<String> {
        let mut held = self.0.values_mut();
        held.find(|held| held.held_call == held_call)?.progress(now)
    }
}

/// Returns the token with which a client requests progress notifications, as written.
fn progress_token(envelope: &Envelope<'_>) -> Option<String> {
    let Payload::Method { params, .. } = &envelope.payload else {
        return None;
    };
    let token = params
        .as_ref()?
        .member("_meta")
        .and_then(|meta: Value<'_>| meta.member("progressToken"))?;
    let is_token = matches!(token.kind(), ValueKind::String | ValueKind::Number);
    (is_token && token.text().len() <= MAX_TOKEN_BYTES).then(|| token.text().to_owned())
}

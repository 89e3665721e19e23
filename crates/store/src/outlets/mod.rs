//! Outlets: destinations of events besides the store, a file of JSON lines and a webhook. Neither can hold up
//! the store.

mod jsonl;
mod signature;
mod unposted;
mod webhook;

use std::path::PathBuf;

use mcpmon_model::{Event, EventKind, Layer, Severity, Timestamp};
use uuid::Uuid;

pub(super) use self::unposted::{claim as claim_unposted, claim_end, keep as keep_unposted};
use self::{jsonl::JsonLines, webhook::Webhook};
use super::{ClaimedPosts, Entry, StoredEvent, Unposted};

/// The settings of the outlets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutletSettings {
    /// File that every event is appended to.
    pub jsonl: Option<PathBuf>,
    /// The webhook to which events are posted.
    pub webhook: Option<WebhookSettings>,
}

/// A URL that events are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// `http` or `https`.
    pub url: String,
    /// File with the key that they are signed with.
    pub key_file: Option<PathBuf>,
    /// Severity from which on they are.
    pub min_severity: Severity,
}

/// The outlets of one writer.
#[derive(Debug)]
pub(super) struct Outlets {
    jsonl: Option<JsonLines>,
    webhook: Option<Webhook>,
    /// The time losses were last reported.
    told_at: Option<Timestamp>,
}

/// Nanoseconds between two reports of losses.
const LOSSES_APART: i64 = 60 * 1_000_000_000;

impl Outlets {
    pub(super) fn open(settings: &OutletSettings) -> Self {
        let webhook = settings.webhook.as_ref().map(Webhook::start).transpose();
        Self {
            jsonl: settings.jsonl.clone().map(JsonLines::new),
            webhook: webhook.unwrap_or_else(|error| {
                tracing::error!(%error, "nothing is posted to the webhook");
                None
            }),
            told_at: None,
        }
    }

    /// Tells every outlet what was recorded; `is_stored`, where the store has what it has to post.
    pub(super) fn tell(&mut self, entries: &[Entry], is_stored: bool) {
        if let Some(jsonl) = &mut self.jsonl {
            jsonl.append(events(entries));
        }
        if let Some(webhook) = &mut self.webhook {
            webhook.post(events(entries), is_stored);
        }
    }

    /// Returns the changes to the events that the store keeps for the webhook.
    pub(super) fn unposted(&mut self, entries: &[Entry], claimed_until: Timestamp) -> Option<Unposted> {
        let webhook = self.webhook.as_mut()?;
        let (mut waiting, settled) = (webhook.take_left(), webhook.take_settled());
        let wanted = events(entries).filter(|event| webhook.wants(event));
        waiting.extend(wanted.map(|event| (event.id, event.timestamp)));
        let is_needed = !waiting.is_empty() || !settled.is_empty();
        is_needed.then_some(Unposted {
            waiting,
            claimed_until,
            settled,
        })
    }

    /// Returns the events that wait to be posted and are in the store.
    pub(super) fn waiting(&self) -> Vec<(Uuid, Timestamp)> {
        self.webhook.as_ref().map_or_else(Vec::new, Webhook::waiting)
    }

    /// Returns the webhook's free capacity in events; `None` without a webhook.
    pub(super) fn webhook_room(&self) -> Option<usize> {
        self.webhook.as_ref().map(Webhook::room)
    }

    /// Posts what was not acknowledged before.
    pub(super) fn post_again(&mut self, claimed: &ClaimedPosts) {
        if let Some(webhook) = &mut self.webhook {
            webhook.count_lost(claimed.lost);
            webhook.post(claimed.events.iter(), true);
        }
    }

    /// Waits a moment for the webhook to take the last events. Those that it did not take are the next process's where
    /// `is_stored`, and lost otherwise.
    pub(super) fn finish(&mut self, is_stored: bool) {
        if let Some(webhook) = &mut self.webhook {
            webhook.finish(is_stored);
        }
    }

    /// Returns the losses of the outlets since the last time, at most once a minute: a loss is an event
    /// itself, which the outlet loses as well.
    pub(super) fn losses(&mut self, now: Timestamp, is_last: bool) -> Vec<Event> {
        let is_soon = self
            .told_at
            .is_some_and(|told| now.0.saturating_sub(told.0) < LOSSES_APART);
        if is_soon && !is_last {
            return Vec::new();
        }
        let jsonl = self.jsonl.as_mut().and_then(JsonLines::take_lost);
        let webhook = self.webhook.as_mut().and_then(Webhook::take_lost);
        let losses: Vec<Event> = [("jsonl file", jsonl), ("webhook", webhook)]
            .into_iter()
            .filter_map(|(place, lost)| {
                let (count, cause) = lost?;
                Some(lost_at(place, count, cause, now))
            })
            .collect();
        if !losses.is_empty() {
            self.told_at = Some(now);
        }
        losses
    }
}

fn lost_at(place: &str, count: u64, cause: String, now: Timestamp) -> Event {
    let kind = EventKind::EventsLost {
        place: place.to_owned(),
        count,
    };
    let mut event = Event::new(now, Layer::Agent, kind);
    event.severity = Severity::Medium;
    event.reason = Some(cause);
    event
}

/// The events among `entries`.
fn events(entries: &[Entry]) -> impl Iterator<Item = &StoredEvent> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Event(event) | Entry::Rescued(event) => Some(event),
        Entry::Definition(_)
        | Entry::ForgetDefinition(_)
        | Entry::Leave(..)
        | Entry::PutPin(_)
        | Entry::DeletePins(_)
        | Entry::DeletePinSet(..)
        | Entry::Declare(_)
        | Entry::ForgetRunning
        | Entry::Watch(_)
        | Entry::Unposted(_)
        | Entry::Recent(..)
        | Entry::Unread(..)
        | Entry::PolicyChanged
        | Entry::Body(_)
        | Entry::ShortenBodies(_) => None,
    })
}

/// One event as a line.
fn line(event: &StoredEvent) -> Vec<u8> {
    let mut line = serde_json::to_vec(&super::json::to_json(event)).expect("a map of JSON values serialises");
    line.push(b'\n');
    line
}

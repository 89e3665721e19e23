//! Where events go beside the store: a file of JSON lines, a webhook. Neither can hold up the store.

mod jsonl;
mod signature;
mod unposted;
mod webhook;

use std::path::PathBuf;

use mcpmon_core::model::{Event, EventKind, Layer, Severity, Timestamp};
use uuid::Uuid;

pub(super) use self::unposted::{keep as keep_unposted, take as take_unposted};
use self::{jsonl::JsonLines, webhook::Webhook};
use super::{Entry, StoredEvent};

/// Which outlets there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutletSettings {
    /// File that every event is appended to.
    pub jsonl: Option<PathBuf>,
    /// Where events are posted to.
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
    /// When losses were told last.
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

    /// Tells every outlet what was recorded.
    pub(super) fn tell(&mut self, entries: &[Entry]) {
        let events = || {
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
        };
        if let Some(jsonl) = &mut self.jsonl {
            jsonl.append(events());
        }
        if let Some(webhook) = &mut self.webhook {
            webhook.post(events());
        }
    }

    /// How many events of earlier processes the webhook has room for; `None` where there is none.
    pub(super) fn webhook_room(&self) -> Option<usize> {
        self.webhook.as_ref().map(Webhook::room)
    }

    /// Posts what the webhook of an earlier process did not take.
    pub(super) fn post_again(&mut self, events: &[StoredEvent]) {
        if let Some(webhook) = &mut self.webhook {
            webhook.post(events.iter());
        }
    }

    /// Waits a moment for the webhook to take the last events; those that it did not take are the next process's.
    pub(super) fn finish(&mut self) -> Vec<(Uuid, Timestamp)> {
        self.webhook.as_mut().map_or_else(Vec::new, Webhook::finish)
    }

    /// What did not reach an outlet since the last time, at most once a minute: a loss is an event itself, which the
    /// outlet loses as well.
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

/// One event as a line.
fn line(event: &StoredEvent) -> Vec<u8> {
    let mut line = serde_json::to_vec(&super::json::to_json(event)).expect("a map of JSON values serialises");
    line.push(b'\n');
    line
}

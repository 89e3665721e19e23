//! Where events go beside the store: a file of JSON lines, a webhook. Neither can hold up the store.

mod jsonl;

use std::path::PathBuf;

use mcpmon_core::model::{Event, EventKind, Layer, Severity, Timestamp};

use self::jsonl::JsonLines;
use super::{Entry, StoredEvent};

/// Which outlets there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutletSettings {
    /// File that every event is appended to.
    pub jsonl: Option<PathBuf>,
}

/// The outlets of one writer.
#[derive(Debug)]
pub(super) struct Outlets {
    jsonl: Option<JsonLines>,
}

impl Outlets {
    pub(super) fn open(settings: &OutletSettings) -> Self {
        Self {
            jsonl: settings.jsonl.clone().map(JsonLines::new),
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
                | Entry::PolicyChanged => None,
            })
        };
        if let Some(jsonl) = &mut self.jsonl {
            jsonl.append(events());
        }
    }

    /// What did not reach an outlet since the last time.
    pub(super) fn losses(&mut self, now: Timestamp) -> Vec<Event> {
        let lost = self.jsonl.as_mut().and_then(JsonLines::take_lost);
        lost.map(|(count, cause)| lost_at("jsonl file", count, cause, now))
            .into_iter()
            .collect()
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

//! EventSinks: destinations of events besides the store, such as a file of JSON lines and a webhook. None of them can
//! delay the store.
//!
//! A new sink is a file in this folder, with its keys and their documentation, and a line in the table.

mod counts;
mod jsonl;
mod keys;
mod ocsf;
mod otlp;
mod posting;
mod signature;
mod unposted;
mod webhook;

use std::{fmt, sync::LazyLock};

use mcpmon_model::{Event, EventKind, Layer, Severity, Timestamp};
use mcpmon_policy::written::SectionKeys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::keys::{SinkKeys, SinkSurroundings};
pub(crate) use self::otlp::Origin;
pub(super) use self::unposted::{claim as claim_unposted, claim_end, keep as keep_unposted};
pub use self::{
    jsonl::JsonlSettings,
    keys::SectionFaults,
    otlp::{OtlpSettings, OtlpSignals},
    signature::SigningKey,
    webhook::WebhookSettings,
};
use super::{
    ClaimedPosts, Destination, StoreEntry, StoreError, StoredEvent, UnpostedEvents, metrics::Metrics,
};

/// Declares every configurable sink once: its name, the type of its keys, and the type of its settings.
macro_rules! sinks {
    ($($(#[$doc:meta])* $name:ident: $keys:ty => $settings:ty,)*) => {
        /// The keys of all sinks.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
        pub struct SinkSection {
            $(#[serde(flatten)] $name: $keys,)*
        }

        impl SectionKeys for SinkSection {
            fn names() -> &'static [&'static str] {
                static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| [$(<$keys>::names()),*].concat());
                &NAMES
            }

            fn read<'de, A: serde::de::MapAccess<'de>>(&mut self, key: &str, values: &mut A) -> Result<bool, A::Error> {
                Ok($(self.$name.read(key, values)?)||*)
            }
        }

        impl SinkSection {
            /// Returns the settings of the configured sinks.
            #[must_use]
            pub fn check(&self, faults: &mut SectionFaults) -> SinkSettings {
                SinkSettings {
                    $($name: self.$name.check(faults),)*
                    metrics: None,
                }
            }
        }

        /// The settings of the sinks.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct SinkSettings {
            $($(#[$doc])* pub $name: Option<$settings>,)*
            /// The metrics that count every event.
            pub metrics: Option<Metrics>,
        }

        impl SinkSettings {
            /// Starts the sinks of the table.
            fn start(&self, surroundings: &SinkSurroundings<'_>) -> impl Iterator<Item = Box<dyn EventSink>> {
                let started = [$(self.$name.as_ref().and_then(|settings| <$keys>::start(settings, surroundings))),*];
                started.into_iter().flatten()
            }
        }
    };
}

sinks! {
    /// The file that every event is appended to.
    jsonl: jsonl::JsonlKeys => JsonlSettings,
    /// The collector that events and metrics are exported to, by the process that has the store.
    otlp: otlp::OtlpKeys => OtlpSettings,
    /// The webhook to which events are posted.
    webhook: webhook::WebhookKeys => WebhookSettings,
}

/// The form of an event in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventFormat {
    /// As docs/events.md has it.
    #[default]
    Mcpmon,
    /// The Open Cybersecurity Schema Framework.
    Ocsf,
}

/// A destination of events besides the store.
trait EventSink: fmt::Debug + Send {
    /// Returns its name in reports of losses.
    fn name(&self) -> &'static str;

    /// Receives recorded entries; `is_stored` is true if the store has them, and the backlog that this sink
    /// requested. Must not block.
    fn tell(&mut self, entries: &[StoreEntry], is_stored: bool);

    /// Returns entries to be stored together with `entries`. From `claimed_until` on, other processes can claim the
    /// backlog for a sink of the same name.
    fn backlog(&mut self, _entries: &[StoreEntry], _claimed_until: Timestamp) -> Option<StoreEntry> {
        None
    }

    /// Returns the events of the backlog that wait in this process.
    fn waiting(&self) -> Vec<(Uuid, Timestamp)> {
        Vec::new()
    }

    /// Returns the free capacity for events of the backlog; `None` without a backlog.
    fn room(&self) -> Option<usize> {
        None
    }

    /// Receives events that were not acknowledged before.
    fn post_again(&mut self, _claimed: &ClaimedPosts) {}

    /// Returns the number of events that were lost since the last call, and the cause.
    fn take_lost(&mut self) -> Option<(u64, String)> {
        None
    }

    /// Waits a moment for the last events. Those that were not accepted are left to the next process if `is_stored`,
    /// and lost otherwise.
    fn finish(&mut self, _is_stored: bool) {}
}

/// The sinks of one writer.
#[derive(Debug)]
pub(super) struct EventSinks {
    list: Vec<Box<dyn EventSink>>,
    /// The time of the last report of losses.
    told_at: Option<Timestamp>,
}

/// Nanoseconds between two reports of losses.
const LOSSES_APART: i64 = 60 * 1_000_000_000;

impl EventSinks {
    /// Opens the sinks of a writer; `origin` is its store, if it has one.
    pub(super) fn open(settings: &SinkSettings, origin: Option<Origin>) -> Self {
        let surroundings = SinkSurroundings {
            origin,
            metrics: settings.metrics.as_ref(),
        };
        let counts = settings.metrics.clone().map(|metrics| Box::new(metrics) as _);
        Self {
            list: counts.into_iter().chain(settings.start(&surroundings)).collect(),
            told_at: None,
        }
    }

    /// Passes recorded entries to every sink; `is_stored` is true if the store has what they have to export later.
    pub(super) fn tell(&mut self, entries: &[StoreEntry], is_stored: bool) {
        self.list
            .iter_mut()
            .for_each(|sink| sink.tell(entries, is_stored));
    }

    /// Returns the entries that the sinks want to be stored together with `entries`.
    pub(super) fn backlog(&mut self, entries: &[StoreEntry], claimed_until: Timestamp) -> Vec<StoreEntry> {
        let kept = self
            .list
            .iter_mut()
            .filter_map(|sink| sink.backlog(entries, claimed_until));
        kept.collect()
    }

    /// Renews the claims of each sink with a backlog, and has it post the events that no living process is posting.
    ///
    /// # Errors
    /// Returns the first error of a backlog that cannot be read or written; the claims of the other sinks are
    /// renewed.
    pub(super) fn claim_posts(
        &mut self,
        destination: &mut dyn Destination,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let claimed = self
            .list
            .iter_mut()
            .map(|sink| claim_for(&mut **sink, destination, now));
        claimed.fold(Ok(()), Result::and)
    }

    /// Waits a moment for the sinks to take the last events.
    pub(super) fn finish(&mut self, is_stored: bool) {
        self.list.iter_mut().for_each(|sink| sink.finish(is_stored));
    }

    /// Returns the losses of the sinks since the last call, at most once a minute: a loss is reported by an event,
    /// which the sink loses as well.
    pub(super) fn losses(&mut self, now: Timestamp, is_last: bool) -> Vec<Event> {
        let is_soon = self
            .told_at
            .is_some_and(|told| now.0.saturating_sub(told.0) < LOSSES_APART);
        if is_soon && !is_last {
            return Vec::new();
        }
        let losses: Vec<Event> = self
            .list
            .iter_mut()
            .filter_map(|sink| {
                let (count, cause) = sink.take_lost()?;
                Some(lost_at(sink.name(), count, cause, now))
            })
            .collect();
        if !losses.is_empty() {
            self.told_at = Some(now);
        }
        losses
    }
}

fn claim_for(
    sink: &mut dyn EventSink,
    destination: &mut dyn Destination,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(room) = sink.room() else {
        return Ok(());
    };
    let waiting = sink.waiting();
    if !waiting.is_empty() {
        destination.keep(&[StoreEntry::Unposted(UnpostedEvents {
            sink: sink.name(),
            waiting,
            claimed_until: claim_end(now),
            settled: Vec::new(),
        })])?;
    }
    // Half of the capacity is left for new events.
    let claimed = destination.claim_unposted(sink.name(), now, room / 2)?;
    sink.post_again(&claimed);
    Ok(())
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

/// Returns the events among `entries`.
fn events(entries: &[StoreEntry]) -> impl Iterator<Item = &StoredEvent> {
    entries.iter().filter_map(StoreEntry::any_event)
}

/// Returns one event as a line.
fn line(event: &StoredEvent, format: EventFormat) -> Vec<u8> {
    let fields = match format {
        EventFormat::Mcpmon => super::json::to_json(event),
        EventFormat::Ocsf => ocsf::to_ocsf(event),
    };
    let mut line = serde_json::to_vec(&fields).expect("a map of JSON values serialises");
    line.push(b'\n');
    line
}

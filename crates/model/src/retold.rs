//! Events that are recorded again.

use std::sync::Arc;

use super::{Action, Event, Severity, Timestamp};

/// Events that were recorded before and are recorded once more, unchanged except for their time. Copies share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedEvents {
    events: Arc<[Event]>,
    severity: Severity,
    at: Timestamp,
}

impl RepeatedEvents {
    /// Returns `None` if one of the events is about something that was stopped: such an event is recorded separately,
    /// before the client gets the answer.
    pub fn new(events: &[Event]) -> Option<Self> {
        let is_stopped = events.iter().any(|event| event.action == Action::Block);
        let severity = events.iter().map(|event| event.severity).max();
        (!is_stopped).then(|| Self {
            events: events.into(),
            severity: severity.unwrap_or_default(),
            at: Timestamp::default(),
        })
    }

    /// Returns the same events at another time.
    pub fn at(&self, at: Timestamp) -> Self {
        Self { at, ..self.clone() }
    }

    /// Returns the number of events.
    pub fn count(&self) -> usize {
        self.events.len()
    }

    /// Returns the highest severity among the events.
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the events, in order.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.events.iter().map(|event| Event {
            timestamp: self.at,
            ..event.clone()
        })
    }
}

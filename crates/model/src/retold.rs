//! Events that are told again.

use std::sync::Arc;

use super::{Action, Event, Severity, Timestamp};

/// Events that were told before and are told once more, each as it was but for its time. Copies share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedEvents {
    events: Arc<[Event]>,
    severity: Severity,
    at: Timestamp,
}

impl RepeatedEvents {
    /// `None` where one tells of something stopped: such a one is kept by itself, before anybody hears of it.
    pub fn new(events: &[Event]) -> Option<Self> {
        let is_stopped = events.iter().any(|event| event.action == Action::Block);
        let severity = events.iter().map(|event| event.severity).max();
        (!is_stopped).then(|| Self {
            events: events.into(),
            severity: severity.unwrap_or_default(),
            at: Timestamp::default(),
        })
    }

    /// The same at another time.
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

    /// Each of them, in order.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.events.iter().map(|event| Event {
            timestamp: self.at,
            ..event.clone()
        })
    }
}

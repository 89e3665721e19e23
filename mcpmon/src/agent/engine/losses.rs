//! Records the kernel could not deliver, told as events.

use std::collections::BTreeMap;

use mcpmon_common::event::Counter;
use mcpmon_core::model::{Event, EventKind, Layer, Severity, Timestamp};

use crate::intercept::kernel::sensor::Counters;

/// What the kernel's counters said when they were last looked at.
#[derive(Debug, Default)]
pub(super) struct Losses {
    last: BTreeMap<u32, u64>,
}

impl Losses {
    const WATCHED: [(Counter, &'static str); 4] = [
        (Counter::ExecLost, "kernel ring: execs"),
        (Counter::ProcessLost, "kernel ring: forks and exits"),
        (Counter::ConnectLost, "kernel ring: connections"),
        (
            Counter::DeniedLost,
            "kernel ring: refusals (the refusals themselves were carried out)",
        ),
    ];

    /// An event for each kind of record that was lost since the last look.
    pub(super) fn look(&mut self, now: Timestamp, counters: &Counters) -> Vec<Event> {
        let grown = |(counter, place): (Counter, &'static str)| {
            let count = counters.get(counter).ok()?;
            let last = self.last.insert(counter as u32, count).unwrap_or(0);
            (count > last).then(|| {
                let kind = EventKind::EventsLost {
                    place: place.to_owned(),
                    count: count - last,
                };
                let mut event = Event::new(now, Layer::Kernel, kind);
                event.severity = Severity::Medium;
                event
            })
        };
        Self::WATCHED.into_iter().filter_map(grown).collect()
    }
}

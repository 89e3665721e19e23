//! The sink that counts events for the metrics.

use super::{EventSink, StoreEntry, events};
use crate::metrics::Metrics;

impl EventSink for Metrics {
    fn name(&self) -> &'static str {
        "metrics"
    }

    fn tell(&mut self, entries: &[StoreEntry], _is_stored: bool) {
        self.count(events(entries));
    }
}

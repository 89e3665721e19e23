//! The outlet that counts events for the metrics.

use super::{Outlet, StoreEntry, events};
use crate::metrics::Metrics;

impl Outlet for Metrics {
    fn name(&self) -> &'static str {
        "metrics"
    }

    fn tell(&mut self, entries: &[StoreEntry], _is_stored: bool) {
        self.count(events(entries));
    }
}

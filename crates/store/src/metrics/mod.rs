//! Metrics: counts of recorded events, and values that the process itself adds. One registry feeds every exporter.

pub mod table;
mod tallies;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use self::table::{Metric, MetricKind, MetricUnit};
use self::tallies::Tallies;
use super::StoredEvent;

/// The upper bounds of the classes of durations, in seconds: those that OpenTelemetry recommends for MCP, and shorter
/// ones, because a local server answers within a millisecond.
pub const DURATION_BOUNDS: [f64; 17] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// A metric with its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// The metric.
    pub metric: Metric,
    /// The samples, each with its own labels.
    pub samples: Vec<Sample>,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Labels, by name. An empty value is the same as no label.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: MetricValue,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// The value of a counter or gauge.
    Number(u64),
    /// The value of a histogram.
    Durations(Durations),
}

/// A distribution of durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// The sum of all durations, in seconds.
    pub sum: f64,
    /// The number of durations in each class. There is one class more than there are bounds; the last has no upper
    /// bound.
    pub classes: [u64; DURATION_BOUNDS.len() + 1],
}

impl Durations {
    /// Adds a duration.
    pub fn add(&mut self, seconds: f64) {
        let class = DURATION_BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.classes.get_mut(class) {
            *count += 1;
        }
        self.sum += seconds;
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }
}

impl MetricFamily {
    /// A family with one sample without labels.
    pub fn single(metric: Metric, value: u64) -> Self {
        Self::labelled(metric, [(Vec::new(), value)])
    }

    /// A family of numbers with labels.
    pub fn labelled(
        metric: Metric,
        samples: impl IntoIterator<Item = (Vec<(&'static str, String)>, u64)>,
    ) -> Self {
        let sample = |(labels, value)| Sample {
            labels,
            value: MetricValue::Number(value),
        };
        Self {
            metric,
            samples: samples.into_iter().map(sample).collect(),
        }
    }
}

/// The metrics of this process. Clones share one registry.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Registry>);

#[derive(Default)]
struct Registry {
    tallies: Mutex<Tallies>,
    state: Mutex<Vec<MetricFamily>>,
    effective: Mutex<Option<bool>>,
}

impl Metrics {
    /// Counts recorded events. The writer calls it once for each batch, so that no call waits for it.
    pub(super) fn count<'a>(&self, events: impl Iterator<Item = &'a StoredEvent>) {
        let mut tallies = self.0.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        events.for_each(|event| tallies.count(event));
    }

    /// Replaces the values that the process adds to the counts.
    pub fn set_state(&self, families: Vec<MetricFamily>) {
        *self.0.state.lock().unwrap_or_else(PoisonError::into_inner) = families;
    }

    /// Returns whether every component of the enforcement works. Returns `None` if the process has not reported it.
    pub fn is_enforcement_effective(&self) -> Option<bool> {
        *self.effective()
    }

    /// Sets whether every component of the enforcement works, for later exports.
    pub fn set_enforcement_effective(&self, is_effective: bool) {
        *self.effective() = Some(is_effective);
    }

    fn effective(&self) -> MutexGuard<'_, Option<bool>> {
        self.0.effective.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns every family with its samples.
    pub fn families(&self) -> Vec<MetricFamily> {
        let mut families = self
            .0
            .tallies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .families();
        families.extend_from_slice(&self.0.state.lock().unwrap_or_else(PoisonError::into_inner));
        families
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics(…)")
    }
}

/// Two handles are equal if they share one registry.
impl PartialEq for Metrics {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Metrics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_class_of_the_next_bound() {
        let mut durations = Durations::default();
        for seconds in [0.0, 0.001, 0.0011, 299.0, 300.0, 301.0] {
            durations.add(seconds);
        }
        let [first, second, .., last_but_one, last] = durations.classes;
        assert_eq!((first, second, last_but_one, last), (2, 1, 2, 1));
        assert_eq!(durations.count(), 6);
        assert!((durations.sum - 900.0021).abs() < 1e-6);
    }
}

//! The speed of the engines, on one thread.

use std::time::{Duration, Instant};

use mcpmon_detect::scan::{Scene, Source};
use mcpmon_model::RawJson;

use super::{
    corpus::Corpus,
    engines::{self, Engines},
    summary::Speed,
};

/// The number of times that each text is judged. The fastest time counts, because differences between them come from
/// the machine.
const ROUNDS: usize = 3;

/// Measures all definitions and outputs of the corpus, after the report has warmed up the caches.
pub(super) fn measure(corpus: &Corpus, engines: &Engines) -> Speed {
    let mut outputs = Throughput::default();
    let mut clean = Throughput::default();
    for item in corpus.items.iter().filter(|item| item.kind == "tool_output") {
        let Some(text) = item.payload.as_ref().and_then(|payload| payload.as_str()) else {
            continue;
        };
        let result = engines::result(text);
        let mut findings = Vec::new();
        let took = fastest(|| {
            findings = engines
                .scanner
                .output(RawJson::trusted(&result), &Source::default())
        });
        outputs.add(result.len(), took);
        if item.label == "benign" && findings.is_empty() {
            clean.add(result.len(), took);
        }
    }
    Speed {
        definition_p99_us: p99(definitions(corpus, engines)),
        outputs_mb_s: outputs.megabytes_a_second(),
        clean_mb_s: clean.megabytes_a_second(),
        // One megabyte per second is one byte per microsecond.
        clean_30kb_us: clean.megabytes_a_second().map(|speed| 30_000.0 / speed),
    }
}

fn definitions(corpus: &Corpus, engines: &Engines) -> Vec<Duration> {
    let mut took = Vec::new();
    for list in corpus.lists("tool_definition") {
        let items: Vec<_> = list.items.iter().map(|index| &corpus.items[*index]).collect();
        let own: Vec<&str> = items.iter().filter_map(|item| item.name()).collect();
        let scene = Scene {
            own: &own,
            ..Scene::default()
        };
        let counted = items.iter().zip(&list.counted).filter(|(_, counted)| **counted);
        for payload in counted.filter_map(|(item, _)| item.payload.as_ref()) {
            let text = payload.to_string();
            took.push(fastest(|| {
                drop(engines.scanner.definition(RawJson::trusted(&text), &scene));
            }));
        }
    }
    took
}

fn fastest(mut judge: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        judge();
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

/// Returns the 99th percentile, in microseconds.
fn p99(mut took: Vec<Duration>) -> Option<f64> {
    took.sort_unstable();
    let index = took.len().checked_sub(1)? * 99 / 100;
    Some(took[index].as_secs_f64() * 1e6)
}

/// A number of bytes, and the time that they took.
#[derive(Default)]
struct Throughput {
    bytes: u64,
    took: Duration,
}

impl Throughput {
    fn add(&mut self, bytes: usize, took: Duration) {
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
        self.took += took;
    }

    fn megabytes_a_second(&self) -> Option<f64> {
        let bytes = u32::try_from(self.bytes).ok().filter(|&bytes| bytes > 0)?;
        Some(f64::from(bytes) / 1e6 / self.took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_is_that_of_the_sorted_times() {
        let took = (1..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(p99(took), Some(99.0));
        assert_eq!(p99(Vec::new()), None);
    }

    #[test]
    fn throughput_is_bytes_by_time() {
        let mut throughput = Throughput::default();
        assert_eq!(throughput.megabytes_a_second(), None);
        throughput.add(3_000_000, Duration::from_millis(500));
        assert_eq!(throughput.megabytes_a_second(), Some(6.0));
    }
}

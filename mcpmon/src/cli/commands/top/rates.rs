//! Rates of calls of each server and session, over the last minute.

use std::collections::BTreeMap;

use mcpmon_model::Timestamp;

/// Seconds that are counted.
const SECONDS: usize = 60;
/// Seconds over which a rate is computed.
const RATE_SECONDS: usize = 10;
/// Seconds that a sparkline shows.
pub(super) const SPARKLINE_SECONDS: usize = 15;
/// Most servers and sessions that are counted: their names are chosen by others.
const MAX_COUNTED: usize = 2_000;
/// Bars of a sparkline, from the lowest to the highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const SECOND: i64 = 1_000_000_000;

/// Counters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates(BTreeMap<String, Counter>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Counter {
    /// The latest second with a call, since the epoch.
    last: i64,
    /// Calls in each second, at the index of the second's remainder.
    counts: [u32; SECONDS],
}

impl Rates {
    /// Counts one call.
    pub(super) fn count(&mut self, name: &str, at: Timestamp) {
        let second = at.0.div_euclid(SECOND);
        if let Some(counter) = self.0.get_mut(name) {
            return counter.count(second);
        }
        if self.0.len() >= MAX_COUNTED {
            let oldest = self.0.iter().min_by_key(|(_, counter)| counter.last);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| self.0.remove(&name));
        }
        let mut counter = Counter {
            last: second,
            counts: [0; SECONDS],
        };
        counter.count(second);
        self.0.insert(name.to_owned(), counter);
    }

    /// Returns the calls in each of the last seconds before `now`, latest last.
    fn latest(&self, name: &str, now: Timestamp, seconds: usize) -> Vec<u32> {
        // The current second is not over.
        let end = now.0.div_euclid(SECOND);
        let seconds = i64::try_from(seconds).unwrap_or_default();
        let counter = self.0.get(name);
        (end - seconds..end)
            .map(|second| counter.map_or(0, |counter| counter.at(second)))
            .collect()
    }

    /// Returns the calls per second over the last seconds, in tenths.
    pub(super) fn tenths(&self, name: &str, now: Timestamp) -> u64 {
        let calls: u64 = self
            .latest(name, now, RATE_SECONDS)
            .into_iter()
            .map(u64::from)
            .sum();
        calls * 10 / RATE_SECONDS as u64
    }

    /// Returns a bar for each of the last seconds, with a height relative to the second with the most calls. A second
    /// without a call is a blank.
    pub(super) fn sparkline(&self, name: &str, now: Timestamp) -> String {
        let counts = self.latest(name, now, SPARKLINE_SECONDS);
        let most = u64::from(counts.iter().copied().max().unwrap_or_default()).max(1);
        let bar = |count: u32| match count {
            0 => ' ',
            count => {
                let step = (u64::from(count) * BARS.len() as u64).div_ceil(most);
                let index = usize::try_from(step).unwrap_or(BARS.len()).clamp(1, BARS.len()) - 1;
                BARS[index]
            }
        };
        counts.into_iter().map(bar).collect()
    }
}

impl Counter {
    fn count(&mut self, second: i64) {
        if second > self.last {
            let passed = (second - self.last).min(SECONDS as i64);
            (second - passed + 1..=second).for_each(|second| self.counts[slot(second)] = 0);
            self.last = second;
        }
        if self.last - second < SECONDS as i64 {
            let count = &mut self.counts[slot(second)];
            *count = count.saturating_add(1);
        }
    }

    fn at(&self, second: i64) -> u32 {
        let is_kept = second <= self.last && self.last - second < SECONDS as i64;
        if is_kept { self.counts[slot(second)] } else { 0 }
    }
}

fn slot(second: i64) -> usize {
    usize::try_from(second.rem_euclid(SECONDS as i64)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp(second * SECOND + 1)
    }

    #[test]
    fn a_rate_is_over_ten_whole_seconds() {
        let mut rates = Rates::default();
        for second in [100, 100, 101, 109, 110] {
            rates.count("files", at(second));
        }
        assert_eq!(
            rates.tenths("files", at(110)),
            4,
            "the running second is not counted"
        );
        assert_eq!(rates.tenths("files", at(111)), 3);
        assert_eq!(rates.tenths("files", at(200)), 0);
        assert_eq!(rates.tenths("other", at(110)), 0);
    }

    #[test]
    fn the_highest_bar_is_the_busiest_second() {
        let mut rates = Rates::default();
        for (second, calls) in [(101, 1), (102, 4), (104, 8)] {
            (0..calls).for_each(|_| rates.count("files", at(second)));
        }
        assert_eq!(rates.sparkline("files", at(105)).trim_start(), "▁▄ █");
        assert_eq!(
            rates.sparkline("files", at(105)).chars().count(),
            SPARKLINE_SECONDS
        );
    }

    #[test]
    fn a_late_call_is_counted_in_its_second_and_an_old_one_not_at_all() {
        let mut rates = Rates::default();
        for second in [200, 199, 140, 100] {
            rates.count("files", at(second));
        }
        assert_eq!(rates.latest("files", at(201), 62).into_iter().sum::<u32>(), 2);
        rates.count("files", at(259));
        assert_eq!(rates.latest("files", at(260), 60).into_iter().sum::<u32>(), 2);
        rates.count("files", at(100_000));
        assert_eq!(rates.latest("files", at(100_001), 60).into_iter().sum::<u32>(), 1);
    }

    #[test]
    fn no_more_names_are_kept_than_there_is_room_for() {
        let mut rates = Rates::default();
        for number in 0..=MAX_COUNTED {
            rates.count(&number.to_string(), at(i64::try_from(number).unwrap()));
        }
        assert_eq!(rates.0.len(), MAX_COUNTED);
        assert!(!rates.0.contains_key("0"));
    }
}

//! Common parts of the benchmarks: percentiles within a round, ratios and their noise over rounds, and
//! reports.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "starts programs, and looks at the clock"
)]

pub mod proxied;
pub mod reader;
pub mod report;
pub mod sample;
pub mod site;

use std::fmt;

use serde::Serialize;

/// Returns the value below which half of the samples are; zero if there are no samples.
#[must_use]
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Returns an interval that contains the true median with a confidence of at least 95 %, for any distribution: the
/// order statistics of the sign test. Returns the whole range if there are fewer than six samples.
#[must_use]
pub fn median_interval(samples: &[f64]) -> Interval {
    const TAIL: f64 = 0.025;
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
        return Interval { low: 0.0, high: 0.0 };
    };
    // The probabilities that exactly, and at most, `rank` of the samples are below the median.
    let mut exactly = 0.5_f64.powf(sorted.len() as f64);
    let mut at_most = exactly;
    let (mut low, mut high) = (first, last);
    for rank in 1..=sorted.len() / 2 {
        if at_most > TAIL {
            break;
        }
        (low, high) = (sorted[rank - 1], sorted[sorted.len() - rank]);
        exactly *= (sorted.len() - rank + 1) as f64 / rank as f64;
        at_most += exactly;
    }
    Interval { low, high }
}

/// The interval that contains a true value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The highest allowed value of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target(pub f64);

/// The outcome of a measured ratio against its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The target is met.
    Met,
    /// The measured value misses the target, but the true value may meet it.
    WithinNoise,
    /// The target is missed.
    Missed,
}

impl Target {
    /// Judges `ratio`, whose true value is within `interval`.
    #[must_use]
    pub fn judge(self, ratio: f64, interval: Interval) -> Outcome {
        if ratio <= self.0 {
            Outcome::Met
        } else if interval.low <= self.0 {
            Outcome::WithinNoise
        } else {
            Outcome::Missed
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Met => "met",
            Self::WithinNoise => "within noise",
            Self::Missed => "MISSED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        for (samples, expected) in [
            (&[][..], 0.0),
            (&[3.0], 3.0),
            (&[9.0, 1.0, 2.0], 2.0),
            (&[4.0, 1.0, 2.0, 100.0], 3.0),
        ] {
            assert!((median(samples) - expected).abs() < f64::EPSILON, "{samples:?}");
        }
    }

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        let samples = |count: u32| (1..=count).rev().map(f64::from).collect::<Vec<_>>();
        for (count, low, high) in [
            (5, 1.0, 5.0),
            (6, 1.0, 6.0),
            (9, 2.0, 8.0),
            (15, 4.0, 12.0),
            (25, 8.0, 18.0),
        ] {
            assert_eq!(
                median_interval(&samples(count)),
                Interval { low, high },
                "{count}"
            );
        }
    }

    #[test]
    fn one_outlier_widens_no_interval() {
        let mut samples = [1.0; 15];
        samples[3] = 50.0;
        assert_eq!(median_interval(&samples), Interval { low: 1.0, high: 1.0 });
    }

    #[test]
    fn only_a_miss_beyond_the_noise_is_one() {
        let target = Target(1.02);
        let between = |low, high| Interval { low, high };
        assert_eq!(target.judge(1.02, between(1.0, 1.04)), Outcome::Met);
        assert_eq!(target.judge(1.03, between(1.02, 1.04)), Outcome::WithinNoise);
        assert_eq!(target.judge(1.05, between(1.03, 1.07)), Outcome::Missed);
    }
}

//! Statistics that every benchmark shares: percentiles within a round, ratios and their noise over rounds.

use std::fmt;

/// The value below which half of the samples lie; zero where there are none.
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

/// How far samples typically lie from their median.
#[must_use]
pub fn median_deviation(samples: &[f64]) -> f64 {
    let centre = median(samples);
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - centre).abs()).collect();
    median(&deviations)
}

/// What a ratio must not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target(pub f64);

/// Whether a measured ratio meets its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It does.
    Met,
    /// It does not, but by less than the noise.
    WithinNoise,
    /// It does not.
    Missed,
}

impl Target {
    /// Judges `ratio`, measured with this much `noise`.
    #[must_use]
    pub fn judge(self, ratio: f64, noise: f64) -> Outcome {
        if ratio <= self.0 {
            Outcome::Met
        } else if ratio - noise <= self.0 {
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
    fn one_outlier_is_no_noise() {
        assert!(median_deviation(&[1.0, 1.0, 1.0, 50.0]) < f64::EPSILON);
        assert!((median_deviation(&[1.0, 2.0, 3.0]) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn only_a_miss_beyond_the_noise_is_one() {
        let target = Target(1.02);
        assert_eq!(target.judge(1.02, 0.0), Outcome::Met);
        assert_eq!(target.judge(1.03, 0.02), Outcome::WithinNoise);
        assert_eq!(target.judge(1.05, 0.02), Outcome::Missed);
    }
}

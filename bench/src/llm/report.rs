//! From rounds to ratios, and how they are shown.

use std::{collections::BTreeMap, fmt};

use mcpmon_bench::{Interval, Outcome, Target, median, median_interval};
use serde::Serialize;

use crate::{
    contender::Way,
    round::{Round, Taken},
};

/// What a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rounds: usize,
    /// Medians over the rounds.
    ways: BTreeMap<Way, Medians>,
    rows: Vec<Row>,
}

/// Medians of one way. What is added is the difference from nothing between them, within each round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Medians {
    added_text_us: f64,
    added_call_us: f64,
    requests_per_second: f64,
    added_first_us: f64,
    added_event_us: f64,
}

/// One promise, and whether it is kept.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    figure: f64,
    interval: Interval,
    target: f64,
    #[serde(serialize_with = "as_text")]
    outcome: Outcome,
}

/// Figures of one round, against those of its floor and of nothing between.
struct Scene<'r> {
    round: &'r Round,
}

impl Scene<'_> {
    fn added(&self, way: Way, what: fn(&Taken) -> f64) -> f64 {
        self.taken(way, what) - self.taken(Way::Direct, what)
    }

    fn taken(&self, way: Way, what: fn(&Taken) -> f64) -> f64 {
        self.round.get(&way).map_or(f64::NAN, what)
    }

    /// What mcpmon adds, in terms of what the bare proxy adds.
    fn ratio(&self, what: fn(&Taken) -> f64) -> f64 {
        self.added(Way::Mcpmon, what) / self.added(Way::Bare, what)
    }
}

/// What it is about, what it must not exceed, and its figure in one round.
type Promise = (&'static str, f64, fn(&Scene<'_>) -> f64);

const PROMISES: [Promise; 5] = [
    ("2 KB of text, added, to bare proxy", 1.2, |scene| {
        scene.ratio(|taken| taken.text)
    }),
    ("2 KB with a call, added, to bare proxy", 1.2, |scene| {
        scene.ratio(|taken| taken.call)
    }),
    (
        "32 connections, time for a request, to bare",
        1.0 / 0.85,
        |scene| scene.taken(Way::Bare, |taken| taken.rate) / scene.taken(Way::Mcpmon, |taken| taken.rate),
    ),
    ("stream, first bytes, added, to bare proxy", 1.2, |scene| {
        scene.ratio(|taken| taken.first)
    }),
    ("stream, an event, added, to bare proxy", 1.2, |scene| {
        scene.ratio(|taken| taken.event)
    }),
];

impl Report {
    pub(crate) fn new(rounds: &[Round]) -> Self {
        let ways = rounds.first().map(|round| round.keys().copied());
        let ways = ways.into_iter().flatten();
        Self {
            rounds: rounds.len(),
            ways: ways.map(|way| (way, medians(rounds, way))).collect(),
            rows: PROMISES
                .into_iter()
                .map(|(what, target, figure)| {
                    let figures: Vec<f64> = rounds.iter().map(|round| figure(&Scene { round })).collect();
                    let (figure, interval) = (median(&figures), median_interval(&figures));
                    Row {
                        what,
                        figure,
                        interval,
                        target,
                        outcome: Target(target).judge(figure, interval),
                    }
                })
                .collect(),
        }
    }

    /// Whether a target is missed by more than the noise.
    pub(crate) fn is_missed(&self) -> bool {
        self.rows.iter().any(|row| row.outcome == Outcome::Missed)
    }
}

fn medians(rounds: &[Round], way: Way) -> Medians {
    let over = |figure: &dyn Fn(&Scene<'_>) -> f64| {
        let figures: Vec<f64> = rounds.iter().map(|round| figure(&Scene { round })).collect();
        median(&figures)
    };
    let added = |what: fn(&Taken) -> f64| over(&|scene| scene.added(way, what) / 1e3);
    Medians {
        added_text_us: added(|taken| taken.text),
        added_call_us: added(|taken| taken.call),
        requests_per_second: over(&|scene| scene.taken(way, |taken| taken.rate)),
        added_first_us: added(|taken| taken.first),
        added_event_us: added(|taken| taken.event),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "requests to a model: {} rounds, medians of what is added\n",
            self.rounds
        )?;
        writeln!(
            f,
            "{:<10} {:>11} {:>11} {:>11} {:>11} {:>11}",
            "way", "2 KB text", "2 KB call", "32 at once", "first bytes", "an event"
        )?;
        for (way, medians) in &self.ways {
            writeln!(
                f,
                "{:<10} {:>8.1} µs {:>8.1} µs {:>9.0}/s {:>8.1} µs {:>8.1} µs",
                format!("{way:?}").to_lowercase(),
                medians.added_text_us,
                medians.added_call_us,
                medians.requests_per_second,
                medians.added_first_us,
                medians.added_event_us,
            )?;
        }
        writeln!(
            f,
            "\n{:<44} {:>7} {:>16} {:>7}",
            "mcpmon", "figure", "95 %", "target"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<44} {:>7.2} {:>7.2} – {:>6.2} {:>7.2}  {}",
                row.what, row.figure, row.interval.low, row.interval.high, row.target, row.outcome
            )?;
        }
        Ok(())
    }
}

fn as_text<S: serde::Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(mcpmon: f64, rate: f64) -> Round {
        let taken = |nanoseconds: f64, rate: f64| Taken {
            text: nanoseconds,
            call: nanoseconds,
            rate,
            first: nanoseconds,
            event: nanoseconds,
        };
        Round::from([
            (Way::Direct, taken(100.0, 2000.0)),
            (Way::Bare, taken(110.0, 1000.0)),
            (Way::Mcpmon, taken(mcpmon, rate)),
        ])
    }

    #[test]
    fn what_is_added_is_compared_with_what_the_bare_proxy_adds_in_the_same_round() {
        let report = Report::new(&[round(112.0, 900.0), round(112.0, 900.0)]);
        assert!((report.rows[0].figure - 1.2).abs() < 1e-9, "{report}");
        assert!(!report.is_missed(), "{report}");
    }

    #[test]
    fn what_costs_too_much_is_missed() {
        for round in [round(113.0, 900.0), round(112.0, 800.0)] {
            let report = Report::new(&[round]);
            assert!(
                report.is_missed() && report.to_string().contains("MISSED"),
                "{report}"
            );
        }
    }
}

//! Targets for the MCP proxy, and the form of the report.

use std::{collections::BTreeMap, fmt};

use mcpmon_bench::report::{self, Rows, over, ways};
use serde::Serialize;

use crate::{
    contender::Way,
    round::{Round, Taken},
};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rounds: usize,
    /// Medians over the rounds.
    ways: BTreeMap<Way, Medians>,
    rows: Rows,
}

/// Medians of one way. Added time is the difference from the direct connection, within each round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Medians {
    added_call_us: f64,
    calls_per_second: f64,
    added_first_us: f64,
    added_event_us: f64,
    held_bytes: f64,
}

/// A promise about the values of one round.
type Promise = report::Promise<Way, Taken>;

const PROMISES: [Promise; 5] = [
    ("2 KB call, added, to bare proxy", 1.2, |scene| {
        scene.ratio(Way::Bare, |taken| taken.call)
    }),
    ("32 connections, time for a call, to bare", 1.0 / 0.85, |scene| {
        scene.taken(Way::Bare, |taken| taken.rate) / scene.taken(Way::Mcpmon, |taken| taken.rate)
    }),
    ("stream, first bytes, added, to bare proxy", 1.2, |scene| {
        scene.ratio(Way::Bare, |taken| taken.first)
    }),
    ("stream, an event, added, to bare proxy", 1.2, |scene| {
        scene.ratio(Way::Bare, |taken| taken.event)
    }),
    ("stream, bytes held of events that left", 0.0, |scene| {
        scene.taken(Way::Mcpmon, |taken| taken.held)
    }),
];

impl Report {
    pub(crate) fn new(rounds: &[Round]) -> Self {
        Self {
            rounds: rounds.len(),
            ways: ways(rounds).map(|way| (way, medians(rounds, way))).collect(),
            rows: Rows::new(rounds, &PROMISES),
        }
    }
}

impl report::Report for Report {
    fn is_missed(&self) -> bool {
        self.rows.is_missed()
    }
}

fn medians(rounds: &[Round], way: Way) -> Medians {
    let added = |what: fn(&Taken) -> f64| over(rounds, |scene| scene.added(way, what) / 1e3);
    Medians {
        added_call_us: added(|taken| taken.call),
        calls_per_second: over(rounds, |scene| scene.taken(way, |taken| taken.rate)),
        added_first_us: added(|taken| taken.first),
        added_event_us: added(|taken| taken.event),
        held_bytes: over(rounds, |scene| scene.taken(way, |taken| taken.held)),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "calls of MCP over HTTP: {} rounds, medians of what is added\n",
            self.rounds
        )?;
        writeln!(
            f,
            "{:<10} {:>11} {:>11} {:>11} {:>11} {:>8}",
            "way", "2 KB call", "32 at once", "first bytes", "an event", "held"
        )?;
        for (way, medians) in &self.ways {
            writeln!(
                f,
                "{:<10} {:>8.1} µs {:>9.0}/s {:>8.1} µs {:>8.1} µs {:>6.0} B",
                format!("{way:?}").to_lowercase(),
                medians.added_call_us,
                medians.calls_per_second,
                medians.added_first_us,
                medians.added_event_us,
                medians.held_bytes,
            )?;
        }
        self.rows.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_bench::report::Report as _;

    use super::*;

    fn round(mcpmon: f64, rate: f64, held: f64) -> Round {
        let taken = |nanoseconds: f64, rate: f64, held: f64| Taken {
            call: nanoseconds,
            rate,
            first: nanoseconds,
            event: nanoseconds,
            held,
        };
        Round::from([
            (Way::Direct, taken(100.0, 2000.0, 0.0)),
            (Way::Bare, taken(110.0, 1000.0, 0.0)),
            (Way::Mcpmon, taken(mcpmon, rate, held)),
        ])
    }

    #[test]
    fn what_is_promised_is_kept_at_its_edge() {
        let report = Report::new(&[round(112.0, 900.0, 0.0)]);
        assert!(!report.is_missed(), "{report}");
    }

    #[test]
    fn what_costs_too_much_is_missed() {
        for round in [
            round(113.0, 900.0, 0.0),
            round(112.0, 800.0, 0.0),
            round(112.0, 900.0, 180.0),
        ] {
            let report = Report::new(&[round]);
            assert!(
                report.is_missed() && report.to_string().contains("MISSED"),
                "{report}"
            );
        }
    }
}

//! The report: ratios computed from rounds, and their table.

use std::{collections::BTreeMap, fmt};

use mcpmon_bench::{
    Interval,
    report::{self, Rows, Scene, over, ways},
};
use serde::Serialize;

use crate::{
    contender::Way,
    inner::Inner,
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
    added_start_us: f64,
    added_300b_us: f64,
    added_30kb_us: f64,
    added_1mb_us: f64,
    stream_ns_per_line: f64,
    resident_mib: f64,
    proportional_mib: f64,
    growth: f64,
}

/// A promise about the values of one round.
type Promise = report::Promise<Way, Taken>;

const PROMISES: [Promise; 13] = [
    ("300 B, added, to relay", 1.25, |scene| {
        scene.ratio(Way::Relay, |taken| taken.small)
    }),
    ("30 KB, added, to relay", 1.7, |scene| {
        scene.ratio(Way::Relay, |taken| taken.medium)
    }),
    ("1 MB, added per byte, to that of 30 KB", 1.25, |scene| {
        let large = scene.added(Way::Mcpmon, |taken| taken.large) / 1_000_000.0;
        large / (scene.added(Way::Mcpmon, |taken| taken.medium) / 30_000.0)
    }),
    ("stream, time for a line, to relay", 2.0, |scene| {
        scene.taken(Way::Mcpmon, |taken| taken.stream) / scene.taken(Way::Relay, |taken| taken.stream)
    }),
    ("start-up, added, to relay", 1.5, |scene| {
        scene.ratio(Way::Relay, |taken| taken.start)
    }),
    ("start-up, added, ms", 3.0, |scene| {
        scene.added(Way::Mcpmon, |taken| taken.start) / 1e6
    }),
    ("resident, both processes, MiB", 6.0, |scene| {
        scene.taken(Way::Mcpmon, |taken| taken.resident) / 1024.0
    }),
    ("strict policy, 300 B, added, to relay", 1.25, |scene| {
        strict(scene, |taken| taken.small)
    }),
    ("strict policy, 30 KB, added, to relay", 1.7, |scene| {
        strict(scene, |taken| taken.medium)
    }),
    ("strict policy, stream, to relay", 2.0, |scene| {
        scene.taken(Way::Strict, |taken| taken.stream) / scene.taken(Way::Relay, |taken| taken.stream)
    }),
    ("300 B beside another server, store, µs more", 100.0, |scene| {
        beside(scene, Way::Beside)
    }),
    ("300 B beside another server, daemon, µs more", 15.0, |scene| {
        beside(scene, Way::BesideDaemon)
    }),
    ("300 B, added, to kvlar", 1.0 / 3.0, |scene| {
        scene.ratio(Way::Kvlar, |taken| taken.small)
    }),
];

/// Returns the time the strict policy adds, relative to the time that a relay adds.
fn strict(scene: &Scene<'_, Way, Taken>, what: fn(&Taken) -> f64) -> f64 {
    scene.added(Way::Strict, what) / scene.added(Way::Relay, what)
}

/// Returns the microseconds by which a call is slower if another server is in the session.
fn beside(scene: &Scene<'_, Way, Taken>, way: Way) -> f64 {
    (scene.taken(way, |taken| taken.small) - scene.taken(Way::Mcpmon, |taken| taken.small)) / 1e3
}

impl Report {
    pub(crate) fn new(rounds: &[Round], growth: &BTreeMap<Way, f64>, inner: &Inner) -> Self {
        let mut rows = Rows::new(rounds, &PROMISES);
        let growth_of = |way| growth.get(&way).copied();
        if let (Some(own), Some(relay), Some(direct)) = (
            growth_of(Way::Mcpmon),
            growth_of(Way::Relay),
            growth_of(Way::Direct),
        ) {
            // A machine that gets slower meanwhile slows down a relay as well.
            let ratio = own / relay;
            let noise = (direct - 1.0).abs();
            let interval = Interval {
                low: ratio - noise,
                high: ratio + noise,
            };
            rows.push_within(
                "300 B, call 10,000 to call 100, of a relay's",
                ratio,
                interval,
                1.1,
            );
        }
        for (what, figures, target) in [
            ("event push, ns", &inner.push, 100.0),
            ("generation read, ns", &inner.generation, 1000.0),
            ("unchanged list of 74 KB, µs", &inner.listing, 15.0),
        ] {
            if !figures.is_empty() {
                rows.push(what, figures, target);
            }
        }
        Self {
            rounds: rounds.len(),
            ways: ways(rounds)
                .map(|way| (way, medians(rounds, way, growth)))
                .collect(),
            rows,
        }
    }
}

impl report::Report for Report {
    fn is_missed(&self) -> bool {
        self.rows.is_missed()
    }
}

fn medians(rounds: &[Round], way: Way, growth: &BTreeMap<Way, f64>) -> Medians {
    let over = |figure: &dyn Fn(&Scene<'_, Way, Taken>) -> f64| over(rounds, figure);
    let added = |what: fn(&Taken) -> f64| over(&|scene| scene.added(way, what) / 1e3);
    Medians {
        added_start_us: added(|taken| taken.start),
        added_300b_us: added(|taken| taken.small),
        added_30kb_us: added(|taken| taken.medium),
        added_1mb_us: added(|taken| taken.large),
        stream_ns_per_line: over(&|scene| scene.taken(way, |taken| taken.stream)),
        resident_mib: over(&|scene| scene.taken(way, |taken| taken.resident) / 1024.0),
        proportional_mib: over(&|scene| scene.taken(way, |taken| taken.proportional) / 1024.0),
        growth: growth.get(&way).copied().unwrap_or(f64::NAN),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "an MCP server's pipes: {} rounds, medians\n", self.rounds)?;
        writeln!(
            f,
            "{:<12} {:>10} {:>10} {:>10} {:>10} {:>11} {:>8} {:>8} {:>7}",
            "way", "start", "300 B", "30 KB", "1 MB", "1-KB lines", "RSS", "PSS", "growth"
        )?;
        for (way, medians) in &self.ways {
            writeln!(
                f,
                "{:<12} {:>7.0} µs {:>7.1} µs {:>7.1} µs {:>7.0} µs {:>8.0} ns {:>4.1} MiB {:>4.1} MiB {:>6.2}",
                format!("{way:?}").to_lowercase(),
                medians.added_start_us,
                medians.added_300b_us,
                medians.added_30kb_us,
                medians.added_1mb_us,
                medians.stream_ns_per_line,
                medians.resident_mib,
                medians.proportional_mib,
                medians.growth,
            )?;
        }
        self.rows.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_bench::{Outcome, report::Report as _};

    use super::*;

    fn round(mcpmon: f64) -> Round {
        round_of(&[(Way::Direct, 100.0), (Way::Relay, 110.0), (Way::Mcpmon, mcpmon)])
    }

    fn round_of(ways: &[(Way, f64)]) -> Round {
        let taken = |nanoseconds: f64| Taken {
            start: nanoseconds,
            small: nanoseconds,
            medium: nanoseconds,
            large: nanoseconds * 33.0,
            stream: nanoseconds,
            resident: 4096.0,
            proportional: 2048.0,
        };
        ways.iter().map(|(way, figure)| (*way, taken(*figure))).collect()
    }

    #[test]
    fn what_is_added_is_compared_with_what_a_relay_adds_in_the_same_round() {
        let report = Report::new(&[round(112.0), round(112.0)], &BTreeMap::new(), &Inner::default());
        let row = report.rows.get("300 B, added, to relay").expect("a row");
        assert!((row.figure - 1.2).abs() < 1e-9, "{row:?}");
        assert!(!report.is_missed(), "{report}");
        assert!(
            report.rows.get("300 B, added, to kvlar").is_none(),
            "it was not there"
        );
    }

    #[test]
    fn the_strict_policy_is_held_to_the_same() {
        let measured = [
            (Way::Direct, 100.0),
            (Way::Relay, 110.0),
            (Way::Mcpmon, 111.0),
            (Way::Strict, 130.0),
        ];
        let report = Report::new(&[round_of(&measured)], &BTreeMap::new(), &Inner::default());
        let row = report.rows.get("strict policy, 300 B").expect("a row");
        assert!((row.figure - 3.0).abs() < 1e-9, "{row:?}");
        assert!(report.is_missed(), "{report}");
    }

    #[test]
    fn what_costs_too_much_is_missed() {
        let report = Report::new(&[round(150.0), round(150.0)], &BTreeMap::new(), &Inner::default());
        assert!(
            report.is_missed() && report.to_string().contains("MISSED"),
            "{report}"
        );
        let growth = BTreeMap::from([(Way::Direct, 1.0), (Way::Relay, 1.5), (Way::Mcpmon, 3.0)]);
        let report = Report::new(&[round(111.0)], &growth, &Inner::default());
        assert!(
            report
                .rows
                .get("300 B, call 10,000")
                .is_some_and(|row| row.outcome == Outcome::Missed)
        );
    }
}

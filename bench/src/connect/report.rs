//! The report: ratios computed from rounds, and their table.

use std::fmt;

use mcpmon_bench::{Interval, Outcome, Target, median, median_interval, report};
use serde::Serialize;

use crate::setting::Setting;

/// Medians of one round, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) before: f64,
    pub(crate) with: Vec<(Setting, f64)>,
    pub(crate) after: f64,
}

impl Round {
    fn without(&self) -> f64 {
        f64::midpoint(self.before, self.after)
    }
}

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rounds: usize,
    connects: u32,
    /// Nanoseconds of connect(2) without mcpmon.
    without_ns: f64,
    /// The second measurement without mcpmon as a ratio to the first. If it is not 1, rounds drift.
    again: f64,
    again_interval: Interval,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    setting: Setting,
    added_ns: f64,
    ratio: f64,
    /// The interval with 95 % confidence.
    interval: Interval,
    /// The time of one run of the program alone, by the kernel's clock.
    program_ns: f64,
    target: f64,
    #[serde(serialize_with = "as_text")]
    outcome: Outcome,
}

/// Returns the limit: a look-up may add 2 %, and an event 5 %, to a loopback TCP connect.
const fn target(setting: Setting) -> Target {
    match setting {
        Setting::EmptyLists | Setting::LongLists => Target(1.02),
        Setting::Event => Target(1.05),
    }
}

impl Report {
    pub(crate) fn new(rounds: &[Round], connects: u32, programs: &[(Setting, f64)]) -> Self {
        let over_rounds = |value: &dyn Fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
        let again = over_rounds(&|round| round.after / round.before);
        let row = |setting: Setting| {
            let with = |round: &Round| {
                let measured = round.with.iter().find(|(other, _)| *other == setting);
                measured.map_or(f64::NAN, |(_, with)| *with)
            };
            let ratios = over_rounds(&|round| with(round) / round.without());
            let (ratio, interval) = (median(&ratios), median_interval(&ratios));
            let program = programs.iter().find(|(other, _)| *other == setting);
            let added_ns = median(&over_rounds(&|round| with(round) - round.without()));
            Row {
                setting,
                added_ns,
                ratio,
                interval,
                program_ns: program.map_or(f64::NAN, |(_, nanoseconds)| *nanoseconds),
                target: target(setting).0,
                outcome: target(setting).judge(ratio, interval),
            }
        };
        Self {
            rounds: rounds.len(),
            connects,
            without_ns: median(&over_rounds(&Round::without)),
            again: median(&again),
            again_interval: median_interval(&again),
            rows: Setting::ALL.map(row).into(),
        }
    }
}

impl report::Report for Report {
    fn is_missed(&self) -> bool {
        self.rows.iter().any(|row| row.outcome == Outcome::Missed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            connects,
            without_ns,
            again,
            again_interval,
            rows,
        } = self;
        writeln!(
            f,
            "connect(2), TCP over loopback: {rounds} rounds of {connects}, medians"
        )?;
        writeln!(
            f,
            "without mcpmon {without_ns:.0} ns; the same again {again:.3} ({:.3}-{:.3})\n",
            again_interval.low, again_interval.high
        )?;
        writeln!(
            f,
            "{:<26} {:>9} {:>9} {:>7} {:>13} {:>7}",
            "with mcpmon", "program", "added", "ratio", "95 %", "target"
        )?;
        for Row {
            setting,
            added_ns,
            ratio,
            interval,
            program_ns,
            target,
            outcome,
        } in rows
        {
            let name = match setting {
                Setting::EmptyLists => "empty lists",
                Setting::LongLists => "10,000 refused addresses",
                Setting::Event => "the same, and an event",
            };
            writeln!(
                f,
                "{name:<26} {program_ns:>6.0} ns {added_ns:>6.0} ns {ratio:>7.3} {:>7.3}-{:.3} {target:>7.2}  {outcome}",
                interval.low, interval.high
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
    use mcpmon_bench::report::Report as _;

    use super::*;

    fn round(before: f64, with: f64, after: f64) -> Round {
        Round {
            before,
            with: Setting::ALL.map(|setting| (setting, with)).into(),
            after,
        }
    }

    fn report(rounds: &[Round]) -> Report {
        Report::new(rounds, 1, &Setting::ALL.map(|setting| (setting, 100.0)))
    }

    #[test]
    fn each_round_is_compared_with_itself() {
        let report = report(&[
            round(100.0, 101.0, 100.0),
            round(1000.0, 1010.0, 1000.0),
            round(10.0, 10.1, 10.0),
        ]);
        assert!(
            report.rows.iter().all(|row| (row.ratio - 1.01).abs() < 1e-9),
            "{report:?}"
        );
        assert!(!report.is_missed());
    }

    #[test]
    fn what_costs_too_much_is_missed() {
        let report = report(&[round(100.0, 110.0, 100.0), round(100.0, 110.0, 100.0)]);
        assert!(report.is_missed());
        assert!(report.to_string().contains("MISSED"), "{report}");
    }

    #[test]
    fn what_the_machine_does_is_noise() {
        let report = report(&[
            round(100.0, 110.0, 100.0),
            round(100.0, 110.0, 100.0),
            round(100.0, 110.0, 130.0),
        ]);
        assert!(!report.is_missed(), "{report}");
        assert!((report.again_interval.high - 1.3).abs() < 1e-9, "{report:?}");
    }
}

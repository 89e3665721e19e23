//! The report: medians computed from rounds, and their table.

use std::fmt;

use mcpmon_bench::{Interval, Outcome, Target, median, median_interval, report};
use serde::Serialize;

/// The nanoseconds of each kind of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// A system call that does nothing.
    pub(crate) call: f64,
    /// A write and a read of a pipe.
    pub(crate) pair: f64,
}

/// The measurements of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) before: Work,
    pub(crate) untapped: Work,
    pub(crate) tapped: Work,
    pub(crate) after: Work,
}

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rounds: usize,
    calls: u32,
    rows: Vec<Row>,
    /// The work after the tap as a ratio to the work before it.
    after: f64,
    after_interval: Interval,
    is_missed: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    work: &'static str,
    without_ns: f64,
    /// The time with the tap on, for a process that is not tapped.
    untapped_ns: f64,
    /// The time with the tap on, for a tapped process.
    tapped_ns: f64,
}

/// The limit for a tap that is off, which costs nothing: the difference may only be noise.
const AFTER: Target = Target(1.02);

impl Report {
    pub(crate) fn new(rounds: &[Round], calls: u32) -> Self {
        let over = |value: &dyn Fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
        let row = |work: &'static str, what: fn(&Work) -> f64| Row {
            work,
            without_ns: median(&over(&|round| what(&round.before))),
            untapped_ns: median(&over(&|round| what(&round.untapped))),
            tapped_ns: median(&over(&|round| what(&round.tapped))),
        };
        let after = over(&|round| round.after.pair / round.before.pair);
        let (ratio, interval) = (median(&after), median_interval(&after));
        Self {
            rounds: rounds.len(),
            calls,
            rows: vec![
                row("a system call", |work| work.call),
                row("write and read of 200 bytes", |work| work.pair),
            ],
            after: ratio,
            after_interval: interval,
            is_missed: AFTER.judge(ratio, interval) == Outcome::Missed,
        }
    }
}

impl report::Report for Report {
    fn is_missed(&self) -> bool {
        self.is_missed
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            calls,
            rows,
            after,
            after_interval,
            is_missed,
        } = self;
        writeln!(f, "the tap: {rounds} rounds of {calls}, medians\n")?;
        writeln!(
            f,
            "{:<30} {:>9} {:>18} {:>18}",
            "", "off", "on, not tapped", "tapped"
        )?;
        for row in rows {
            let with =
                |nanoseconds: f64| format!("{nanoseconds:.0} ns ({:+.0})", nanoseconds - row.without_ns);
            writeln!(
                f,
                "{:<30} {:>6.0} ns {:>18} {:>18}",
                row.work,
                row.without_ns,
                with(row.untapped_ns),
                with(row.tapped_ns)
            )?;
        }
        writeln!(
            f,
            "\noff again {after:.3} ({:.3}-{:.3}), target {:.2}  {}",
            after_interval.low,
            after_interval.high,
            AFTER.0,
            if *is_missed { "MISSED" } else { "met" }
        )
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_bench::report::Report as _;

    use super::*;

    fn round(after: f64) -> Round {
        let work = |time| Work {
            call: time,
            pair: 2.0 * time,
        };
        Round {
            before: work(100.0),
            untapped: work(150.0),
            tapped: work(400.0),
            after: work(after),
        }
    }

    #[test]
    fn what_is_left_behind_is_missed() {
        assert!(!Report::new(&[round(100.0); 9], 1).is_missed());
        let report = Report::new(&[round(150.0); 9], 1);
        assert!(report.is_missed());
        let shown = report.to_string();
        assert!(
            shown.contains("150 ns (+50)") && shown.contains("800 ns (+600)"),
            "{shown}"
        );
    }
}

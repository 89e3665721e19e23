//! The report: medians computed from rounds, and their tables.

use std::fmt;

use mcpmon_bench::{Interval, Outcome, Target, median, median_interval, report};
use serde::Serialize;

use crate::{
    packages::Package,
    ring::Ring,
    rungs::{self, Kind, Rung},
    start::{self, Program, Setting},
    witness::Start,
};

/// The results of a run. Parts that were not measured are absent.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) starts: Option<Starts>,
    pub(crate) rungs: Option<Rungs>,
    pub(crate) ring: Option<Ring>,
    pub(crate) packages: Option<Vec<Package>>,
}

/// The cost of a start.
#[derive(Debug, Serialize)]
pub(crate) struct Starts {
    rounds: usize,
    starts: u32,
    /// The time of a start without mcpmon, in microseconds.
    without_us: f64,
    /// The second measurement without mcpmon as a ratio to the first. If it is not 1, rounds drift.
    again: f64,
    again_interval: Interval,
    rows: Vec<StartRow>,
    programs: Vec<Program>,
}

#[derive(Debug, Serialize)]
struct StartRow {
    setting: Setting,
    added_us: f64,
    added_interval: Interval,
    ratio: f64,
    /// The interval with 95 % confidence.
    interval: Interval,
}

/// The share of a start that the kernel programs may take.
const PROGRAMS: Target = Target(1.01);

impl Starts {
    pub(crate) fn new(rounds: &[start::Round], starts: u32, programs: Vec<Program>) -> Self {
        let over = |value: &dyn Fn(&start::Round) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
        let without = |round: &start::Round| f64::midpoint(round.before, round.after);
        let again = over(&|round| round.after / round.before);
        let rows = Setting::ALL.iter().enumerate().map(|(place, setting)| {
            let added = over(&|round| round.with[place] - without(round));
            let ratios = over(&|round| round.with[place] / without(round));
            StartRow {
                setting: *setting,
                added_us: median(&added),
                added_interval: median_interval(&added),
                ratio: median(&ratios),
                interval: median_interval(&ratios),
            }
        });
        Self {
            rounds: rounds.len(),
            starts,
            without_us: median(&over(&without)),
            again: median(&again),
            again_interval: median_interval(&again),
            rows: rows.collect(),
            programs,
        }
    }

    fn is_missed(&self) -> bool {
        let mut programs = self.rows.iter().filter(|row| row.setting == Setting::Programs);
        programs.any(|row| PROGRAMS.judge(row.ratio, row.interval) == Outcome::Missed)
    }
}

impl fmt::Display for Starts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, starts, .. } = self;
        writeln!(
            f,
            "start and end of a small program: {rounds} rounds of {starts}, medians"
        )?;
        let Interval { low, high } = self.again_interval;
        writeln!(
            f,
            "without mcpmon {:.0} µs; the same again {:.3} ({low:.3}-{high:.3})\n",
            self.without_us, self.again
        )?;
        writeln!(
            f,
            "{:<34} {:>9} {:>19} {:>7} {:>15}",
            "with mcpmon", "added", "95 %", "ratio", "95 %"
        )?;
        for row in &self.rows {
            let name = match row.setting {
                Setting::Programs => "kernel programs alone",
                Setting::Daemon => "daemon, no server",
                Setting::Held => "daemon, pinned server, compared",
            };
            let target = match row.setting {
                Setting::Programs => {
                    format!(
                        "  target {:.2}  {}",
                        PROGRAMS.0,
                        PROGRAMS.judge(row.ratio, row.interval)
                    )
                }
                Setting::Daemon | Setting::Held => String::new(),
            };
            writeln!(
                f,
                "{name:<34} {:>6.0} µs {:>8.0} – {:>8.0} {:>7.3} {:>7.3}-{:.3}{target}",
                row.added_us,
                row.added_interval.low,
                row.added_interval.high,
                row.ratio,
                row.interval.low,
                row.interval.high
            )?;
        }
        let each = self.programs.iter();
        let shown: Vec<String> = each
            .clone()
            .map(|Program { name, runs, ns }| format!("{name} {runs:.1} of {ns:.0} ns"))
            .collect();
        let sum: f64 = each.map(|program| program.runs * program.ns / 1e3).sum();
        writeln!(
            f,
            "\nthe programs' own time for a start, {sum:.1} µs: runs of {}",
            shown.join(", ")
        )
    }
}

/// The times for which changed servers run, and the delays until unchanged ones act.
#[derive(Debug, Serialize)]
pub(crate) struct Rungs {
    rounds: usize,
    rows: Vec<RungRow>,
}

/// The results for one kind of server on one rung. Times are in milliseconds.
#[derive(Debug, Serialize)]
struct RungRow {
    rung: Rung,
    kind: Kind,
    /// The time from before the start until an unchanged server acts.
    act: f64,
    /// The difference of that time from the one without mcpmon in the same round.
    later: f64,
    later_interval: Interval,
    /// The number of starts of a changed server.
    changed: usize,
    /// The number of changed servers that acted.
    ran: usize,
    /// The number of changed servers that sent a datagram.
    sent: usize,
    /// The time for which changed servers ran, if they acted.
    running: Spread,
    /// The number of changed servers that were killed.
    killed: usize,
    /// The time from before the start until the end is known, for servers that were killed.
    ended: Spread,
}

/// The median and the upper end of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    median: f64,
    p95: f64,
    max: f64,
}

impl Spread {
    /// Computes the spread; all zeros if there are no values.
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * 95).div_ceil(100);
        Self {
            median: median(&sorted),
            p95: sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default(),
            max: sorted.last().copied().unwrap_or_default(),
        }
    }
}

impl Rungs {
    pub(crate) fn new(rounds: &[Vec<rungs::Round>]) -> Self {
        let rows = [Rung::Without, Rung::Observe, Rung::Daemon, Rung::Kernel]
            .into_iter()
            .flat_map(|rung| [Kind::Native, Kind::Script].map(|kind| RungRow::new(rounds, rung, kind)));
        Self {
            rounds: rounds.len(),
            rows: rows.collect(),
        }
    }

    /// Returns whether a server ran although the kernel was to stop it.
    fn is_missed(&self) -> bool {
        self.rows
            .iter()
            .any(|row| row.rung == Rung::Kernel && (row.ran > 0 || row.sent > 0 || row.killed < row.changed))
    }
}

impl RungRow {
    fn new(rounds: &[Vec<rungs::Round>], rung: Rung, kind: Kind) -> Self {
        let act = |round: &Vec<rungs::Round>, rung| {
            let of = round
                .iter()
                .filter(|starts| starts.rung == rung && starts.kind == kind);
            let acts: Vec<f64> = of
                .flat_map(|starts| starts.unchanged.iter().filter_map(|start| start.act))
                .collect();
            median(&acts)
        };
        let acts: Vec<f64> = rounds.iter().map(|round| act(round, rung)).collect();
        let later: Vec<f64> = rounds
            .iter()
            .map(|round| act(round, rung) - act(round, Rung::Without))
            .collect();
        let changed: Vec<&Start> = rounds
            .iter()
            .flatten()
            .filter(|starts| starts.rung == rung && starts.kind == kind)
            .flat_map(|starts| &starts.changed)
            .collect();
        let ran = || changed.iter().filter(|start| start.act.is_some());
        let killed = || changed.iter().filter(|start| start.is_killed);
        Self {
            rung,
            kind,
            act: median(&acts),
            later: median(&later),
            later_interval: median_interval(&later),
            changed: changed.len(),
            ran: ran().count(),
            sent: changed.iter().filter(|start| start.sent).count(),
            running: Spread::of(ran().map(|start| start.ran)),
            killed: killed().count(),
            ended: Spread::of(killed().map(|start| start.ended)),
        }
    }
}

impl fmt::Display for Rungs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "servers on each rung: {} rounds; milliseconds: median, of changed ones also 95 % and the longest",
            self.rounds
        )?;
        writeln!(
            f,
            "{:<24} {:>8} {:>8} {:>16}   {:>7} {:>4} {:>4} {:>22} {:>6} {:>24}",
            "", "acts", "later", "95 %", "changed", "ran", "sent", "for", "killed", "ended after"
        )?;
        for row in &self.rows {
            let rung = match row.rung {
                Rung::Without => "without mcpmon",
                Rung::Observe => "observe",
                Rung::Daemon => "stopped by the daemon",
                Rung::Kernel => "stopped in the kernel",
            };
            let kind = match row.kind {
                Kind::Native => "n",
                Kind::Script => "s",
            };
            let shown = |Spread { median, p95, max }| format!("{median:.2} {p95:.2} {max:.2}");
            writeln!(
                f,
                "{rung:<22} {kind} {:>8.2} {:>8.2} {:>7.2} – {:>6.2}   {:>7} {:>4} {:>4} {:>22} {:>6} {:>24}",
                row.act,
                row.later,
                row.later_interval.low,
                row.later_interval.high,
                row.changed,
                row.ran,
                row.sent,
                shown(row.running),
                row.killed,
                shown(row.ended)
            )?;
        }
        writeln!(f, "(n: a static program; s: a Python script)")
    }
}

impl report::Report for Report {
    fn is_missed(&self) -> bool {
        let Self { starts, rungs, .. } = self;
        starts.as_ref().is_some_and(Starts::is_missed) || rungs.as_ref().is_some_and(Rungs::is_missed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            starts,
            rungs,
            ring,
            packages,
        } = self;
        if let Some(starts) = starts {
            writeln!(f, "{starts}")?;
        }
        if let Some(rungs) = rungs {
            writeln!(f, "{rungs}")?;
        }
        if let Some(Ring { short, long, flood }) = ring {
            writeln!(
                f,
                "the ring of processes, while nobody reads: {short} starts; {long} with 4 KB of arguments"
            )?;
            writeln!(
                f,
                "while the daemon reads, as fast as this host starts programs: {:.0} a second, {} seen, {} lost\n",
                flood.per_second, flood.seen, flood.lost
            )?;
        }
        if let Some(packages) = packages {
            writeln!(
                f,
                "{:<16} {:>10} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9}",
                "files of code", "sha256sum", "without", "known", "anew", "watches", "MiB", "at most", "then"
            )?;
            for row in packages {
                writeln!(
                    f,
                    "{:<16} {:>7.1} ms {:>6.1} ms {:>6.1} ms {:>6.1} ms {:>8} {:>9.1} {:>9.1} {:>9.1}",
                    row.files,
                    row.sha256sum,
                    row.without,
                    row.known,
                    row.anew,
                    row.watches,
                    row.before,
                    row.peak,
                    row.after
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_bench::report::Report as _;

    use super::*;

    fn starts(programs: f64) -> Starts {
        let round = start::Round {
            before: 100.0,
            with: [programs, 120.0, 1000.0],
            after: 100.0,
        };
        Starts::new(&[round; 9], 1, Vec::new())
    }

    fn start(act: Option<f64>) -> Start {
        Start {
            act,
            ran: 2.0,
            sent: act.is_some(),
            ended: 5.0,
            is_killed: true,
        }
    }

    fn on(rung: Rung, act: f64, changed: Option<f64>) -> rungs::Round {
        rungs::Round {
            rung,
            kind: Kind::Native,
            unchanged: vec![start(Some(act)); 3],
            changed: vec![start(changed); 3],
        }
    }

    #[test]
    fn a_start_is_compared_with_its_round() {
        let report = |programs| Report {
            starts: Some(starts(programs)),
            ..Report::default()
        };
        assert!(!report(100.5).is_missed());
        assert!(report(110.0).is_missed());
        let shown = report(110.0).to_string();
        assert!(shown.contains("1.100") && shown.contains("MISSED"), "{shown}");
    }

    #[test]
    fn what_runs_though_the_kernel_stops_it_is_missed() {
        let report = |changed| Report {
            rungs: Some(Rungs::new(&[vec![
                on(Rung::Without, 1.0, None),
                on(Rung::Daemon, 1.5, Some(1.5)),
                on(Rung::Kernel, 4.0, changed),
            ]])),
            ..Report::default()
        };
        assert!(!report(None).is_missed());
        assert!(report(Some(1.0)).is_missed());
        let rungs = report(None).rungs.unwrap();
        let row = rungs
            .rows
            .iter()
            .find(|row| row.rung == Rung::Kernel && row.kind == Kind::Native);
        assert!((row.unwrap().later - 3.0).abs() < 1e-9, "{rungs:?}");
    }

    #[test]
    fn of_twenty_the_nineteenth_is_ninety_five_percent() {
        let spread = Spread::of((1..=20).map(f64::from));
        assert_eq!(
            spread,
            Spread {
                median: 10.5,
                p95: 19.0,
                max: 20.0
            }
        );
        assert_eq!(
            Spread::of([]),
            Spread {
                median: 0.0,
                p95: 0.0,
                max: 0.0
            }
        );
    }
}

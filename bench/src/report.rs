//! The report of every benchmark that compares ways: ratios computed from rounds, and their table.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    fs,
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::{Interval, Outcome, Target, median, median_interval};

/// The results of one round: one entry for each way.
pub type Round<W, T> = BTreeMap<W, T>;

/// A way that is compared with others.
pub trait Way: Copy + fmt::Debug + Ord {
    /// The direct connection. The time that other ways add is the difference from it.
    const DIRECT: Self;
    /// The way through mcpmon.
    const MCPMON: Self;
}

/// The figures of one round, compared with those of the floors.
#[derive(Debug)]
pub struct Scene<'r, W, T>(pub &'r Round<W, T>);

impl<W: Way, T> Scene<'_, W, T> {
    /// Returns the time that a way adds to the direct connection.
    #[must_use]
    pub fn added(&self, way: W, what: fn(&T) -> f64) -> f64 {
        self.taken(way, what) - self.taken(W::DIRECT, what)
    }

    /// Returns the value measured on a way; not a number if the way was absent.
    #[must_use]
    pub fn taken(&self, way: W, what: fn(&T) -> f64) -> f64 {
        self.0.get(&way).map_or(f64::NAN, what)
    }

    /// Returns the time mcpmon adds, relative to the time that another way adds.
    #[must_use]
    pub fn ratio(&self, other: W, what: fn(&T) -> f64) -> f64 {
        self.added(W::MCPMON, what) / self.added(other, what)
    }
}

/// Returns the median over the rounds of a figure.
pub fn over<W: Way, T>(rounds: &[Round<W, T>], figure: impl Fn(&Scene<'_, W, T>) -> f64) -> f64 {
    let figures: Vec<f64> = rounds.iter().map(|round| figure(&Scene(round))).collect();
    median(&figures)
}

/// Returns the measured ways.
pub fn ways<W: Way, T>(rounds: &[Round<W, T>]) -> impl Iterator<Item = W> {
    rounds.first().into_iter().flat_map(|round| round.keys().copied())
}

/// A promise: its subject, its limit, and the function that computes its figure from one round.
pub type Promise<W, T> = (&'static str, f64, fn(&Scene<'_, W, T>) -> f64);

/// Promises, each with its outcome.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Rows(Vec<Row>);

/// One promise with its outcome.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The measured property.
    pub what: &'static str,
    /// The median over rounds.
    pub figure: f64,
    interval: Interval,
    target: f64,
    /// The outcome against the target.
    #[serde(serialize_with = "as_text")]
    pub outcome: Outcome,
}

impl Rows {
    /// Evaluates the promises, except those about ways that were not measured.
    pub fn new<W: Way, T>(rounds: &[Round<W, T>], promises: &[Promise<W, T>]) -> Self {
        let mut rows = Self::default();
        for (what, target, figure) in promises {
            let figures: Vec<f64> = rounds.iter().map(|round| figure(&Scene(round))).collect();
            if figures.iter().all(|figure| figure.is_finite()) {
                rows.push(what, &figures, *target);
            }
        }
        rows
    }

    /// Adds a promise about figures that were measured in another way.
    pub fn push(&mut self, what: &'static str, figures: &[f64], target: f64) {
        self.push_within(what, median(figures), median_interval(figures), target);
    }

    /// Adds a promise about a figure with a known noise interval.
    pub fn push_within(&mut self, what: &'static str, figure: f64, interval: Interval, target: f64) {
        self.0.push(Row {
            what,
            figure,
            interval,
            target,
            outcome: Target(target).judge(figure, interval),
        });
    }

    /// Returns the promise whose subject begins with `what`.
    #[must_use]
    pub fn get(&self, what: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.what.starts_with(what))
    }

    /// Returns whether a target is missed by more than the noise.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.0.iter().any(|row| row.outcome == Outcome::Missed)
    }
}

impl Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<44} {:>7} {:>16} {:>7}",
            "mcpmon", "figure", "95 %", "target"
        )?;
        for row in &self.0 {
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

/// The results of a run.
pub trait Report: Display + Serialize {
    /// Returns whether a target is missed by more than the noise.
    fn is_missed(&self) -> bool;
}

/// The destination of a report, and the exit status that follows from it.
#[derive(Debug, clap::Args)]
pub struct Output {
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 1 where a target is missed by more than the noise
    #[arg(long)]
    gate: bool,
}

impl Output {
    /// Prints the report, writes it to the file if one is given, and returns the exit status.
    ///
    /// # Errors
    /// Returns an error if the report cannot be written.
    #[expect(clippy::print_stdout, reason = "a measurement is its output")]
    pub fn finish(&self, report: &impl Report) -> Result<ExitCode> {
        print!("{report}");
        if let Some(output) = &self.output {
            let json = serde_json::to_string_pretty(report)?;
            fs::write(output, json + "\n")
                .with_context(|| format!("could not write {}", output.display()))?;
        }
        Ok(if self.gate && report.is_missed() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

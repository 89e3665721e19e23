//! The cost of a start: a small static program without mcpmon, with the kernel programs alone, with the daemon, as a
//! pinned server that is stopped for its comparison, and without mcpmon again.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use aya::sys::{Stats, enable_stats};
use mcpmon_bench::{median, reader::Reader};
use mcpmon_e2e::{daemon::Daemon, host::Host, site::Site};
use mcpmon_kernel::sensor::{Attached, Sensor};
use nix::{
    sched::{CpuSet, sched_getaffinity},
    unistd::Pid,
};
use serde::Serialize;

use crate::{
    site,
    witness::{Server, Witness},
};

/// The divisor of the number of held starts, because they take much longer than others.
const HELD_SHARE: u32 = 10;

/// The components that work between a start and the program's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setting {
    /// The kernel programs, and a reader that ignores their records.
    Programs,
    /// The daemon, with a program that is not a server.
    Daemon,
    /// The daemon, with a pinned server that the kernel stops until it was compared.
    Held,
}

impl Setting {
    pub(crate) const ALL: [Self; 3] = [Self::Programs, Self::Daemon, Self::Held];
}

/// Medians of one round, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) before: f64,
    /// In the order of [`Setting::ALL`].
    pub(crate) with: [f64; 3],
    pub(crate) after: f64,
}

/// A kernel program that runs for a start.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// The number of its runs per start, including runs for other programs on the host.
    pub(crate) runs: f64,
    /// The time of one run in nanoseconds, by the kernel's clock.
    pub(crate) ns: f64,
}

/// The started programs, and the witness that times them.
struct Bench {
    witness: Witness,
    server: Server,
    ordinary: PathBuf,
    starts: u32,
}

/// Measures in this many rounds.
pub(crate) fn measure(host: &Host, rounds: u32, starts: u32) -> Result<(Vec<Round>, Vec<Program>)> {
    let site = Site::new(&site::policy("block"))?;
    let directory = site.path("");
    let server = Server::native(&directory)?;
    let bench = Bench {
        witness: Witness::new()?,
        ordinary: server.ordinary(&directory)?,
        server,
        starts,
    };
    let daemon = Daemon::start_at(host, site)?;
    bench.server.pin(&daemon, &bench.witness)?;
    let mut site = site::end(daemon)?;
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let round;
        (round, site) = bench.round(host, site)?;
        measured.push(round);
    }
    Ok((measured, bench.programs()?))
}

impl Bench {
    fn round(&self, host: &Host, site: Site) -> Result<(Round, Site)> {
        let before = self.ordinary(self.starts)?;
        let (attached, reader) = attach()?;
        let programs = self.ordinary(self.starts)?;
        detach(attached, reader)?;
        let daemon = Daemon::start_at(host, site)?;
        let with_daemon = self.ordinary(self.starts)?;
        let held_before = site::counter(&daemon, "exec_held")?;
        let starts = self.starts.div_ceil(HELD_SHARE);
        let held = self.starts(|| self.server.command(), starts)?;
        let held_starts = site::counter(&daemon, "exec_held")? - held_before;
        ensure!(
            held_starts == u64::from(starts),
            "the kernel stopped {held_starts} of {starts} starts: what was measured is not what was meant"
        );
        let site = site::end(daemon)?;
        let round = Round {
            before,
            with: [programs, with_daemon, held],
            after: self.ordinary(self.starts)?,
        };
        Ok((round, site))
    }

    fn ordinary(&self, starts: u32) -> Result<f64> {
        self.starts(|| Command::new(&self.ordinary), starts)
    }

    /// Returns the median time from a start until the program's end is known.
    fn starts(&self, command: impl Fn() -> Command, starts: u32) -> Result<f64> {
        let mut samples = Vec::new();
        for _ in 0..starts {
            let started = Instant::now();
            let status = self.witness.start(command(), Duration::ZERO)?.wait()?;
            samples.push(started.elapsed().as_secs_f64() * 1e6);
            ensure!(
                status.success(),
                "a start that nothing forbids ended with {status}"
            );
        }
        Ok(median(&samples))
    }

    /// Measures the kernel programs, separately from the starts, because these statistics take time themselves.
    fn programs(&self) -> Result<Vec<Program>> {
        let _enabled = enable_stats(Stats::RunTime).context("the kernel keeps no statistics of programs")?;
        let (attached, reader) = attach()?;
        let before = runs(&attached)?;
        self.ordinary(self.starts)?;
        let after = runs(&attached)?;
        detach(attached, reader)?;
        let each = after
            .into_iter()
            .zip(before)
            .filter_map(|((name, after), (_, before))| {
                let runs = after.0 - before.0;
                (runs > 0).then(|| Program {
                    name,
                    runs: runs as f64 / f64::from(self.starts),
                    ns: (after.1 - before.1).as_nanos() as f64 / runs as f64,
                })
            });
        Ok(each.collect())
    }
}

/// Returns the number of runs of each program that this kernel has loaded, and their total time.
fn runs(attached: &Attached) -> Result<Vec<(String, (u64, Duration))>> {
    let loaded = attached.verified_instructions();
    let names = loaded.filter_map(|(name, count)| count.map(|_| name.to_owned()));
    names
        .map(|name| attached.runs(&name).map(|runs| (name, runs)))
        .collect::<Result<_, _>>()
        .context("the kernel does not tell the runs of a program")
}

fn attach() -> Result<(Attached, Reader)> {
    let Sensor { rings, attached, .. } = Sensor::start(&[])?;
    Ok((attached, Reader::start(rings, processors()?)))
}

/// Detaches the programs, and checks that there were records.
fn detach(attached: Attached, reader: Reader) -> Result<()> {
    drop(attached);
    ensure!(
        reader.stop()? > 0,
        "no record came: what was measured is not what was meant"
    );
    Ok(())
}

fn processors() -> Result<CpuSet> {
    sched_getaffinity(Pid::from_raw(0)).context("could not ask for the processors to run on")
}

/// Starts a program without a witness, and waits for its end.
pub(crate) fn start_and_wait(program: &Path, argument: &str) -> Result<()> {
    Command::new(program)
        .arg(argument)
        .status()
        .with_context(|| program.display().to_string())?;
    Ok(())
}

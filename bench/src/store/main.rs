//! The costs of recording, listing and hashing: events in batches compared with plain SQLite, digests compared with
//! plain SHA-256, and listings of a million events, interleaved in every round.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "writes files, and looks at the clock"
)]

mod digests;
mod events;
mod listings;
mod report;

use std::{path::PathBuf, process::ExitCode, time::Instant};

use anyhow::Result;
use clap::Parser;
use mcpmon_bench::{report::Output, site::Site};

use self::{digests::Digests, events::Events, listings::Listings, report::Report};

/// Cost of recording and of hashing, as ratios to the same work done plainly in the same round.
#[derive(Debug, Parser)]
#[command(name = "bench-store", disable_version_flag = true)]
struct Options {
    /// Rounds; each measures everything once
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The mcpmon that lists
    #[arg(long, value_name = "PROGRAM")]
    mcpmon: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// The times of one round.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// The time of an event with plain SQLite and two indexes, in nanoseconds.
    plain: f64,
    /// The time of an event with plain SQLite and the store's columns and indexes, in nanoseconds.
    alike: f64,
    /// The time of an event with mcpmon's store, in nanoseconds.
    recorded: f64,
    /// The time of a large file with plain SHA-256, in seconds.
    digest: f64,
    /// The time of a large file whose digest is not known, in seconds.
    cold: f64,
    /// The time of a file whose digest is known, in microseconds.
    warm: f64,
    /// The time of the slowest filter for a listing of events, and of calls, out of a million events, in seconds.
    listed_events: f64,
    listed_calls: f64,
}

/// Megabytes of memory for listings of a million events.
#[derive(Clone, Copy, Debug)]
struct ListingMemory {
    events: f64,
    calls: f64,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let site = Site::new()?;
    let mut events = Events::open(&site)?;
    let mut digests = Digests::make(&site)?;
    let listings = Listings::make(&site, &options.mcpmon)?;
    let memory = ListingMemory {
        events: listings.memory("events")?,
        calls: listings.memory("calls")?,
    };
    let rounds = (0..options.rounds)
        .map(|_| {
            let slowest = listings.by_filters()?;
            Ok(Taken {
                plain: events.plain()?,
                alike: events.alike()?,
                recorded: events.recorded()?,
                digest: digests.plain()?,
                cold: digests.cold()?,
                warm: digests.warm()?,
                listed_events: slowest.events,
                listed_calls: slowest.calls,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    options.output.finish(&Report::new(&rounds, memory))
}

/// Returns the seconds that `work` takes.
fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64())
}

//! The costs of recording, listing and hashing: events in batches against plain SQLite, digests against plain SHA-256,
//! listings of a million events against the clock, interleaved in every round.

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
    /// An event by plain SQLite, nanoseconds.
    plain: f64,
    /// An event by mcpmon's store, nanoseconds.
    recorded: f64,
    /// A large file by plain SHA-256, seconds.
    digest: f64,
    /// A large file that is not known, seconds.
    cold: f64,
    /// A file that is known, microseconds.
    warm: f64,
    /// A listing of events by one filter, and one of calls, of a million events, seconds: the slowest.
    listed_events: f64,
    listed_calls: f64,
}

/// Megabytes that listings of a million events take.
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

/// Seconds that `work` took.
fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64())
}

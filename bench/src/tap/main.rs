//! The cost of the tap: a system call, and a write and a read of a pipe, without the tap, with it for a process that is
//! not tapped, for one that is, and without it again, in every round.

#![expect(
    clippy::disallowed_methods,
    reason = "calls the system, and looks at the clock"
)]

mod report;

use std::{
    os::fd::OwnedFd,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use clap::Parser;
use mcpmon_bench::report::Output;
use mcpmon_kernel::tap::{self, StandardStreams, StreamKind, TapRing};
use nix::{
    sys::stat::fstat,
    unistd::{getppid, getuid, pipe, read, write},
};

use self::report::{Report, Round, Work};

/// Cost of the tap, as ratios to the same round without.
#[derive(Debug, Parser)]
#[command(name = "bench-tap", disable_version_flag = true)]
struct Options {
    /// Rounds; each measures every setting once, and the one without the tap twice
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Calls for each measurement
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    #[command(flatten)]
    output: Output,
}

/// A pipe of which this process has both ends.
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// Bytes of a small message.
const MESSAGE: [u8; 200] = [b'x'; 200];

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let (reader, writer) = pipe().context("could not make a pipe")?;
    let pipe = Pipe { reader, writer };
    pipe.measure(options.calls)?;
    let rounds = (0..options.rounds)
        .map(|_| pipe.round(options.calls))
        .collect::<Result<Vec<_>>>()?;
    options.output.finish(&Report::new(&rounds, options.calls))
}

impl Pipe {
    /// Returns the nanoseconds of each kind of work.
    fn measure(&self, calls: u32) -> Result<Work> {
        let started = Instant::now();
        for _ in 0..calls {
            getppid();
        }
        let call = started.elapsed();
        let mut buffer = [0; MESSAGE.len()];
        let started = Instant::now();
        for _ in 0..calls {
            write(&self.writer, &MESSAGE)?;
            read(&self.reader, &mut buffer)?;
        }
        let pair = started.elapsed();
        let each = |all: Duration| all.as_nanos() as f64 / f64::from(calls);
        Ok(Work {
            call: each(call),
            pair: each(pair),
        })
    }

    fn round(&self, calls: u32) -> Result<Round> {
        let before = self.measure(calls)?;
        let (ring, processes) = tap::start()?;
        let untapped = self.measure(calls)?;
        // Both ends of a pipe have the same inode.
        let inode = fstat(&self.reader)?.st_ino;
        let streams = StandardStreams::new(StreamKind::Pipe, inode, inode).context("no pipe can be made")?;
        processes.tap(1, getuid().as_raw(), streams, &[std::process::id()])?;
        let is_over = Arc::new(AtomicBool::new(false));
        let reader = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || drain(ring, &is_over)
        });
        let tapped = self.measure(calls)?;
        is_over.store(true, Ordering::Relaxed);
        reader.join().map_err(|_panic| anyhow!("the reader died"))??;
        Ok(Round {
            before,
            untapped,
            tapped,
            after: self.measure(calls)?,
        })
    }
}

/// Reads copies as the daemon does, and detaches at the end.
fn drain(mut ring: TapRing, is_over: &AtomicBool) -> Result<()> {
    const POLL: Duration = Duration::from_millis(10);
    while !is_over.load(Ordering::Relaxed) {
        ring.wait(POLL)?;
        while !ring.drain(256, |_part| {}) {}
    }
    Ok(())
}

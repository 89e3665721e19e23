//! The room in the ring of processes: the starts until the first lost record if nothing reads the ring, and the records
//! lost while the daemon reads and programs are started as fast as this host can.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};
use mcpmon_common::event::Counter;
use mcpmon_e2e::{daemon::Daemon, host::Host, site::Site};
use mcpmon_kernel::sensor::Sensor;
use serde::Serialize;

use crate::{site, start::start_and_wait};

/// The largest number of starts; the ring must be full before.
const MAX_STARTS: u32 = 100_000;
/// The longest argument that a record keeps as a whole.
const LONG: usize = 4000;
const FLOOD: Duration = Duration::from_secs(5);
/// The started program.
const PROGRAM: &str = "/bin/true";

#[derive(Debug, Serialize)]
pub(crate) struct Ring {
    /// The number of starts with a short command line that fit into the ring without a reader.
    pub(crate) short: u32,
    /// The number of starts with 4 KB of arguments that fit.
    pub(crate) long: u32,
    pub(crate) flood: Flood,
}

/// Starts as fast as possible, while the daemon reads the ring.
#[derive(Debug, Serialize)]
pub(crate) struct Flood {
    pub(crate) seen: u64,
    pub(crate) lost: u64,
    pub(crate) per_second: f64,
}

pub(crate) fn measure(host: &Host) -> Result<Ring> {
    Ok(Ring {
        short: room_for("x")?,
        long: room_for(&"x".repeat(LONG))?,
        flood: flood(host)?,
    })
}

fn room_for(argument: &str) -> Result<u32> {
    // The rings have no reader.
    let sensor = Sensor::start(&[])?;
    for starts in 0..MAX_STARTS {
        if sensor.counters.get(Counter::ExecLost)? > 0 {
            return Ok(starts.saturating_sub(1));
        }
        start_and_wait(Path::new(PROGRAM), argument)?;
    }
    Err(anyhow!("nothing was lost after {MAX_STARTS} starts"))
}

fn flood(host: &Host) -> Result<Flood> {
    let daemon = Daemon::start_at(host, Site::new(&site::policy("block"))?)?;
    let counters = || {
        Ok::<_, anyhow::Error>((
            site::counter(&daemon, "exec_seen")?,
            site::counter(&daemon, "exec_lost")?,
        ))
    };
    let before = counters()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let threads: Vec<_> = (0..2 * thread::available_parallelism()?.get())
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    start_and_wait(Path::new(PROGRAM), "x")?;
                }
                Ok::<_, anyhow::Error>(())
            })
        })
        .collect();
    thread::sleep(FLOOD);
    is_over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread
            .join()
            .map_err(|_panic| anyhow!("who starts programs panicked"))??;
    }
    let took = started.elapsed();
    let after = counters()?;
    let (seen, lost) = (after.0 - before.0, after.1 - before.1);
    site::end(daemon)?;
    ensure!(seen > 0, "no start was seen");
    Ok(Flood {
        seen,
        lost,
        per_second: seen as f64 / took.as_secs_f64(),
    })
}

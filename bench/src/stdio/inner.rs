//! The cost of a message inside mcpmon: queueing an event for recording, reading the generation number, and recognising
//! an unchanged list.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use mcpmon_bench::{sample, site::Site};
use mcpmon_model::Timestamp;
use mcpmon_store::{Generation, Recorder, RecorderSettings};

use crate::listing;

/// The number of measurements of each.
const BLOCKS: u32 = 51;
/// The number of events of one measurement: fewer than one batch, as between two polls of the writer.
const EVENTS: u32 = 200;
/// The number of reads of one measurement.
const READS: u32 = 100_000;
/// A pause longer than the writer takes.
const PAUSE: Duration = Duration::from_millis(5);

/// The time of each measurement, in nanoseconds unless stated otherwise.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) push: Vec<f64>,
    pub(crate) generation: Vec<f64>,
    /// The time for an unchanged list, in microseconds.
    pub(crate) listing: Vec<f64>,
}

/// Measures with a separate store.
pub(crate) fn measure(site: &Site) -> Result<Inner> {
    let settings = RecorderSettings::new(site.path("inner.db"));
    let generation = settings.location.generation().to_owned();
    let recorder = Recorder::start(settings)?;
    let generation = Generation::open(&generation)?;
    let mut inner = Inner {
        listing: listing::measure(site)?,
        ..Inner::default()
    };
    for block in 0..BLOCKS {
        let events = (0..EVENTS)
            .map(|number| block * EVENTS + number)
            .map(|number| sample::event(number, Timestamp(number.into())))
            .collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        for event in events {
            recorder.push(event);
        }
        inner.push.push(each(started, EVENTS));
        let started = Instant::now();
        for _ in 0..READS {
            black_box(black_box(&generation).now());
        }
        inner.generation.push(each(started, READS));
        thread::sleep(PAUSE);
    }
    recorder.close();
    Ok(inner)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "durations of a measurement are far below 2^52 ns"
)]
fn each(since: Instant, count: u32) -> f64 {
    since.elapsed().as_nanos() as f64 / f64::from(count)
}

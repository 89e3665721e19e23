//! The cost of a message inside mcpmon: an event is queued for recording, the number of changes is read, and
//! a list is recognised.

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

/// Times each is measured.
const BLOCKS: u32 = 51;
/// Events of one measurement: fewer than one batch, as between two looks of the writer.
const EVENTS: u32 = 200;
/// Reads of one measurement.
const READS: u32 = 100_000;
/// Longer than the writer takes.
const PAUSE: Duration = Duration::from_millis(5);

/// Nanoseconds each took, by measurement, where nothing else is said.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) push: Vec<f64>,
    pub(crate) generation: Vec<f64>,
    /// Microseconds: a list that is what it was.
    pub(crate) listing: Vec<f64>,
}

/// Measures with a store of its own.
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

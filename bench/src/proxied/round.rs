//! One round: every contender does the same work, one after another.

use anyhow::{Context as _, Result};

use super::{Contender, Request, stream};
use crate::{
    median,
    report::{Round, Way},
};

/// The number of streams of a round.
const STREAMS: u32 = 5;

/// Calls `take` for every contender once. Each round begins with another contender.
///
/// # Errors
/// Returns an error if a contender cannot be measured.
pub fn measure<W: Way, T>(
    contenders: &[Contender<W>],
    number: u32,
    take: impl Fn(&Contender<W>) -> Result<T>,
) -> Result<Round<W, T>> {
    let first = number as usize % contenders.len();
    let (before, after) = contenders.split_at(first);
    after
        .iter()
        .chain(before)
        .map(|contender| {
            let taken = take(contender).with_context(|| format!("{:?}", contender.way))?;
            Ok((contender.way, taken))
        })
        .collect()
}

/// Returns the time to the first bytes of a stream, and the time of each event, in nanoseconds: the medians of some
/// streams.
///
/// # Errors
///
/// Returns an error if a stream does not come through.
pub fn streams(request: &Request) -> Result<(f64, f64)> {
    let streams = (0..STREAMS).map(|_| stream(request));
    let (first, events): (Vec<f64>, Vec<Vec<f64>>) = streams.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok((median(&first), median(&events.concat())))
}

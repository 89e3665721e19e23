//! One round: every contender does the same work, one after another.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use mcpmon_bench::{median, report};

use crate::{
    contender::{Contender, Way},
    conversation::Conversation,
    memory,
};

/// The number of calls before the measurement.
const WARM_UP: u32 = 50;
/// The age of a conversation when its memory is measured, so that memory needed only at the start can be
/// released.
const SETTLED: Duration = Duration::from_millis(1500);
/// The number of lines of a stream.
const LINES: u32 = 32 * 256;
/// The number of calls of a long conversation, and the number of calls at its beginning and end that are compared.
const LONG: usize = 10_000;
const PART: usize = 500;

/// The times of one contender in nanoseconds: medians within the round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) start: f64,
    pub(crate) small: f64,
    pub(crate) medium: f64,
    pub(crate) large: f64,
    /// The time of each line.
    pub(crate) stream: f64,
    /// The resident set size in KiB.
    pub(crate) resident: f64,
    /// The proportional set size in KiB.
    pub(crate) proportional: f64,
}

/// A round, with the values of each contender.
pub(crate) type Round = report::Round<Way, Taken>;

/// Measures every contender once.
pub(crate) fn measure(contenders: &[Contender<'_>], calls: u32) -> Result<Round> {
    contenders
        .iter()
        .map(|contender| {
            let taken = take(contender, calls).with_context(|| format!("{:?}", contender.way))?;
            Ok((contender.way, taken))
        })
        .collect()
}

fn take(contender: &Contender<'_>, calls: u32) -> Result<Taken> {
    let began = Instant::now();
    let beside = other(contender)?;
    let (mut conversation, start) = Conversation::start(&mut contender.command())?;
    typical(&mut conversation, WARM_UP, 150)?;
    let small = typical(&mut conversation, calls, 150)?;
    thread::sleep(SETTLED.saturating_sub(began.elapsed()));
    typical(&mut conversation, WARM_UP, 150)?;
    let memory = memory::between(conversation.pid())?;
    let taken = Taken {
        start,
        small,
        medium: typical(&mut conversation, calls / 5, 30_000)?,
        large: typical(&mut conversation, (calls / 100).max(10), 1_000_000)?,
        stream: conversation.stream(LINES)?,
        resident: memory.resident,
        proportional: memory.proportional,
    };
    conversation.end()?;
    beside.map_or(Ok(()), Conversation::end)?;
    Ok(taken)
}

/// Starts the other server of the session, and calls it once.
fn other(contender: &Contender<'_>) -> Result<Option<Conversation>> {
    let Some(mut command) = contender.beside() else {
        return Ok(None);
    };
    let (mut conversation, _) = Conversation::start(&mut command)?;
    conversation.call(150)?;
    Ok(Some(conversation))
}

/// Returns the median time of `count` calls that are answered with `bytes` bytes.
fn typical(conversation: &mut Conversation, count: u32, bytes: usize) -> Result<f64> {
    let took = (0..count).map(|_| conversation.call(bytes));
    Ok(median(&took.collect::<Result<Vec<_>>>()?))
}

/// Returns the factor by which calls get slower from the beginning to the end of a long conversation.
pub(crate) fn growth(contenders: &[Contender<'_>]) -> Result<BTreeMap<Way, f64>> {
    let of = |contender: &Contender<'_>| {
        let (mut conversation, _) = Conversation::start(&mut contender.command())?;
        let took = (0..LONG + PART).map(|_| conversation.call(150));
        let took: Vec<f64> = took.collect::<Result<_>>()?;
        conversation.end()?;
        Ok((
            contender.way,
            median(&took[LONG..]) / median(&took[100..100 + PART]),
        ))
    };
    contenders.iter().map(of).collect()
}

//! One round: every contender, one after another, with the same work.

use anyhow::{Context as _, Result};
use mcpmon_bench::{
    median,
    proxied::{held, rate, stream, typical},
    report,
};

use crate::{
    contender::{Contender, Way, request},
    question::{Question, event_length},
};

/// Streams of a round.
const STREAMS: u32 = 5;

/// What one contender took; medians within the round, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// A call that is answered with JSON.
    pub(crate) call: f64,
    /// Such calls in a second, over many connections.
    pub(crate) rate: f64,
    /// The first bytes of a stream.
    pub(crate) first: f64,
    /// An event, from the server to the client.
    pub(crate) event: f64,
    /// Bytes of events that left, and are not there while the server is silent.
    pub(crate) held: f64,
}

/// A round: what each contender took.
pub(crate) type Round = report::Round<Way, Taken>;

/// Measures every contender once, each time beginning with another.
pub(crate) fn measure(contenders: &[Contender], requests: u32, number: u32) -> Result<Round> {
    let first = number as usize % contenders.len();
    let (before, after) = contenders.split_at(first);
    after
        .iter()
        .chain(before)
        .map(|contender| {
            let taken = take(contender, requests).with_context(|| format!("{:?}", contender.way))?;
            Ok((contender.way, taken))
        })
        .collect()
}

fn take(contender: &Contender, requests: u32) -> Result<Taken> {
    let asks = |question| request(contender, question);
    let streaming = asks(Question::Stream);
    let streams = (0..STREAMS).map(|_| stream(&streaming));
    let (first, events): (Vec<f64>, Vec<Vec<f64>>) = streams.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let call = asks(Question::Call);
    Ok(Taken {
        call: typical(&call, requests)?,
        rate: rate(&call, requests / 4)?,
        first: median(&first),
        event: median(&events.concat()),
        held: held(&asks(Question::Burst), event_length())?,
    })
}

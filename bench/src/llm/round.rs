//! One round: every contender, one after another, with the same work.

use anyhow::{Context as _, Result};
use mcpmon_bench::{
    median,
    proxied::{rate, stream, typical},
    report,
};

use crate::{
    contender::{Contender, Way, request},
    question::Question,
};

/// Streams of a round.
const STREAMS: u32 = 5;

/// What one contender took; medians within the round, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// A whole answer with text.
    pub(crate) text: f64,
    /// A whole answer with a call.
    pub(crate) call: f64,
    /// A whole answer to a long conversation, of which all but the end was there before.
    pub(crate) history: f64,
    /// Whole answers in a second, over many connections.
    pub(crate) rate: f64,
    /// The first bytes of a stream.
    pub(crate) first: f64,
    /// An event, from the provider to the client.
    pub(crate) event: f64,
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
    Ok(Taken {
        text: typical(&asks(Question::Text), requests)?,
        call: typical(&asks(Question::Call), requests)?,
        history: typical(&asks(Question::History), requests / 8)?,
        rate: rate(&asks(Question::Text), requests / 4)?,
        first: median(&first),
        event: median(&events.concat()),
    })
}

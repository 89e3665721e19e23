//! One round: every contender does the same work, one after another.

use anyhow::Result;
use mcpmon_bench::{
    proxied::{self, rate, streams, typical},
    report,
};

use crate::{
    contender::{Contender, Way, request},
    question::Question,
};

/// The times of one contender: medians within the round, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// The time of a whole answer with text.
    pub(crate) text: f64,
    /// The time of a whole answer with a call.
    pub(crate) call: f64,
    /// The time of a whole answer to a long conversation that was sent before, except for its end.
    pub(crate) history: f64,
    /// The number of whole answers per second, over many connections.
    pub(crate) rate: f64,
    /// The time to the first bytes of a stream.
    pub(crate) first: f64,
    /// The time of an event from the provider to the client.
    pub(crate) event: f64,
}

/// A round, with the values of each contender.
pub(crate) type Round = report::Round<Way, Taken>;

/// Measures every contender once.
pub(crate) fn measure(contenders: &[Contender], requests: u32, number: u32) -> Result<Round> {
    proxied::measure(contenders, number, |contender| take(contender, requests))
}

fn take(contender: &Contender, requests: u32) -> Result<Taken> {
    let asks = |question| request(contender, question);
    let (first, event) = streams(&asks(Question::Stream))?;
    Ok(Taken {
        text: typical(&asks(Question::Text), requests)?,
        call: typical(&asks(Question::Call), requests)?,
        history: typical(&asks(Question::History), requests / 8)?,
        rate: rate(&asks(Question::Text), requests / 4)?,
        first,
        event,
    })
}

//! One round: every contender does the same work, one after another.

use anyhow::Result;
use mcpmon_bench::{
    proxied::{self, held, rate, streams, typical},
    report,
};

use crate::{
    contender::{Contender, Way, request},
    question::{Question, event_length},
};

/// The times of one contender: medians within the round, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// The time of a call that is answered with JSON.
    pub(crate) call: f64,
    /// The number of such calls per second, over many connections.
    pub(crate) rate: f64,
    /// The time to the first bytes of a stream.
    pub(crate) first: f64,
    /// The time of an event from the server to the client.
    pub(crate) event: f64,
    /// The number of bytes of events that left and have not arrived while the server is silent.
    pub(crate) held: f64,
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
    let call = asks(Question::Call);
    Ok(Taken {
        call: typical(&call, requests)?,
        rate: rate(&call, requests / 4)?,
        first,
        event,
        held: held(&asks(Question::Burst), event_length())?,
    })
}

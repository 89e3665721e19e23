//! One round: every contender, one after another, with the same work.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Barrier,
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_bench::median;

use crate::{
    answer::{Answer, position},
    clock,
    contender::{Contender, Way},
    question::{DIGITS, EVENTS, Question, STAMP},
};

/// Requests before anything is measured.
const WARM_UP: u32 = 50;
/// Connections at a time.
const AT_ONCE: u32 = 32;
/// Streams of a round.
const STREAMS: u32 = 5;

/// What one contender took; medians within the round, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// A whole answer with text.
    pub(crate) text: f64,
    /// A whole answer with a call.
    pub(crate) call: f64,
    /// Whole answers in a second, over many connections.
    pub(crate) rate: f64,
    /// The first bytes of a stream.
    pub(crate) first: f64,
    /// An event, from the provider to the client.
    pub(crate) event: f64,
}

/// A round: what each contender took.
pub(crate) type Round = BTreeMap<Way, Taken>;

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

/// The body of one answer.
pub(crate) fn ask(contender: &Contender, question: Question) -> Result<Vec<u8>> {
    let mut connection = Connection::new(contender, question)?;
    connection.ask()?;
    connection.answer.body()
}

fn take(contender: &Contender, requests: u32) -> Result<Taken> {
    let streams = (0..STREAMS).map(|_| stream(contender));
    let (first, events): (Vec<f64>, Vec<Vec<f64>>) = streams.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok(Taken {
        text: typical(contender, Question::Text, requests)?,
        call: typical(contender, Question::Call, requests)?,
        rate: rate(contender, requests)?,
        first: median(&first),
        event: median(&events.concat()),
    })
}

/// The median of so many requests, one after another.
fn typical(contender: &Contender, question: Question, requests: u32) -> Result<f64> {
    let mut connection = Connection::new(contender, question)?;
    for _ in 0..WARM_UP {
        connection.ask()?;
    }
    let took = (0..requests).map(|_| {
        let begun = Instant::now();
        connection.ask()?;
        Ok(begun.elapsed().as_nanos() as f64)
    });
    Ok(median(&took.collect::<Result<Vec<_>>>()?))
}

/// Requests in a second, over many connections at a time.
fn rate(contender: &Contender, requests: u32) -> Result<f64> {
    let each = requests / 4;
    let barrier = Barrier::new(AT_ONCE as usize + 1);
    thread::scope(|scope| {
        let work = || {
            let connection = Connection::new(contender, Question::Text).and_then(|mut connection| {
                connection.ask()?;
                Ok(connection)
            });
            barrier.wait();
            let mut connection = connection?;
            (0..each).try_for_each(|_| connection.ask())
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        barrier.wait();
        let begun = Instant::now();
        for worker in workers {
            worker.join().expect("a client panicked")?;
        }
        Ok(f64::from(each * AT_ONCE) / begun.elapsed().as_secs_f64())
    })
}

/// How long a stream's first bytes took, and each of its events.
fn stream(contender: &Contender) -> Result<(f64, Vec<f64>)> {
    let mut connection = Connection::new(contender, Question::Stream)?;
    let begun = Instant::now();
    let mut first = None;
    let mut events = Vec::with_capacity(EVENTS as usize);
    let mut seen = 0;
    connection.exchange(|came| {
        let now = clock::now()?;
        let rest = &came[seen..];
        if first.is_none() && position(rest, b"data: ").is_some() {
            first = Some(begun.elapsed().as_nanos() as f64);
        }
        while let Some((moment, length)) = stamp(&came[seen..]) {
            events.push(now.saturating_sub(moment) as f64);
            seen += length;
        }
        Ok(())
    })?;
    ensure!(events.len() == EVENTS as usize, "{} events came", events.len());
    Ok((first.context("no event")?, events))
}

/// The first moment that is told of, and where it ends.
fn stamp(bytes: &[u8]) -> Option<(u64, usize)> {
    let start = position(bytes, STAMP.as_bytes())? + STAMP.len();
    let digits = std::str::from_utf8(bytes.get(start..start + DIGITS)?).ok()?;
    Some((digits.parse().ok()?, start + DIGITS))
}

/// A connection on which the same is asked again and again.
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Answer,
    buffer: Vec<u8>,
}

impl Connection {
    fn new(contender: &Contender, question: Question) -> Result<Self> {
        let stream = TcpStream::connect(contender.address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            request: question.request(&contender.address.to_string(), contender.path),
            answer: Answer::default(),
            buffer: vec![0; 1 << 16],
        })
    }

    fn ask(&mut self) -> Result<()> {
        self.exchange(|_| Ok(()))
    }

    /// Asks, and tells of all that came after every read.
    fn exchange(&mut self, mut came: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.answer.clear();
        self.stream.write_all(&self.request)?;
        loop {
            let length = self.stream.read(&mut self.buffer)?;
            ensure!(length > 0, "the connection ended in an answer");
            let is_whole = self.answer.push(&self.buffer[..length])?;
            came(self.answer.bytes())?;
            if is_whole {
                return Ok(());
            }
        }
    }
}

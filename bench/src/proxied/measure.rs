//! Clients that measure the time of requests.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use super::{
    DIGITS, EVENTS, STAMP,
    answer::{Answer, position},
    clock,
};
use crate::median;

/// The number of requests before the measurement.
const WARM_UP: u32 = 50;
/// The number of parallel connections.
const AT_ONCE: u32 = 32;
/// The number of events of a stream that pauses after them.
pub(super) const BURST: u32 = 20;
/// The time that a client waits for late bytes of a paused stream; shorter than the pause.
const LATE: Duration = Duration::from_millis(150);

/// A request that is sent repeatedly, and its destination.
#[derive(Clone, Debug)]
pub struct Request {
    /// The destination.
    pub address: SocketAddr,
    /// A whole request, head and body.
    pub bytes: Vec<u8>,
}

/// Sends a request, and returns the body of the answer.
///
/// # Errors
/// Returns an error if there is no answer.
pub fn ask(request: &Request) -> Result<Vec<u8>> {
    let mut connection = Connection::new(request)?;
    connection.ask()?;
    connection.answer.body()
}

/// Returns the median time of `count` requests, one after another, in nanoseconds.
///
/// # Errors
/// Returns an error if a request is not answered.
pub fn typical(request: &Request, count: u32) -> Result<f64> {
    let mut connection = Connection::new(request)?;
    for _ in 0..WARM_UP {
        connection.ask()?;
    }
    let took = (0..count).map(|_| {
        let begun = Instant::now();
        connection.ask()?;
        Ok(begun.elapsed().as_nanos() as f64)
    });
    Ok(median(&took.collect::<Result<Vec<_>>>()?))
}

/// Returns the number of requests per second over 32 parallel connections, each of which sends `each` requests.
///
/// # Errors
/// Returns an error if a request is not answered.
pub fn rate(request: &Request, each: u32) -> Result<f64> {
    let barrier = Barrier::new(AT_ONCE as usize + 1);
    thread::scope(|scope| {
        let work = || {
            let connection = Connection::new(request).and_then(|mut connection| {
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

/// Measures a stream. Returns the time to the first event, and the time of each event from the far side to here, in
/// nanoseconds.
///
/// # Errors
///
/// Returns an error if not all events come.
pub fn stream(request: &Request) -> Result<(f64, Vec<f64>)> {
    let mut connection = Connection::new(request)?;
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
        while let Some((moment, length)) = left(&came[seen..]) {
            events.push(now.saturating_sub(moment) as f64);
            seen += length;
        }
        Ok(())
    })?;
    ensure!(events.len() == EVENTS as usize, "{} events came", events.len());
    Ok((first.context("no event")?, events))
}

/// Returns the number of bytes that left and have not arrived while the far side is silent; `length` is the length of
/// one event.
///
/// # Errors
///
/// Returns an error if no answer comes.
pub fn held(request: &Request, length: usize) -> Result<f64> {
    let mut connection = Connection::new(request)?;
    connection.stream.write_all(&request.bytes)?;
    let mut came = Vec::new();
    loop {
        let length = match connection.stream.read(&mut connection.buffer) {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => return Err(error.into()),
        };
        ensure!(length > 0, "the connection ended in an answer");
        came.extend_from_slice(&connection.buffer[..length]);
        connection.stream.set_read_timeout(Some(LATE))?;
    }
    let mut seen = 0;
    let mut events = 0;
    while let Some((_, length)) = left(&came[seen..]) {
        seen += length;
        events += 1;
    }
    Ok(f64::from(BURST.saturating_sub(events)) * length as f64)
}

/// Returns the first time stamp, and the position after it.
fn left(bytes: &[u8]) -> Option<(u64, usize)> {
    let start = position(bytes, STAMP.as_bytes())? + STAMP.len();
    let digits = std::str::from_utf8(bytes.get(start..start + DIGITS)?).ok()?;
    Some((digits.parse().ok()?, start + DIGITS))
}

/// A connection over which the same request is sent repeatedly.
struct Connection<'r> {
    stream: TcpStream,
    request: &'r Request,
    answer: Answer,
    buffer: Vec<u8>,
}

impl<'r> Connection<'r> {
    fn new(request: &'r Request) -> Result<Self> {
        let stream = TcpStream::connect(request.address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            request,
            answer: Answer::default(),
            buffer: vec![0; 1 << 16],
        })
    }

    fn ask(&mut self) -> Result<()> {
        self.exchange(|_| Ok(()))
    }

    /// Sends the request, and calls `came` with everything received after every read.
    fn exchange(&mut self, mut came: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.answer.clear();
        self.stream.write_all(&self.request.bytes)?;
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

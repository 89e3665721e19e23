//! Bodies while they are read: decoded, with limits on silence and on slowness.

use std::{
    error::Error,
    future::Future as _,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    coding::{CodingError, ContentCoding, Decoder},
    shares::{Quota, QuotaOwner, QuotaPermit},
};

/// The unit in which memory is accounted for, bytes.
const UNIT: usize = 64 << 10;

/// The most memory that is allocated in advance for a body that announces its length, bytes.
const READY: u64 = 1 << 20;

/// The lowest rate of a body in bytes per second, after the time that every body has.
const PACE: u64 = 128 << 10;

/// The reason why reading a body stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The body does not match its coding.
    #[error(transparent)]
    Coding(#[from] CodingError),
    /// Nothing came.
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// The body comes too slowly.
    #[error("only {came} bytes came in {} s", .after.as_secs())]
    Slow {
        /// The bytes that came,
        came: u64,
        /// in this time.
        after: Duration,
    },
    /// The connection failed.
    #[error("the connection broke off{}", causes(.0))]
    Broken(hyper::Error),
    /// The body is too long.
    #[error("longer than the {0} bytes that mcpmon holds")]
    TooLong(usize),
    /// Other bodies hold the available memory.
    #[error("too much is held for others at the moment")]
    NoRoom,
}

/// Returns the causes of an error, each after a colon.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut told = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !told.ends_with(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        cause = error.source();
    }
    told
}

/// Reads one body.
#[derive(Debug)]
pub(super) struct Chunks {
    body: Incoming,
    decoder: Option<Decoder>,
    /// The bytes that were read and are not decoded yet.
    coded: Bytes,
    /// True if the latest step filled its buffer: more output may come without more input.
    full: bool,
    over: bool,
    patience: Duration,
    /// The time at which the latest bytes came.
    heard: Instant,
    /// Fires when nothing came for too long, or earlier; it is reset when it fires, not with every read. A body that is
    /// never waited for has none.
    silence: Option<Pin<Box<Sleep>>>,
    /// The deadline.
    pace: Option<Pace>,
}

/// The deadline of a body: a time that every body has, plus a second for each [`PACE`] bytes of it.
#[derive(Debug)]
struct Pace {
    begun: Instant,
    time: Duration,
    came: u64,
}

impl Pace {
    fn end(&self) -> Instant {
        self.begun + self.time + Duration::from_secs(self.came / PACE)
    }

    fn slow(&self) -> ReadError {
        ReadError::Slow {
            came: self.came,
            after: self.end().saturating_duration_since(self.begun),
        }
    }
}

impl Chunks {
    pub(super) fn new(
        body: Incoming,
        coding: Option<ContentCoding>,
        patience: Duration,
    ) -> Result<Self, CodingError> {
        Ok(Self {
            body,
            decoder: coding.map(Decoder::new).transpose()?,
            coded: Bytes::new(),
            full: false,
            over: false,
            patience,
            heard: Instant::now(),
            silence: None,
            pace: None,
        })
    }

    /// Sets a deadline, so that a body that trickles without falling silent ends too: it has `time`, plus a second for
    /// each 128 KiB.
    pub(super) fn within(mut self, time: Duration) -> Self {
        self.pace = Some(Pace {
            begun: self.heard,
            time,
            came: 0,
        });
        self
    }

    /// Returns the next bytes; `None` at the end.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReadError>>> {
        loop {
            if let Some(decoded) = self.decode().transpose() {
                return Poll::Ready(Some(decoded.map_err(ReadError::from)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.heard = Instant::now();
                    // Trailers are ignored.
                    let Ok(data) = frame.into_data() else { continue };
                    if let Some(error) = self.count(data.len()) {
                        self.over = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                    if self.decoder.is_none() && !data.is_empty() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                    self.coded = data;
                }
                Poll::Ready(Some(Err(error))) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(ReadError::Broken(error))));
                }
                Poll::Ready(None) => {
                    self.over = true;
                    if let Some(decoder) = &self.decoder
                        && let Err(error) = decoder.finish()
                    {
                        return Poll::Ready(Some(Err(error.into())));
                    }
                }
                Poll::Pending => {
                    let error = ready!(self.poll_silence(context));
                    self.over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<ReadError> {
        let patience = self.patience;
        let quiet = self.heard + patience;
        let paced = self.pace.as_ref().map(Pace::end);
        let end = paced.map_or(quiet, |paced| paced.min(quiet));
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep_until(end)));
        loop {
            ready!(silence.as_mut().poll(context));
            if end <= Instant::now() {
                break;
            }
            silence.as_mut().reset(end);
        }
        Poll::Ready(match &self.pace {
            Some(pace) if pace.end() < quiet => pace.slow(),
            Some(_) | None => ReadError::Silent(patience),
        })
    }

    /// Counts `bytes` that came. Returns an error if they are too late.
    fn count(&mut self, bytes: usize) -> Option<ReadError> {
        let heard = self.heard;
        let pace = self.pace.as_mut()?;
        pace.came += bytes as u64;
        (pace.end() < heard).then(|| pace.slow())
    }

    pub(super) async fn next(&mut self) -> Option<Result<Bytes, ReadError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn decode(&mut self) -> Result<Option<Bytes>, CodingError> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(None);
        };
        if self.coded.is_empty() && !self.full {
            return Ok(None);
        }
        let mut input = &self.coded[..];
        let step = decoder.step(&mut input);
        let left = input.len();
        let decoded = match step {
            Ok(decoded) => decoded,
            Err(error) => {
                self.over = true;
                self.coded = Bytes::new();
                self.full = false;
                return Err(error);
            }
        };
        self.full = decoded.len() == super::coding::STEP;
        let decoded = (!decoded.is_empty()).then(|| Bytes::copy_from_slice(decoded));
        self.coded = self.coded.slice(self.coded.len() - left..);
        Ok(decoded)
    }
}

/// Memory for bodies that have to be held as a whole.
#[derive(Clone, Debug)]
pub(super) struct BodyMemory {
    shares: Quota,
    owner: QuotaOwner,
}

/// A reservation of memory for one body, released when dropped.
#[derive(Debug, Default)]
pub(super) struct Share {
    part: Option<QuotaPermit>,
    units: usize,
}

impl BodyMemory {
    /// A budget of `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            shares: Quota::new(bytes / UNIT),
            owner: QuotaOwner::NOBODY,
        }
    }

    /// Returns the same budget, on which `owner` draws.
    pub(super) fn of(&self, owner: QuotaOwner) -> Self {
        Self {
            shares: self.shares.clone(),
            owner,
        }
    }

    /// Makes `share` large enough for `bytes`.
    pub(super) fn cover(&self, share: &mut Share, bytes: usize) -> Result<(), ReadError> {
        let more = bytes.div_ceil(UNIT).saturating_sub(share.units);
        if more == 0 {
            return Ok(());
        }
        let part = self.shares.take_more(self.owner, more);
        let part = part.map_err(|_scarce| ReadError::NoRoom)?;
        match &mut share.part {
            Some(held) => held.merge(part),
            None => share.part = Some(part),
        }
        share.units += more;
        Ok(())
    }
}

/// Reads a body to its end.
pub(super) async fn gather(
    mut chunks: Chunks,
    limit: usize,
    room: &BodyMemory,
    share: &mut Share,
) -> Result<Vec<u8>, ReadError> {
    // A body that announces more than the limit is refused at once.
    let announced = chunks.body.size_hint().lower();
    if announced > limit as u64 {
        return Err(ReadError::TooLong(limit));
    }
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if whole.len() + chunk.len() > limit {
            return Err(ReadError::TooLong(limit));
        }
        let ready = match whole.is_empty() {
            true => usize::try_from(announced.min(READY)).unwrap_or_default(),
            false => 0,
        };
        room.cover(share, ready.max(whole.len() + chunk.len()))?;
        whole.reserve(ready);
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_and_half_of_it_left_to_others() {
        let room = BodyMemory::new(4 * UNIT);
        let (one, two) = (room.of(QuotaOwner::User(1)), room.of(QuotaOwner::User(2)));
        let (mut first, mut second) = (Share::default(), Share::default());
        one.cover(&mut first, 1).expect("room");
        one.cover(&mut first, 2 * UNIT).expect("half of it");
        assert!(matches!(
            one.cover(&mut first, 2 * UNIT + 1),
            Err(ReadError::NoRoom)
        ));
        two.cover(&mut second, UNIT).expect("room");
        drop(first);
        two.cover(&mut second, 2 * UNIT).expect("room");
    }
}

//! A body as it is read: decoded, with a limit on silence.

use std::{
    error::Error,
    future::Future as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

use super::coding::{Coding, CodingError, Decoder};

/// Bytes that are accounted for at once.
const UNIT: usize = 64 << 10;

/// Why no more can be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// It is not what its coding says.
    #[error(transparent)]
    Coding(#[from] CodingError),
    /// Nothing came.
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// The connection.
    #[error("the connection broke off{}", causes(.0))]
    Broken(hyper::Error),
    /// It is too long.
    #[error("longer than the {0} bytes that mcpmon holds")]
    TooLong(usize),
    /// Others hold what there is.
    #[error("too much is held for others at the moment")]
    NoRoom,
}

/// What lies behind an error, each after a colon.
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
    /// What was read and is not decoded yet.
    coded: Bytes,
    /// The latest step filled its buffer: there may be more without more input.
    full: bool,
    over: bool,
    patience: Duration,
    /// When bytes came last.
    heard: Instant,
    /// Fires when nothing came for too long, or earlier: it is set anew then, not with every read. A body that never is
    /// waited for needs none.
    silence: Option<Pin<Box<Sleep>>>,
}

impl Chunks {
    pub(super) fn new(
        body: Incoming,
        coding: Option<Coding>,
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
        })
    }

    /// The next bytes; `None` at the end.
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
                    // What follows a body is of no use to whoever reads it.
                    let Ok(data) = frame.into_data() else { continue };
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
                    ready!(self.poll_silence(context));
                    self.over = true;
                    return Poll::Ready(Some(Err(ReadError::Silent(self.patience))));
                }
            }
        }
    }

    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let patience = self.patience;
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(patience)));
        loop {
            ready!(silence.as_mut().poll(context));
            let end = self.heard + patience;
            if end <= Instant::now() {
                return Poll::Ready(());
            }
            silence.as_mut().reset(end);
        }
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
pub(super) struct Room(Arc<Semaphore>);

/// A part of it, given back when dropped.
#[derive(Debug, Default)]
pub(super) struct Share {
    permit: Option<OwnedSemaphorePermit>,
    units: usize,
}

impl Room {
    /// For so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT)))
    }

    /// Makes `share` large enough for `bytes`.
    pub(super) fn cover(&self, share: &mut Share, bytes: usize) -> Result<(), ReadError> {
        let more = bytes.div_ceil(UNIT).saturating_sub(share.units);
        if more == 0 {
            return Ok(());
        }
        let wanted = u32::try_from(more).map_err(|_too_many| ReadError::NoRoom)?;
        let permit = Arc::clone(&self.0)
            .try_acquire_many_owned(wanted)
            .map_err(|_too_many| ReadError::NoRoom)?;
        match &mut share.permit {
            Some(held) => held.merge(permit),
            None => share.permit = Some(permit),
        }
        share.units += more;
        Ok(())
    }
}

/// Reads a body to its end.
pub(super) async fn gather(
    mut chunks: Chunks,
    limit: usize,
    room: &Room,
    share: &mut Share,
) -> Result<Vec<u8>, ReadError> {
    // What announces more than is held is not waited for.
    if chunks.body.size_hint().lower() > limit as u64 {
        return Err(ReadError::TooLong(limit));
    }
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if whole.len() + chunk.len() > limit {
            return Err(ReadError::TooLong(limit));
        }
        room.cover(share, whole.len() + chunk.len())?;
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back() {
        let room = Room::new(3 * UNIT);
        let (mut first, mut second) = (Share::default(), Share::default());
        room.cover(&mut first, 1).expect("room");
        room.cover(&mut first, 2 * UNIT).expect("room");
        assert!(matches!(
            room.cover(&mut second, UNIT + 1),
            Err(ReadError::NoRoom)
        ));
        room.cover(&mut second, UNIT).expect("room");
        drop(first);
        room.cover(&mut second, 3 * UNIT).expect("room");
    }
}

//! Streams of events: messages as they come, with what is needed to resume a stream that broke off.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use mcpmon_protocol::decode::sse::{Events, SseFraming};

use super::{AnswerFault, wire::broken};
use crate::chunks::Chunks;

/// Longest `retry` of a server that is respected.
const MAX_RETRY: Duration = Duration::from_secs(300);
/// Bytes that an event may have besides its message.
const AROUND: usize = 64 << 10;

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Stream {
    chunks: Chunks,
    events: Events,
    max_message: usize,
    /// Bytes that were read and are not yet split into events.
    rest: Bytes,
    /// The place and time at which the stream is to be resumed.
    resume: StreamPosition,
}

/// The place and time at which a broken stream is to be resumed.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamPosition {
    /// The id of the latest event.
    pub(crate) id: Option<HeaderValue>,
    /// The time to wait before resuming.
    pub(crate) retry: Option<Duration>,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventContent {
    /// A message.
    Message(Vec<u8>),
    /// `endpoint`: where messages go, in the transport of 2024-11-05.
    Endpoint(String),
}

impl Stream {
    pub(super) fn new(chunks: Chunks, max_message: usize) -> Self {
        Self {
            chunks,
            events: Events::new(max_message.saturating_add(AROUND)),
            max_message,
            rest: Bytes::new(),
            resume: StreamPosition::default(),
        }
    }

    pub(crate) const fn resume(&self) -> &StreamPosition {
        &self.resume
    }

    /// Returns the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<EventContent, AnswerFault>> {
        loop {
            match self.cut() {
                Ok(Some(said)) => return Some(Ok(said)),
                Ok(None) => {}
                Err(fault) => return Some(Err(fault)),
            }
            match self.chunks.next().await? {
                Ok(chunk) => self.rest = chunk,
                Err(error) => return Some(Err(broken(&error))),
            }
        }
    }

    fn cut(&mut self) -> Result<Option<EventContent>, AnswerFault> {
        let mut chunk = &self.rest[..];
        let mut said = None;
        while let Some(cut) = self.events.next(&mut chunk) {
            let SseFraming::Event(event) = cut else {
                return Err(AnswerFault::TooLong(self.max_message));
            };
            if let Some(id) = event.id.filter(|id| !id.contains(&0)) {
                // An event with an empty id clears the earlier one.
                self.resume.id = HeaderValue::from_bytes(id).ok().filter(|id| !id.is_empty());
            }
            if let Some(retry) = retry(event.raw) {
                self.resume.retry = Some(retry);
            }
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            if data.len() > self.max_message {
                return Err(AnswerFault::TooLong(self.max_message));
            }
            said = match event.name.unwrap_or_default() {
                b"" | b"message" => Some(EventContent::Message(data.into_owned())),
                b"endpoint" => Some(EventContent::Endpoint(
                    String::from_utf8_lossy(&data).into_owned(),
                )),
                _ => None,
            };
            if said.is_some() {
                break;
            }
        }
        let left = chunk.len();
        self.rest = self.rest.slice(self.rest.len() - left..);
        Ok(said)
    }
}

/// Returns the value of `retry`, which is a field of the stream rather than of an event.
fn retry(raw: &[u8]) -> Option<Duration> {
    let mut lines = raw.split(|byte| matches!(byte, b'\n' | b'\r'));
    let value = lines.find_map(|line| line.strip_prefix(b"retry:"))?;
    let milliseconds: u64 = str::from_utf8(value).ok()?.trim().parse().ok()?;
    Some(Duration::from_millis(milliseconds).min(MAX_RETRY))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(b"retry: 500\nid: 7\n\n" => Some(500); "asked")]
    #[test_case(b"id: 7\r\nretry:9999999\r\n\r\n" => Some(300_000); "too long")]
    #[test_case(b"data: retry: 5\n\n" => None; "in a message")]
    #[test_case(b"retry: soon\n\n" => None; "no number")]
    fn retries(raw: &[u8]) -> Option<u128> {
        retry(raw).map(|retry| retry.as_millis())
    }
}

//! Bodies of responses to the agent: an answer of the proxy, a response as it came, or a stream that a filter reads.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use mcpmon_protocol::llm::LlmResponse;

use super::{
    ExchangeJudge,
    chunks::{BodyMemory, Chunks, ReadError, Share},
    mcp,
};

/// The error with which a body ends early.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// A body on its way to the agent.
#[derive(Debug)]
pub(super) enum OutgoingBody {
    /// A body that is complete.
    Whole(Full<Bytes>),
    /// The provider's body, unchanged; its bytes are reported to the judge of the request.
    Passed(Incoming, Option<Box<dyn ExchangeJudge>>),
    /// A provider's stream, as the filter forwards it.
    Judged(Box<JudgedBody>),
    /// An MCP server's stream, as the filter forwards it.
    Mcp(Box<mcp::Judged>),
    /// The answer to a call that is held until a person answers.
    Held(Box<mcp::HeldResponse>),
}

impl OutgoingBody {
    pub(super) fn whole(body: impl Into<Bytes>) -> Self {
        Self::Whole(Full::new(body.into()))
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context).map_err(super::upstream::never),
            Self::Passed(body, judge) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                if let (Some(judge), Some(Ok(frame))) = (judge, &frame)
                    && let Some(data) = frame.data_ref()
                {
                    judge.answered(data);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Self::Judged(body) => body.poll(context).map_ok(Frame::data),
            Self::Mcp(body) => body.poll(context).map_ok(Frame::data),
            Self::Held(body) => body.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Passed(body, _) => body.is_end_stream(),
            Self::Judged(body) => matches!(body.state, JudgedBodyState::Over(None)),
            Self::Mcp(body) => body.is_over(),
            Self::Held(body) => body.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Passed(body, _) => body.size_hint(),
            Self::Judged(_) | Self::Mcp(_) | Self::Held(_) => SizeHint::default(),
        }
    }
}

/// A stream that is judged while it flows. Nothing is buffered here: what the filter forwards leaves with the read that
/// brought it, and the next read happens after the client has taken it.
#[derive(Debug)]
pub(super) struct JudgedBody {
    response: LlmResponse,
    judge: Box<dyn ExchangeJudge>,
    room: BodyMemory,
    share: Share,
    out: Vec<u8>,
    state: JudgedBodyState,
}

#[derive(Debug)]
enum JudgedBodyState {
    Reading(Box<Chunks>),
    /// Nothing more comes; a failure is still to be returned.
    Over(Option<Failure>),
}

impl JudgedBody {
    pub(super) fn new(
        chunks: Chunks,
        response: LlmResponse,
        judge: Box<dyn ExchangeJudge>,
        room: BodyMemory,
    ) -> Self {
        Self {
            response,
            judge,
            room,
            share: Share::default(),
            out: Vec::new(),
            state: JudgedBodyState::Reading(Box::new(chunks)),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            let chunks = match &mut self.state {
                JudgedBodyState::Reading(chunks) => chunks,
                JudgedBodyState::Over(failure) => return Poll::Ready(failure.take().map(Err)),
            };
            let came = ready!(chunks.poll_next(context));
            self.out.clear();
            let chunk = match came {
                Some(Ok(chunk)) => {
                    if let Err(fault) = self.response.push(&chunk, &mut *self.judge, &mut self.out) {
                        self.judge.failed(&fault);
                        // The connection to the provider ends here; `out` has the error in the provider's dialect.
                        self.state = JudgedBodyState::Over(None);
                    } else if let Err(error) = self.cover() {
                        tracing::warn!(%error, "a provider's stream is cut off");
                        self.state = JudgedBodyState::Over(Some(error.into()));
                    }
                    chunk
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "a provider's stream broke off");
                    self.finish(Some(error.into()));
                    Bytes::new()
                }
                None => {
                    self.finish(None);
                    Bytes::new()
                }
            };
            if self.out.is_empty() {
                continue;
            }
            let bytes = match *self.out == *chunk {
                true => chunk,
                false => Bytes::from(std::mem::take(&mut self.out)),
            };
            self.judge.answered(&bytes);
            return Poll::Ready(Some(Ok(bytes)));
        }
    }

    /// Reserves memory for what the filter holds, and releases it when the filter holds nothing.
    fn cover(&mut self) -> Result<(), ReadError> {
        match self.response.held() {
            0 => {
                self.share = Share::default();
                Ok(())
            }
            held => self.room.cover(&mut self.share, held),
        }
    }

    /// Ends the body: nothing more comes from the provider. `failure` is set if the body is incomplete.
    fn finish(&mut self, failure: Option<Failure>) {
        if let Err(fault) = self.response.finish(&mut *self.judge, &mut self.out) {
            self.judge.failed(&fault);
        }
        self.state = JudgedBodyState::Over(failure);
    }
}

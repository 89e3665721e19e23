//! The far side: answers at once, and says in every event when it left.

use std::{
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use anyhow::{Context as _, Error, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    time::{Interval, MissedTickBehavior, interval},
};

use crate::{
    clock,
    question::{self, EVENTS, Question},
};

/// Time between two events: each is alone on its way.
const PACE: Duration = Duration::from_millis(1);

type Answer = Either<Full<Bytes>, Stream>;

/// Answers until it is killed.
pub(crate) fn serve(listen: SocketAddr) -> Result<()> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    })
}

/// As many threads as mcpmon has.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let Some(question) = Question::of(&body) else {
        let mut response = Response::new(Either::Left(Full::default()));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let (kind, body) = match question {
        Question::Text | Question::Call => (
            "application/json",
            Either::Left(Full::new(Bytes::from(question.answer()))),
        ),
        Question::Stream => ("text/event-stream", Either::Right(Stream::new())),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// A stream: its beginning, an event at a time, its end.
struct Stream {
    ticks: Interval,
    sent: u32,
}

impl Stream {
    fn new() -> Self {
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, sent: 0 }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let last = EVENTS + 1;
        if self.sent > last {
            return Poll::Ready(None);
        }
        ready!(self.ticks.poll_tick(context));
        let part = match self.sent {
            0 => Ok(question::beginning()),
            sent if sent == last => Ok(question::end()),
            _ => clock::now().map(question::text),
        };
        self.sent += 1;
        Poll::Ready(Some(part.map(|part| Frame::data(part.into()))))
    }
}

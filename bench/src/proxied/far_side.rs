//! The far side, which answers at once and puts the time of sending into every event of a stream.

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
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    time::{Interval, MissedTickBehavior, Sleep, interval, sleep},
};

use super::{EVENTS, clock, measure::BURST};

/// The time between two events, so that each travels alone.
const PACE: Duration = Duration::from_millis(1);
/// The time for which a stream pauses.
const SILENCE: Duration = Duration::from_millis(300);

/// A question that was received.
#[derive(Debug)]
pub struct Asked<'r> {
    /// The body.
    pub body: &'r [u8],
}

/// An HTTP reply to a question.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// A header field in addition to the usual ones.
    pub header: Option<(&'static str, &'static str)>,
    /// The body of the reply.
    pub said: Said,
}

/// The body of a reply.
#[derive(Debug)]
pub enum Said {
    /// A whole JSON text.
    Whole(String),
    /// Events, one at a time.
    Events(Script),
    /// Events at once, then a pause, then the end.
    Burst(Script),
}

/// A stream: its beginning, an event with the time of sending, and its end.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The first part.
    pub beginning: fn() -> String,
    /// An event that is sent at this time.
    pub event: fn(u64) -> String,
    /// The last part.
    pub end: fn() -> String,
}

impl Reply {
    /// Returns a reply with the usual status and header.
    #[must_use]
    pub const fn of(said: Said) -> Self {
        Self {
            status: 200,
            header: None,
            said,
        }
    }
}

type Answer = Either<Full<Bytes>, Stream>;

/// Answers until the process is killed.
///
/// # Errors
/// Returns an error if the far side cannot listen.
pub fn serve(listen: SocketAddr, reply: fn(&Asked<'_>) -> Reply) -> Result<()> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let service = service_fn(move |request| answer(reply, request));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

/// Makes a runtime with as many threads as mcpmon's.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")
}

async fn answer(reply: fn(&Asked<'_>) -> Reply, request: Request<Incoming>) -> Result<Response<Answer>> {
    let body = request.into_body().collect().await?.to_bytes();
    let Reply { status, header, said } = reply(&Asked { body: &body });
    let (kind, body) = match said {
        Said::Whole(text) => ("application/json", Either::Left(Full::new(Bytes::from(text)))),
        Said::Events(script) => ("text/event-stream", Either::Right(Stream::new(script, None))),
        Said::Burst(script) => {
            let silence = Box::pin(sleep(SILENCE));
            (
                "text/event-stream",
                Either::Right(Stream::new(script, Some(silence))),
            )
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status)?;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some((name, value)) = header {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    Ok(response)
}

/// A stream that is being sent.
struct Stream {
    script: Script,
    ticks: Interval,
    sent: u32,
    /// The pause; `None` if the stream does not pause.
    silence: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    fn new(script: Script, silence: Option<Pin<Box<Sleep>>>) -> Self {
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            script,
            ticks,
            sent: 0,
            silence,
        }
    }

    fn burst(&self) -> Result<String> {
        let mut all = (self.script.beginning)();
        for _ in 0..BURST {
            all += &(self.script.event)(clock::now()?);
        }
        Ok(all)
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let last = if self.silence.is_some() { 1 } else { EVENTS + 1 };
        if self.sent > last {
            return Poll::Ready(None);
        }
        let is_last = self.sent == last;
        match &mut self.silence {
            Some(silence) if is_last => ready!(silence.as_mut().poll(context)),
            Some(_) => {}
            None => drop(ready!(self.ticks.poll_tick(context))),
        }
        let part = match self.sent {
            0 if self.silence.is_some() => self.burst(),
            0 => Ok((self.script.beginning)()),
            sent if sent == last => Ok((self.script.end)()),
            _ => clock::now().map(self.script.event),
        };
        self.sent += 1;
        Poll::Ready(Some(part.map(|part| Frame::data(part.into()))))
    }
}

//! Streams of a server on their way to the client, judged while they flow.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use mcpmon_model::Denial;
use mcpmon_protocol::filter::mcp_http::{
    HttpOutput, HttpResponse, HttpSession, ReadState, ResponseFault, WholeResponseHead,
};
use tokio::{sync::OwnedMutexGuard, time::Interval};

use super::{
    NoAnswer,
    call::Call,
    hearing::{Cut, Hearing, ticks},
    old::AnnouncedUrl,
    own,
    sessions::Live,
};
use crate::{
    body::Failure,
    chunks::{Chunks, ReadError, Share},
    shares::QuotaPermit,
};

/// A request of a client, with its session.
#[derive(Clone, Debug)]
pub(super) struct Talk {
    pub(super) call: Call,
    pub(super) live: Arc<Live>,
}

impl Talk {
    /// Judges bytes of the response; what is forwarded is in `out`.
    pub(super) fn push(
        &self,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        chunk: &[u8],
        out: &mut HttpOutput,
    ) -> ReadState {
        let flow = self
            .call
            .guard()
            .push(self.call.now(), session, response, chunk, out);
        self.settle(out);
        flow
    }

    /// Ends the response.
    pub(super) fn end(
        &self,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        let ended = self.call.guard().end(self.call.now(), session, response, out);
        self.settle(out);
        ended
    }

    /// Fails a response that is missing or incomplete.
    pub(super) fn fail(
        &self,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        fault: &ResponseFault,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        let ended = self
            .call
            .guard()
            .fail(self.call.now(), session, response, fault, out);
        self.settle(out);
        ended
    }

    /// Handles a client that has disconnected: it gets the rest only if it resumes the stream.
    pub(super) fn leave(&self, session: &mut HttpSession, response: &mut HttpResponse) {
        let cause = "the client left".to_owned();
        let mut out = HttpOutput::default();
        response.fail(session, &ResponseFault::Broken { cause }, &mut out);
        self.settle(&mut out);
    }

    /// Ends the response because the server may not be used any longer.
    pub(super) fn turn_away(
        &self,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        denial: &Denial,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        let ended = response.turn_away(session, denial, out);
        self.settle(out);
        ended
    }

    /// Records incidents, and sends the messages for the server.
    pub(super) fn settle(&self, out: &mut HttpOutput) {
        self.call.note(&mut out.incidents);
        for message in out.to_server.drain(..) {
            own::say(&self.call, message);
        }
    }

    /// Checks for stopped and late requests, and for changed lists.
    pub(super) fn tick(
        &self,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        seen: Option<&mut u64>,
        out: &mut HttpOutput,
    ) -> ReadState {
        let now = self.call.now();
        session.expire(now, out);
        let flow = response.expire(now, session, out);
        if let Some(seen) = seen {
            for kind in self.call.conversation.changed(now, seen) {
                response.list_changed(session, kind, out);
            }
        }
        self.settle(out);
        flow
    }
}

/// A stream on its way to the client. Nothing is buffered here: what the filter forwards leaves with the read that
/// brought it, and the next read happens after the client has taken it.
pub(in super::super) struct Judged {
    hearing: Hearing,
    share: Share,
    out: HttpOutput,
    state: ResponseStreamState,
    /// The next step, once the session is free.
    step: Option<StreamStep>,
    /// The place in the queue for the session's lock.
    turn: Option<Turn>,
    /// The state of a stream that is kept open; `None` for others.
    kept: Option<OpenStream>,
    ticks: Interval,
    /// The URL for messages that are answered on this stream.
    place: Option<AnnouncedUrl>,
    _part: QuotaPermit,
}

/// Returns the locked session.
type Turn = Pin<Box<dyn Future<Output = OwnedMutexGuard<HttpSession>> + Send>>;

/// One step of a stream.
enum StreamStep {
    /// The server sent bytes.
    Came(Bytes),
    /// The stream broke off.
    Broke(ReadError),
    /// The stream ended.
    Ended,
    /// The timer fired.
    Tick,
    /// The server may not be used any longer.
    Halted(Denial),
    /// The proxy is to stop.
    Stopped,
}

/// A stream that stays open for later messages of the server.
struct OpenStream {
    /// The number of changes that were reported to the client.
    seen: u64,
    /// Returns once the proxy is to stop: such a stream has no end that could be awaited.
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

enum ResponseStreamState {
    Reading(Box<Chunks>),
    /// Nothing more comes; a failure is still to be returned.
    Over(Option<Failure>),
}

// The content is never shown.
impl fmt::Debug for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judged")
            .field("talk", &self.hearing.talk)
            .finish_non_exhaustive()
    }
}

impl Judged {
    pub(super) fn new(
        talk: Talk,
        chunks: Chunks,
        response: HttpResponse,
        is_kept: bool,
        place: Option<AnnouncedUrl>,
        part: QuotaPermit,
    ) -> Self {
        let kept = is_kept.then(|| OpenStream {
            seen: talk.call.conversation.changes(),
            stopped: Box::pin(talk.call.proxy.stopped()),
        });
        Self {
            hearing: Hearing::new(talk, response),
            share: Share::default(),
            out: HttpOutput::default(),
            state: ResponseStreamState::Reading(Box::new(chunks)),
            step: None,
            turn: None,
            kept,
            ticks: ticks(),
            place,
            _part: part,
        }
    }

    pub(in super::super) const fn is_over(&self) -> bool {
        matches!(self.state, ResponseStreamState::Over(None))
    }

    pub(in super::super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            if let ResponseStreamState::Over(failure) = &mut self.state {
                return Poll::Ready(failure.take().map(Err));
            }
            if self.place.is_some() {
                let aside = self.hearing.talk.live.aside.take(context);
                if !aside.is_empty() {
                    // Give up the place in the queue: if the client does not read on, the lock would be granted to this
                    // stream and never be released.
                    self.turn = None;
                    return Poll::Ready(Some(Ok(aside.into())));
                }
            }
            let step = match self.step.take() {
                Some(step) => step,
                None => ready!(self.next(context)),
            };
            let Poll::Ready(mut session) = self.session(context) else {
                self.step = Some(step);
                return Poll::Pending;
            };
            self.out.to_client.clear();
            let came = self.make(step, &mut session);
            drop(session);
            if self.out.to_client.is_empty() {
                continue;
            }
            let bytes = match *self.out.to_client == *came {
                true => came,
                false => Bytes::from(std::mem::take(&mut self.out.to_client)),
            };
            return Poll::Ready(Some(Ok(bytes)));
        }
    }

    /// Returns the next step. The timer comes first, so that a server that sends all the time does not suppress it.
    fn next(&mut self, context: &mut Context<'_>) -> Poll<StreamStep> {
        if self.ticks.poll_tick(context).is_ready() {
            let call = &self.hearing.talk.call;
            let halted = call.guard().halted(call.now());
            return Poll::Ready(halted.map_or(StreamStep::Tick, StreamStep::Halted));
        }
        if self.is_stopped(context) {
            return Poll::Ready(StreamStep::Stopped);
        }
        let ResponseStreamState::Reading(chunks) = &mut self.state else {
            return Poll::Ready(StreamStep::Ended);
        };
        Poll::Ready(match ready!(chunks.poll_next(context)) {
            Some(Ok(chunk)) => StreamStep::Came(chunk),
            Some(Err(error)) => StreamStep::Broke(error),
            None => StreamStep::Ended,
        })
    }

    /// Returns the session once its lock is free.
    fn session(&mut self, context: &mut Context<'_>) -> Poll<OwnedMutexGuard<HttpSession>> {
        let live = &self.hearing.talk.live;
        if self.turn.is_none()
            && let Some(session) = live.free_session()
        {
            return Poll::Ready(session);
        }
        let turn = self.turn.get_or_insert_with(|| Box::pin(live.session()));
        let session = ready!(turn.as_mut().poll(context));
        self.turn = None;
        Poll::Ready(session)
    }

    fn is_stopped(&mut self, context: &mut Context<'_>) -> bool {
        let kept = self.kept.as_mut();
        kept.is_some_and(|kept| kept.stopped.as_mut().poll(context).is_ready())
    }

    /// Handles a step. What is forwarded is in `out`; the server's bytes are returned, because they are often
    /// identical.
    fn make(&mut self, step: StreamStep, session: &mut HttpSession) -> Bytes {
        match step {
            StreamStep::Came(chunk) => {
                self.take(&chunk, session);
                return chunk;
            }
            StreamStep::Broke(error) => self.break_off(error, session),
            StreamStep::Ended => {
                self.hearing.end(session, &mut self.out);
                self.state = ResponseStreamState::Over(None);
            }
            StreamStep::Tick => {
                let seen = self.kept.as_mut().map(|kept| &mut kept.seen);
                let Hearing { talk, response, .. } = &mut self.hearing;
                let flow = talk.tick(session, response, seen, &mut self.out);
                self.heed(flow, session);
            }
            StreamStep::Halted(denial) => {
                self.hearing
                    .cut(session, &Cut::Halted(denial.into()), &mut self.out);
                self.state = ResponseStreamState::Over(None);
            }
            StreamStep::Stopped => self.state = ResponseStreamState::Over(None),
        }
        Bytes::new()
    }

    fn take(&mut self, chunk: &[u8], session: &mut HttpSession) {
        let Hearing { talk, response, .. } = &mut self.hearing;
        let flow = talk.push(session, response, chunk, &mut self.out);
        if let (Some(place), Some(endpoint)) = (&mut self.place, response.endpoint())
            && let Err(problem) = place.open(talk, endpoint)
        {
            // The client is not told the URL for messages, because messages to it would be refused.
            self.out.to_client.clear();
            let cause = problem.message().to_owned();
            self.hearing.fail(session, cause, &mut self.out);
            self.state = ResponseStreamState::Over(None);
            return;
        }
        self.heed(flow, session);
        if let Err(error) = self.cover() {
            self.break_off(error, session);
        }
    }

    /// Ends the stream if the filter forwards nothing more: later bytes would be dropped.
    fn heed(&mut self, flow: ReadState, session: &mut HttpSession) {
        if flow == ReadState::Finished {
            let server = self.hearing.talk.call.server.id();
            tracing::warn!(server, "a stream of an MCP server is cut off");
            self.hearing.end(session, &mut self.out);
            self.state = ResponseStreamState::Over(None);
        }
    }

    /// Fails the stream, because it ended before the response did.
    fn break_off(&mut self, error: ReadError, session: &mut HttpSession) {
        let call = &self.hearing.talk.call;
        let server = call.server.id();
        tracing::debug!(server, %error, "a stream of an MCP server broke off");
        let cause = error.to_string();
        // Streams that are kept open break off now and then, and clients open them again.
        if self.kept.is_none() {
            let cause = cause.clone();
            call.failed(&NoAnswer::Unreachable { cause });
        }
        self.hearing.fail(session, cause, &mut self.out);
        // An error would end the connection before `out` is sent. If `out` has error messages for the client, it needs
        // no other.
        self.state = ResponseStreamState::Over(match self.out.to_client.is_empty() {
            true => Some(error.into()),
            false => None,
        });
    }

    /// Reserves memory for what the filter holds, and releases it when the filter holds nothing.
    fn cover(&mut self) -> Result<(), ReadError> {
        match self.hearing.response.held() {
            0 => {
                self.share = Share::default();
                Ok(())
            }
            held => self.hearing.talk.call.room().cover(&mut self.share, held),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use hyper::{HeaderMap, Method, StatusCode};
    use mcpmon_model::{ServerId, ServerType, SessionId, Timestamp};
    use mcpmon_protocol::filter::mcp_http::DecodeLimits;
    use mcpmon_session::clock;
    use tokio::{sync::watch, time::timeout};

    use super::*;
    use crate::{
        chunks::BodyMemory,
        client::tests::{Site, Told},
        mcp::{
            AskedServer, Bounds, Caps, Crowded, McpProxy, McpSettings, NotJudged, Remote, ServerGuard,
            Servers,
            call::Here,
            server::{Kind, Server},
            sessions::tests::Open,
        },
        shares::QuotaOwner,
        upstream::Upstream,
    };

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Servers for tests whose server is never looked up.
    #[derive(Debug)]
    struct Nowhere;

    impl Servers for Nowhere {
        fn session(&self, _token: &str) -> Option<SessionId> {
            None
        }

        fn remote(&self, _id: &str) -> Option<Arc<Remote>> {
            None
        }

        fn ids(&self) -> Vec<ServerId> {
            Vec::new()
        }

        fn bounds(&self) -> Bounds {
            Bounds {
                limits: DecodeLimits::default(),
                streams: 1,
            }
        }

        fn crowded(&self, _now: Timestamp, _crowded: &Crowded) {}

        fn conversation(&self, _asked: AskedServer) -> Result<Arc<dyn ServerGuard>, NotJudged> {
            Err(NotJudged("nobody is here".to_owned()))
        }
    }

    /// A session of the older transport with the server at `url`.
    fn old(url: &str, stopped: watch::Receiver<bool>) -> Talk {
        let owner = QuotaOwner::User(1);
        let remote = Remote {
            id: ServerId::new("files").unwrap(),
            url: url.to_owned(),
            server_type: ServerType::Sse,
            tls: None,
        };
        let server = Server::new(Arc::new(remote), None, &Caps::default(), 1).unwrap();
        let settings = McpSettings::new(Arc::new(Nowhere), clock::now);
        let room = BodyMemory::new(1 << 20);
        let proxy = Arc::new(McpProxy::new(settings, room.clone(), stopped));
        let guard: Arc<dyn ServerGuard> = Arc::new(Open::default());
        let conversation = proxy.sessions.conversation(&server.remote.id, guard, owner);
        let conversation = conversation.unwrap();
        let live = Live::old(&conversation, DecodeLimits::default(), owner);
        let call = Call {
            proxy,
            upstream: Upstream::pinned(None).unwrap(),
            uri: server.endpoint(None).unwrap(),
            server: Arc::new(server),
            conversation,
            headers: HeaderMap::new(),
            here: Here {
                origin: "http://localhost".to_owned(),
                path: "/mcp/files".to_owned(),
                has_token: false,
            },
            owner,
            room,
            limits: DecodeLimits::default(),
        };
        Talk { call, live }
    }

    /// The stream that the server opens.
    async fn opened(talk: &Talk) -> Judged {
        let Talk { call, live } = talk;
        let part = call.admit(Kind::Stream).unwrap();
        let response = call.send(Method::GET, &call.uri, HeaderMap::new(), "").await;
        let (head, body) = response.unwrap().into_parts();
        let chunks = call.chunks(&head.headers, body, TIMEOUT).unwrap();
        let place = AnnouncedUrl::new(call);
        let talk = Talk {
            call: call.clone(),
            live: Arc::clone(live),
        };
        let ok = StatusCode::OK.as_u16();
        let response = HttpResponse::legacy(call.limits, ok, Some("text/event-stream"), place.endpoint());
        Judged::new(talk, chunks, response, true, Some(place), part)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stream_that_nobody_reads_keeps_no_session() {
        let site = Site::new(|_| Told::these(&["event: endpoint\ndata: /m\n\n".to_owned()])).await;
        let (_stop, stopped) = watch::channel(false);
        let talk = old(&site.url, stopped);
        let mut stream = opened(&talk).await;
        let held = talk.live.session().await;
        poll_fn(|context| {
            assert!(stream.poll(context).is_pending(), "others have the session");
            match stream.turn {
                Some(_) => Poll::Ready(()),
                None => Poll::Pending,
            }
        })
        .await;
        talk.live.aside.put(b": aside\n\n");
        drop(held);
        let said = poll_fn(|context| stream.poll(context)).await;
        assert_eq!(said.unwrap().unwrap(), ": aside\n\n");
        let session = timeout(TIMEOUT, talk.live.session()).await;
        assert!(session.is_ok(), "it is free for others");
        drop(session);
        let said = poll_fn(|context| stream.poll(context)).await;
        let said = String::from_utf8(said.unwrap().unwrap().to_vec()).unwrap();
        assert!(said.starts_with("event: endpoint\n"), "nothing is lost: {said}");
    }
}

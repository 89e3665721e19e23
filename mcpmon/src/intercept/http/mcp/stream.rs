//! A stream of a server on its way to the client, judged while it flows.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcpmon_core::filter::mcp_http::{Ended, Fault, Flow, Output, Response};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Interval, MissedTickBehavior, interval},
};

use super::{Unanswered, call::Call, old::Place, own, sessions::Live};
use crate::intercept::http::{
    body::Failure,
    chunks::{Chunks, ReadError, Share},
};

/// How often is looked whether lists show something else by now, and who has waited too long.
const TICK: Duration = Duration::from_secs(2);

/// A request of a client, and the session that it is of.
#[derive(Clone, Debug)]
pub(super) struct Talk {
    pub(super) call: Call,
    pub(super) live: Arc<Live>,
}

impl Talk {
    /// Takes what the server sent; what goes on is in `out`.
    pub(super) fn push(&self, response: &mut Response, chunk: &[u8], out: &mut Output) -> Flow {
        let (now, judge) = (self.call.now(), self.call.judge());
        let flow = response.push(
            now,
            &mut self.live.session(),
            chunk,
            &mut |message| judge.message(now, message),
            out,
        );
        self.settle(out);
        flow
    }

    /// The server sends no more.
    pub(super) fn end(&self, response: &mut Response, out: &mut Output) -> Ended {
        let (now, judge) = (self.call.now(), self.call.judge());
        let ended = response.end(
            now,
            &mut self.live.session(),
            &mut |message| judge.message(now, message),
            out,
        );
        self.settle(out);
        ended
    }

    /// The server's answer does not come, or not to its end.
    pub(super) fn fail(&self, response: &mut Response, cause: String, out: &mut Output) -> Ended {
        let ended = response.fail(&mut self.live.session(), &Fault::Broken { cause }, out);
        self.settle(out);
        ended
    }

    /// Does what does not concern the client.
    pub(super) fn settle(&self, out: &mut Output) {
        self.call.note(&mut out.incidents);
        for message in out.to_server.drain(..) {
            own::say(&self.call, message);
        }
    }

    /// Time passes.
    fn tick(&self, response: &mut Response, seen: Option<&mut u64>, out: &mut Output) -> Flow {
        let now = self.call.now();
        let flow = {
            let mut session = self.live.session();
            session.expire(now, out);
            let flow = response.expire(now, &mut session, out);
            if let Some(seen) = seen {
                for kind in self.call.conversation.changed(now, seen) {
                    response.list_changed(&session, kind, out);
                }
            }
            flow
        };
        self.settle(out);
        flow
    }
}

/// A stream on its way to the client. Nothing waits here: what the filter lets go on goes on with the read that brought
/// it, and the next read is not done before that is taken.
pub(in super::super) struct Judged {
    talk: Talk,
    response: Response,
    share: Share,
    out: Output,
    state: State,
    /// How it is kept open, if it is.
    kept: Option<Kept>,
    ticks: Interval,
    /// Where messages go that are answered here.
    place: Option<Place>,
    _permit: OwnedSemaphorePermit,
}

/// A stream that stays open for what a server says later.
struct Kept {
    /// Changes of which the client heard.
    seen: u64,
    /// Comes once the proxy is to stop: nobody waits for the end of such a stream.
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

enum State {
    Reading(Box<Chunks>),
    /// Nothing more comes, and this is still to be said.
    Over(Option<Failure>),
}

// Of what passes nothing is shown.
impl fmt::Debug for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judged")
            .field("talk", &self.talk)
            .finish_non_exhaustive()
    }
}

impl Judged {
    pub(super) fn new(
        talk: Talk,
        chunks: Chunks,
        response: Response,
        is_kept: bool,
        place: Option<Place>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let kept = is_kept.then(|| Kept {
            seen: talk.call.conversation.changes(),
            stopped: Box::pin(talk.call.proxy.stopped()),
        });
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            talk,
            response,
            share: Share::default(),
            out: Output::default(),
            state: State::Reading(Box::new(chunks)),
            kept,
            ticks,
            place,
            _permit: permit,
        }
    }

    pub(in super::super) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over(None))
    }

    pub(in super::super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            let chunks = match &mut self.state {
                State::Reading(chunks) => chunks,
                State::Over(failure) => return Poll::Ready(failure.take().map(Err)),
            };
            if self.place.is_some() {
                let aside = self.talk.live.aside.take(context);
                if !aside.is_empty() {
                    return Poll::Ready(Some(Ok(aside.into())));
                }
            }
            self.out.to_client.clear();
            let mut came = Bytes::new();
            match chunks.poll_next(context) {
                Poll::Ready(Some(Ok(chunk))) => {
                    self.take(&chunk);
                    came = chunk;
                }
                Poll::Ready(Some(Err(error))) => self.break_off(error),
                Poll::Ready(None) => {
                    self.talk.end(&mut self.response, &mut self.out);
                    self.state = State::Over(None);
                }
                Poll::Pending => {
                    if self.is_stopped(context) {
                        self.state = State::Over(None);
                        continue;
                    }
                    if self.ticks.poll_tick(context).is_pending() {
                        return Poll::Pending;
                    }
                    let seen = self.kept.as_mut().map(|kept| &mut kept.seen);
                    let flow = self.talk.tick(&mut self.response, seen, &mut self.out);
                    self.heed(flow);
                }
            }
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

    fn is_stopped(&mut self, context: &mut Context<'_>) -> bool {
        let kept = self.kept.as_mut();
        kept.is_some_and(|kept| kept.stopped.as_mut().poll(context).is_ready())
    }

    fn take(&mut self, chunk: &[u8]) {
        let flow = self.talk.push(&mut self.response, chunk, &mut self.out);
        if let (Some(place), Some(endpoint)) = (&mut self.place, self.response.endpoint()) {
            place.open(&mut self.talk, endpoint);
        }
        self.heed(flow);
        if let Err(error) = self.cover() {
            self.break_off(error);
        }
    }

    /// What comes behind may go nowhere.
    fn heed(&mut self, flow: Flow) {
        if flow == Flow::Over {
            let server = self.talk.call.server.id();
            tracing::warn!(server, "a stream of an MCP server is cut off");
            self.talk.end(&mut self.response, &mut self.out);
            self.state = State::Over(None);
        }
    }

    /// The server should have said more.
    fn break_off(&mut self, error: ReadError) {
        let server = self.talk.call.server.id();
        tracing::debug!(server, %error, "a stream of an MCP server broke off");
        let cause = error.to_string();
        // What is kept open breaks off now and then: its client opens it again.
        if self.kept.is_none() {
            let cause = cause.clone();
            self.talk.call.failed(&Unanswered::Unreachable { cause });
        }
        self.talk.fail(&mut self.response, cause, &mut self.out);
        // An error ends the connection before what is in `out` went out. Who was told there does not need it.
        self.state = State::Over(match self.out.to_client.is_empty() {
            true => Some(error.into()),
            false => None,
        });
    }

    /// Accounts for what waits in the filter; for nothing once nothing does.
    fn cover(&mut self) -> Result<(), ReadError> {
        match self.response.held() {
            0 => {
                self.share = Share::default();
                Ok(())
            }
            held => self.talk.call.room().cover(&mut self.share, held),
        }
    }
}

impl Drop for Judged {
    fn drop(&mut self) {
        // The client left: what it waited for it will not hear, or only where it asks for it again.
        if let State::Reading(_) = self.state {
            let cause = "the client left".to_owned();
            self.talk.fail(&mut self.response, cause, &mut self.out);
        }
    }
}

//! Responses of a server while they are read, for clients that may disconnect at any time.

use std::time::Duration;

use mcpmon_model::Denial;
use mcpmon_protocol::filter::mcp_http::{
    HttpOutput, HttpResponse, HttpSession, PendingRequests, ResponseFault, WholeResponseHead,
};
use tokio::{
    runtime::Handle,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

use super::stream::Talk;

/// The interval of three checks: kill switches for requests under way, requests that waited too long, and
/// lists that changed. A request that is stopped ends within a second.
const TICK: Duration = Duration::from_millis(500);

/// Returns a timer for states that have to be polled, because no event announces them.
pub(super) fn ticks() -> Interval {
    let mut ticks = interval_at(Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Keeps a timer in the runtime that fires earlier than any new one of [`ticks`]. A new timer that fires before all
/// others wakes the thread that waits for the timers; without this one, each call would wake a thread that has nothing
/// to do, and move to it.
pub(in super::super) async fn near_timer() {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
    }
}

/// The reason for ending a wait although the client is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Cut {
    /// A person stopped the request, or the server may not be used any longer.
    Halted(Box<Denial>),
    /// The answer took longer than a request may wait.
    Late,
}

/// A response that is being read. If this is dropped before the end, the client has left, and no request waits for the
/// rest.
#[derive(Debug)]
pub(super) struct Hearing {
    pub(super) talk: Talk,
    pub(super) response: HttpResponse,
    is_over: bool,
}

impl Hearing {
    pub(super) const fn new(talk: Talk, response: HttpResponse) -> Self {
        Self {
            talk,
            response,
            is_over: false,
        }
    }

    /// A response that has not begun, for the requests in `waiting`.
    pub(super) fn unheard(talk: Talk, status: u16, waiting: PendingRequests) -> Self {
        let response = HttpResponse::to_post(talk.call.limits, status, None, waiting);
        Self::new(talk, response)
    }

    /// Ends the response: it came to its end.
    pub(super) fn end(&mut self, session: &mut HttpSession, out: &mut HttpOutput) -> WholeResponseHead {
        self.is_over = true;
        self.talk.end(session, &mut self.response, out)
    }

    /// Fails the response: it broke off, and waiting requests are answered with an error.
    pub(super) fn fail(
        &mut self,
        session: &mut HttpSession,
        cause: String,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        self.is_over = true;
        self.talk
            .fail(session, &mut self.response, &ResponseFault::Broken { cause }, out)
    }

    /// Stops reading the response, and answers the waiting requests with the reason.
    pub(super) fn cut(
        &mut self,
        session: &mut HttpSession,
        cut: &Cut,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        self.is_over = true;
        match cut {
            Cut::Halted(denial) => self.talk.turn_away(session, &mut self.response, denial, out),
            Cut::Late => self
                .talk
                .fail(session, &mut self.response, &ResponseFault::Late, out),
        }
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(mut session) = self.talk.live.free_session() {
            self.talk.leave(&mut session, &mut self.response);
            return;
        }
        // A thread that serves other clients may not block. Without a runtime, no task uses the session any longer
        // either.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let nothing = HttpResponse::to_post(self.talk.call.limits, 502, None, PendingRequests::default());
        let mut response = std::mem::replace(&mut self.response, nothing);
        let talk = self.talk.clone();
        runtime.spawn(async move {
            let mut session = talk.live.session().await;
            talk.leave(&mut session, &mut response);
        });
    }
}

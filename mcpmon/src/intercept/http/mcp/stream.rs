//! A stream of a server on its way to the client, judged while it flows.

use std::{
    error::Error,
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcpmon_core::filter::mcp_http::{Output, Response};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Interval, MissedTickBehavior, interval},
};

use super::{call::Call, own, sessions::Live};
use crate::intercept::http::{
    body::Failure,
    chunks::{Chunks, ReadError, Share},
};

/// How often is looked whether lists show something else by now.
const TICK: Duration = Duration::from_secs(2);

/// What is read belongs to a session, and is for a client.
#[derive(Clone, Debug)]
pub(super) struct Talk {
    pub(super) call: Call,
    pub(super) live: Arc<Live>,
}

impl Talk {
    /// Takes bytes of the server; what goes on is in `out`.
    pub(super) fn push(&self, response: &mut Response, chunk: &[u8], out: &mut Output) -> Result<(), mcp_http::Fault> {
        let now = self.call.now();
        let judge = &self.call.judge;
        let pushed = response.push(
            now,
            &mut self.live.session(),
            chunk,
            &mut |message| judge.message(now, message),
            out,
        );
        self.settle(out);
        pushed
    }

    /// Does what does not concern the client.
    fn settle(&self, out: &mut Output) {
        self.call.note(&mut out.incidents);
        for message in out.to_server.drain(..) {
            own::say(&self.call, message);
        }
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
    /// Where the client hears of changes.
    ticks: Option<Interval>,
    _permit: OwnedSemaphorePermit,
}

enum State {
    Reading(Box<Chunks>),
    /// Nothing more comes, and this is still to be said.
    Over(Option<Failure>),
}

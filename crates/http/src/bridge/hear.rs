//! The stream of the server's unasked messages.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::{Bridge, ask::RETRY, lock};
use crate::client::{
    AnswerFault, EventContent, LAST_EVENT, Stream, StreamPosition, heard, of_session, on_one_line,
};

/// Longest wait for a stream to open.
const OPEN: Duration = Duration::from_secs(60);
/// Longest pause between two attempts.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// A stream that ends earlier increases the pause before the next attempt.
const SHORT: Duration = Duration::from_secs(5);

impl Bridge {
    /// Reads the server's unasked messages in the current session, if the server offers such a stream.
    pub(super) fn listen(self: &Arc<Self>) {
        if self.session().endpoint.is_some() {
            return;
        }
        let bridge = Arc::clone(self);
        let listening = tokio::spawn(async move { bridge.hear_out().await });
        if let Some(before) = lock(&self.listener).replace(listening.abort_handle()) {
            before.abort();
        }
    }

    async fn hear_out(self: Arc<Self>) {
        let mut resume = StreamPosition::default();
        let mut pause = RETRY;
        loop {
            let session = self.session();
            let mut headers = of_session(session.version.as_ref(), session.id.as_ref());
            headers.extend(resume.id.clone().map(|id| (LAST_EVENT, id)));
            let began = Instant::now();
            match timeout(OPEN, self.wire.listen(headers)).await {
                Ok(Ok(mut stream)) => {
                    while let Some(Ok(said)) = stream.next().await {
                        self.forward(said).await;
                    }
                    let latest = stream.resume().clone();
                    resume.id = latest.id.or(resume.id);
                    resume.retry = latest.retry.or(resume.retry);
                }
                // The server is busy, or cannot be reached at the moment.
                Ok(Err(
                    AnswerFault::Unreachable(_)
                    | AnswerFault::Status {
                        status: 429 | 500.., ..
                    },
                ))
                | Err(_) => {}
                // The server offers no such stream.
                Ok(Err(_)) => return,
            }
            pause = match began.elapsed() < SHORT {
                true => (pause * 2).min(MAX_RETRY),
                false => RETRY,
            };
            sleep(resume.retry.unwrap_or(pause).max(pause / 2)).await;
        }
    }

    /// Forwards everything on the stream of the transport of 2024-11-05. When the stream ends, the bridge ends.
    pub(super) fn empty(self: &Arc<Self>, mut stream: Stream) {
        let bridge = Arc::clone(self);
        let emptying = tokio::spawn(async move {
            let cause = loop {
                match stream.next().await {
                    Some(Ok(said)) => bridge.forward(said).await,
                    Some(Err(fault)) => break fault,
                    None => break AnswerFault::Ended,
                }
            };
            let told = bridge.in_own_words(&cause);
            for id in bridge.waiting.take_all() {
                bridge.fail(&id, &told).await;
            }
            bridge.gone.send_replace(Some(cause.to_string()));
        });
        *lock(&self.listener) = Some(emptying.abort_handle());
    }

    async fn forward(&self, said: EventContent) {
        let EventContent::Message(text) = said else { return };
        let text = on_one_line(text);
        let Some(heard) = heard(&text) else {
            tracing::warn!(
                bytes = text.len(),
                "what came from the server is no message, and goes nowhere"
            );
            return;
        };
        for id in heard.answers.iter().flatten() {
            self.waiting.answered(id);
        }
        self.say(text).await;
    }
}

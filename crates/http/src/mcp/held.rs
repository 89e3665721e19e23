//! Calls that are held until a person answers: their clients wait, and are kept informed meanwhile.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    body::{Body as _, Frame},
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use mcpmon_protocol::filter::mcp_http::{self, PostDecision};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{HeldPostState, call::Call, post::PostedMessage, problem::Problem, stream::Talk};
use crate::body::{Failure, OutgoingBody};

/// The interval of checks for the answer.
const LOOK: Duration = Duration::from_millis(250);
/// Most progress notifications that wait to be read by the client; further ones are dropped.
const MAX_NOTICES: usize = 4;
const EVENT_STREAM: &str = "text/event-stream";
/// Tells intermediaries not to buffer the stream.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Holds a call until a person answers the question with this id, and then sends it on or answers it.
///
/// A client that accepts streams gets one at once: it receives progress, and no intermediary considers the connection
/// dead. A client of the transport of 2024-11-05 gets all answers on its one stream, and sends nothing else before this
/// request is accepted, so it is accepted at once.
pub(super) async fn hold(
    message: PostedMessage,
    held_call: String,
) -> Result<Response<OutgoingBody>, Problem> {
    if message.place.is_some() {
        let live = message.talk.live.clone();
        tokio::spawn(async move {
            let tell = |progress: String| live.aside.put(&event(&progress));
            if let Err(problem) = conclude(message, held_call, tell).await {
                let problem = problem.message();
                tracing::warn!(problem, "a call that a person was asked about is not sent on");
            }
        });
        let mut accepted = Response::new(OutgoingBody::whole(Vec::new()));
        *accepted.status_mut() = StatusCode::ACCEPTED;
        return Ok(accepted);
    }
    if !takes_streams(&message.talk.call) {
        return conclude(message, held_call, |_| {}).await;
    }
    let (notices, progress) = mpsc::channel(MAX_NOTICES);
    let answer = async move {
        let tell = |text: String| drop(notices.try_send(Bytes::from(event(&text))));
        let concluded = conclude(message, held_call, tell).await;
        concluded.unwrap_or_else(|problem| problem.answer())
    };
    let body = HeldResponse {
        progress,
        state: HeldState::Waiting(Box::pin(answer)),
    };
    let mut response = Response::new(OutgoingBody::Held(Box::new(body)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// Waits for the answer, and then sends the call on or answers it.
async fn conclude(
    message: PostedMessage,
    mut held_call: String,
    mut tell: impl FnMut(String),
) -> Result<Response<OutgoingBody>, Problem> {
    loop {
        let waiting = HeldPost::new(message.talk.clone(), message.place.clone(), held_call);
        if !waiting.settle(&mut tell).await? {
            // The client has cancelled the call.
            return Ok(Response::new(OutgoingBody::whole(Vec::new())));
        }
        match message.judge().await {
            PostDecision::Held(next) => held_call = next,
            posted @ (PostDecision::Forward(_) | PostDecision::Answer(_)) => {
                return message.proceed(posted).await;
            }
        }
    }
}

/// A call that waits for a person. If this is dropped before the answer, the client has left.
struct HeldPost {
    talk: Talk,
    place: Option<String>,
    held_call: String,
    is_over: bool,
}

impl HeldPost {
    const fn new(talk: Talk, place: Option<String>, held_call: String) -> Self {
        Self {
            talk,
            place,
            held_call,
            is_over: false,
        }
    }

    /// Waits until the call is to be posted again. Returns `false` if the client no longer waits.
    async fn settle(mut self, tell: &mut impl FnMut(String)) -> Result<bool, Problem> {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let call = &self.talk.call;
            let mut session = self.talk.live.session().await;
            if !session.holds(&self.held_call) {
                self.is_over = true;
                return Ok(false);
            }
            if self.has_left() {
                return Ok(false);
            }
            let now = call.now();
            match call.guard().held_call(now, &self.held_call) {
                HeldPostState::Waiting => {
                    if let Some(progress) = session.progress(now, &self.held_call) {
                        tell(progress);
                    }
                }
                HeldPostState::Settled => {
                    session.release(&self.held_call);
                    self.is_over = true;
                    return Ok(true);
                }
                HeldPostState::Gone => {
                    session.release(&self.held_call);
                    self.is_over = true;
                    let message = "no person can be asked about the call any longer: make it again";
                    return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message));
                }
            }
        }
    }

    /// Returns whether the stream on which the client would get its answer is closed.
    fn has_left(&self) -> bool {
        let call = &self.talk.call;
        let is_closed = |place: &String| call.proxy.sessions.find(&call.conversation, place).is_none();
        self.place.as_ref().is_some_and(is_closed)
    }
}

impl Drop for HeldPost {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let call = &self.talk.call;
        call.guard().withdraw_call(call.now(), &self.held_call);
        if let Some(mut session) = self.talk.live.free_session() {
            return session.release(&self.held_call);
        }
        // A thread that serves other clients may not block. Without a runtime, no task uses the session any longer
        // either.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (live, held_call) = (self.talk.live.clone(), std::mem::take(&mut self.held_call));
        runtime.spawn(async move { live.session().await.release(&held_call) });
    }
}

/// The response to a held call as a stream: progress first, then what the server answers.
pub(in super::super) struct HeldResponse {
    progress: mpsc::Receiver<Bytes>,
    state: HeldState,
}

enum HeldState {
    /// The person or the server has not answered yet.
    Waiting(Pin<Box<dyn Future<Output = Response<OutgoingBody>> + Send>>),
    /// The server answers with a stream.
    Stream(OutgoingBody),
    /// The answer is a single text; these bytes of it have come.
    Text(OutgoingBody, Vec<u8>),
    Over,
}

// The content is never shown.
impl fmt::Debug for HeldResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldResponse").finish_non_exhaustive()
    }
}

impl HeldResponse {
    pub(in super::super) const fn is_over(&self) -> bool {
        matches!(self.state, HeldState::Over)
    }

    pub(in super::super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        loop {
            match &mut self.state {
                HeldState::Waiting(answer) => {
                    let answered = answer.as_mut().poll(context);
                    if let Poll::Ready(Some(notice)) = self.progress.poll_recv(context) {
                        if let Poll::Ready(response) = answered {
                            self.state = HeldState::of(response);
                        }
                        return Poll::Ready(Some(Ok(Frame::data(notice))));
                    }
                    self.state = HeldState::of(ready!(answered));
                }
                HeldState::Stream(body) => {
                    let frame = ready!(Pin::new(body).poll_frame(context));
                    if frame.is_none() {
                        self.state = HeldState::Over;
                    }
                    return Poll::Ready(frame);
                }
                HeldState::Text(body, text) => match ready!(Pin::new(body).poll_frame(context)) {
                    Some(Ok(frame)) => {
                        if let Some(data) = frame.data_ref() {
                            text.extend_from_slice(data);
                        }
                    }
                    Some(Err(error)) => {
                        self.state = HeldState::Over;
                        return Poll::Ready(Some(Err(error)));
                    }
                    None => {
                        let text = String::from_utf8_lossy(text).into_owned();
                        self.state = HeldState::Over;
                        if !text.trim().is_empty() {
                            return Poll::Ready(Some(Ok(Frame::data(event(&text).into()))));
                        }
                    }
                },
                HeldState::Over => return Poll::Ready(None),
            }
        }
    }
}

impl HeldState {
    fn of(response: Response<OutgoingBody>) -> Self {
        let (head, body) = response.into_parts();
        let kind = head
            .headers
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let is_stream = kind
            .get(..EVENT_STREAM.len())
            .is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM.as_bytes()));
        match is_stream {
            true => Self::Stream(body),
            false => Self::Text(body, Vec::new()),
        }
    }
}

/// Returns whether a client accepts a stream as the answer.
fn takes_streams(call: &Call) -> bool {
    let mut accepted = call.headers.get_all(ACCEPT).iter();
    accepted.any(|value| {
        let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        text.contains(EVENT_STREAM)
    })
}

/// Returns a message as an event of a stream.
fn event(text: &str) -> Vec<u8> {
    let mut event = Vec::with_capacity(text.len() + 16);
    mcp_http::event(text, &mut event);
    event
}

//! Messages of a client: reading, judging, and forwarding.

use std::sync::Arc;

use super::{
    answer::{self, Expected},
    call::{Call, SESSION_ID, single},
    hearing::{Cut, Hearing, ticks},
    held, own,
    problem::Problem,
    server::Kind,
    sessions::{Live, Opened},
    stream::Talk,
};
use crate::{
    body::OutgoingBody,
    chunks::{Share, gather},
    headers,
    shares::QuotaPermit,
};
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use mcpmon_protocol::filter::mcp_http::{
    Forward, HttpOutput, PendingRequests, Post, PostDecision, UnlistedTools,
};

/// Forwards a message that a client posts to the server's endpoint.
pub(super) async fn post(call: Call, body: Incoming) -> Result<Response<OutgoingBody>, Problem> {
    let live = session(&call)?;
    send(call, live, None, body).await
}

/// Forwards a message that a client posts to a URL that was named on its stream (transport of 2024-11-05).
pub(super) async fn post_below(
    mut call: Call,
    place: &str,
    body: Incoming,
) -> Result<Response<OutgoingBody>, Problem> {
    let opened = call.proxy.sessions.find(&call.conversation, place);
    let Some(Opened {
        live,
        place: Some(uri),
    }) = opened
    else {
        let name = call.server.id();
        let message = format!(
            "no messages for `{name}` are taken there, or the stream that said so is over: connect again"
        );
        return Err(Problem::new(StatusCode::NOT_FOUND, message));
    };
    if !live.aside.has_room() {
        let message = "answers wait that the client does not read from its stream";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, message));
    }
    call.uri = uri;
    send(call, live, Some(place.to_owned()), body).await
}

/// Returns the session of a request, if its client may use it; a new one for a request without a session.
pub(super) fn session(call: &Call) -> Result<Arc<Live>, Problem> {
    let id = single(&call.headers, &SESSION_ID).map_err(|()| {
        let message = "`Mcp-Session-Id` is there more than once, or cannot be read";
        Problem::new(StatusCode::BAD_REQUEST, message)
    })?;
    match id {
        None => Ok(Live::new(&call.conversation, call.limits, call.owner)),
        // The protocol has the client open a new session after this status.
        Some(id) => match call.proxy.sessions.find(&call.conversation, id) {
            Some(Opened { live, place: None }) => Ok(live),
            Some(_) | None => {
                let message = "no such session is known here for this client: initialize a new one";
                Err(Problem::new(StatusCode::NOT_FOUND, message))
            }
        },
    }
}

async fn send(
    call: Call,
    live: Arc<Live>,
    place: Option<String>,
    body: Incoming,
) -> Result<Response<OutgoingBody>, Problem> {
    if !is_json(&call.headers) {
        let message = "a message is JSON: send it as `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let mut share = Share::default();
    let body = gather_body(&call, body, &mut share).await?;
    // The permit is taken after the body was read, so that slow clients take none from the others.
    let part = call.admit(Kind::Request)?;
    let message = PostedMessage {
        talk: Talk { call, live },
        place,
        body,
        share,
        part,
    };
    match message.judge().await {
        PostDecision::Held(held_call) => held::hold(message, held_call).await,
        posted @ (PostDecision::Forward(_) | PostDecision::Answer(_)) => message.proceed(posted).await,
    }
}

/// A complete message of a client.
pub(super) struct PostedMessage {
    pub(super) talk: Talk,
    /// The URL to which it was sent, if that was named on a stream.
    pub(super) place: Option<String>,
    body: Vec<u8>,
    share: Share,
    part: QuotaPermit,
}

impl PostedMessage {
    /// Has the guard judge the message; requests lists that the guard needs.
    pub(super) async fn judge(&self) -> PostDecision {
        let talk = &self.talk;
        let mut out = HttpOutput::default();
        let mut needs_lists = true;
        let posted = loop {
            match judge(talk, &self.body, needs_lists, &mut out).await {
                Ok(posted) => break posted,
                Err(unlisted) => own::learn(talk, &unlisted).await,
            }
            needs_lists = false;
        };
        talk.settle(&mut out);
        if !out.to_client.is_empty() {
            talk.live.aside.put(&out.to_client);
        }
        posted
    }

    /// Forwards the message, or answers it.
    pub(super) async fn proceed(self, posted: PostDecision) -> Result<Response<OutgoingBody>, Problem> {
        let Self {
            talk,
            body,
            share,
            part,
            ..
        } = self;
        let forward = match posted {
            PostDecision::Forward(forward) => forward,
            PostDecision::Answer(answer) => return Ok(answer::own(&answer)),
            PostDecision::Held(_) => unreachable!("it is held, and not sent"),
        };
        let Forward {
            body: anew,
            headers: changed,
            waiting,
            opens_session,
            opens_stream,
        } = forward;
        let headers = onward(&talk.call.headers, &changed);
        let mut underway = Underway(Some((talk, waiting)));
        let admitted = underway.admit(opens_session, opens_stream, part);
        let sent = match admitted {
            Ok(part) => underway.send(part, headers, anew.unwrap_or(body)).await,
            Err(problem) => Err(problem),
        };
        drop(share);
        let Some((talk, waiting)) = underway.0.take() else {
            unreachable!("it is taken once");
        };
        match sent {
            Ok((response, part)) => {
                let expected = Expected::Answer {
                    waiting,
                    is_kept: opens_stream,
                    opens: opens_session,
                };
                answer::read(talk, response, expected, part).await
            }
            Err(problem) => Ok(answer::missing(talk, waiting, &problem).await),
        }
    }
}

/// Has the guard judge a post.
async fn judge(
    talk: &Talk,
    body: &[u8],
    needs_lists: bool,
    out: &mut HttpOutput,
) -> Result<PostDecision, UnlistedTools> {
    let call = &talk.call;
    let head = call.head();
    let post = Post {
        head: &head,
        body,
        needs_lists,
    };
    let mut session = talk.live.session().await;
    call.guard().post(call.now(), &mut session, &post, out)
}

/// A message that was sent. If this is dropped before the answer, the client has left.
struct Underway(Option<(Talk, PendingRequests)>);

impl Underway {
    fn talk(&self) -> &Talk {
        let Some((talk, _)) = &self.0 else {
            unreachable!("it is not taken yet");
        };
        talk
    }

    /// Takes the permits for the session or the stream that the message opens.
    fn admit(
        &self,
        opens_session: bool,
        opens_stream: bool,
        part: QuotaPermit,
    ) -> Result<QuotaPermit, Problem> {
        let call = &self.talk().call;
        if opens_session {
            call.open()?;
        }
        match opens_stream {
            true => call.admit(Kind::Stream),
            false => Ok(part),
        }
    }

    /// Sends the message, and waits for the head of the response.
    async fn send(
        &self,
        part: QuotaPermit,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<(Response<Incoming>, QuotaPermit), Problem> {
        let call = &self.talk().call;
        let response = tokio::select! {
            biased;
            sent = call.send(Method::POST, &call.uri, headers, body) => sent?,
            () = self.late() => return Err(Problem::of_cut(Cut::Late)),
        };
        Ok((response, part))
    }

    /// Returns once a request in the message has waited too long.
    async fn late(&self) {
        let Some((talk, waiting)) = &self.0 else {
            unreachable!("it is not taken yet");
        };
        let mut ticks = ticks();
        loop {
            ticks.tick().await;
            if waiting.is_late(talk.call.now(), &*talk.live.session().await) {
                return;
            }
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if let Some((talk, waiting)) = self.0.take() {
            drop(Hearing::unheard(
                talk,
                StatusCode::REQUEST_TIMEOUT.as_u16(),
                waiting,
            ));
        }
    }
}

async fn gather_body(call: &Call, body: Incoming, share: &mut Share) -> Result<Vec<u8>, Problem> {
    let caps = call.caps();
    let chunks = call
        .chunks(&call.headers, body, caps.request_silence)
        .map_err(|error| Problem::of_reading(&error.into()))?
        .within(caps.request_body);
    gather(chunks, call.limits.max_line, call.room(), share)
        .await
        .map_err(|error| Problem::of_reading(&error))
}

/// Returns the headers for the server. Changed headers are replaced, with their values in the given order.
fn onward(headers: &HeaderMap, changed: &[(String, String)]) -> HeaderMap {
    let mut headers = headers.clone();
    headers::forget_bytes(&mut headers);
    for (name, _) in changed {
        headers.remove(name.as_str());
    }
    for (name, value) in changed {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    headers
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = single(headers, &CONTENT_TYPE)
        .unwrap_or_default()
        .unwrap_or_default();
    let name = value.split(';').next().unwrap_or_default().trim();
    name.eq_ignore_ascii_case("application/json")
}

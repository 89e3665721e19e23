//! A message of a client: read, judged, sent on.

use std::sync::Arc;

use super::{
    answer::{self, Expected},
    call::{Call, SESSION_ID, single},
    hearing::{Cut, Hearing, ticks},
    own,
    problem::Problem,
    server::Kind,
    sessions::{Live, Opened},
    stream::{Talk, step_aside},
};
use crate::{
    body::Outgoing,
    chunks::{Share, gather},
    headers,
    shares::Part,
};
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use mcpmon_model::{Content, FromClient, Message};
use mcpmon_protocol::filter::mcp_http::{Forward, Output, Posted, Waiting, called};

/// Opens a stream on which a server tells of changes.
const LISTEN: &str = "subscriptions/listen";
/// Opens a session.
const INITIALIZE: &str = "initialize";

/// The properties of a body that more than its judge must know.
#[derive(Debug, Default)]
struct Facts {
    opens: bool,
    listens: bool,
}

impl Facts {
    fn hear(&mut self, message: &Message<'_>) {
        if let Content::Client(FromClient::Request { method, .. }) = &message.content {
            self.opens |= method == INITIALIZE;
            self.listens |= method == LISTEN;
        }
    }
}

/// Sends on what a client posts where its server is spoken to.
pub(super) async fn post(call: Call, body: Incoming) -> Result<Response<Outgoing>, Problem> {
    let live = session(&call)?;
    send(call, live, body).await
}

/// Sends on what a client posts to a place that it was told on a stream.
pub(super) async fn post_below(
    mut call: Call,
    place: &str,
    body: Incoming,
) -> Result<Response<Outgoing>, Problem> {
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
    send(call, live, body).await
}

/// The session that a request is of, if its client may use it; one of its own where it is of none.
pub(super) fn session(call: &Call) -> Result<Arc<Live>, Problem> {
    let id = single(&call.headers, &SESSION_ID).map_err(|()| {
        let message = "`Mcp-Session-Id` is there more than once, or cannot be read";
        Problem::new(StatusCode::BAD_REQUEST, message)
    })?;
    match id {
        None => Ok(Live::new(&call.conversation, call.limits, call.owner)),
        // A client that hears this status opens another one.
        Some(id) => match call.proxy.sessions.find(&call.conversation, id) {
            Some(Opened { live, place: None }) => Ok(live),
            Some(_) | None => {
                let message = "no such session is known here for this client: initialize a new one";
                Err(Problem::new(StatusCode::NOT_FOUND, message))
            }
        },
    }
}

async fn send(call: Call, live: Arc<Live>, body: Incoming) -> Result<Response<Outgoing>, Problem> {
    if !is_json(&call.headers) {
        let message = "a message is JSON: send it as `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let mut share = Share::default();
    let body = gather_body(&call, body, &mut share).await?;
    // Not before the body is there: who is slow with it takes no place of those that are not.
    let part = call.admit(Kind::Request)?;
    let talk = Talk { call, live };
    let call = &talk.call;
    own::learn(&talk, &called(call.limits, &body)).await;
    let mut facts = Facts::default();
    let mut out = Output::default();
    let posted = {
        let mut session = talk.live.session().await;
        step_aside(body.len(), || {
            let mut judge = |message: &Message<'_>| {
                facts.hear(message);
                call.judge().message(call.now(), message)
            };
            session.post(call.now(), &call.head(), &body, &mut judge, &mut out)
        })
    };
    talk.settle(&mut out);
    if !out.to_client.is_empty() {
        talk.live.aside.put(&out.to_client);
    }
    let forward = match posted {
        Posted::Forward(forward) => forward,
        Posted::Answer(answer) => return Ok(answer::own(&answer)),
    };
    let Forward {
        body: anew,
        headers: changed,
        waiting,
    } = forward;
    let headers = onward(&call.headers, &changed);
    let mut underway = Underway(Some((talk, waiting)));
    let sent = underway.send(&facts, part, headers, anew.unwrap_or(body)).await;
    drop(share);
    let Some((talk, waiting)) = underway.0.take() else {
        unreachable!("it is taken once");
    };
    match sent {
        Ok((response, part)) => {
            let expected = Expected::Answer {
                waiting,
                is_kept: facts.listens,
                opens: facts.opens,
            };
            answer::read(talk, response, expected, part).await
        }
        Err(problem) => Ok(answer::missing(talk, waiting, &problem).await),
    }
}

/// A message on its way. Once this is dropped its client has left, and nobody waits for the answer.
struct Underway(Option<(Talk, Waiting)>);

impl Underway {
    /// Sends it, and waits for the head of what comes back.
    async fn send(
        &self,
        facts: &Facts,
        part: Part,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<(Response<Incoming>, Part), Problem> {
        let Some((Talk { call, .. }, _)) = &self.0 else {
            unreachable!("it is not taken yet");
        };
        if facts.opens {
            call.open()?;
        }
        let part = match facts.listens {
            true => call.admit(Kind::Stream)?,
            false => part,
        };
        let response = tokio::select! {
            biased;
            sent = call.send(Method::POST, &call.uri, headers, body) => sent?,
            () = self.late() => return Err(Problem::of_cut(Cut::Late)),
        };
        Ok((response, part))
    }

    /// Comes once somebody has waited too long.
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

/// The headers of a message on its way to the server; of those that changed, each value in its turn.
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

//! A message of a client: read, judged, sent on.

use std::sync::Arc;

use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue},
};
use mcpmon_core::{
    decode::Limits,
    filter::mcp_http::{Forward, Output, Posted, Session, Waiting, called},
    model::{Content, FromClient, Message, RequestId},
};

use super::{
    answer::{self, Expected, is_json},
    call::{Call, SESSION_ID, single},
    own,
    problem::Problem,
    server::Kind,
    sessions::Live,
    stream::Talk,
};
use crate::intercept::http::{
    body::Outgoing,
    chunks::{Share, gather},
    headers,
};

/// Opens a stream on which a server tells of changes.
const LISTEN: &str = "subscriptions/listen";
/// Opens a session.
const INITIALIZE: &str = "initialize";

/// What a body is, as far as more than its judge has to know it.
#[derive(Debug, Default)]
struct Facts {
    /// A request in it; of several the last.
    id: Option<RequestId>,
    opens: bool,
    listens: bool,
}

impl Facts {
    fn hear(&mut self, message: &Message<'_>) {
        let Content::Client(said) = &message.content else {
            return;
        };
        if let Some(id) = message.id
            && !matches!(said, FromClient::Reply { .. })
        {
            self.id = Some(id.clone());
        }
        if let FromClient::Request { method, .. } = said {
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

/// Sends on what a client posts to a place that its server named.
pub(super) async fn post_below(
    call: Call,
    place: &str,
    body: Incoming,
) -> Result<Response<Outgoing>, Problem> {
    let live = call.proxy.sessions.find(&call.conversation, place);
    let live = live.ok_or_else(|| {
        let name = call.server.id();
        let message = format!("`{name}` takes no messages there, or the stream that said so is over: connect again");
        Problem::new(StatusCode::NOT_FOUND, message)
    })?;
    send(call, live, body).await
}

/// The session that a request is of, if its client may use it; one of its own where it is of none.
pub(super) fn session(call: &Call) -> Result<Arc<Live>, Problem> {
    let id = single(&call.headers, &SESSION_ID).map_err(|()| {
        let message = "`Mcp-Session-Id` is there more than once, or cannot be read";
        Problem::new(StatusCode::BAD_REQUEST, message)
    })?;
    match id {
        None => Ok(Live::new(&call.conversation, call.limits())),
        // A client that hears this status opens another one.
        Some(id) => call.proxy.sessions.find(&call.conversation, id).ok_or_else(|| {
            let message = "no such session is known here for this client: initialize a new one";
            Problem::new(StatusCode::NOT_FOUND, message)
        }),
    }
}

async fn send(call: Call, live: Arc<Live>, body: Incoming) -> Result<Response<Outgoing>, Problem> {
    if !is_json(&call.headers) {
        let message = "a message is JSON: send it as `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let permit = call.server.admit(Kind::Request, call.caps())?;
    let mut share = Share::default();
    let body = gather_body(&call, body, &mut share).await?;
    let talk = Talk { call, live };
    let call = &talk.call;
    own::learn(&talk, &called(&body)).await;
    let mut facts = Facts::default();
    let mut out = Output::default();
    let posted = {
        talk.live.session().post(
            call.now(),
            &call.head(),
            &body,
            &mut |message| {
                facts.hear(message);
                call.judge().message(call.now(), message)
            },
            &mut out,
        )
    };
    talk.settle(&mut out);
    let forward = match posted {
        Posted::Forward(forward) => forward,
        Posted::Answer(answer) => return Ok(answer::own(&answer)),
    };
    let problem = |problem: Problem| problem.answering(facts.id.as_ref());
    if facts.opens {
        call.server.open(call.caps()).map_err(Problem::from).map_err(problem)?;
    }
    let permit = match facts.listens {
        true => call.server.admit(Kind::Stream, call.caps()).map_err(Problem::from).map_err(problem)?,
        false => permit,
    };
    let Forward {
        body: anew,
        headers: changed,
        waiting,
    } = forward;
    let headers = onward(&call.headers, &changed);
    let sent = call
        .send(Method::POST, &call.uri, headers, anew.unwrap_or(body))
        .await;
    drop(share);
    let expected = Expected::Answer {
        waiting,
        is_kept: facts.listens,
    };
    match sent {
        Ok(response) => answer::read(talk, response, expected, permit).await,
        Err(error) => Err(error),
    }
    .map_err(problem)
}

async fn gather_body(call: &Call, body: Incoming, share: &mut Share) -> Result<Vec<u8>, Problem> {
    let caps = call.caps();
    let chunks = call
        .chunks(&call.headers, body, caps.request_silence)
        .map_err(|error| Problem::of_reading(&error.into()))?;
    gather(chunks, caps.body, call.room(), share)
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

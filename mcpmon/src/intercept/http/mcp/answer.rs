//! What a server answers: how it is read, and what of its head goes on.

use std::sync::Arc;

use hyper::{
    HeaderMap, Response, StatusCode,
    body::{Body as _, Incoming},
    header::{CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE},
    http::response::Parts,
};
use mcpmon_core::{
    filter::mcp_http::{self, Framing},
    model::RequestId,
    rewrite::oauth,
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    call::{Call, SESSION_ID, single},
    problem::Problem,
    route::Document,
    sessions::Live,
    stream::{Judged, Talk},
};
use crate::intercept::http::{
    body::Outgoing,
    chunks::{Share, gather},
    headers,
};

/// Tells those in between to hold nothing back.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Longest body that is read without being forwarded, bytes.
const LONGEST_UNREAD: usize = 64 << 10;
/// Longest id of a session, bytes.
const LONGEST_ID: usize = 1024;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The answer to a message.
    Answer {
        /// The request that waits for it.
        id: Option<RequestId>,
        /// Answers of our own that come with it.
        ours: Vec<String>,
        /// Whether it is kept open for what the server says later.
        is_kept: bool,
    },
    /// What the server says unasked.
    Unasked,
    /// The same of the older transport, which says first where messages go.
    Places,
    /// Nothing but a status.
    Nothing,
}

/// How a body is written, by its own account.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Events,
    Other(String),
}

/// Reads what a server answered; what of it goes on.
pub(super) async fn read(
    call: Call,
    live: Arc<Live>,
    response: Response<Incoming>,
    expected: Expected,
    permit: OwnedSemaphorePermit,
) -> Result<Response<Outgoing>, Problem> {
    let (mut head, body) = response.into_parts();
    headers::to_agent(&mut head.headers);
    settle(&call, &live, &mut head)?;
    point_home(&call, &mut head.headers);
    if body.is_end_stream() {
        return Ok(Response::from_parts(head, Outgoing::whole(Vec::new())));
    }
    let form = form(&head.headers);
    let is_stream = form == Form::Events && head.status.is_success();
    match (&expected, &form) {
        (Expected::Nothing, _) => unread(&call, head, body, true).await,
        (Expected::Answer { .. } | Expected::Unasked | Expected::Places, Form::Events) if is_stream => {
            stream(call, live, head, body, expected, permit)
        }
        (Expected::Answer { .. }, Form::Json) => whole(call, live, head, body, expected).await,
        (Expected::Unasked | Expected::Places, Form::Json) if head.status.is_success() => {
            Err(call.unfit("a stream was asked for, and it is JSON"))
        }
        (_, Form::Json) => whole(call, live, head, body, expected).await,
        (_, Form::Events | Form::Other(_)) => unread(&call, head, body, false).await,
    }
}

/// Whether these headers are of JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    form(headers) == Form::Json
}

fn form(headers: &HeaderMap) -> Form {
    let Ok(value) = single(headers, &CONTENT_TYPE) else {
        return Form::Other("several at once".to_owned());
    };
    let value = value.unwrap_or_default();
    let name = value.split(';').next().unwrap_or_default().trim();
    if name.eq_ignore_ascii_case(JSON) {
        Form::Json
    } else if name.eq_ignore_ascii_case(EVENTS) {
        Form::Events
    } else {
        Form::Other(name.to_owned())
    }
}

/// A session that begins is known from here on, one that is over no more.
fn settle(call: &Call, live: &Arc<Live>, head: &mut Parts) -> Result<(), Problem> {
    let sent = single(&call.headers, &SESSION_ID).unwrap_or_default();
    let server = &call.server.remote.id;
    let Ok(told) = single(&head.headers, &SESSION_ID) else {
        return Err(call.unfit("it names more than one session"));
    };
    match (sent, told) {
        (None, Some(id)) if head.status.is_success() => {
            if id.is_empty() || id.len() > LONGEST_ID {
                return Err(call.unfit("the id of its session is empty, or too long"));
            }
            call.proxy.sessions.insert(server, Some(id), live);
        }
        // The one that was asked for is the one that answers.
        (sent, told) if sent != told => drop(head.headers.remove(SESSION_ID)),
        (_, _) => {}
    }
    if head.status == StatusCode::NOT_FOUND && sent.is_some() {
        call.proxy.sessions.forget(server, &call.judge, sent);
    }
    Ok(())
}

/// Whoever has to authorise looks for how at the place where it knows the server.
fn point_home(call: &Call, headers: &mut HeaderMap) {
    let own = call.here.document(Document::ProtectedResource.name());
    let challenges: Vec<HeaderValue> = headers.get_all(WWW_AUTHENTICATE).iter().cloned().collect();
    headers.remove(WWW_AUTHENTICATE);
    for challenge in challenges {
        let Ok(text) = challenge.to_str() else { continue };
        let (text, announced) = oauth::challenge(text, &own);
        if let Some(announced) = announced {
            call.server.announce_document(&announced);
        }
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.append(WWW_AUTHENTICATE, value);
        }
    }
}

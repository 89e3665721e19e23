//! Responses of a server: how they are read, and which headers are forwarded.

use hyper::{
    HeaderMap, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE},
    http::response::Parts,
};
use mcpmon_protocol::filter::mcp_http::{
    self, HttpOutput, PendingRequests, ProxyResponse, ReadState, WholeResponseHead,
};

use super::{
    call::{Call, SESSION_ID, single},
    hearing::{Cut, Hearing, ticks},
    old::AnnouncedUrl,
    problem::Problem,
    stream::{Judged, Talk},
};
use crate::{
    body::OutgoingBody,
    chunks::{Chunks, Share},
    headers,
    shares::QuotaPermit,
};

/// Tells intermediaries not to buffer the stream.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Longest id of a session, bytes.
const MAX_ID: usize = 1024;

/// The kind of response that is expected.
#[derive(Debug)]
pub(super) enum Expected {
    /// The answer to a message.
    Answer {
        waiting: PendingRequests,
        /// True if the stream is kept open for later messages of the server.
        is_kept: bool,
        /// True if the request was counted as opening a session.
        opens: bool,
    },
    /// The stream of the server's unasked messages.
    Unasked,
    /// The stream of the transport of 2024-11-05, whose first event names the URL for messages.
    Places(Box<AnnouncedUrl>),
    /// The answer to the end of a session.
    Farewell,
}

/// Reads a server's response, and returns what is forwarded of it.
pub(super) async fn read(
    talk: Talk,
    response: Response<Incoming>,
    expected: Expected,
    part: QuotaPermit,
) -> Result<Response<OutgoingBody>, Problem> {
    let limits = talk.call.limits;
    let (mut head, body) = response.into_parts();
    let chunks = match accept(&talk, &mut head, body, &expected) {
        Ok(chunks) => chunks,
        Err(problem) => {
            return match expected {
                Expected::Answer { waiting, .. } => Ok(missing(talk, waiting, &problem).await),
                Expected::Unasked | Expected::Places(_) | Expected::Farewell => Err(problem),
            };
        }
    };
    if matches!(expected, Expected::Farewell) && head.status.is_success() {
        // The client does not need what a server answers to the end of a session.
        headers::forget_bytes(&mut head.headers);
        head.headers.remove(CONTENT_TYPE);
        return Ok(Response::from_parts(head, OutgoingBody::whole(Vec::new())));
    }
    let status = head.status.as_u16();
    let content_type = single(&head.headers, &CONTENT_TYPE).unwrap_or_default();
    let (reading, is_kept, place) = match expected {
        Expected::Answer { waiting, is_kept, .. } => {
            let reading = mcp_http::HttpResponse::to_post(limits, status, content_type, waiting);
            (reading, is_kept, None)
        }
        Expected::Places(place) => {
            let told = place.endpoint();
            let reading = mcp_http::HttpResponse::legacy(limits, status, content_type, told);
            (reading, true, Some(*place))
        }
        Expected::Unasked | Expected::Farewell => {
            let reading = mcp_http::HttpResponse::to_get(limits, status, content_type);
            (reading, true, None)
        }
    };
    headers::forget_bytes(&mut head.headers);
    if !reading.is_stream() {
        let chunks = chunks.within(talk.call.caps().silence);
        return Ok(whole(Hearing::new(talk, reading), head, chunks).await);
    }
    head.headers.insert(BUFFERING, HeaderValue::from_static("no"));
    let judged = Judged::new(talk, chunks, reading, is_kept, place, part);
    Ok(Response::from_parts(head, OutgoingBody::Mcp(Box::new(judged))))
}

/// Checks and adapts the head of a response. Returns the body, which the caller reads.
fn accept(talk: &Talk, head: &mut Parts, body: Incoming, expected: &Expected) -> Result<Chunks, Problem> {
    let call = &talk.call;
    headers::to_agent(&mut head.headers);
    settle(
        talk,
        head,
        matches!(expected, Expected::Answer { opens: true, .. }),
    )?;
    point_home(call, &mut head.headers);
    if single(&head.headers, &CONTENT_TYPE).is_err() {
        return Err(call.unfit("it names more than one content type"));
    }
    let silence = match expected {
        Expected::Answer { is_kept: true, .. } | Expected::Unasked | Expected::Places(_) => {
            call.caps().stream_silence
        }
        Expected::Answer { is_kept: false, .. } | Expected::Farewell => call.caps().silence,
    };
    call.chunks(&head.headers, body, silence)
        .map_err(|error| call.unfit(error))
}

/// Answers with a response that is judged as a whole before any of it is forwarded.
async fn whole(mut hearing: Hearing, head: Parts, mut chunks: Chunks) -> Response<OutgoingBody> {
    let mut out = HttpOutput::default();
    let mut share = Share::default();
    let mut ticks = ticks();
    let failure = loop {
        let came = tokio::select! {
            biased;
            _ = ticks.tick() => None,
            came = chunks.next() => Some(came),
        };
        let Hearing { talk, response, .. } = &mut hearing;
        let flow = match came {
            None => {
                let mut session = talk.live.session().await;
                if let Some(denial) = talk.call.guard().halted(talk.call.now()) {
                    let ended = hearing.cut(&mut session, &Cut::Halted(denial.into()), &mut out);
                    return finished(head, ended, out);
                }
                talk.tick(&mut session, response, None, &mut out)
            }
            Some(Some(Ok(chunk))) => match response.gather(&chunk, &mut out) {
                Some(flow) => {
                    talk.settle(&mut out);
                    flow
                }
                None => talk.push(&mut *talk.live.session().await, response, &chunk, &mut out),
            },
            Some(Some(Err(error))) => break Some(error),
            Some(None) => break None,
        };
        if flow == ReadState::Finished {
            break None;
        }
        if let Err(error) = talk.call.room().cover(&mut share, response.held()) {
            break Some(error);
        }
    };
    let mut session = hearing.talk.live.session().await;
    let ended = match failure {
        Some(error) => {
            let problem = hearing.talk.call.unfit(error);
            hearing.fail(&mut session, problem.message().to_owned(), &mut out)
        }
        None => hearing.end(&mut session, &mut out),
    };
    finished(head, ended, out)
}

fn finished(mut head: Parts, ended: WholeResponseHead, out: HttpOutput) -> Response<OutgoingBody> {
    head.status = StatusCode::from_u16(ended.status).unwrap_or(StatusCode::BAD_GATEWAY);
    if ended.is_ours {
        match out.to_client.is_empty() {
            true => drop(head.headers.remove(CONTENT_TYPE)),
            false => drop(head.headers.insert(CONTENT_TYPE, JSON)),
        }
    }
    Response::from_parts(head, OutgoingBody::whole(out.to_client))
}

/// Answers the waiting requests with `problem`, because the server gave no response.
pub(super) async fn missing(
    talk: Talk,
    waiting: PendingRequests,
    problem: &Problem,
) -> Response<OutgoingBody> {
    let mut hearing = Hearing::unheard(talk, problem.status().as_u16(), waiting);
    let mut session = hearing.talk.live.session().await;
    let mut out = HttpOutput::default();
    match problem.cut() {
        Some(cut) => hearing.cut(&mut session, cut, &mut out),
        None => hearing.fail(&mut session, problem.message().to_owned(), &mut out),
    };
    match out.to_client.is_empty() {
        true => problem.answer(),
        false => problem.answer_with(out.to_client),
    }
}

/// Converts an answer that mcpmon wrote.
pub(super) fn own(answer: &ProxyResponse) -> Response<OutgoingBody> {
    let mut response = Response::new(OutgoingBody::whole(answer.body.clone()));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_REQUEST);
    if !answer.body.is_empty() {
        response.headers_mut().insert(CONTENT_TYPE, JSON);
    }
    response
}

/// Remembers a session that the response opens, and forgets one that has ended. A session that the server opens unasked
/// counts against the limits too, unless it is already `counted`.
fn settle(talk: &Talk, head: &mut Parts, counted: bool) -> Result<(), Problem> {
    let call = &talk.call;
    let sessions = &call.proxy.sessions;
    let sent = single(&call.headers, &SESSION_ID).unwrap_or_default();
    let Ok(told) = single(&head.headers, &SESSION_ID) else {
        return Err(call.unfit("it names more than one session"));
    };
    match (sent, told) {
        (None, Some(id)) if head.status.is_success() => {
            if id.is_empty() || id.len() > MAX_ID {
                return Err(call.unfit("the id of its session is empty, or too long"));
            }
            if !counted {
                call.open()?;
            }
            let inserted = sessions.insert(id, &talk.live, None);
            inserted.map_err(|too_many| call.crowded(&too_many))?;
        }
        // A response can only be in the session of its request.
        (sent, told) if sent != told => drop(head.headers.remove(SESSION_ID)),
        (_, _) => {}
    }
    if let (StatusCode::NOT_FOUND, Some(id)) = (head.status, sent) {
        sessions.forget(&call.conversation, id);
    }
    Ok(())
}

/// Rewrites the challenge so that a client that has to authorise looks for the metadata at this proxy.
fn point_home(call: &Call, headers: &mut HeaderMap) {
    let challenges: Vec<HeaderValue> = headers.get_all(WWW_AUTHENTICATE).iter().cloned().collect();
    headers.remove(WWW_AUTHENTICATE);
    for challenge in challenges {
        let text = String::from_utf8_lossy(challenge.as_bytes());
        let rewritten = call.with_resource(|resource| resource.challenge(&text));
        let value = rewritten.and_then(|rewritten| {
            if let Some(metadata) = rewritten.metadata {
                call.server.announce_document(&metadata);
            }
            HeaderValue::try_from(rewritten.value).ok()
        });
        headers.append(WWW_AUTHENTICATE, value.unwrap_or(challenge));
    }
}

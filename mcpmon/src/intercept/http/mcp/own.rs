//! What the proxy itself says to a server, in the name of a client: questions for lists, and answers that a client does
//! not give.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap, Method, Response,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
};
use mcpmon_core::{
    filter::mcp_http::{Listed, Output, Question},
    model::{ListKind, RequestId},
};
use tokio::sync::Mutex;

use super::{
    answer,
    call::{Call, SESSION_ID, single},
    problem::Problem,
    server::Kind,
    stream::Talk,
};
use crate::intercept::http::chunks::{Share, gather};

/// What is accepted as an answer.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Longest answer to an answer, bytes: nothing is in it.
const LONGEST_NOTHING: usize = 64 << 10;
/// Sessions of a conversation of which is known when the proxy asked for their tools.
const MOST_SESSIONS: usize = 256;
/// How often is looked whether the answer came on another stream.
const LOOK: Duration = Duration::from_millis(20);

/// When the proxy asked for tools itself, by session; one at a time asks.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<BTreeMap<Option<Box<str>>, Instant>>);

/// Asks for the server's tools where one of those that are called was never on a list: a client may have kept one from
/// before.
pub(super) async fn learn(talk: &Talk, tools: &[String]) {
    let call = &talk.call;
    let is_missing = || tools.iter().any(|tool| !call.judge().knows(tool));
    if !is_missing() {
        return;
    }
    let caps = *call.caps();
    let session = single(&call.headers, &SESSION_ID).unwrap_or_default();
    let mut asked = call.conversation.lists.0.lock().await;
    asked.retain(|_, when| when.elapsed() < caps.own_pause);
    // While this one waited for its turn, another may have asked.
    if !is_missing() || asked.contains_key(&session.map(Into::into)) || asked.len() >= MOST_SESSIONS {
        return;
    }
    let server = call.server.id();
    match tokio::time::timeout(caps.own_time, pages(talk)).await {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => {
            let problem = problem.message();
            tracing::warn!(server, problem, "the tools of an MCP server cannot be asked for");
        }
        Err(_elapsed) => {
            let seconds = caps.own_time.as_secs();
            tracing::warn!(server, seconds, "the tools of an MCP server did not come in time");
        }
    }
    asked.insert(session.map(Into::into), Instant::now());
}

/// One page of tools after the other.
async fn pages(talk: &Talk) -> Result<(), Problem> {
    let call = &talk.call;
    let mut cursor: Option<String> = None;
    for _ in 0..call.caps().own_pages {
        let question = {
            talk.live
                .session()
                .ask(call.now(), ListKind::Tools, cursor.as_deref(), &call.head())
        };
        let Some(question) = question else { return Ok(()) };
        let mut asked = Asked {
            talk,
            id: question.id.clone(),
            is_over: false,
        };
        match asked.page(question).await? {
            Listed::Page(Some(next)) => cursor = Some(next),
            Listed::Page(None) | Listed::Failed | Listed::Waiting => return Ok(()),
        }
    }
    let (server, pages) = (call.server.id(), call.caps().own_pages);
    tracing::warn!(server, pages, "an MCP server has more pages of tools than mcpmon asks for");
    Ok(())
}

/// A question of ours. Nobody waits for it any more once this is dropped.
struct Asked<'t> {
    talk: &'t Talk,
    id: RequestId,
    is_over: bool,
}

impl Asked<'_> {
    async fn page(&mut self, question: Question) -> Result<Listed, Problem> {
        let call = &self.talk.call;
        let mut headers = own_headers(call);
        for (name, value) in question.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        let response = call
            .send(Method::POST, &call.uri, headers, question.body)
            .await?;
        self.read(response).await
    }
}

fn own_headers(call: &Call) -> HeaderMap {
    let mut headers = call.own_headers();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, BOTH);
    headers
}

/// Says something to a server that its client has no part in. What comes back is not read.
pub(super) fn say(call: &Call, message: String) {
    let server = call.server.id();
    let Ok(permit) = call.server.admit(Kind::Request, call.caps()) else {
        tracing::warn!(server, "an MCP server asks for more than mcpmon turns down at a time");
        return;
    };
    let call = call.clone();
    tokio::spawn(async move {
        let headers = own_headers(&call);
        match call.send(Method::POST, &call.uri, headers, message).await {
            Ok(response) => drain(&call, response).await,
            Err(problem) => {
                let (server, problem) = (call.server.id(), problem.message());
                tracing::debug!(server, problem, "an MCP server does not hear what mcpmon turned down");
            }
        }
        drop(permit);
    });
}

/// Reads what has nothing in it, so that the connection can be used again.
pub(super) async fn drain(call: &Call, response: Response<Incoming>) {
    let (head, body) = response.into_parts();
    let Ok(chunks) = call.chunks(&head.headers, body, call.caps().request_silence) else {
        return;
    };
    if let Err(error) = gather(chunks, LONGEST_NOTHING, call.room(), &mut Share::default()).await {
        tracing::debug!(%error, "an answer with nothing in it is left unread");
    }
}

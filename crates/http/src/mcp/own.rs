//! Requests of the proxy itself to a server, in the name of a client: requests for lists, and answers in the client's
//! place.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
};
use mcpmon_model::ListKind;
use mcpmon_protocol::filter::mcp_http::{self, HttpOutput, ListOutcome, Question, ReadState, UnlistedTools};
use tokio::{
    sync::watch,
    time::{error::Elapsed, timeout_at},
};

use super::{
    call::{Call, SESSION_ID, single},
    hearing::Hearing,
    problem::Problem,
    server::Kind,
    stream::Talk,
};
use crate::chunks::{Share, gather};

/// The accepted types of an answer.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Most bytes that are read of the response to an answer; it should be empty.
const MAX_ACKNOWLEDGEMENT: usize = 64 << 10;
/// Most sessions of a conversation for which the proxy requests tools, or did so a moment ago.
const MAX_SESSIONS: usize = 256;
/// The interval of checks whether the answer came on another stream.
const LOOK: Duration = Duration::from_millis(20);

/// The key of a session, if a request has one.
type Key = Option<Box<str>>;

/// The proxy's own requests for tools, current and recent, by session.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<BTreeMap<Key, Turn>>);

#[derive(Debug)]
enum Turn {
    /// A task is requesting the list. Nothing is ever sent on the channel: it closes when the request is over.
    UnderWay(watch::Receiver<()>),
    /// The request was over at this time.
    Over(Instant),
}

/// The next step of a task that needs a list.
enum Due<'l> {
    /// Nothing: the list was requested a moment ago, or too many sessions request theirs.
    Nothing,
    /// Wait for the task that is requesting it.
    Wait(watch::Receiver<()>),
    /// Request it.
    Ask(Asking<'l>),
}

/// The right to request the list of a session. Tasks that wait for it continue when this is dropped.
struct Asking<'l> {
    lists: &'l Lists,
    key: Key,
    /// True once the request is over. If the task is dropped before, one of the waiting tasks requests the list.
    is_over: bool,
    _told: watch::Sender<()>,
}

impl Lists {
    fn turn(&self, key: &Key, pause: Duration) -> Due<'_> {
        let mut turns = self.lock();
        turns.retain(|_, turn| match turn {
            Turn::UnderWay(_) => true,
            Turn::Over(when) => when.elapsed() < pause,
        });
        match turns.get(key) {
            Some(Turn::UnderWay(told)) => Due::Wait(told.clone()),
            Some(Turn::Over(_)) => Due::Nothing,
            None if turns.len() >= MAX_SESSIONS => Due::Nothing,
            None => {
                let (told, over) = watch::channel(());
                turns.insert(key.clone(), Turn::UnderWay(over));
                Due::Ask(Asking {
                    lists: self,
                    key: key.clone(),
                    is_over: false,
                    _told: told,
                })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Turn>> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut turns = self.lists.lock();
        match self.is_over {
            true => turns.insert(self.key.take(), Turn::Over(Instant::now())),
            false => turns.remove(&self.key),
        };
    }
}

/// Requests the server's tools because a called tool is on no list: the client may know it from an earlier connection.
pub(super) async fn learn(talk: &Talk, UnlistedTools(tools): &UnlistedTools) {
    let call = &talk.call;
    let is_missing = || tools.iter().any(|tool| !call.guard().is_listed(tool));
    tokio::select! {
        biased;
        () = ask(talk, is_missing) => {}
        // A stopped request is refused later, and needs no list.
        _denial = call.halted() => {}
    }
}

/// Requests the list, unless that was done a moment ago. If another task is requesting it for the same session, its
/// result is awaited; sessions never wait for the requests of other sessions.
async fn ask(talk: &Talk, is_missing: impl Fn() -> bool) {
    let call = &talk.call;
    let caps = *call.caps();
    let key: Key = single(&call.headers, &SESSION_ID)
        .unwrap_or_default()
        .map(Into::into);
    let deadline = tokio::time::Instant::now() + caps.own_time;
    while is_missing() {
        match call.conversation.lists.turn(&key, caps.own_pause) {
            Due::Nothing => return,
            Due::Wait(mut told) => {
                if timeout_at(deadline, told.changed()).await.is_err() {
                    return;
                }
            }
            Due::Ask(mut asking) => {
                let asked = timeout_at(deadline, pages(talk)).await;
                asking.is_over = true;
                return report(call, asked);
            }
        }
    }
}

fn report(call: &Call, asked: Result<Result<(), Problem>, Elapsed>) {
    let server = call.server.id();
    match asked {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => {
            let problem = problem.message();
            tracing::warn!(server, problem, "the tools of an MCP server cannot be asked for");
        }
        Err(_elapsed) => {
            let seconds = call.caps().own_time.as_secs();
            tracing::warn!(server, seconds, "the tools of an MCP server did not come in time");
        }
    }
}

/// Requests the pages of tools one after the other.
async fn pages(talk: &Talk) -> Result<(), Problem> {
    let call = &talk.call;
    let mut cursor: Option<String> = None;
    for _ in 0..call.caps().own_pages {
        let question = {
            let mut session = talk.live.session().await;
            session.ask(call.now(), ListKind::Tools, cursor.as_deref(), &call.head())
        };
        let Some(question) = question else { return Ok(()) };
        let asked = Asked { talk, question };
        match asked.page().await? {
            ListOutcome::Page(Some(next)) => cursor = Some(next),
            ListOutcome::Page(None) | ListOutcome::Failed | ListOutcome::Waiting => return Ok(()),
        }
    }
    let (server, pages) = (call.server.id(), call.caps().own_pages);
    tracing::warn!(
        server,
        pages,
        "an MCP server has more pages of tools than mcpmon asks for"
    );
    Ok(())
}

/// A request of the proxy. When this is dropped, its answer is no longer awaited.
struct Asked<'t> {
    talk: &'t Talk,
    question: Question,
}

impl Asked<'_> {
    /// Requests a page. The page comes in the response, or on a stream that the client keeps open.
    async fn page(&self) -> Result<ListOutcome, Problem> {
        let call = &self.talk.call;
        let mut headers = own_headers(call);
        for (name, value) in &self.question.headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        let body = self.question.body.clone();
        let response = call.send(Method::POST, &call.uri, headers, body).await?;
        let mut listed = self.read(response).await?;
        while listed == ListOutcome::Waiting {
            tokio::time::sleep(LOOK).await;
            listed = self.listed().await;
        }
        Ok(listed)
    }

    async fn read(&self, response: Response<Incoming>) -> Result<ListOutcome, Problem> {
        let (talk, call) = (self.talk, &self.talk.call);
        let (head, body) = response.into_parts();
        let content_type = single(&head.headers, &CONTENT_TYPE).unwrap_or_default();
        let mut reading = mcp_http::HttpResponse::to_post(
            call.limits,
            head.status.as_u16(),
            content_type,
            self.question.waiting(),
        );
        let mut chunks = call
            .chunks(&head.headers, body, call.caps().silence)
            .map_err(|error| call.unfit(error))?;
        let mut share = Share::default();
        let mut out = HttpOutput::default();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| call.unfit(error))?;
            let flow = {
                let mut session = talk.live.session().await;
                talk.push(&mut session, &mut reading, &chunk, &mut out)
            };
            // Other messages in this response were not for the client.
            out.to_client.clear();
            let listed = self.listed().await;
            if listed != ListOutcome::Waiting {
                return Ok(listed);
            }
            let room = call.room().cover(&mut share, reading.held());
            room.map_err(|error| call.unfit(error))?;
            if flow == ReadState::Finished {
                break;
            }
        }
        talk.end(&mut *talk.live.session().await, &mut reading, &mut out);
        Ok(self.listed().await)
    }

    async fn listed(&self) -> ListOutcome {
        self.talk.live.session().await.listed(&self.question.id)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let (talk, waiting) = (self.talk.clone(), self.question.waiting());
        drop(Hearing::unheard(
            talk,
            StatusCode::GATEWAY_TIMEOUT.as_u16(),
            waiting,
        ));
    }
}

fn own_headers(call: &Call) -> HeaderMap {
    let mut headers = call.own_headers();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, BOTH);
    headers
}

/// Sends a message to a server without the client taking part. The response is not read.
pub(super) fn say(call: &Call, message: String) {
    let server = call.server.id();
    let Ok(part) = call.admit(Kind::Request) else {
        tracing::warn!(
            server,
            "an MCP server asks for more than mcpmon turns down at a time"
        );
        return;
    };
    let call = call.clone();
    tokio::spawn(async move {
        let headers = own_headers(&call);
        match call.send(Method::POST, &call.uri, headers, message).await {
            Ok(response) => drain(&call, response).await,
            Err(problem) => {
                let (server, problem) = (call.server.id(), problem.message());
                tracing::debug!(
                    server,
                    problem,
                    "an MCP server does not hear what mcpmon turned down"
                );
            }
        }
        drop(part);
    });
}

/// Reads a response without content to its end, so that the connection can be used again.
pub(super) async fn drain(call: &Call, response: Response<Incoming>) {
    let (head, body) = response.into_parts();
    let Ok(chunks) = call.chunks(&head.headers, body, call.caps().request_silence) else {
        return;
    };
    let chunks = chunks.within(call.caps().request_body);
    if let Err(error) = gather(chunks, MAX_ACKNOWLEDGEMENT, call.room(), &mut Share::default()).await {
        tracing::debug!(%error, "an answer with nothing in it is left unread");
    }
}

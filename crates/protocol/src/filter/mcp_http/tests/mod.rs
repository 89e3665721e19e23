//! The filter through its front door: what is posted, what is answered.

mod batches;
mod heads;
mod legacy;
mod lists;
mod posts;
mod properties;
mod repeated;
mod responses;
mod streams;

use mcpmon_model::{Content, Denial, FromClient, FromServer, Message, Verdict};

use super::*;

const LIMITS: DecodeLimits = DecodeLimits {
    max_line: 4096,
    max_depth: 32,
    max_batch: 4,
    max_pending: 3,
    request_timeout: std::time::Duration::ZERO,
};

const NOW: Timestamp = Timestamp(7);
const STATELESS: &str = "2026-07-28";
const EVENTS: Option<&str> = Some("text/event-stream");
const JSON: Option<&str> = Some("application/json");

/// A session that is judged by a function.
struct Scene<J> {
    session: HttpSession,
    judge: J,
}

/// The outcome of a response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    to_client: String,
    to_server: Vec<String>,
    incidents: Vec<Incident>,
    /// Its status, and whether its body is ours.
    ended: Option<(u16, bool)>,
}

impl<J: FnMut(&Message<'_>) -> Verdict> Scene<J> {
    fn new(judge: J) -> Self {
        Self {
            session: HttpSession::new(LIMITS, ServerKnowledge::default()),
            judge,
        }
    }

    fn post(&mut self, head: &[(&str, &str)], body: impl AsRef<[u8]>) -> (PostDecision, Vec<Incident>) {
        let mut out = HttpOutput::default();
        let head = Head::of(head.iter().map(|(name, value)| (*name, value.as_bytes())));
        let posted = self
            .session
            .post(NOW, &head, body.as_ref(), &mut self.judge, &mut out);
        assert!(out.to_client.is_empty() && out.to_server.is_empty());
        (posted, out.incidents)
    }

    /// Posts a body that is forwarded.
    fn asks(&mut self, body: impl AsRef<[u8]>) -> PendingRequests {
        match self.post(&[], body).0 {
            PostDecision::Forward(forward) => forward.waiting,
            PostDecision::Answer(answer) => panic!("it is answered: {}", text(&answer.body)),
            PostDecision::Held(held_call) => panic!("it is held: {held_call}"),
        }
    }

    /// The response that comes in these chunks.
    fn comes<'c>(
        &mut self,
        mut response: HttpResponse,
        chunks: impl IntoIterator<Item = &'c (impl AsRef<[u8]> + ?Sized + 'c)>,
    ) -> Came {
        let mut out = HttpOutput::default();
        for chunk in chunks {
            let flow = response.push(NOW, &mut self.session, chunk.as_ref(), &mut self.judge, &mut out);
            assert!(response.held() <= LIMITS.max_line);
            if flow == ReadState::Finished {
                break;
            }
        }
        let ended = response.end(NOW, &mut self.session, &mut self.judge, &mut out);
        Came {
            to_client: text(&out.to_client),
            to_server: out.to_server,
            incidents: out.incidents,
            ended: Some((ended.status, ended.is_ours)),
        }
    }

    /// Answers a post with this response.
    fn answered(
        &mut self,
        waiting: PendingRequests,
        status: u16,
        content_type: Option<&str>,
        body: &str,
    ) -> Came {
        self.comes(
            HttpResponse::to_post(LIMITS, status, content_type, waiting),
            [body],
        )
    }

    /// One request, and the answer to it.
    fn exchange(&mut self, asked: &str, content_type: Option<&str>, body: &str) -> Came {
        let waiting = self.asks(asked);
        self.answered(waiting, 200, content_type, body)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn allowed() -> Scene<impl FnMut(&Message<'_>) -> Verdict> {
    Scene::new(|_| Verdict::Allow)
}

/// Blocks what has `evil` in it.
fn guarded() -> Scene<impl FnMut(&Message<'_>) -> Verdict> {
    Scene::new(guard)
}

fn guard(message: &Message<'_>) -> Verdict {
    let is_evil = match &message.content {
        Content::Client(FromClient::Call(call)) => call.tool.contains("evil"),
        Content::Client(said) => format!("{said:?}").contains("evil"),
        Content::Server(FromServer::Listing(listing)) => {
            let evil = listing.items.iter().enumerate();
            let evil = evil.filter(|(_, item)| item.name.contains("evil"));
            return Verdict::Hide(evil.map(|(place, _)| place).collect());
        }
        Content::Server(said) => format!("{said:?}").contains("evil"),
    };
    if is_evil {
        return Verdict::Block(denial());
    }
    Verdict::Allow
}

fn denial() -> Denial {
    Denial {
        rule: "no-evil".to_owned(),
        reason: "it is not allowed".to_owned(),
        remedy: None,
        event: None,
    }
}

/// Describes the decision about a post, in a line.
fn told(posted: &PostDecision) -> String {
    match posted {
        PostDecision::Forward(forward) => {
            let body = forward
                .body
                .as_deref()
                .map_or_else(|| "as it came".to_owned(), text);
            let headers = forward.headers.iter();
            let headers: Vec<String> = headers.map(|(name, value)| format!(" {name}: {value}")).collect();
            format!("on: {body}{}", headers.join(","))
        }
        PostDecision::Answer(ProxyResponse { status, body }) => format!("{status} {}", text(body)),
        PostDecision::Held(held_call) => format!("held: {held_call}"),
    }
}

fn call(id: &str, tool: &str) -> String {
    request(
        id,
        "tools/call",
        &format!(r#"{{"name":"{tool}","arguments":{{"a":1}}}}"#),
    )
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn notification(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// `_meta` of the stateless era.
fn meta(version: &str) -> String {
    format!(r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}"}}"#)
}

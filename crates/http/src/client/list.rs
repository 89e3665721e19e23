//! Lists what a server offers. The revision without a handshake is tried first, then those with one, then the transport
//! of 2024-11-05.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    time::{Duration, Instant},
};

use hyper::{HeaderMap, header::HeaderValue};
use mcpmon_model::{ListKind, RequestId};
use mcpmon_protocol::decode::json::{Value, ValueKind};
use serde_json::json;
use tokio::time::timeout;

use super::{
    Address, AnswerFault, ClientError, ServerTransport,
    events::{EventContent, Stream},
    legacy::Mailbox,
    offer::{LISTS, ListMethod, RequestAndAnswer, ServerOffer, reread},
    outline::{ClientMessage, META_VERSION, heard},
    params::ToolHeaders,
    wire::{Body, SESSION, ServerEndpoint, VERSION, Wire},
};

/// The revision without a handshake.
const STATELESS: &str = "2026-07-28";
/// The latest revision with a handshake. A server that knows only an earlier one answers with that.
pub(super) const HANDSHAKE: &str = "2025-11-25";
/// The protocol versions that a handshake can agree on.
const KNOWN: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Time limit for all requests together.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for one answer.
const ANSWER: Duration = Duration::from_secs(20);
/// Time limit for ending a session.
const END: Duration = Duration::from_secs(3);
/// Most pages of one list.
pub(super) const MAX_PAGES: usize = 200;
/// The largest number of items on one list.
pub(super) const MAX_ITEMS: usize = 10_000;
/// Most bytes of all answers of a server that is listed: the answers of several servers at a time are kept in memory
/// until all are judged.
pub(super) const MAX_BYTES: usize = 4 << 20;
/// Most messages that may come before an answer.
pub(super) const MAX_EARLIER_MESSAGES: usize = 1000;

/// Lists what a server offers.
///
/// # Errors
/// Returns an error if there is no connection, or an answer is not MCP.
pub async fn list(asking: ServerEndpoint, way: ServerTransport) -> Result<ServerOffer, ClientError> {
    let url = asking.address.shown();
    let asked = async {
        let mut client = ListClient::over(Wire::new(asking)?.bounded(MAX_BYTES), MAX_BYTES);
        let offer = client.offer(way).await;
        client.close().await;
        offer
    };
    let offer = match timeout(TIMEOUT, asked).await {
        Ok(offer) => offer,
        Err(_elapsed) => Err(AnswerFault::Late(TIMEOUT.as_secs())),
    };
    offer.map_err(|fault| ClientError { url, fault })
}

/// Fetches the list of tools in the revision `version`, without a handshake, and returns which of their arguments are
/// repeated in headers. The list may be as long as a message of the server.
pub(crate) async fn learn(wire: &Wire, version: &str) -> Result<ToolHeaders, AnswerFault> {
    let mut client = ListClient::over(wire.clone(), wire.max_message());
    version.clone_into(&mut client.version);
    client.pages(&LISTS[0]).await?;
    let mut tools = ToolHeaders::default();
    for turn in &client.turns {
        tools.learn(&turn.answer);
    }
    Ok(tools)
}

/// A client that only asks for lists.
struct ListClient {
    wire: Wire,
    line: SettledTransport,
    /// The revision without a handshake.
    version: String,
    next: u64,
    /// Limit for the bytes of all answers, and the bytes so far.
    most: usize,
    read: usize,
    turns: Vec<RequestAndAnswer>,
}

/// The transport that server and client agreed on.
enum SettledTransport {
    /// Each request is independent: there is no session.
    Stateless,
    /// A session after a handshake.
    Session {
        version: Option<HeaderValue>,
        session: Option<HeaderValue>,
    },
    /// The transport of 2024-11-05.
    Mailbox(Box<Mailbox>),
}

impl ListClient {
    fn over(wire: Wire, most: usize) -> Self {
        Self {
            wire,
            line: SettledTransport::Stateless,
            version: STATELESS.to_owned(),
            next: 1,
            most,
            read: 0,
            turns: Vec::new(),
        }
    }

    async fn offer(&mut self, way: ServerTransport) -> Result<ServerOffer, AnswerFault> {
        let ServerIntroduction {
            mut offer, announced, ..
        } = self.meet(way).await?;
        for (list, is_there) in LISTS.iter().zip(announced.unwrap_or_default()) {
            if is_there {
                self.pages(list).await?;
            }
        }
        offer.turns = std::mem::take(&mut self.turns);
        Ok(offer)
    }

    /// Negotiates a revision, and returns the server's introduction.
    async fn meet(&mut self, way: ServerTransport) -> Result<ServerIntroduction, AnswerFault> {
        if way == ServerTransport::Http {
            match self.ask("server/discover", json!({}), None, introduction).await {
                Ok(mut met) if met.announced.is_some() => {
                    STATELESS.clone_into(&mut met.offer.version);
                    return Ok(met);
                }
                Ok(_)
                | Err(AnswerFault::Refused { .. } | AnswerFault::Status { .. } | AnswerFault::Message(_)) => {
                }
                // A server that does not know the method may answer anything, or nothing.
                Err(AnswerFault::Type(_) | AnswerFault::Ended | AnswerFault::Late(_)) => {}
                Err(fault) => return Err(fault),
            }
            self.turns.clear();
        }
        let met = self.shake_hands(way).await?;
        let version = &met.offer.version;
        if !KNOWN.contains(&version.as_str()) {
            let told = version.chars().take(40).collect::<String>();
            return Err(AnswerFault::Message(format!(
                "it speaks revision `{}`, which mcpmon does not know",
                told.escape_debug()
            )));
        }
        if let SettledTransport::Session { version: agreed, .. } = &mut self.line {
            *agreed = HeaderValue::from_str(version).ok();
        }
        self.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        Ok(met)
    }

    async fn shake_hands(&mut self, way: ServerTransport) -> Result<ServerIntroduction, AnswerFault> {
        let params = json!({
            "protocolVersion": HANDSHAKE,
            "capabilities": {},
            "clientInfo": {"name": "mcpmon", "version": env!("CARGO_PKG_VERSION")},
        });
        if way == ServerTransport::Http {
            self.line = SettledTransport::Session {
                version: None,
                session: None,
            };
            match self.ask("initialize", params.clone(), None, introduction).await {
                // This is how a server of the transport of 2024-11-05 answers a POST, according to the specification.
                Err(
                    fault @ AnswerFault::Status {
                        status: 400..=499, ..
                    },
                ) => {
                    self.turns.clear();
                    let Ok(mailbox) = Mailbox::open(&self.wire).await else {
                        return Err(fault);
                    };
                    self.line = SettledTransport::Mailbox(Box::new(mailbox));
                }
                answered => return answered,
            }
        } else {
            self.line = SettledTransport::Mailbox(Box::new(Mailbox::open(&self.wire).await?));
        }
        self.ask("initialize", params, None, introduction).await
    }

    /// Fetches all pages of a list.
    async fn pages(&mut self, list: &ListMethod) -> Result<(), AnswerFault> {
        let (mut cursor, mut seen, mut items) = (None::<String>, BTreeSet::new(), 0);
        loop {
            let params = match &cursor {
                Some(cursor) => json!({"cursor": cursor}),
                None => json!({}),
            };
            let (method, member) = (list.method, list.member);
            let read = |result: Option<Value<'_>>| {
                let page = result?.member(member)?;
                let next = result?.member("nextCursor").and_then(Value::string);
                let next = next.map(Cow::into_owned);
                (page.kind() == ValueKind::Array).then(|| (page.items().count(), next))
            };
            let page = match self.ask(method, params, Some(list.kind), read).await {
                // The server announces a list that it does not have.
                Err(AnswerFault::Refused { code: -32_601, .. }) if cursor.is_none() => return Ok(()),
                answered => answered?,
            };
            let missing = || AnswerFault::Message(format!("the answer to {method} has no `{member}`"));
            let (count, next) = page.ok_or_else(missing)?;
            items += count;
            if items > MAX_ITEMS {
                return Err(AnswerFault::Endless(MAX_ITEMS, member));
            }
            cursor = next;
            match &cursor {
                None => return Ok(()),
                // A cursor that came before would lead in a circle.
                Some(next) if !seen.insert(next.clone()) => return Ok(()),
                Some(_) if seen.len() >= MAX_PAGES => return Err(AnswerFault::Endless(MAX_PAGES, "pages")),
                Some(_) => {}
            }
        }
    }

    /// Sends one request, and returns its result as `read` converts it. The answer is kept.
    async fn ask<T>(
        &mut self,
        method: &str,
        mut params: serde_json::Value,
        page: Option<ListKind>,
        read: impl FnOnce(Option<Value<'_>>) -> T,
    ) -> Result<T, AnswerFault> {
        let id = self.next;
        self.next += 1;
        if let SettledTransport::Stateless = self.line {
            params["_meta"] = json!({
                META_VERSION: self.version,
                "io.modelcontextprotocol/clientInfo": {"name": "mcpmon", "version": env!("CARGO_PKG_VERSION")},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let id = RequestId::Number(id.to_string().into());
        let asked = Instant::now();
        let mut answer = match timeout(ANSWER, self.answer(&request, &id)).await {
            Ok(Err(AnswerFault::TooLong(most))) if most == self.most => {
                return Err(AnswerFault::Endless(most, "bytes"));
            }
            Ok(answer) => answer?,
            Err(_elapsed) => return Err(AnswerFault::Late(ANSWER.as_secs())),
        };
        answer.shrink_to_fit();
        // Requests count too: a request may contain a cursor, whose length the server decides.
        self.read += request.len() + answer.len();
        if self.read > self.most {
            return Err(AnswerFault::Endless(self.most, "bytes"));
        }
        let said = reread(&answer, |root| match refusal(root) {
            Some(fault) => Err(fault),
            None => Ok(read(root.and_then(|root| root.member("result")))),
        })?;
        self.turns.push(RequestAndAnswer {
            asked,
            request,
            answer,
            page,
        });
        Ok(said)
    }

    /// Returns the answer to a request, on one line.
    async fn answer(&mut self, request: &str, id: &RequestId) -> Result<Vec<u8>, AnswerFault> {
        if let SettledTransport::Mailbox(_) = self.line {
            self.post(request).await?;
            let SettledTransport::Mailbox(mailbox) = &mut self.line else {
                return Err(AnswerFault::Ended);
            };
            let back = Back::Mailbox(&mailbox.endpoint);
            return until_answered(&self.wire, &mut mailbox.stream, &back, id).await;
        }
        let (headers, body) = self.post(request).await?;
        match body {
            Body::Accepted => Err(AnswerFault::Ended),
            Body::Whole(text) => {
                let answers = heard(&text).map(|heard| heard.answers).unwrap_or_default();
                match answers
                    .iter()
                    .any(|answered| answered.as_ref().is_none_or(|answered| answered == id))
                {
                    true => Ok(on_one_line(text)),
                    false => Err(AnswerFault::Message("it answers something else".to_owned())),
                }
            }
            Body::Events(mut stream) => {
                until_answered(&self.wire, &mut stream, &Back::Session(headers), id).await
            }
        }
    }

    async fn tell(&mut self, message: &serde_json::Value) -> Result<(), AnswerFault> {
        match timeout(ANSWER, self.post(&message.to_string())).await {
            Ok(told) => told.map(drop),
            Err(_elapsed) => Err(AnswerFault::Late(ANSWER.as_secs())),
        }
    }

    /// Sends a message. Returns the headers that were sent, and the response.
    async fn post(&mut self, message: &str) -> Result<(HeaderMap, Body), AnswerFault> {
        let mut headers = HeaderMap::new();
        match &self.line {
            SettledTransport::Stateless => {
                if let Some(outline) = ClientMessage::read(message.as_bytes(), &ToolHeaders::default()) {
                    headers = outline.headers;
                }
            }
            SettledTransport::Session { version, session } => {
                headers = of_session(version.as_ref(), session.as_ref())
            }
            SettledTransport::Mailbox(mailbox) => {
                let message = message.as_bytes().to_vec();
                self.wire.deliver(&mailbox.endpoint, message).await?;
                return Ok((headers, Body::Accepted));
            }
        }
        let reply = self
            .wire
            .post(headers.clone(), message.as_bytes().to_vec())
            .await?;
        if let (SettledTransport::Session { session, .. }, Some(named)) = (&mut self.line, reply.session) {
            headers.insert(SESSION, named.clone());
            *session = Some(named);
        }
        Ok((headers, reply.body))
    }

    /// Ends the session, if there is one. Errors are ignored.
    async fn close(&mut self) {
        if let SettledTransport::Session {
            version,
            session: Some(session),
        } = &self.line
        {
            let ending = self.wire.end(of_session(version.as_ref(), Some(session)));
            drop(timeout(END, ending).await);
        }
    }
}

/// The introduction of a server.
#[derive(Debug, Default)]
pub(super) struct ServerIntroduction {
    /// The offer, without lists yet; the revision is that of a handshake.
    pub(super) offer: ServerOffer,
    /// The lists the server announces; `None` if it announces nothing about them.
    pub(super) announced: Option<[bool; LISTS.len()]>,
}

pub(super) fn introduction(result: Option<Value<'_>>) -> ServerIntroduction {
    let Some(result) = result else {
        return ServerIntroduction::default();
    };
    let is_object = |value: &Value<'_>| value.is_object();
    let capabilities = result.member("capabilities").filter(is_object);
    let announces = |capabilities: Value<'_>, list: &ListMethod| {
        let extension = || capabilities.member("extensions")?.member(list.capability);
        capabilities
            .member(list.capability)
            .or_else(extension)
            .is_some_and(Value::is_object)
    };
    ServerIntroduction {
        offer: ServerOffer::introduced(result),
        announced: capabilities.map(|all| LISTS.each_ref().map(|list| announces(all, list))),
    }
}

/// Returns the error in an answer.
pub(super) fn refusal(answer: Option<Value<'_>>) -> Option<AnswerFault> {
    let error = answer?.member("error").filter(|error| error.is_object())?;
    let code = error.member("code").and_then(|code| code.text().parse().ok());
    let message = error
        .member("message")
        .and_then(Value::string)
        .unwrap_or_default();
    Some(AnswerFault::Refused {
        code: code.unwrap_or_default(),
        message: message.chars().take(300).filter(|c| !c.is_control()).collect(),
    })
}

/// Returns the headers of every request in a session.
pub(crate) fn of_session(version: Option<&HeaderValue>, session: Option<&HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.extend(version.map(|version| (VERSION, version.clone())));
    headers.extend(session.map(|session| (SESSION, session.clone())));
    headers
}

/// The way to answer a request of the server.
pub(crate) enum Back<'a> {
    /// Over HTTP, with these headers.
    Session(HeaderMap),
    /// To this URL, in the transport of 2024-11-05.
    Mailbox(&'a Address),
}

/// Reads a stream until the answer to `id` comes. Requests of the server are refused meanwhile: there is no client that
/// could answer.
pub(crate) async fn until_answered(
    wire: &Wire,
    stream: &mut Stream,
    back: &Back<'_>,
    id: &RequestId,
) -> Result<Vec<u8>, AnswerFault> {
    for _ in 0..MAX_EARLIER_MESSAGES {
        let Some(said) = stream.next().await else {
            return Err(AnswerFault::Ended);
        };
        let EventContent::Message(text) = said? else {
            continue;
        };
        let Some(heard) = heard(&text) else { continue };
        if heard.answers.iter().flatten().any(|answered| answered == id) {
            return Ok(on_one_line(text));
        }
        for (asked, method) in heard.asks {
            let reply = match method.as_str() {
                "ping" => json!({"jsonrpc": "2.0", "id": asked, "result": {}}),
                _ => json!({"jsonrpc": "2.0", "id": asked, "error":
                    {"code": -32_601, "message": "nobody here can answer: mcpmon only lists what is offered"}}),
            };
            let reply = reply.to_string().into_bytes();
            match back {
                Back::Session(headers) => drop(wire.post(headers.clone(), reply).await?),
                Back::Mailbox(endpoint) => wire.deliver(endpoint, reply).await?,
            }
        }
    }
    Err(AnswerFault::Endless(
        MAX_EARLIER_MESSAGES,
        "messages before the answer",
    ))
}

/// Puts a JSON text on one line: line breaks between its tokens become spaces.
pub(crate) fn on_one_line(mut text: Vec<u8>) -> Vec<u8> {
    for byte in &mut text {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    text
}

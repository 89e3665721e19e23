//! Asks a server what it offers: the revision without a handshake first, then those with one, then the transport
//! before them.

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
/// The latest with one. A server that knows an earlier one says so.
pub(super) const HANDSHAKE: &str = "2025-11-25";
/// The protocol versions that a handshake can agree on.
const KNOWN: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Longest time for all of it.
const WHOLE: Duration = Duration::from_secs(60);
/// Longest time for one answer.
const ANSWER: Duration = Duration::from_secs(20);
/// Longest time for a session to be ended.
const END: Duration = Duration::from_secs(3);
/// Pages of one list.
pub(super) const MOST_PAGES: usize = 200;
/// The largest number of items on one list.
pub(super) const MOST_ITEMS: usize = 10_000;
/// Bytes of all answers of a server that is looked at: they are kept until all of them are judged, of several servers
/// at a time.
pub(super) const MOST_BYTES: usize = 4 << 20;
/// Messages that come before an answer.
pub(super) const MOST_BEFORE: usize = 1000;

/// Asks a server what it offers.
///
/// # Errors
/// Returns an error if it cannot be asked, or what it says is not MCP.
pub async fn list(asking: ServerEndpoint, way: ServerTransport) -> Result<ServerOffer, ClientError> {
    let url = asking.address.shown();
    let asked = async {
        let mut client = ListClient::over(Wire::new(asking)?.bounded(MOST_BYTES), MOST_BYTES);
        let offer = client.offer(way).await;
        client.close().await;
        offer
    };
    let offer = match timeout(WHOLE, asked).await {
        Ok(offer) => offer,
        Err(_elapsed) => Err(AnswerFault::Late(WHOLE.as_secs())),
    };
    offer.map_err(|fault| ClientError { url, fault })
}

/// Asks for the list of tools, in the revision `version` without a handshake, and learns which of their arguments
/// stand in headers. The list may be as long as a message of its server.
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

/// A conversation in which only lists are asked for.
struct ListClient {
    wire: Wire,
    line: SettledTransport,
    /// The revision without a handshake.
    version: String,
    next: u64,
    /// Bytes of all answers, at most and so far.
    most: usize,
    read: usize,
    turns: Vec<RequestAndAnswer>,
}

/// The transport, as far as it is settled.
enum SettledTransport {
    /// Every request by itself.
    Stateless,
    /// After a handshake.
    Session {
        version: Option<HeaderValue>,
        session: Option<HeaderValue>,
    },
    /// By the transport of 2024-11-05.
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

    /// Settles on a revision.
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
                // It takes the question for something else, or does not answer at all what it does not know.
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
                // What a server of the transport before says to a POST, as the specification has it.
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

    /// Asks for all pages of a list.
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
                // It announces a list that it does not have.
                Err(AnswerFault::Refused { code: -32_601, .. }) if cursor.is_none() => return Ok(()),
                answered => answered?,
            };
            let missing = || AnswerFault::Message(format!("the answer to {method} has no `{member}`"));
            let (count, next) = page.ok_or_else(missing)?;
            items += count;
            if items > MOST_ITEMS {
                return Err(AnswerFault::Endless(MOST_ITEMS, member));
            }
            cursor = next;
            match &cursor {
                None => return Ok(()),
                // It leads in a circle.
                Some(next) if !seen.insert(next.clone()) => return Ok(()),
                Some(_) if seen.len() >= MOST_PAGES => return Err(AnswerFault::Endless(MOST_PAGES, "pages")),
                Some(_) => {}
            }
        }
    }

    /// One request, and what `read` makes of its result; the answer is kept.
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
        // What stands in a request may be a cursor, which is the server's.
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

    /// The answer to a request, on one line.
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

    /// Sends a message; with which headers, and what came back.
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

    /// Ends the session, if there is one. Whether the server hears it does not matter.
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
    /// With no lists yet; the revision is that of a handshake.
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

/// The error that an answer is.
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

/// The reply to a request of the server.
pub(crate) enum Back<'a> {
    /// With these headers.
    Session(HeaderMap),
    /// There.
    Mailbox(&'a Address),
}

/// Reads a stream until the answer to `id` comes. What the server asks meanwhile is refused: nobody is here who could
/// answer.
pub(crate) async fn until_answered(
    wire: &Wire,
    stream: &mut Stream,
    back: &Back<'_>,
    id: &RequestId,
) -> Result<Vec<u8>, AnswerFault> {
    for _ in 0..MOST_BEFORE {
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
    Err(AnswerFault::Endless(MOST_BEFORE, "messages before the answer"))
}

/// A JSON text on one line: between its tokens, the ends of lines are spaces like any other.
pub(crate) fn on_one_line(mut text: Vec<u8>) -> Vec<u8> {
    for byte in &mut text {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    text
}

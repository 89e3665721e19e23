//! Carries one message of the client to the server, and its answers back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use hyper::header::HeaderValue;
use mcpmon_model::RequestId;
use tokio::time::{sleep, timeout};

use super::{Bridge, lock};
use crate::client::{
    AnswerFault, Body, ClientMessage, ClientMessageKind, EventContent, LAST_EVENT, Reply, ServerTransport,
    Stream, StreamPosition, error_of, heard, is_header_mismatch, learn, of_session, on_one_line,
};

/// The time before a stream is resumed, if the server does not name one.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The number of resumptions in a row that bring no message, after which the bridge gives up.
const MAX_RESUMED: u32 = 8;
/// The longest time to fetch the list of tools that a call needs.
const RELIST: Duration = Duration::from_secs(20);
/// The time for which a stream is still read after all answers came.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// A message, and the requests in it that are not answered yet.
struct Errand<'a> {
    outline: &'a ClientMessage,
    left: BTreeSet<RequestId>,
}

impl Bridge {
    /// Sends a message to the server, and writes the answers to the client.
    pub(super) async fn carry(self: Arc<Self>, line: Vec<u8>, outline: ClientMessage) {
        let mut errand = Errand {
            outline: &outline,
            left: outline.requests.iter().cloned().collect(),
        };
        let carried = self.go(line, &mut errand).await;
        let told = match &carried {
            Ok(()) => return,
            Err(AnswerFault::Status { text, .. }) => error_of(text.as_bytes()),
            Err(_) => None,
        };
        let Err(fault) = carried else { return };
        if let AnswerFault::Certificate { actual, .. } = &fault {
            (self.refused)(actual);
        }
        let told = told.unwrap_or_else(|| {
            // The error names the server's words, which may not appear in an answer under mcpmon's name: they are
            // logged only.
            tracing::warn!(url = %self.wire.address(), %fault, "a message was not answered");
            self.in_own_words(&fault)
        });
        for id in errand.left {
            // A cancelled request gets no answer.
            if self.waiting.answered(&id) {
                self.fail(&id, &told).await;
            }
        }
    }

    async fn go(self: &Arc<Self>, line: Vec<u8>, errand: &mut Errand<'_>) -> Result<(), AnswerFault> {
        let mut endpoint = self.session().endpoint;
        if endpoint.is_none() && self.way == ServerTransport::Sse {
            endpoint = Some(self.open_mailbox().await?);
        }
        if let Some(endpoint) = endpoint {
            // The answer comes on the stream of the transport of 2024-11-05.
            return self.wire.deliver(&endpoint, line).await;
        }
        let is_handshake = matches!(errand.outline.what, ClientMessageKind::Handshake(_));
        match self.post(line.clone(), errand.outline).await {
            Ok(reply) => self.bring(reply, errand).await,
            Err(
                fault @ AnswerFault::Status {
                    status: 400..=499, ..
                },
            ) if is_handshake => {
                // This is how a server of the transport of 2024-11-05 answers a POST, according to the specification.
                let Ok(endpoint) = self.open_mailbox().await else {
                    return Err(fault);
                };
                self.wire.deliver(&endpoint, line).await
            }
            Err(fault) => Err(fault),
        }
    }

    /// Posts a message. Posts it a second time if the server refused it because it has forgotten the session.
    async fn post(self: &Arc<Self>, line: Vec<u8>, outline: &ClientMessage) -> Result<Reply, AnswerFault> {
        let mut session = self.session();
        if let ClientMessageKind::Handshake(_) = outline.what {
            (session.id, session.version) = (None, None);
        }
        match self.wire.post(session.headers(outline), line.clone()).await {
            Err(AnswerFault::Status { status: 404, .. })
                if session.id.is_some() && outline.version.is_none() =>
            {
                self.renew(session.number).await?;
                self.wire.post(self.session().headers(outline), line).await
            }
            Err(AnswerFault::Status { status: 400, text }) if is_header_mismatch(text.as_bytes()) => {
                let mismatch = AnswerFault::Status { status: 400, text };
                self.post_as_listed(line, outline).await.unwrap_or(Err(mismatch))
            }
            posted => posted,
        }
    }

    /// Posts a call again after the server refused its headers: the client knows the list of tools from an earlier
    /// connection, and the bridge does not. Returns `None` if the list brings nothing new. The server has not processed
    /// the call.
    async fn post_as_listed(
        &self,
        line: Vec<u8>,
        outline: &ClientMessage,
    ) -> Option<Result<Reply, AnswerFault>> {
        let version = outline.version.as_deref()?;
        let learned = timeout(RELIST, learn(&self.wire, version)).await;
        let tools = learned.ok()?.ok()?;
        let anew = ClientMessage::read(&line, &tools)?;
        lock(&self.tools).extend(tools);
        let differs = anew.headers != outline.headers;
        match differs {
            true => Some(self.wire.post(anew.headers, line).await),
            false => None,
        }
    }

    async fn bring(&self, reply: Reply, errand: &mut Errand<'_>) -> Result<(), AnswerFault> {
        let session = reply.session;
        match reply.body {
            Body::Accepted => {}
            Body::Whole(text) => {
                if !self.pass(text, session.as_ref(), errand).await {
                    return Err(AnswerFault::Message("it is no JSON-RPC".to_owned()));
                }
            }
            Body::Events(stream) => return self.follow(*stream, session.as_ref(), errand).await,
        }
        match errand.left.is_empty() {
            true => Ok(()),
            false => Err(AnswerFault::Message(
                "it does not say what was asked for".to_owned(),
            )),
        }
    }

    /// Reads a stream until all answers came, and resumes it if it breaks off earlier.
    async fn follow(
        &self,
        mut stream: Stream,
        session: Option<&HeaderValue>,
        errand: &mut Errand<'_>,
    ) -> Result<(), AnswerFault> {
        let mut resume = StreamPosition::default();
        let mut in_vain = 0;
        loop {
            let mut brought = false;
            let ended = loop {
                let said = match errand.left.is_empty() {
                    false => stream.next().await,
                    true => match timeout(AFTERWARDS, stream.next()).await {
                        Ok(said) => said,
                        Err(_elapsed) => return Ok(()),
                    },
                };
                match said {
                    Some(Ok(EventContent::Message(text))) => {
                        brought |= self.pass(text, session, errand).await;
                    }
                    Some(Ok(EventContent::Endpoint(_))) => {}
                    Some(Err(fault)) => break fault,
                    None => break AnswerFault::Ended,
                }
            };
            let latest = stream.resume().clone();
            resume.id = latest.id.or(resume.id);
            resume.retry = latest.retry.or(resume.retry);
            if errand.left.is_empty() {
                return Ok(());
            }
            in_vain = if brought { 0 } else { in_vain + 1 };
            let can_resume = errand.outline.version.is_none()
                && matches!(ended, AnswerFault::Ended | AnswerFault::Unreachable(_))
                && in_vain <= MAX_RESUMED;
            let Some(id) = resume.id.clone().filter(|_| can_resume) else {
                return Err(ended);
            };
            stream = self.resumed(id, &resume, &mut in_vain).await?;
        }
    }

    /// Resumes the stream after the event `id`.
    async fn resumed(
        &self,
        id: HeaderValue,
        resume: &StreamPosition,
        in_vain: &mut u32,
    ) -> Result<Stream, AnswerFault> {
        loop {
            sleep(resume.retry.unwrap_or(RETRY)).await;
            let session = self.session();
            let mut headers = of_session(session.version.as_ref(), session.id.as_ref());
            headers.insert(LAST_EVENT, id.clone());
            match self.wire.listen(headers).await {
                Err(fault @ AnswerFault::Unreachable(_)) => {
                    *in_vain += 1;
                    if *in_vain > MAX_RESUMED {
                        return Err(fault);
                    }
                }
                opened => return opened,
            }
        }
    }

    /// Writes a message of the server to the client. Returns `false` if the text is not a message.
    async fn pass(&self, text: Vec<u8>, session: Option<&HeaderValue>, errand: &mut Errand<'_>) -> bool {
        let text = on_one_line(text);
        let Some(heard) = heard(&text) else {
            tracing::warn!(
                bytes = text.len(),
                "what came from the server is no message, and goes nowhere"
            );
            return false;
        };
        let answers_ours = heard.answers.iter().flatten().any(|id| errand.left.contains(id));
        if answers_ours {
            match (&errand.outline.what, errand.outline.method.as_deref()) {
                (ClientMessageKind::Handshake(_), _) => self.agree(session.cloned(), &text),
                (_, Some("tools/list")) if errand.outline.version.is_some() => lock(&self.tools).learn(&text),
                _ => {}
            }
        }
        for id in heard.answers.iter().flatten() {
            errand.left.remove(id);
            self.waiting.answered(id);
        }
        // An error without an id is about the request that was sent.
        if heard.answers.contains(&None)
            && errand.left.len() == 1
            && let Some(error) = error_of(&text)
            && let Some(id) = errand.left.pop_first()
        {
            self.waiting.answered(&id);
            self.fail(&id, &error).await;
            return true;
        }
        self.say(text).await;
        true
    }
}

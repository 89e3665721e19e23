//! Session with the server: the agreed parameters, and the recovery if the server has forgotten them.

use std::sync::Arc;

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use mcpmon_model::RequestId;
use tokio::time::timeout;

use super::{Bridge, HANDSHAKE, lock};
use crate::client::{
    Address, AnswerFault, Back, Body, ClientMessage, Mailbox, agreed, of_session, on_one_line, tells_changes,
    until_answered,
};

/// The parameters agreed with the server.
#[derive(Clone, Debug, Default)]
pub(super) struct BridgeSession {
    /// The negotiated revision, if there was a handshake.
    pub(super) version: Option<HeaderValue>,
    /// `Mcp-Session-Id`.
    pub(super) id: Option<HeaderValue>,
    /// The client's handshake message.
    pub(super) handshake: Option<String>,
    /// The URL for messages, in the transport of 2024-11-05.
    pub(super) endpoint: Option<Address>,
    /// The revision that the client named last, in an era without handshakes.
    pub(super) revision: Option<String>,
    /// The number of handshakes so far.
    pub(super) number: u64,
}

impl BridgeSession {
    /// Returns the headers of a message.
    pub(super) fn headers(&self, outline: &ClientMessage) -> HeaderMap {
        if outline.version.is_some() {
            return outline.headers.clone();
        }
        let mut headers = of_session(self.version.as_ref(), self.id.as_ref());
        // A notification does not name its revision.
        if self.version.is_none()
            && let (Some(revision), Some(method)) = (&self.revision, &outline.method)
            && outline.requests.is_empty()
        {
            let named = [("mcp-protocol-version", revision), ("mcp-method", method)];
            headers.extend(named.into_iter().filter_map(|(name, value)| {
                Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?))
            }));
        }
        headers
    }
}

impl Bridge {
    pub(super) fn session(&self) -> BridgeSession {
        lock(&self.session).clone()
    }

    /// Records the answer to the client's handshake.
    pub(super) fn agree(&self, id: Option<HeaderValue>, answer: &[u8]) {
        let mut session = lock(&self.session);
        session.version = agreed(answer).and_then(|version| HeaderValue::from_str(&version).ok());
        session.id = id;
        session.number += 1;
    }

    /// Repeats the client's handshake because the server has forgotten the session. `number` is that of the forgotten
    /// session; if another task has renewed it meanwhile, nothing is done.
    pub(super) async fn renew(self: &Arc<Self>, number: u64) -> Result<(), AnswerFault> {
        let _one_at_a_time = self.renewal.lock().await;
        let session = self.session();
        if session.number != number {
            return Ok(());
        }
        let params = session.handshake.ok_or(AnswerFault::Forgotten)?;
        let name = format!("mcpmon-renewal-{number}");
        let request = format!(r#"{{"jsonrpc":"2.0","id":"{name}","method":"initialize","params":{params}}}"#);
        let id = RequestId::Text(name.into());
        let shaking = async {
            let reply = self.wire.post(HeaderMap::new(), request.into_bytes()).await?;
            let headers = of_session(None, reply.session.as_ref());
            let answer = match reply.body {
                Body::Accepted => return Err(AnswerFault::Forgotten),
                Body::Whole(text) => on_one_line(text),
                Body::Events(mut stream) => {
                    until_answered(&self.wire, &mut stream, &Back::Session(headers), &id).await?
                }
            };
            Ok((reply.session, answer))
        };
        let (session_id, answer) = match timeout(HANDSHAKE, shaking).await {
            Ok(shaken) => shaken?,
            Err(_elapsed) => return Err(AnswerFault::Late(HANDSHAKE.as_secs())),
        };
        let version = agreed(&answer).and_then(|version| HeaderValue::from_str(&version).ok());
        // The client keeps using the revision that it negotiated.
        if version.is_none() || version != session.version {
            return Err(AnswerFault::Forgotten);
        }
        tracing::info!("the server knew the session no more, and has another one now");
        {
            let mut session = lock(&self.session);
            session.id.clone_from(&session_id);
            session.number += 1;
        }
        let ready = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec();
        self.wire
            .post(of_session(version.as_ref(), session_id.as_ref()), ready)
            .await?;
        self.listen();
        // The new session may offer other items than the client knows: have the client list them again.
        for list in tells_changes(&answer) {
            let notice = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{list}/list_changed"}}"#);
            self.say(notice.into_bytes()).await;
        }
        Ok(())
    }

    /// Opens the stream of the transport of 2024-11-05, if it is not open.
    pub(super) async fn open_mailbox(self: &Arc<Self>) -> Result<Address, AnswerFault> {
        let _one_at_a_time = self.renewal.lock().await;
        if let Some(endpoint) = self.session().endpoint {
            return Ok(endpoint);
        }
        let Mailbox { stream, endpoint } = Mailbox::open(&self.wire).await?;
        lock(&self.session).endpoint = Some(endpoint.clone());
        self.empty(stream);
        Ok(endpoint)
    }
}

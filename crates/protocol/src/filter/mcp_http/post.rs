//! Posts from the client.

use std::{collections::BTreeSet, sync::Arc};

use mcpmon_model::{Era, Incident, RequestId, Timestamp};

use super::{
    super::message::{AnswerReason, Exit, HoldPlace, MessageHandling, NonMessage},
    HttpSession,
    annotations::Annotation,
    head::{Head, last},
    joined::JoinedMessages,
    learned::ServerKnowledge,
};
use crate::{
    decode::{
        json::Value,
        jsonrpc::{Envelope, Payload},
    },
    rewrite::{RefusalReason, mismatch, refusal},
};

/// The method that opens a session.
const INITIALIZE: &str = "initialize";
/// The method that opens a stream on which the server reports changes.
const LISTEN: &str = "subscriptions/listen";

/// A complete request of a client with a body.
#[derive(Clone, Copy, Debug)]
pub struct Post<'p> {
    /// The headers that repeat parts of the body.
    pub head: &'p Head<'p>,
    /// The body.
    pub body: &'p [u8],
    /// True if it is to be judged only if every tool that it calls is on a list of the server.
    pub needs_lists: bool,
}

/// The tools that a post calls and that are on no list of the server. Nothing of the post was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlistedTools(pub Vec<String>);

/// The decision about a request.
#[derive(Debug)]
pub enum PostDecision {
    /// The request is forwarded.
    Forward(Forward),
    /// The request is not forwarded; this is the answer to it.
    Answer(ProxyResponse),
    /// The request is a call that is held until a person answers the question with this id. It has to be posted again
    /// then, after [`HttpSession::release`].
    Held(String),
}

/// A request to be forwarded.
#[derive(Debug)]
pub struct Forward {
    /// Its body; `None` if the body is unchanged.
    pub body: Option<Vec<u8>>,
    /// Headers with new values, in the order in which headers of that name occur.
    pub headers: Vec<(String, String)>,
    /// The state for reading its response.
    pub waiting: PendingRequests,
    /// True if it opens a session.
    pub opens_session: bool,
    /// True if its response is a stream on which the server reports changes.
    pub opens_stream: bool,
}

/// A response of mcpmon itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyResponse {
    /// Its status.
    pub status: u16,
    /// Its body, JSON; empty for none.
    pub body: Vec<u8>,
}

/// The requests that wait for a response.
#[derive(Debug, Default)]
pub struct PendingRequests {
    /// Ids of the forwarded requests.
    pub(super) asked: Vec<RequestId>,
    /// Answers that exist already and have to be part of the response.
    pub(super) answers: Vec<String>,
    /// True if the requests came in an array, and are answered in one.
    pub(super) is_batch: bool,
    /// Requests about tasks, each with the tool whose call became the task.
    pub(super) tasks: Vec<(RequestId, Box<str>)>,
    /// True if answers to accepted requests come on another channel.
    pub(super) elsewhere: bool,
}

impl PendingRequests {
    /// Returns whether one of the requests has waited here longer than allowed, if there is such a limit.
    pub fn is_late(&self, now: Timestamp, session: &HttpSession) -> bool {
        let dialogue = &session.reader.dialogue;
        !self.elsewhere && self.asked.iter().any(|id| dialogue.is_late(now, id))
    }
}

impl ProxyResponse {
    /// Returns the answer to a request whose body is longer than `limit` bytes, and was not read.
    pub fn too_long(limit: usize) -> Self {
        Self::refused(
            413,
            RefusalReason::Request,
            &format!("the message is longer than {limit} bytes"),
        )
    }

    /// Returns the answer to a request without an id.
    pub(super) fn refused(status: u16, fault: RefusalReason, cause: &str) -> Self {
        Self {
            status,
            body: refusal(None, fault, cause).into_bytes(),
        }
    }
}

/// A body that a client posted, and the decisions about it.
pub(super) struct BodyExit<'h> {
    head: &'h Head<'h>,
    learned: &'h ServerKnowledge,
    /// Ids of mcpmon's own requests, which no client may use meanwhile.
    own: &'h BTreeSet<RequestId>,
    incidents: &'h mut Vec<Incident>,
    goes_on: Option<ForwardedBody>,
    answers: Vec<(String, AnswerReason)>,
    mismatch: Option<String>,
    asked: Vec<RequestId>,
    /// The id of the current message.
    turn: Option<RequestId>,
    annotations: Option<Arc<[Annotation]>>,
    tasks: Vec<(RequestId, Box<str>)>,
    is_batch: bool,
    /// True if it contained an answer that matches no request.
    is_unasked: bool,
    opens_session: bool,
    opens_stream: bool,
    /// The id by which a person answers, if the call is held.
    held: Option<String>,
}

/// The form in which a body is forwarded.
pub(super) enum ForwardedBody {
    AsItCame,
    Instead(JoinedMessages),
}

impl<'h> BodyExit<'h> {
    pub(super) fn new(
        head: &'h Head<'h>,
        learned: &'h ServerKnowledge,
        own: &'h BTreeSet<RequestId>,
        incidents: &'h mut Vec<Incident>,
    ) -> Self {
        Self {
            head,
            learned,
            own,
            incidents,
            goes_on: None,
            answers: Vec::new(),
            mismatch: None,
            asked: Vec::new(),
            turn: None,
            annotations: None,
            tasks: Vec::new(),
            is_batch: false,
            is_unasked: false,
            opens_session: false,
            opens_stream: false,
            held: None,
        }
    }

    /// Decides about the body.
    pub(super) fn posted(mut self, body: &[u8]) -> PostDecision {
        self.asked.extend(self.turn.take());
        if let Some(answer) = self.mismatch {
            return PostDecision::Answer(ProxyResponse {
                status: 400,
                body: answer.into_bytes(),
            });
        }
        if let Some(held_call) = self.held {
            return PostDecision::Held(held_call);
        }
        let Some(goes_on) = self.goes_on else {
            if self.is_unasked && self.head.era() == Era::Stateless {
                // In the stateless era clients send no answers.
                let cause = "an answer to nothing";
                return PostDecision::Answer(ProxyResponse::refused(400, RefusalReason::Request, cause));
            }
            return PostDecision::Answer(answer(self.answers, self.is_batch));
        };
        let known = self.annotations.as_deref().unwrap_or_default();
        let (body, headers) = match goes_on {
            ForwardedBody::AsItCame => (None, Vec::new()),
            ForwardedBody::Instead(text) => {
                let anew = text.finish();
                let headers = self.head.rewritten(body, &anew, known);
                (Some(anew.into_bytes()), headers)
            }
        };
        PostDecision::Forward(Forward {
            body,
            headers,
            waiting: PendingRequests {
                asked: self.asked,
                answers: self.answers.into_iter().map(|(text, _)| text).collect(),
                is_batch: self.is_batch,
                tasks: self.tasks,
                elsewhere: false,
            },
            opens_session: self.opens_session,
            opens_stream: self.opens_stream,
        })
    }

    /// Notes that headers and body disagree.
    fn disagree(&mut self, id: Option<&RequestId>, cause: String) {
        self.mismatch = Some(mismatch(id, &cause));
        self.incidents.push(Incident::HeaderMismatch { cause });
    }

    /// Returns the tool whose call became the task that a message is about.
    fn task_of(&self, envelope: &Envelope<'_>) -> Option<Box<str>> {
        let Payload::Method { method, params } = &envelope.payload else {
            return None;
        };
        if !method.starts_with("tasks/") {
            return None;
        }
        self.learned
            .tool(&last(params.as_ref().copied()?, "taskId")?.string()?)
    }

    fn annotations_of(&self, envelope: &Envelope<'_>) -> Option<Arc<[Annotation]>> {
        let Payload::Method { method, params } = &envelope.payload else {
            return None;
        };
        if method != "tools/call" {
            return None;
        }
        self.learned
            .annotations(&last(params.as_ref().copied()?, "name")?.string()?)
    }
}

/// Builds the response to a request of which nothing is forwarded.
fn answer(answers: Vec<(String, AnswerReason)>, is_batch: bool) -> ProxyResponse {
    if answers.is_empty() {
        return ProxyResponse {
            status: 202,
            body: Vec::new(),
        };
    }
    let is_judged = answers.iter().any(|(_, why)| *why == AnswerReason::Stopped);
    let mut joined = if is_batch {
        JoinedMessages::array()
    } else {
        JoinedMessages::default()
    };
    for (text, _) in answers {
        joined.add(&text);
    }
    ProxyResponse {
        status: if is_judged { 200 } else { 400 },
        body: joined.finish().into_bytes(),
    }
}

impl Exit for BodyExit<'_> {
    fn as_it_came(&mut self) {
        self.goes_on = Some(ForwardedBody::AsItCame);
    }

    fn instead(&mut self, text: &str) {
        match &mut self.goes_on {
            Some(ForwardedBody::Instead(joined)) => joined.add(text),
            Some(ForwardedBody::AsItCame) | None => {
                let mut joined = if self.is_batch {
                    JoinedMessages::array()
                } else {
                    JoinedMessages::default()
                };
                joined.add(text);
                self.goes_on = Some(ForwardedBody::Instead(joined));
            }
        }
    }

    fn answer(&mut self, text: &str, why: AnswerReason) {
        self.turn = None;
        self.answers.push((text.to_owned(), why));
    }

    fn hold_place(&self) -> HoldPlace {
        HoldPlace::Transport
    }

    fn held(&mut self, held_call: &str) {
        self.held = Some(held_call.to_owned());
    }

    fn divert(&mut self, _what: NonMessage<'_>) {}

    fn incident(&mut self, incident: Incident) {
        self.is_unasked |= matches!(incident, Incident::Unasked { .. });
        self.incidents.push(incident);
    }

    fn admits_batch(&mut self, batch: Value<'_>) -> bool {
        self.is_batch = true;
        let Some(cause) = self.head.objection_to_batch(batch) else {
            return true;
        };
        // If there are no batches, an answer is no array either.
        self.is_batch = false;
        self.answers.push((
            refusal(None, RefusalReason::Request, &cause),
            AnswerReason::Refused,
        ));
        self.incidents.push(Incident::Unparsable { cause });
        false
    }

    fn admits(&mut self, envelope: &Envelope<'_>) -> MessageHandling {
        self.asked.extend(self.turn.take());
        let asks = matches!(envelope.payload, Payload::Method { .. });
        let id = envelope.id.as_ref().filter(|_| asks);
        if !self.is_batch {
            self.annotations = self.annotations_of(envelope);
            let known = self.annotations.as_deref().unwrap_or_default();
            if let Err(cause) = self.head.check(envelope, known) {
                self.disagree(id, cause);
                return MessageHandling::Refused;
            }
        }
        if let Some(id) = id.filter(|id| self.own.contains(id)) {
            let cause = "another request with this id waits for its answer";
            self.answers.push((
                refusal(Some(id), RefusalReason::Request, cause),
                AnswerReason::Refused,
            ));
            return MessageHandling::Refused;
        }
        if let (Some(id), Some(tool)) = (id, self.task_of(envelope)) {
            self.tasks.push((id.clone(), tool));
        }
        if let (Some(_), Payload::Method { method, .. }) = (id, &envelope.payload) {
            self.opens_session |= method == INITIALIZE;
            self.opens_stream |= method == LISTEN;
        }
        self.turn = id.cloned();
        MessageHandling::Goes
    }
}

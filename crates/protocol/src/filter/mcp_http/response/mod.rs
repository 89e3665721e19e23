//! Responses of the server, as they arrive.

mod events;
mod hearing;
mod text;
mod whole;

use mcpmon_model::{Denial, Era, Incident, ListKind, RequestId, Side, Timestamp};

use super::{
    super::message::{AnswerReason, Arbiter, Exit, NonMessage, ReceivedText},
    AnnouncedEndpoint, HttpOutput, HttpSession, ResponseFault,
    head::is_utf8,
    post::{PendingRequests, ProxyResponse},
};
use crate::{
    decode::{DecodeLimits, json::Doubt, sse::Events},
    rewrite::{denied, event, list_changed, missing_answer, refusal},
};

/// A response on its way to the client.
#[derive(Debug)]
pub struct HttpResponse {
    limits: DecodeLimits,
    status: u16,
    waiting: PendingRequests,
    channel: Channel,
    body: ResponseBody,
    is_stream: bool,
    /// True if the client can ask for what it missed, because the stream gave it an event id.
    can_resume: bool,
    fault: Option<ResponseFault>,
}

/// The request that a response answers.
#[derive(Debug)]
enum Channel {
    /// A `POST`.
    Post,
    /// A `GET`, which opens the stream for the server's own messages.
    Stream,
    /// A `GET` in the HTTP+SSE transport of 2024-11-05: every message of the server comes on this stream.
    Legacy {
        told: AnnouncedEndpoint,
        /// The URL at which the server wants messages posted.
        endpoint: Option<String>,
    },
}

#[derive(Debug)]
enum ResponseBody {
    Events(Events),
    /// One JSON text.
    Whole(Vec<u8>),
    /// Something else.
    Text(Vec<u8>),
}

/// The state of a response: more of it is to be read, or it is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReadState {
    /// More is to be read.
    Continue,
    /// Nothing more is to be read; later bytes are dropped.
    Finished,
}

/// The status of a response that is not a stream; known when its body is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeResponseHead {
    /// Its status.
    pub status: u16,
    /// True if mcpmon wrote the body (JSON); the server's headers about its body are then wrong.
    pub is_ours: bool,
}

/// An exit that drops everything, for a response that is read for the record only.
struct Nowhere;

impl Exit for Nowhere {
    fn as_it_came(&mut self) {}

    fn instead(&mut self, _text: &str) {}

    fn answer(&mut self, _text: &str, _why: AnswerReason) {}

    fn divert(&mut self, _what: NonMessage<'_>) {}

    fn incident(&mut self, _incident: Incident) {}
}

impl HttpResponse {
    /// Returns the response to a `POST`, with this head.
    pub fn to_post(
        limits: DecodeLimits,
        status: u16,
        content_type: Option<&str>,
        waiting: PendingRequests,
    ) -> Self {
        Self::new(limits, status, content_type, waiting, Channel::Post)
    }

    /// Returns the response to a `GET`, with this head: a stream, or the server's refusal to open one.
    pub fn to_get(limits: DecodeLimits, status: u16, content_type: Option<&str>) -> Self {
        Self::new(
            limits,
            status,
            content_type,
            PendingRequests::default(),
            Channel::Stream,
        )
    }

    /// Returns the response to a `GET` in the HTTP+SSE transport of 2024-11-05.
    pub fn legacy(
        limits: DecodeLimits,
        status: u16,
        content_type: Option<&str>,
        told: AnnouncedEndpoint,
    ) -> Self {
        let endpoint = None;
        let channel = Channel::Legacy { told, endpoint };
        Self::new(limits, status, content_type, PendingRequests::default(), channel)
    }

    /// Returns the answer to a `POST` to which no response comes.
    #[must_use]
    pub fn none(
        limits: DecodeLimits,
        waiting: PendingRequests,
        session: &mut HttpSession,
        fault: &ResponseFault,
    ) -> ProxyResponse {
        let mut out = HttpOutput::default();
        // If answers come on another channel, only a status tells the client that there will be none.
        let status = if waiting.elsewhere { 502 } else { 200 };
        let WholeResponseHead { status, .. } =
            Self::to_post(limits, status, None, waiting).fail(session, fault, &mut out);
        ProxyResponse {
            status,
            body: out.to_client,
        }
    }

    fn new(
        limits: DecodeLimits,
        status: u16,
        content_type: Option<&str>,
        mut waiting: PendingRequests,
        channel: Channel,
    ) -> Self {
        let essence = content_type.and_then(|value| value.split(';').next());
        let is = |name: &str| essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(name));
        let body = if is_success(status) && is("text/event-stream") {
            ResponseBody::Events(Events::skipping(limits.max_line))
        } else if is("application/json") {
            ResponseBody::Whole(Vec::new())
        } else {
            ResponseBody::Text(Vec::new())
        };
        if waiting.elsewhere && is_success(status) {
            waiting.asked.clear();
        }
        let is_stream = matches!(body, ResponseBody::Events(_));
        let is_readable = content_type.is_none_or(is_utf8);
        Self {
            limits,
            status,
            waiting,
            channel,
            is_stream: is_stream && is_readable,
            body,
            can_resume: false,
            fault: (!is_readable).then_some(ResponseFault::Charset),
        }
    }

    /// Returns whether the response is forwarded while it arrives, with the server's head. Otherwise it is forwarded
    /// when it is complete.
    pub const fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns the URL to which the server wants messages posted, once the server has given it.
    pub fn endpoint(&self) -> Option<&str> {
        match &self.channel {
            Channel::Legacy { endpoint, .. } => endpoint.as_deref(),
            Channel::Post | Channel::Stream => None,
        }
    }

    /// Returns the number of bytes that are kept until more arrives.
    pub const fn held(&self) -> usize {
        match &self.body {
            ResponseBody::Events(events) => events.held(),
            ResponseBody::Whole(body) | ResponseBody::Text(body) => body.len(),
        }
    }

    /// Reads a piece of the response, cut at any byte, and puts into `out` what can be forwarded now.
    pub fn push(
        &mut self,
        now: Timestamp,
        session: &mut HttpSession,
        chunk: &[u8],
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> ReadState {
        if let Some(flow) = self.gather(chunk, out) {
            return flow;
        }
        let mut body = std::mem::replace(&mut self.body, ResponseBody::Text(Vec::new()));
        let read = match &mut body {
            ResponseBody::Events(events) => self.events(now, session, events, chunk, arbiter, out),
            ResponseBody::Whole(_) | ResponseBody::Text(_) => Ok(()),
        };
        self.body = body;
        self.took(read, out)
    }

    /// Keeps a piece of a body that is judged when it is complete; needs no session. Returns `None` for a stream, which
    /// [`Self::push`] has to read.
    pub fn gather(&mut self, chunk: &[u8], out: &mut HttpOutput) -> Option<ReadState> {
        if self.fault.is_some() {
            return Some(ReadState::Finished);
        }
        let (body, limit) = match &mut self.body {
            ResponseBody::Events(_) => return None,
            ResponseBody::Whole(body) => (body, self.limits.max_line),
            ResponseBody::Text(body) => (body, text::MAX_BYTES.min(self.limits.max_line)),
        };
        let kept = keep(body, chunk, limit);
        Some(self.took(kept, out))
    }

    fn took(&mut self, read: Result<(), ResponseFault>, out: &mut HttpOutput) -> ReadState {
        let Err(fault) = read else {
            return ReadState::Continue;
        };
        if let ResponseFault::TooLong { limit } = fault {
            let side = Side::Server;
            out.incidents.push(Incident::TooLong { side, limit });
        }
        self.fault = Some(fault);
        ReadState::Finished
    }

    /// Ends the response, and puts into `out` what is still to be forwarded.
    pub fn end(
        &mut self,
        now: Timestamp,
        session: &mut HttpSession,
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        if let Some(fault) = self.fault.take() {
            return self.fail(session, &fault, out);
        }
        match std::mem::replace(&mut self.body, ResponseBody::Text(Vec::new())) {
            ResponseBody::Events(mut events) => {
                self.own_answers(out);
                if let Some(rest) = events.rest()
                    && let Err(fault) = self.event(now, session, &rest, arbiter, out)
                {
                    return self.fail(session, &fault, out);
                }
                self.left(session);
                self.as_it_came()
            }
            ResponseBody::Whole(body) => self.whole(now, session, &body, arbiter, out),
            // Some clients parse such a body as JSON, whatever its type, so it is judged as JSON.
            ResponseBody::Text(body) if text::may_be_json(&body) => {
                self.whole(now, session, &body, arbiter, out)
            }
            ResponseBody::Text(body) => self.text(now, session, &body, arbiter, out),
        }
    }

    /// Shows `arbiter` an error without text for each request that [`Self::fail`] answers, so that a failed call is
    /// recorded as ended. Verdicts are ignored. Does nothing for the older transport, whose answers come on another
    /// stream.
    pub fn note_failure(
        &mut self,
        now: Timestamp,
        session: &mut HttpSession,
        fault: &ResponseFault,
        arbiter: &mut dyn Arbiter,
    ) {
        let is_resumed = self.can_resume && matches!(fault, ResponseFault::Broken { .. });
        if is_resumed || matches!(self.channel, Channel::Legacy { .. }) {
            return;
        }
        for id in &self.waiting.asked {
            if !session.own.waiting.contains(id) && session.reader.dialogue.waits(id) {
                let answer = missing_answer(id, fault.kind());
                let spoken = spoken(answer.as_bytes(), Doubt::None);
                session.reader.read(now, spoken, arbiter, &mut Nowhere);
            }
        }
    }

    /// Answers each request that waits here with an error, because the server's answer does not come, or not
    /// completely. Answers nothing if the client can resume the stream.
    pub fn fail(
        &mut self,
        session: &mut HttpSession,
        fault: &ResponseFault,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        let cause = fault.to_string();
        let is_final = !matches!(fault, ResponseFault::Broken { .. });
        if self.can_resume && !is_final {
            self.left(session);
            return self.as_it_came();
        }
        let written = out.to_client.len();
        let ended = self.answer_all(session, out, |id| refusal(Some(id), fault.kind(), &cause));
        let is_told = self.is_stream || out.to_client.len() > written;
        let status = match (is_success(self.status), is_told) {
            (true, false) => 502,
            (true, true) | (false, _) => ended.status,
        };
        WholeResponseHead { status, ..ended }
    }

    /// Answers each request that waits here with `denial`, because the server may not answer any more.
    pub fn turn_away(
        &mut self,
        session: &mut HttpSession,
        denial: &Denial,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        self.answer_all(session, out, |id| denied(id, denial))
    }

    /// Answers the requests that have waited longer than allowed, if there is such a limit.
    pub fn expire(&mut self, now: Timestamp, session: &mut HttpSession, out: &mut HttpOutput) -> ReadState {
        let dialogue = &mut session.reader.dialogue;
        let expired = match &self.channel {
            Channel::Legacy { .. } => dialogue.expire(now, Side::Client),
            Channel::Post | Channel::Stream => {
                let asked = self.waiting.asked.iter();
                asked.filter(|id| dialogue.expires(now, id)).cloned().collect()
            }
        };
        if expired.is_empty() {
            return ReadState::Continue;
        }
        if !self.is_stream {
            self.fault = Some(ResponseFault::Late);
            return ReadState::Finished;
        }
        let cause = ResponseFault::Late.to_string();
        self.waiting.asked.retain(|id| !expired.contains(id));
        for id in expired.iter().filter(|id| !session.own.give_up(id)) {
            event(
                &refusal(Some(id), ResponseFault::Late.kind(), &cause),
                &mut out.to_client,
            );
        }
        match &self.channel {
            // The stream existed for the answer only.
            Channel::Post if self.waiting.asked.is_empty() => ReadState::Finished,
            Channel::Post | Channel::Stream | Channel::Legacy { .. } => ReadState::Continue,
        }
    }

    /// Tells the client that a list changed because its verdicts did, if this stream reports such changes to the
    /// client.
    pub fn list_changed(&self, session: &HttpSession, kind: ListKind, out: &mut HttpOutput) {
        if !self.is_stream {
            return;
        }
        for stream in session.reader.dialogue.listeners(kind) {
            let is_here = match (&self.channel, &stream) {
                (Channel::Post, Some(id)) => self.waiting.asked.contains(id),
                (Channel::Legacy { endpoint, .. }, None) => endpoint.is_some(),
                (Channel::Stream, None) => true,
                (Channel::Post, None) | (Channel::Stream | Channel::Legacy { .. }, Some(_)) => false,
            };
            if is_here {
                event(&list_changed(kind, stream.as_ref()), &mut out.to_client);
            }
        }
    }

    const fn as_it_came(&self) -> WholeResponseHead {
        WholeResponseHead {
            status: self.status,
            is_ours: false,
        }
    }

    /// Stops waiting here, because the client has disconnected. Its requests can still be answered on another channel.
    pub fn left(&mut self, session: &mut HttpSession) {
        for id in self.waiting.asked.drain(..) {
            if !session.own.give_up(&id) {
                session.reader.dialogue.leave(&id);
            }
        }
    }

    /// Takes the requests that wait here for an answer.
    fn take_asked(&mut self, session: &mut HttpSession) -> Vec<RequestId> {
        if matches!(self.channel, Channel::Legacy { .. }) {
            return session.reader.dialogue.abandon(Side::Client);
        }
        let asked = std::mem::take(&mut self.waiting.asked);
        for id in &asked {
            session.reader.dialogue.give_up(Side::Server, id);
        }
        asked
    }

    /// Answers every request that waits here.
    fn answer_all(
        &mut self,
        session: &mut HttpSession,
        out: &mut HttpOutput,
        answer: impl Fn(&RequestId) -> String,
    ) -> WholeResponseHead {
        let asked = self.take_asked(session);
        let asked: Vec<RequestId> = asked.into_iter().filter(|id| !session.own.give_up(id)).collect();
        let answers = asked.iter().map(answer);
        if self.is_stream {
            self.own_answers(out);
            for answer in answers {
                event(&answer, &mut out.to_client);
            }
            return self.as_it_came();
        }
        let mut joined = self.joined();
        answers.for_each(|answer| joined.add(&answer));
        self.ours(joined, out)
    }
}

fn spoken(text: &[u8], borne: Doubt) -> ReceivedText<'_> {
    ReceivedText {
        side: Side::Server,
        text,
        borne,
        era: Era::Handshake,
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

fn keep(body: &mut Vec<u8>, chunk: &[u8], limit: usize) -> Result<(), ResponseFault> {
    if body.len() + chunk.len() > limit {
        *body = Vec::new();
        return Err(ResponseFault::TooLong { limit });
    }
    body.extend_from_slice(chunk);
    Ok(())
}

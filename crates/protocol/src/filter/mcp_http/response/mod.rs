//! Responses of the server, as they arrive.

mod events;
mod hearing;
mod text;
mod whole;

use mcpmon_model::{Denial, Era, Incident, ListKind, RequestId, Side, Timestamp};

use super::{
    super::message::{AnswerReason, Arbiter, Exit, NonMessage, ReceivedText},
    Endpoint, HttpOutput, HttpSession, ResponseFault,
    head::is_utf8,
    post::{PendingRequests, ProxyResponse},
};
use crate::{
    decode::{DecodeLimits, json::Doubt, sse::Events},
    rewrite::{denied, event, list_changed, refusal},
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
    /// The client can ask for what it missed: the stream has told it from where.
    can_resume: bool,
    fault: Option<ResponseFault>,
}

/// The kind of channel that a response is.
#[derive(Debug)]
enum Channel {
    /// Something that was posted.
    Post,
    /// The opening of a stream on which the server says what it wants to.
    Stream,
    /// The same where everything comes on it.
    Legacy {
        told: Endpoint,
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

/// Tells whether to read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// There is.
    On,
    /// There is none: what comes behind goes nowhere.
    Over,
}

/// The beginning of a response that is not a stream, known at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeResponseHead {
    /// Its status.
    pub status: u16,
    /// Its body is JSON of ours: whatever the server's head says of its body is no longer so.
    pub is_ours: bool,
}

/// An exit that drops everything, for a response that is read for the record alone.
struct Nowhere;

impl Exit for Nowhere {
    fn as_it_came(&mut self) {}

    fn instead(&mut self, _text: &str) {}

    fn answer(&mut self, _text: &str, _why: AnswerReason) {}

    fn divert(&mut self, _what: NonMessage<'_>) {}

    fn incident(&mut self, _incident: Incident) {}
}

impl HttpResponse {
    /// The response to something that was posted, with this head.
    pub fn to_post(
        limits: DecodeLimits,
        status: u16,
        content_type: Option<&str>,
        waiting: PendingRequests,
    ) -> Self {
        Self::new(limits, status, content_type, waiting, Channel::Post)
    }

    /// The response to a request without a body, with this head: a stream, or word that there is none.
    pub fn to_get(limits: DecodeLimits, status: u16, content_type: Option<&str>) -> Self {
        Self::new(
            limits,
            status,
            content_type,
            PendingRequests::default(),
            Channel::Stream,
        )
    }

    /// The same from a server of the transport of 2024-11-05.
    pub fn legacy(limits: DecodeLimits, status: u16, content_type: Option<&str>, told: Endpoint) -> Self {
        let endpoint = None;
        let channel = Channel::Legacy { told, endpoint };
        Self::new(limits, status, content_type, PendingRequests::default(), channel)
    }

    /// The answer to something that was posted, and to which no response comes.
    #[must_use]
    pub fn none(
        limits: DecodeLimits,
        waiting: PendingRequests,
        session: &mut HttpSession,
        fault: &ResponseFault,
    ) -> ProxyResponse {
        let mut out = HttpOutput::default();
        // Where answers come on another channel, only a status says here that there will be none.
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

    /// Returns whether it goes on as it comes, with the head that it has. If not, it is known at its end.
    pub const fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns the URL at which the server wants messages posted, once the server gave it.
    pub fn endpoint(&self) -> Option<&str> {
        match &self.channel {
            Channel::Legacy { endpoint, .. } => endpoint.as_deref(),
            Channel::Post | Channel::Stream => None,
        }
    }

    /// Returns the number of bytes that wait for more.
    pub const fn held(&self) -> usize {
        match &self.body {
            ResponseBody::Events(events) => events.held(),
            ResponseBody::Whole(body) | ResponseBody::Text(body) => body.len(),
        }
    }

    /// Takes what the server sent, cut anywhere, and puts into `out` what goes on now.
    pub fn push(
        &mut self,
        now: Timestamp,
        session: &mut HttpSession,
        chunk: &[u8],
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> Flow {
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

    /// The same without the session, where nothing is read before the end: `None` where something is.
    pub fn gather(&mut self, chunk: &[u8], out: &mut HttpOutput) -> Option<Flow> {
        if self.fault.is_some() {
            return Some(Flow::Over);
        }
        let (body, limit) = match &mut self.body {
            ResponseBody::Events(_) => return None,
            ResponseBody::Whole(body) => (body, self.limits.max_line),
            ResponseBody::Text(body) => (body, text::LONGEST.min(self.limits.max_line)),
        };
        let kept = keep(body, chunk, limit);
        Some(self.took(kept, out))
    }

    fn took(&mut self, read: Result<(), ResponseFault>, out: &mut HttpOutput) -> Flow {
        let Err(fault) = read else {
            return Flow::On;
        };
        if let ResponseFault::TooLong { limit } = fault {
            let side = Side::Server;
            out.incidents.push(Incident::TooLong { side, limit });
        }
        self.fault = Some(fault);
        Flow::Over
    }

    /// The server sends no more: puts into `out` what still goes on.
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
            // Some clients parse whatever comes, and so does this.
            ResponseBody::Text(body) if text::may_be_json(&body) => {
                self.whole(now, session, &body, arbiter, out)
            }
            ResponseBody::Text(body) => self.text(now, session, &body, arbiter, out),
        }
    }

    /// Has what [`Self::fail`] answers heard as said in the server's place: a call that came to nothing is over, too. It is
    /// for the record; what is decided on it does not matter. Not of the older transport, whose answers come on another
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
        let cause = fault.to_string();
        for id in &self.waiting.asked {
            if !session.own.waiting.contains(id) && session.reader.dialogue.waits(id) {
                let answer = refusal(Some(id), fault.kind(), &cause);
                let spoken = spoken(answer.as_bytes(), Doubt::None);
                session.reader.read(now, spoken, arbiter, &mut Nowhere);
            }
        }
    }

    /// The server's answer does not come, or not to its end: whoever still waits for it here is told. Not where the
    /// client can ask for the rest of a stream.
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

    /// The server says nothing any more, for this reason: whatever the client waits for here is answered with it.
    pub fn turn_away(
        &mut self,
        session: &mut HttpSession,
        denial: &Denial,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        self.answer_all(session, out, |id| denied(id, denial))
    }

    /// Answers what has waited longer than allowed, if there is such a limit.
    pub fn expire(&mut self, now: Timestamp, session: &mut HttpSession, out: &mut HttpOutput) -> Flow {
        let dialogue = &mut session.reader.dialogue;
        let expired = match &self.channel {
            Channel::Legacy { .. } => dialogue.expire(now, Side::Client),
            Channel::Post | Channel::Stream => {
                let asked = self.waiting.asked.iter();
                asked.filter(|id| dialogue.expires(now, id)).cloned().collect()
            }
        };
        if expired.is_empty() {
            return Flow::On;
        }
        if !self.is_stream {
            self.fault = Some(ResponseFault::Late);
            return Flow::Over;
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
            // It was there for the answer.
            Channel::Post if self.waiting.asked.is_empty() => Flow::Over,
            Channel::Post | Channel::Stream | Channel::Legacy { .. } => Flow::On,
        }
    }

    /// Tells the client that a list changed because its verdicts did, if the client is told of such changes
    /// on this stream.
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

    /// Nobody waits here any more, as the client has gone: what it asked can still be answered on another channel.
    pub fn left(&mut self, session: &mut HttpSession) {
        for id in self.waiting.asked.drain(..) {
            if !session.own.give_up(&id) {
                session.reader.dialogue.leave(&id);
            }
        }
    }

    /// Takes the requests that wait here for an answer. They wait no longer.
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

    /// Answers everything that waits here.
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

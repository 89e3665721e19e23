//! What a server answers, as it comes.

use super::{
    super::message::{Judge, Spoken},
    Endpoint, Fault, Output, Session, endpoint,
    events::{EventExit, Heard, is_silent, pass},
    joined::Joined,
    post::Waiting,
    text,
    whole::WholeExit,
};
use crate::{
    decode::{
        Limits,
        json::Doubt,
        lines,
        sse::{Cut, Event, Events, has_hidden_line},
    },
    model::{Denial, Era, Incident, ListKind, Message, RequestId, Side, Timestamp},
    rewrite::{self, denied, end_event, event, event_with_data, list_changed, refusal},
};

/// A response on its way to the client.
#[derive(Debug)]
pub struct Response {
    limits: Limits,
    status: u16,
    waiting: Waiting,
    channel: Channel,
    body: Body,
    /// The client can ask for what it missed: the stream has told it from where.
    can_resume: bool,
    fault: Option<Fault>,
}

/// What a response answers.
#[derive(Debug)]
enum Channel {
    /// Something that was posted.
    Post,
    /// The opening of a stream on which the server says what it wants to.
    Stream,
    /// The same where everything comes on it.
    Legacy {
        told: Endpoint,
        /// Where the server wants messages posted.
        endpoint: Option<String>,
    },
}

#[derive(Debug)]
enum Body {
    Events(Events),
    /// One JSON text.
    Whole(Vec<u8>),
    /// Something else.
    Text(Vec<u8>),
}

/// Whether there is use in reading on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// There is.
    On,
    /// There is none: what comes behind goes nowhere.
    Over,
}

/// How a response that is no stream begins, which is known at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its status.
    pub status: u16,
    /// Its body is JSON of ours: whatever the server's head says of its body is no longer so.
    pub is_ours: bool,
}

impl Response {
    /// The response to something that was posted, with this head.
    #[must_use]
    pub fn to_post(limits: Limits, status: u16, content_type: Option<&str>, waiting: Waiting) -> Self {
        Self::new(limits, status, content_type, waiting, Channel::Post)
    }

    /// The response to a request without a body, with this head: a stream, or word that there is none.
    #[must_use]
    pub fn to_get(limits: Limits, status: u16, content_type: Option<&str>) -> Self {
        Self::new(limits, status, content_type, Waiting::default(), Channel::Stream)
    }

    /// The same from a server of the transport of 2024-11-05.
    #[must_use]
    pub fn legacy(limits: Limits, status: u16, content_type: Option<&str>, told: Endpoint) -> Self {
        let endpoint = None;
        let channel = Channel::Legacy { told, endpoint };
        Self::new(limits, status, content_type, Waiting::default(), channel)
    }

    fn new(
        limits: Limits,
        status: u16,
        content_type: Option<&str>,
        waiting: Waiting,
        channel: Channel,
    ) -> Self {
        let essence = content_type.and_then(|value| value.split(';').next());
        let is = |name: &str| essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(name));
        let body = if is_success(status) && is("text/event-stream") {
            Body::Events(Events::skipping(limits.max_line))
        } else if is("application/json") {
            Body::Whole(Vec::new())
        } else {
            Body::Text(Vec::new())
        };
        Self {
            limits,
            status,
            waiting,
            channel,
            body,
            can_resume: false,
            fault: None,
        }
    }

    /// Whether it goes on as it comes, with the head that it has. If not, it is known at its end.
    #[must_use]
    pub const fn is_stream(&self) -> bool {
        matches!(self.body, Body::Events(_))
    }

    /// Where the server wants messages posted, once it has said so.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        match &self.channel {
            Channel::Legacy { endpoint, .. } => endpoint.as_deref(),
            Channel::Post | Channel::Stream => None,
        }
    }

    /// How many bytes wait for more.
    #[must_use]
    pub const fn held(&self) -> usize {
        match &self.body {
            Body::Events(events) => events.held(),
            Body::Whole(body) | Body::Text(body) => body.len(),
        }
    }

    /// Takes what the server sent, cut anywhere, and puts into `out` what goes on now.
    pub fn push(
        &mut self,
        now: Timestamp,
        session: &mut Session,
        chunk: &[u8],
        judge: &mut Judge<'_>,
        out: &mut Output,
    ) -> Flow {
        if self.fault.is_some() {
            return Flow::Over;
        }
        let mut body = std::mem::replace(&mut self.body, Body::Text(Vec::new()));
        let read = match &mut body {
            Body::Events(events) => self.events(now, session, events, chunk, judge, out),
            Body::Whole(body) => keep(body, chunk, self.limits.max_line),
            Body::Text(body) => keep(body, chunk, text::LONGEST.min(self.limits.max_line)),
        };
        self.body = body;
        match read {
            Ok(()) => Flow::On,
            Err(fault) => {
                if let Fault::TooLong { limit } = fault {
                    let side = Side::Server;
                    out.incidents.push(Incident::TooLong { side, limit });
                }
                self.fault = Some(fault);
                Flow::Over
            }
        }
    }

    /// The server sends no more: puts into `out` what still goes on.
    pub fn end(
        &mut self,
        now: Timestamp,
        session: &mut Session,
        judge: &mut Judge<'_>,
        out: &mut Output,
    ) -> Ended {
        if let Some(fault) = self.fault.take() {
            return self.fail(session, &fault, out);
        }
        match std::mem::replace(&mut self.body, Body::Text(Vec::new())) {
            Body::Events(mut events) => {
                self.own_answers(out);
                if let Some(rest) = events.rest() {
                    let before = out.to_client.len();
                    let read = self.event(now, session, &rest, judge, out);
                    if out.to_client.len() > before && read.is_err() {
                        end_event(&mut out.to_client);
                    }
                }
                self.leave(session);
                self.as_it_came()
            }
            Body::Whole(body) => self.whole(now, session, &body, judge, out),
            Body::Text(body) => self.text(now, session, &body, judge, out),
        }
    }

    /// The server's answer does not come, or not to its end: whoever still waits for it here is told. Not where the
    /// client can ask for the rest of a stream.
    pub fn fail(&mut self, session: &mut Session, fault: &Fault, out: &mut Output) -> Ended {
        let cause = fault.to_string();
        let is_final = !matches!(fault, Fault::Broken { .. });
        if self.can_resume && !is_final {
            self.leave(session);
            return self.as_it_came();
        }
        self.answer_all(session, out, |id| {
            refusal(Some(id), rewrite::Fault::Answer, &cause)
        })
    }

    /// The server says nothing any more, for this reason: whatever the client waits for here is answered with it.
    pub fn turn_away(&mut self, session: &mut Session, denial: &Denial, out: &mut Output) -> Ended {
        self.answer_all(session, out, |id| denied(id, denial))
    }

    /// Answers what has waited longer than allowed, if there is such a limit.
    pub fn expire(&mut self, now: Timestamp, session: &mut Session, out: &mut Output) -> Flow {
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
        let cause = "no answer came in time";
        if !self.is_stream() {
            let cause = cause.to_owned();
            self.fault = Some(Fault::Broken { cause });
            return Flow::Over;
        }
        self.waiting.asked.retain(|id| !expired.contains(id));
        for id in expired.iter().filter(|id| !session.own.give_up(id)) {
            event(
                &refusal(Some(id), rewrite::Fault::Timeout, cause),
                &mut out.to_client,
            );
        }
        Flow::On
    }

    /// What a verdict makes of a list is not what it was: the client is told, if it is told of such changes here.
    pub fn list_changed(&self, session: &Session, kind: ListKind, out: &mut Output) {
        if !self.is_stream() {
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

    const fn as_it_came(&self) -> Ended {
        Ended {
            status: self.status,
            is_ours: false,
        }
    }

    /// Nobody waits here any more; what is asked can still be answered on another channel.
    fn leave(&mut self, session: &mut Session) {
        for id in self.waiting.asked.drain(..) {
            if !session.own.give_up(&id) {
                session.reader.dialogue.leave(&id);
            }
        }
    }

    /// What waits here for an answer. It waits no longer.
    fn take_asked(&mut self, session: &mut Session) -> Vec<RequestId> {
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
        session: &mut Session,
        out: &mut Output,
        answer: impl Fn(&RequestId) -> String,
    ) -> Ended {
        let asked = self.take_asked(session);
        let asked: Vec<RequestId> = asked.into_iter().filter(|id| !session.own.give_up(id)).collect();
        let answers = asked.iter().map(answer);
        if self.is_stream() {
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

    /// Answers of ours that this response is to have too, to be followed by others.
    fn joined(&mut self) -> Joined {
        let mut joined = match self.waiting.is_batch {
            true => Joined::array(),
            false => Joined::default(),
        };
        for answer in self.waiting.answers.drain(..) {
            joined.add(&answer);
        }
        joined
    }

    /// A response that is not the server's.
    fn ours(&self, body: Joined, out: &mut Output) -> Ended {
        let status = match (is_success(self.status), body.is_empty()) {
            (true, false) => 200,
            (true, true) if matches!(self.channel, Channel::Post) => 202,
            (true, true) => 502,
            (false, _) => self.status,
        };
        if !body.is_empty() {
            out.to_client.extend_from_slice(body.finish().as_bytes());
        }
        Ended {
            status,
            is_ours: true,
        }
    }

    /// Writes answers of ours to messages that were posted together with those that went on.
    fn own_answers(&mut self, out: &mut Output) {
        for answer in self.waiting.answers.drain(..) {
            event(&answer, &mut out.to_client);
        }
    }

    fn events(
        &mut self,
        now: Timestamp,
        session: &mut Session,
        events: &mut Events,
        mut chunk: &[u8],
        judge: &mut Judge<'_>,
        out: &mut Output,
    ) -> Result<(), Fault> {
        self.own_answers(out);
        while let Some(cut) = events.next(&mut chunk) {
            match cut {
                Cut::Event(event) => self.event(now, session, &event, judge, out)?,
                Cut::Skipped(long) => {
                    let heard = Heard {
                        asked: &mut self.waiting.asked,
                        own: &session.own.waiting,
                    };
                    heard.asked.retain(|asked| Some(asked) != long.id.as_ref());
                    let mut exit = EventExit::new(None, heard, out);
                    session.reader.too_long(Side::Server, long, &mut exit);
                }
                Cut::TooLong => {
                    let limit = events.max();
                    return Err(Fault::TooLong { limit });
                }
            }
        }
        Ok(())
    }

    fn event(
        &mut self,
        now: Timestamp,
        session: &mut Session,
        event: &Event<'_>,
        judge: &mut Judge<'_>,
        out: &mut Output,
    ) -> Result<(), Fault> {
        self.can_resume |= event.id.is_some_and(|id| !id.is_empty());
        if let Channel::Legacy { told, endpoint } = &mut self.channel
            && event.name == Some(b"endpoint")
        {
            return announce(told, endpoint, event, out);
        }
        if is_silent(event) {
            pass(event, out);
            return Ok(());
        }
        let heard = Heard {
            asked: &mut self.waiting.asked,
            own: &session.own.waiting,
        };
        let data = event.data.as_deref().unwrap_or_default();
        let mut exit = EventExit::new(Some(event), heard, out);
        let mut came = Vec::new();
        let mut judge = |message: &Message<'_>| {
            session.learned.hear(message);
            came.extend(session.own.hear(message));
            judge(message)
        };
        let spoken = spoken(data, Doubt::Space);
        session.reader.read(now, spoken, &mut judge, &mut exit);
        came.into_iter().for_each(|came| session.own.answered(came));
        Ok(())
    }

    fn whole(
        &mut self,
        now: Timestamp,
        session: &mut Session,
        body: &[u8],
        judge: &mut Judge<'_>,
        out: &mut Output,
    ) -> Ended {
        if lines::is_blank(body) {
            return self.text(now, session, body, judge, out);
        }
        let joined = self.joined();
        let has_own = !joined.is_empty();
        let heard = Heard {
            asked: &mut self.waiting.asked,
            own: &session.own.waiting,
        };
        let mut exit = WholeExit::new(!is_success(self.status), joined, heard, out);
        let mut came = Vec::new();
        let mut hear = |message: &Message<'_>| {
            session.learned.hear(message);
            came.extend(session.own.hear(message));
            judge(message)
        };
        let spoken = spoken(body, Doubt::LineEnd);
        session.reader.read(now, spoken, &mut hear, &mut exit);
        let (is_text, as_it_came, is_noise, mut instead) = exit.finish();
        came.into_iter().for_each(|came| session.own.answered(came));
        if is_text {
            return self.text(now, session, body, judge, out);
        }
        if is_noise {
            out.incidents.push(Incident::Noise { bytes: body.len() });
        }
        if as_it_came && !has_own && self.waiting.asked.is_empty() {
            out.to_client.extend_from_slice(body);
            return self.as_it_came();
        }
        if as_it_came {
            instead.add(&String::from_utf8_lossy(body));
        }
        for id in self.take_asked(session) {
            if !session.own.give_up(&id) {
                let cause = Fault::NoMessage.to_string();
                instead.add(&refusal(Some(&id), rewrite::Fault::Answer, &cause));
            }
        }
        self.ours(instead, out)
    }

    /// A body that is no message.
    fn text(
        &mut self,
        now: Timestamp,
        session: &mut Session,
        body: &[u8],
        judge: &mut Judge<'_>,
        out: &mut Output,
    ) -> Ended {
        if is_success(self.status) && !self.waiting.answers.is_empty() {
            let joined = self.joined();
            return self.ours(joined, out);
        }
        if lines::is_blank(body) {
            if !is_success(self.status) {
                self.take_asked(session);
            }
            out.to_client.extend_from_slice(body);
            return self.as_it_came();
        }
        // What was accepted only is answered elsewhere.
        let asked = match self.status {
            201..300 => Vec::new(),
            _ => self.waiting.asked.clone(),
        };
        let Some(id) = asked.first() else {
            return match text::judge(now, body, judge) {
                Some(answer) => {
                    out.to_client.extend_from_slice(&answer.body);
                    Ended {
                        status: if is_success(self.status) {
                            answer.status
                        } else {
                            self.status
                        },
                        is_ours: true,
                    }
                }
                None => {
                    out.to_client.extend_from_slice(body);
                    self.as_it_came()
                }
            };
        };
        let message = text::as_message(id, body);
        let heard = Heard {
            asked: &mut self.waiting.asked,
            own: &session.own.waiting,
        };
        let mut exit = WholeExit::new(false, Joined::default(), heard, out);
        let spoken = spoken(message.as_bytes(), Doubt::None);
        session.reader.read(now, spoken, judge, &mut exit);
        let (_, as_it_came, _, instead) = exit.finish();
        self.take_asked(session);
        for id in &asked {
            session.own.give_up(id);
        }
        if as_it_came {
            out.to_client.extend_from_slice(body);
            return self.as_it_came();
        }
        self.ours(instead, out)
    }
}

fn spoken(text: &[u8], borne: Doubt) -> Spoken<'_> {
    Spoken {
        side: Side::Server,
        text,
        borne,
        era: Era::Handshake,
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

fn keep(body: &mut Vec<u8>, chunk: &[u8], limit: usize) -> Result<(), Fault> {
    if body.len() + chunk.len() > limit {
        *body = Vec::new();
        return Err(Fault::TooLong { limit });
    }
    body.extend_from_slice(chunk);
    Ok(())
}

/// The event that says where messages are posted: clients post them here, and the place is kept.
fn announce(
    told: &Endpoint,
    known: &mut Option<String>,
    event: &Event<'_>,
    out: &mut Output,
) -> Result<(), Fault> {
    let data = event.data.as_deref().unwrap_or_default();
    let reference = str::from_utf8(data).unwrap_or("\u{fffd}");
    let place = endpoint(&told.server, reference)?;
    if known.as_ref().is_some_and(|known| *known != place) {
        return Err(Fault::Endpoint {
            cause: "it was at another one before",
        });
    }
    *known = Some(place);
    if has_hidden_line(event.raw) {
        return Err(Fault::Endpoint {
            cause: "the event that says so is written in a way that readers take differently",
        });
    }
    event_with_data(event.raw, &told.announced, &mut out.to_client);
    Ok(())
}

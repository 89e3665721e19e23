//! Responses that are no streams: one JSON text, or the text of an error.

use mcpmon_model::{Incident, RequestId, Timestamp};

use super::{
    super::{
        super::message::{AnswerReason, Arbiter, Exit, MessageHandling, NonMessage},
        HttpOutput, HttpSession, ResponseFault,
        joined::JoinedMessages,
    },
    Channel, HttpResponse, WholeResponseHead,
    events::PendingAnswers,
    hearing::KnowledgeSinks,
    is_success, spoken, text,
};
use crate::{
    decode::{
        json::{Doubt, Value},
        jsonrpc::{Envelope, Payload},
        lines,
    },
    rewrite::{self, refusal},
};

/// The status of a response whose answers come on another channel.
const ACCEPTED: u16 = 202;

impl HttpResponse {
    /// Judges a complete body that should be JSON.
    pub(super) fn whole(
        &mut self,
        now: Timestamp,
        session: &mut HttpSession,
        body: &[u8],
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        if lines::is_blank(body) {
            return self.text(now, session, body, arbiter, out);
        }
        let joined = self.joined();
        let has_own = !joined.is_empty();
        let heard = PendingAnswers {
            asked: &mut self.waiting.asked,
            own: &session.own.waiting,
        };
        let mut exit = WholeExit::new(!is_success(self.status), joined, heard, out);
        let hearing = KnowledgeSinks {
            learned: &session.learned,
            own: &session.own,
            tasks: &self.waiting.tasks,
        };
        let spoken = spoken(body, Doubt::LineEnd);
        let came = hearing.read(now, &mut session.reader, spoken, arbiter, &mut exit);
        let (is_text, as_it_came, is_noise, mut instead) = exit.finish();
        came.into_iter().for_each(|came| session.own.answered(came));
        if is_text {
            return self.text(now, session, body, arbiter, out);
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
                let cause = ResponseFault::NoMessage.to_string();
                instead.add(&refusal(Some(&id), rewrite::RefusalReason::Answer, &cause));
            }
        }
        self.ours(instead, out)
    }

    /// Judges a body that is no message.
    pub(super) fn text(
        &mut self,
        now: Timestamp,
        session: &mut HttpSession,
        body: &[u8],
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
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
        // Some clients read a stream of events whatever the content type.
        if is_success(self.status) || text::may_be_events(body) {
            out.incidents.push(Incident::Noise { bytes: body.len() });
            // A post that was only accepted is answered on another channel.
            let is_accepted = self.status == ACCEPTED || self.waiting.asked.is_empty();
            if is_success(self.status) && is_accepted && matches!(self.channel, Channel::Post) {
                return self.ours(JoinedMessages::default(), out);
            }
            return self.fail(session, &ResponseFault::NoMessage, out);
        }
        let asked = self.waiting.asked.clone();
        let Some(id) = asked.first() else {
            return match text::judge(now, body, arbiter) {
                Some(answer) => {
                    out.to_client.extend_from_slice(&answer.body);
                    WholeResponseHead {
                        status: self.status,
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
        let heard = PendingAnswers {
            asked: &mut self.waiting.asked,
            own: &session.own.waiting,
        };
        let mut exit = WholeExit::new(false, JoinedMessages::default(), heard, out);
        let spoken = spoken(message.as_bytes(), Doubt::None);
        session.reader.read(now, spoken, arbiter, &mut exit);
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

    /// Returns mcpmon's own answers for this response, to which others are added.
    pub(super) fn joined(&mut self) -> JoinedMessages {
        let mut joined = match self.waiting.is_batch {
            true => JoinedMessages::array(),
            false => JoinedMessages::default(),
        };
        for answer in self.waiting.answers.drain(..) {
            joined.add(&answer);
        }
        joined
    }

    /// Builds a response with a body of mcpmon.
    pub(super) fn ours(&self, body: JoinedMessages, out: &mut HttpOutput) -> WholeResponseHead {
        let status = match (is_success(self.status), body.is_empty()) {
            (true, false) => 200,
            (true, true) if matches!(self.channel, Channel::Post) => 202,
            (true, true) => 502,
            (false, _) => self.status,
        };
        if !body.is_empty() {
            out.to_client.extend_from_slice(body.finish().as_bytes());
        }
        WholeResponseHead {
            status,
            is_ours: true,
        }
    }
}

/// A JSON text of the server, and the part of it that is forwarded.
pub(super) struct WholeExit<'e> {
    /// True if the status says that the request failed: a text that is no answer is then the text of an error.
    is_error: bool,
    /// True if it is such a text.
    is_text: bool,
    /// True if it passes as it came.
    as_it_came: bool,
    /// True if it is not JSON.
    is_noise: bool,
    /// The text in its place.
    instead: JoinedMessages,
    heard: PendingAnswers<'e>,
    out: &'e mut HttpOutput,
}

impl<'e> WholeExit<'e> {
    pub(super) fn new(
        is_error: bool,
        instead: JoinedMessages,
        heard: PendingAnswers<'e>,
        out: &'e mut HttpOutput,
    ) -> Self {
        Self {
            is_error,
            is_text: false,
            as_it_came: false,
            is_noise: false,
            instead,
            heard,
            out,
        }
    }

    /// Returns whether it is the text of an error, whether it passes as it came, whether it is not JSON, and
    /// the text in its place.
    pub(super) fn finish(self) -> (bool, bool, bool, JoinedMessages) {
        (self.is_text, self.as_it_came, self.is_noise, self.instead)
    }
}

impl Exit for WholeExit<'_> {
    fn as_it_came(&mut self) {
        self.as_it_came = true;
    }

    fn instead(&mut self, text: &str) {
        self.instead.add(text);
    }

    fn answer(&mut self, text: &str, _why: AnswerReason) {
        self.out.to_server.push(text.to_owned());
    }

    fn gave_up(&mut self, id: &RequestId) {
        self.heard.gave_up(id);
    }

    fn needs_ids(&self) -> bool {
        false
    }

    fn divert(&mut self, what: NonMessage<'_>) {
        match what {
            NonMessage::All | NonMessage::Part(_) if self.is_error => self.is_text = true,
            NonMessage::All => self.is_noise = true,
            NonMessage::Part(text) => self.out.incidents.push(Incident::Noise { bytes: text.len() }),
        }
    }

    fn incident(&mut self, incident: Incident) {
        self.out.incidents.push(incident);
    }

    fn admits_batch(&mut self, _batch: Value<'_>) -> bool {
        self.is_text |= self.is_error;
        !self.is_error
    }

    fn admits(&mut self, envelope: &Envelope<'_>) -> MessageHandling {
        let answers = matches!(envelope.payload, Payload::Result(_) | Payload::Error(_));
        let is_awaited = envelope
            .id
            .as_ref()
            .is_some_and(|id| self.heard.asked.contains(id));
        if self.is_error && !(answers && is_awaited) {
            self.is_text = true;
            return MessageHandling::Refused;
        }
        self.heard.admits(envelope)
    }
}

//! Streams of events: each event with a message is judged, and forwarded with its id or dropped.

use std::collections::BTreeSet;

use mcpmon_model::{Incident, RequestId, Side, Timestamp};

use super::{
    super::{
        super::message::{AnswerReason, Arbiter, Exit, MessageHandling, NonMessage},
        AnnouncedEndpoint, HttpOutput, HttpSession, ResponseFault, endpoint,
    },
    Channel, HttpResponse,
    hearing::KnowledgeSinks,
    spoken,
};
use crate::{
    decode::{
        json::Doubt,
        jsonrpc::{Envelope, Payload},
        lines,
        sse::{Events, SseEvent, SseFraming, has_hidden_line, is_plain},
    },
    rewrite::{event, event_with_data, silent_event},
};

/// An event that has no meaning for readers.
const COMMENT: &[u8] = b":\n\n";

impl HttpResponse {
    /// Reads a piece of a stream.
    pub(super) fn events(
        &mut self,
        now: Timestamp,
        session: &mut HttpSession,
        events: &mut Events,
        mut chunk: &[u8],
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> Result<(), ResponseFault> {
        self.own_answers(out);
        while let Some(cut) = events.next(&mut chunk) {
            match cut {
                SseFraming::Event(event) => self.event(now, session, &event, arbiter, out)?,
                SseFraming::Skipped(long) => {
                    let heard = PendingAnswers {
                        asked: &mut self.waiting.asked,
                        own: &session.own.waiting,
                    };
                    let mut exit = EventExit::new(None, heard, out);
                    session.reader.too_long(Side::Server, &long, &mut exit);
                    exit.close();
                }
                SseFraming::TooLong => {
                    let limit = events.max();
                    return Err(ResponseFault::TooLong { limit });
                }
            }
        }
        Ok(())
    }

    /// Judges an event.
    pub(super) fn event(
        &mut self,
        now: Timestamp,
        session: &mut HttpSession,
        event: &SseEvent<'_>,
        arbiter: &mut dyn Arbiter,
        out: &mut HttpOutput,
    ) -> Result<(), ResponseFault> {
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
        let heard = PendingAnswers {
            asked: &mut self.waiting.asked,
            own: &session.own.waiting,
        };
        let data = event.data.as_deref().unwrap_or_default();
        let mut exit = EventExit::new(Some(event), heard, out);
        let hearing = KnowledgeSinks {
            learned: &session.learned,
            own: &session.own,
            tasks: &self.waiting.tasks,
        };
        let spoken = spoken(data, Doubt::Space);
        let came = hearing.read(now, &mut session.reader, spoken, arbiter, &mut exit);
        exit.close();
        came.into_iter().for_each(|came| session.own.answered(came));
        Ok(())
    }

    /// Writes mcpmon's own answers to messages that were posted together with forwarded ones.
    pub(super) fn own_answers(&mut self, out: &mut HttpOutput) {
        for answer in self.waiting.answers.drain(..) {
            event(&answer, &mut out.to_client);
        }
    }
}

/// Rewrites the event that gives the URL for posts: clients have to post to mcpmon, which keeps the server's URL.
fn announce(
    told: &AnnouncedEndpoint,
    known: &mut Option<String>,
    event: &SseEvent<'_>,
    out: &mut HttpOutput,
) -> Result<(), ResponseFault> {
    let data = event.data.as_deref().unwrap_or_default();
    let reference = str::from_utf8(data).unwrap_or("\u{fffd}");
    let place = endpoint(&told.server, reference)?;
    if known.as_ref().is_some_and(|known| *known != place) {
        return Err(ResponseFault::Endpoint {
            cause: "it was at another one before",
        });
    }
    *known = Some(place);
    if has_hidden_line(event.raw) {
        return Err(ResponseFault::Endpoint {
            cause: "the event that says so is written in a way that readers take differently",
        });
    }
    event_with_data(event.raw, &told.announced, &mut out.to_client);
    Ok(())
}

/// An event of the server, and the output for it.
pub(super) struct EventExit<'e> {
    /// `None` for an event that was too long to keep.
    event: Option<&'e SseEvent<'e>>,
    /// True if no reader cuts it into other lines.
    is_plain: bool,
    /// True if something was written in its place.
    is_written: bool,
    heard: PendingAnswers<'e>,
    out: &'e mut HttpOutput,
}

/// The requests that may be answered on this stream.
pub(super) struct PendingAnswers<'e> {
    /// Requests that are to be answered here.
    pub(super) asked: &'e mut Vec<RequestId>,
    /// Ids of mcpmon's own requests.
    pub(super) own: &'e BTreeSet<RequestId>,
}

impl PendingAnswers<'_> {
    /// Removes the request with this id from those that wait here.
    pub(super) fn gave_up(&mut self, id: &RequestId) {
        self.asked.retain(|asked| asked != id);
    }

    /// Notes what a message answers.
    pub(super) fn admits(&mut self, envelope: &Envelope<'_>) -> MessageHandling {
        let (Payload::Result(_) | Payload::Error(_), Some(id)) = (&envelope.payload, &envelope.id) else {
            return MessageHandling::Goes;
        };
        self.gave_up(id);
        if self.own.contains(id) {
            return MessageHandling::Ours;
        }
        MessageHandling::Goes
    }
}

impl<'e> EventExit<'e> {
    pub(super) fn new(
        event: Option<&'e SseEvent<'e>>,
        heard: PendingAnswers<'e>,
        out: &'e mut HttpOutput,
    ) -> Self {
        Self {
            event,
            is_plain: event.is_some_and(|event| is_plain(event.raw)),
            is_written: false,
            heard,
            out,
        }
    }

    /// Writes a comment, which keeps the connection alive, in place of an event that was dropped.
    pub(super) fn close(self) {
        if !self.is_written {
            self.out.to_client.extend_from_slice(COMMENT);
        }
    }

    fn data(&self) -> &'e [u8] {
        self.event
            .and_then(|event| event.data.as_deref())
            .unwrap_or_default()
    }
}

/// Returns whether an event cannot contain a message: it is a comment, an id for resuming, or a retry time.
pub(super) fn is_silent(event: &SseEvent<'_>) -> bool {
    event.data.as_deref().is_none_or(lines::is_blank)
}

/// Writes an event without a message.
pub(super) fn pass(event: &SseEvent<'_>, out: &mut HttpOutput) {
    if is_plain(event.raw) {
        return out.to_client.extend_from_slice(event.raw);
    }
    silent_event(event.raw, &mut out.to_client);
}

impl Exit for EventExit<'_> {
    fn as_it_came(&mut self) {
        let Some(event) = self.event.filter(|_| self.is_plain) else {
            return self.instead(&String::from_utf8_lossy(self.data()));
        };
        self.out.to_client.extend_from_slice(event.raw);
        self.is_written = true;
    }

    fn instead(&mut self, text: &str) {
        match self.event {
            Some(event) if !self.is_written => {
                event_with_data(event.raw, text, &mut self.out.to_client);
            }
            Some(_) | None => event(text, &mut self.out.to_client),
        }
        self.is_written = true;
    }

    fn answer(&mut self, text: &str, _why: AnswerReason) {
        self.out.to_server.push(text.to_owned());
    }

    fn gave_up(&mut self, id: &RequestId) {
        self.heard.gave_up(id);
    }

    fn divert(&mut self, what: NonMessage<'_>) {
        let bytes = match what {
            NonMessage::All => self.data().len(),
            NonMessage::Part(text) => text.len(),
        };
        self.out.incidents.push(Incident::Noise { bytes });
    }

    fn incident(&mut self, incident: Incident) {
        self.out.incidents.push(incident);
    }

    fn admits(&mut self, envelope: &Envelope<'_>) -> MessageHandling {
        self.heard.admits(envelope)
    }
}

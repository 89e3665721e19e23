//! A stream of events: each that has a message in it is judged, and goes on with its id, or does not.

use std::collections::BTreeSet;

use super::{
    super::message::{Admission, Exit, Stray, Why},
    Output,
};
use crate::{
    decode::{
        jsonrpc::{Envelope, Payload},
        lines,
        sse::{Event, has_hidden_line},
    },
    model::{Incident, RequestId},
    rewrite::{event, event_with_data},
};

/// An event of the server, and what is to be written because of it.
pub(super) struct EventExit<'e> {
    /// `None` for one that was too long to be kept.
    event: Option<&'e Event<'e>>,
    /// Beside its data there is nothing that some reader takes for data.
    is_plain: bool,
    /// Something was written in its place.
    is_written: bool,
    heard: Heard<'e>,
    out: &'e mut Output,
}

/// What has to be known of who waits for what.
pub(super) struct Heard<'e> {
    /// Requests that are to be answered here.
    pub(super) asked: &'e mut Vec<RequestId>,
    /// Questions of our own.
    pub(super) own: &'e BTreeSet<RequestId>,
}

impl Heard<'_> {
    /// Takes note of what is answered.
    pub(super) fn admits(&mut self, envelope: &Envelope<'_>) -> Admission {
        let (Payload::Result(_) | Payload::Error(_), Some(id)) = (&envelope.payload, &envelope.id) else {
            return Admission::Goes;
        };
        self.asked.retain(|asked| asked != id);
        if self.own.contains(id) {
            return Admission::Ours;
        }
        Admission::Goes
    }
}

impl<'e> EventExit<'e> {
    pub(super) fn new(event: Option<&'e Event<'e>>, heard: Heard<'e>, out: &'e mut Output) -> Self {
        Self {
            event,
            is_plain: event.is_some_and(|event| !has_hidden_line(event.raw)),
            is_written: false,
            heard,
            out,
        }
    }

    fn data(&self) -> &'e [u8] {
        self.event
            .and_then(|event| event.data.as_deref())
            .unwrap_or_default()
    }
}

/// Whether an event carries nothing that could be a message: a comment, an id to go on from, a time to wait.
pub(super) fn is_silent(event: &Event<'_>) -> bool {
    event.data.as_deref().is_none_or(lines::is_blank)
}

/// Writes an event that carries nothing.
pub(super) fn pass(event: &Event<'_>, out: &mut Output) {
    if !has_hidden_line(event.raw) {
        out.to_client.extend_from_slice(event.raw);
    }
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
            Some(event) if self.is_plain && !self.is_written => {
                event_with_data(event.raw, text, &mut self.out.to_client);
            }
            Some(_) | None => event(text, &mut self.out.to_client),
        }
        self.is_written = true;
    }

    fn answer(&mut self, text: &str, _why: Why) {
        self.out.to_server.push(text.to_owned());
    }

    fn divert(&mut self, what: Stray<'_>) {
        let bytes = match what {
            Stray::All => self.data().len(),
            Stray::Part(text) => text.len(),
        };
        self.out.incidents.push(Incident::Noise { bytes });
    }

    fn incident(&mut self, incident: Incident) {
        self.out.incidents.push(incident);
    }

    fn admits(&mut self, envelope: &Envelope<'_>) -> Admission {
        self.heard.admits(envelope)
    }
}

//! A response that is one JSON text.

use super::{
    super::message::{Admission, Exit, Stray, Why},
    Output,
    events::Heard,
    joined::Joined,
};
use crate::{
    decode::{
        json::Value,
        jsonrpc::{Envelope, Payload},
    },
    model::Incident,
};

/// A JSON text of the server, and what goes on of it.
pub(super) struct WholeExit<'e> {
    /// Its status says that the request failed: what is no answer to it is the text of an error.
    is_error: bool,
    /// Such a text it is.
    is_text: bool,
    /// It goes on as it came.
    as_it_came: bool,
    /// It is no JSON.
    is_noise: bool,
    /// What goes on otherwise.
    instead: Joined,
    heard: Heard<'e>,
    out: &'e mut Output,
}

impl<'e> WholeExit<'e> {
    pub(super) fn new(is_error: bool, instead: Joined, heard: Heard<'e>, out: &'e mut Output) -> Self {
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

    /// Whether it is the text of an error, goes on as it came, is no JSON; and what goes on otherwise.
    pub(super) fn finish(self) -> (bool, bool, bool, Joined) {
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

    fn answer(&mut self, text: &str, _why: Why) {
        self.out.to_server.push(text.to_owned());
    }

    fn divert(&mut self, what: Stray<'_>) {
        match what {
            Stray::All | Stray::Part(_) if self.is_error => self.is_text = true,
            Stray::All => self.is_noise = true,
            Stray::Part(text) => self.out.incidents.push(Incident::Noise { bytes: text.len() }),
        }
    }

    fn incident(&mut self, incident: Incident) {
        self.out.incidents.push(incident);
    }

    fn admits_batch(&mut self, _batch: Value<'_>) -> bool {
        self.is_text |= self.is_error;
        !self.is_error
    }

    fn admits(&mut self, envelope: &Envelope<'_>) -> Admission {
        let answers = matches!(envelope.payload, Payload::Result(_) | Payload::Error(_));
        let is_awaited = envelope
            .id
            .as_ref()
            .is_some_and(|id| self.heard.asked.contains(id));
        if self.is_error && !(answers && is_awaited) {
            self.is_text = true;
            return Admission::Refused;
        }
        self.heard.admits(envelope)
    }
}

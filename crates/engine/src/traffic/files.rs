//! Files that calls name: what has to be looked up, and what was found.

use mcpmon_detect::{
    arguments::Arguments,
    protected_paths::{Lookup, Places, RealPath, lookups},
};
use mcpmon_model::{Content, FromClient, Message};

use super::Traffic;

impl Traffic {
    /// Sets the places of files on this host.
    pub(crate) fn know_places(&mut self, places: Places) {
        self.files.places = places;
    }

    /// Sets the resolved paths of the next message.
    pub(crate) fn know_files(&mut self, real: Vec<RealPath>) {
        self.files.real = real;
    }

    /// The paths of a message that have to be looked up.
    pub(crate) fn lookups(message: &Message<'_>) -> Vec<Lookup> {
        match &message.content {
            Content::Client(FromClient::Call(call)) => {
                let arguments = call.arguments.map(Arguments::walk);
                arguments.map_or_else(Vec::new, |arguments| lookups(call, &arguments))
            }
            Content::Client(FromClient::Read { uri }) => Lookup::of(uri.to_string()).into_iter().collect(),
            Content::Client(
                FromClient::Prompt { .. }
                | FromClient::Request { .. }
                | FromClient::Reply { .. }
                | FromClient::Notice { .. },
            )
            | Content::Server(_) => Vec::new(),
        }
    }
}

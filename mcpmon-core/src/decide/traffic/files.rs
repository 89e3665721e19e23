//! Files that calls name: what has to be looked up, and what was found.

use super::Traffic;
use crate::{
    inspect::{
        arguments::Arguments,
        protected_paths::{Lookup, Places, RealPath, lookups},
    },
    model::{Content, FromClient, Message},
};

impl Traffic {
    /// Where things lie on this host.
    pub(in crate::decide) fn know_places(&mut self, places: Places) {
        self.files.places = places;
    }

    /// What the paths of the next message lead to.
    pub(in crate::decide) fn know_files(&mut self, real: Vec<RealPath>) {
        self.files.real = real;
    }

    /// The paths of a message that have to be looked up.
    pub(in crate::decide) fn lookups(message: &Message<'_>) -> Vec<Lookup> {
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

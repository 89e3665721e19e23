//! Files that calls name: what has to be looked up, and what was found.

use mcpmon_detect::{
    arguments::Arguments,
    protected_paths::{Lookup, Places, lookups},
};
use mcpmon_model::{Content, FromClient, Message};

use super::Traffic;

impl Traffic {
    /// Sets the places of files on this host.
    pub(crate) fn know_places(&mut self, places: Places) {
        self.files.places = places;
    }
}

/// Returns the paths in a message that may be links, which only a file system resolves. Most messages have none.
pub fn file_lookups(message: &Message<'_>) -> Vec<Lookup> {
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

//! What is known of a server from one session to the next: which arguments its tools want in headers. Since 2026-07-28
//! every request is a session of its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::annotations::{Annotation, annotations};
use crate::model::{Content, FromServer, ListKind, Message, RawJson};

/// Most tools that are known to want headers.
const MOST: usize = 4096;

/// A tool with a longer name is not remembered.
const LONGEST: usize = 1 << 10;

/// What the sessions of one caller at one server know together. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Learned(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    tools: BTreeMap<Box<str>, Arc<[Annotation]>>,
}

impl Learned {
    /// The headers that a tool wants, as far as a list said so.
    pub(super) fn annotations(&self, tool: &str) -> Option<Arc<[Annotation]>> {
        self.lock().tools.get(tool).cloned()
    }

    /// Takes note of what a server says.
    pub(super) fn hear(&self, message: &Message<'_>) {
        let Content::Server(FromServer::Listing(listing)) = &message.content else {
            return;
        };
        if listing.kind != ListKind::Tools {
            return;
        }
        let mut known = self.lock();
        for item in &listing.items {
            known.tool(&item.name, item.definition);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every change is one insertion or removal: what a panic left is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn tool(&mut self, name: &str, definition: RawJson<'_>) {
        let annotations = annotations(definition);
        let has_room = self.tools.len() < MOST || self.tools.contains_key(name);
        if annotations.is_empty() || !has_room || name.len() > LONGEST {
            self.tools.remove(name);
            return;
        }
        self.tools.insert(name.into(), annotations.into());
    }
}

//! Where a wrapper's records go while there is a daemon: to it, and to the user's own store when it is away.

use std::{io, path::PathBuf};

use mcpmon_core::model::{DefinitionKey, DefinitionRecord, Recent, Timestamp};
use serde_json::{Map, Value};

use super::{
    link::{Link, LinkError},
    protocol::{Hear, MAX_SAID, Say},
};
use crate::record::{Access, Destination, Entry, Limits, Progress, Store, StoreError, json};

/// Bytes of a line for what it carries.
const ROOM: usize = MAX_SAID - 1024;

/// The daemon, with the user's own store behind it.
#[derive(Debug)]
pub(super) struct ThroughDaemon {
    link: Link,
    own: PathBuf,
    store: Option<Store>,
}

impl ThroughDaemon {
    pub(super) const fn new(link: Link, own: PathBuf) -> Self {
        Self {
            link,
            own,
            store: None,
        }
    }

    fn send(&self, entries: &[Entry]) -> Result<(), LinkError> {
        for say in lines(entries) {
            match self.link.keep(&say)? {
                Hear::Done => {}
                Hear::Unkept(cause) => return Err(LinkError::Refused(cause)),
                Hear::State(_) | Hear::Checked(_) | Hear::Challenge(_) | Hear::Error(_) => {
                    return Err(LinkError::Refused("it answered something else".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// What the daemon does not take is not lost: the user can read it with `--db`.
    fn keep_here(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        if self.store.is_none() {
            self.store = Some(Store::open(&self.own, Access::default())?);
        }
        match &mut self.store {
            Some(store) => store.keep(entries),
            None => Ok(()),
        }
    }
}

impl Destination for ThroughDaemon {
    fn keep(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let Err(error) = self.send(entries) else {
            return Ok(());
        };
        tracing::debug!(%error, "kept in the user's own store");
        self.keep_here(entries).map_err(|own| match own.is_transient() {
            true => own,
            false => StoreError::Unreachable {
                who: format!(
                    "the daemon on {}, nor keep it here ({own})",
                    self.link.path().display()
                ),
                source: io::Error::other(error.to_string()),
            },
        })
    }

    fn prune(&mut self, limits: Limits, now: Timestamp) -> Result<Progress, StoreError> {
        match &mut self.store {
            Some(store) => store.prune(limits, now),
            None => Ok(Progress::Done),
        }
    }
}

/// What one line carries.
#[derive(Default)]
struct Line {
    events: Vec<Map<String, Value>>,
    rescued: Vec<Map<String, Value>>,
    definitions: Vec<DefinitionRecord>,
    forget: Vec<DefinitionKey>,
    recent: Vec<Recent>,
    size: usize,
}

impl Line {
    fn say(self) -> Say {
        Say::Keep {
            events: self.events,
            rescued: self.rescued,
            definitions: self.definitions,
            forget: self.forget,
            recent: self.recent,
        }
    }
}

/// As few lines as the entries fit into. One that fits into none is left out: nobody could read the line.
fn lines(entries: &[Entry]) -> Vec<Say> {
    let mut full = Vec::new();
    let mut line = Line::default();
    for entry in entries {
        let size = size(entry);
        if size > ROOM {
            tracing::warn!("a record is too large for the daemon");
            continue;
        }
        if line.size + size > ROOM {
            full.push(std::mem::take(&mut line).say());
        }
        line.size += size;
        match entry {
            Entry::Event(event) => line.events.push(json::to_json(event)),
            Entry::Rescued(event) => line.rescued.push(json::to_json(event)),
            Entry::Definition(record) => line.definitions.push(record.clone()),
            Entry::ForgetDefinition(key) => line.forget.push(key.clone()),
            Entry::Recent(_, recent) => line.recent.push((**recent).clone()),
            Entry::Unread(_, output, _) => line.recent.push(Recent::Output((**output).clone())),
            // The end of the connection says who leaves; the rest is the daemon's own business.
            Entry::Leave(..)
            | Entry::PutPin(_)
            | Entry::DeletePins(_)
            | Entry::DeletePinSet(..)
            | Entry::Declare(_)
            | Entry::ForgetRunning
            | Entry::PolicyChanged
            | Entry::Body(_)
            | Entry::ShortenBodies(_) => {}
        }
    }
    if line.size > 0 {
        full.push(line.say());
    }
    full
}

/// Bytes an entry takes in a line; 0 where it is not sent.
fn size(entry: &Entry) -> usize {
    let json = match entry {
        Entry::Event(event) | Entry::Rescued(event) => serde_json::to_string(&json::to_json(event)),
        Entry::Definition(record) => serde_json::to_string(record),
        Entry::ForgetDefinition(key) => serde_json::to_string(key),
        Entry::Recent(_, recent) => serde_json::to_string(recent),
        Entry::Unread(_, output, _) => serde_json::to_string(output),
        Entry::Leave(..)
        | Entry::PutPin(_)
        | Entry::DeletePins(_)
        | Entry::DeletePinSet(..)
        | Entry::Declare(_)
        | Entry::ForgetRunning
        | Entry::PolicyChanged
        | Entry::Body(_)
        | Entry::ShortenBodies(_) => return 0,
    };
    json.map_or(0, |json| json.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{StoredEvent, sample};

    fn event(reason: usize) -> Entry {
        let mut event = sample::denied("files");
        event.reason = Some("x".repeat(reason));
        Entry::Event(StoredEvent::new(uuid::Uuid::nil(), "laptop", event))
    }

    fn lengths(entries: &[Entry]) -> Vec<usize> {
        lines(entries)
            .iter()
            .map(|say| serde_json::to_string(say).expect("plain values").len())
            .collect()
    }

    #[test]
    fn a_batch_is_one_line_until_it_is_too_long() {
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(
            lengths(&[Entry::ForgetRunning]),
            [0; 0],
            "the daemon's own business"
        );
        assert_eq!(lengths(&[event(10), event(10)]).len(), 1);
        let many: Vec<Entry> = (0..10).map(|_| event(1 << 20)).collect();
        let lengths = lengths(&many);
        assert_eq!(lengths.len(), 4);
        assert!(lengths.iter().all(|length| *length < MAX_SAID), "{lengths:?}");
    }

    #[test]
    fn what_fits_into_no_line_does_not_take_the_rest_with_it() {
        let sent = lines(&[event(MAX_SAID), event(10)]);
        assert!(matches!(&sent[..], [Say::Keep { events, .. }] if events.len() == 1));
    }
}

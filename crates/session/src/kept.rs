//! Destination of a wrapper's records: the daemon, or the user's own store while the daemon is away.

use std::{io, path::PathBuf};

use mcpmon_model::{Recent, Timestamp};
use mcpmon_store::{Access, Destination, PruneCount, RetentionLimits, Store, StoreEntry, StoreError, json};

use super::{
    link::{Link, LinkError, LinkMessage},
    protocol::{Hear, MAX_SAID, Say},
};

/// A destination that sends to the daemon, and writes to the user's own store if the daemon cannot be reached.
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

    fn send(&self, entries: &[StoreEntry]) -> Result<(), LinkError> {
        for line in lines(entries) {
            match self.link.keep(&line)? {
                Hear::Done => {}
                Hear::Unkept(cause) => return Err(LinkError::Refused(cause)),
                Hear::State(_) | Hear::Checked(_) | Hear::Fate(_) | Hear::Challenge(_) | Hear::Error(_) => {
                    return Err(LinkError::Refused("it answered something else".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Stores entries that the daemon does not accept in the user's own store, which `--db` can read.
    fn keep_here(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError> {
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
    fn keep(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError> {
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

    fn prune(&mut self, limits: RetentionLimits, now: Timestamp) -> Result<PruneCount, StoreError> {
        match &mut self.store {
            Some(store) => store.prune(limits, now),
            None => Ok(PruneCount::default()),
        }
    }
}

/// Builds as few lines as the entries fit into. An entry that fits into none is left out, because the
/// receiver could not read the line.
fn lines(entries: &[StoreEntry]) -> Vec<LinkMessage> {
    let mut lines = Vec::new();
    let mut rest = vec![entries];
    while let Some(entries) = rest.pop() {
        let Some(say) = say(entries) else { continue };
        match LinkMessage::of(&say) {
            Ok(line) if line.len() <= MAX_SAID => lines.push(line),
            Ok(_) if entries.len() > 1 => {
                let (first, second) = entries.split_at(entries.len() / 2);
                rest.extend([second, first]);
            }
            Ok(_) => tracing::warn!("a record is too large for the daemon"),
            Err(error) => tracing::warn!(%error, "a record cannot be told to the daemon"),
        }
    }
    lines
}

/// Builds the message with the entries for the daemon. Returns `None` if it would be empty.
fn say(entries: &[StoreEntry]) -> Option<Say> {
    let (mut events, mut rescued) = (Vec::new(), Vec::new());
    let (mut definitions, mut forget) = (Vec::new(), Vec::new());
    let (mut held, mut released) = (Vec::new(), Vec::new());
    let mut recent = Vec::new();
    for entry in entries {
        match entry {
            StoreEntry::Event(event) => events.push(json::to_json(event)),
            StoreEntry::Rescued(event) => rescued.push(json::to_json(event)),
            StoreEntry::Definition(record) => definitions.push(record.clone()),
            StoreEntry::ForgetDefinition(key) => forget.push(key.clone()),
            StoreEntry::HoldCall(_, call) => held.push((**call).clone()),
            StoreEntry::ReleaseCall(_, id) => released.push(id.clone()),
            StoreEntry::Recent(_, happened, _) => recent.push((**happened).clone()),
            StoreEntry::Unread(_, output, _) => recent.push(Recent::Output((**output).clone())),
            // The daemon notices from the end of the connection who leaves; it writes the other entries itself.
            StoreEntry::Leave(..)
            | StoreEntry::PutPin(_)
            | StoreEntry::DeletePins(_)
            | StoreEntry::DeletePinSet(..)
            | StoreEntry::Declare(_)
            | StoreEntry::ForgetRunning
            | StoreEntry::Watch(_)
            | StoreEntry::Unposted(_)
            | StoreEntry::PolicyChanged
            | StoreEntry::Body(_)
            | StoreEntry::ShortenBodies(_) => {}
        }
    }
    let counts = [
        events.len(),
        rescued.len(),
        definitions.len(),
        forget.len(),
        held.len(),
        released.len(),
        recent.len(),
    ];
    counts.iter().any(|count| *count > 0).then_some(Say::Keep {
        events,
        rescued,
        definitions,
        forget,
        held,
        released,
        recent,
    })
}

#[cfg(test)]
mod tests {
    use mcpmon_store::{StoredEvent, sample};

    use super::*;

    fn event(reason: usize) -> StoreEntry {
        let mut event = sample::denied("files");
        event.reason = Some("x".repeat(reason));
        StoreEntry::Event(StoredEvent::new(uuid::Uuid::nil(), "laptop", event))
    }

    fn lengths(entries: &[StoreEntry]) -> Vec<usize> {
        lines(entries).iter().map(LinkMessage::len).collect()
    }

    #[test]
    fn a_batch_is_one_line_until_it_is_too_long() {
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(
            lengths(&[StoreEntry::ForgetRunning]),
            [0; 0],
            "the daemon's own business"
        );
        assert_eq!(lengths(&[event(10), event(10)]).len(), 1);
        let many: Vec<StoreEntry> = (0..10).map(|_| event(1 << 20)).collect();
        let lengths = lengths(&many);
        assert_eq!(lengths.len(), 4);
        assert!(lengths.iter().all(|length| *length < MAX_SAID), "{lengths:?}");
    }

    #[test]
    fn what_fits_into_no_line_does_not_take_the_rest_with_it() {
        let sent = lines(&[event(10), event(MAX_SAID), event(10), event(10)]);
        let whole = LinkMessage::of(&say(&[event(10)]).expect("one")).expect("plain");
        let two = LinkMessage::of(&say(&[event(10), event(10)]).expect("two")).expect("plain");
        assert_eq!(sent, [whole, two]);
    }
}

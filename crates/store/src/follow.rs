//! Following new events: the caller decides when to read again.

use super::{Filter, QueryError, StoreReader, StoredEvent};

/// Most events that are read at once.
const LIMIT: u32 = 1000;

/// A position in the stream of events that match a filter.
///
/// Positions only increase, so retention neither hides nor repeats anything.
#[derive(Debug)]
pub struct Follow {
    reader: StoreReader,
    filter: Filter,
    seq: i64,
}

impl Follow {
    /// Starts after the newest `limit` events of `reader`, which are returned, oldest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn start(
        reader: StoreReader,
        filter: Filter,
        limit: u32,
    ) -> Result<(Self, Vec<StoredEvent>), QueryError> {
        // An event that is written between the two reads is returned once, by the next call.
        let seq = reader.last_seq()?;
        let mut events = reader.events(&filter, limit)?;
        events.retain(|event| event.seq <= seq);
        Ok((Self { reader, filter, seq }, events))
    }

    /// Returns the events since the last call.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn next_events(&mut self) -> Result<Vec<StoredEvent>, QueryError> {
        self.reader.thaw();
        let events = self.reader.events_after(self.seq, &self.filter, LIMIT)?;
        if let Some(last) = events.last() {
            self.seq = last.seq;
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn pids(events: &[StoredEvent]) -> Vec<u32> {
        events
            .iter()
            .filter_map(|event| event.process.as_ref())
            .map(|process| process.pid)
            .collect()
    }

    #[test]
    fn new_events_come_once_whatever_retention_removes() {
        let (directory, mut store) = sample::store();
        sample::fill(&mut store, (2..6).map(|pid| sample::started("a", pid)));
        let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
        let (mut follow, events) = Follow::start(reader, Filter::default(), 2).unwrap();
        assert_eq!(pids(&events), [4, 5]);
        assert_eq!(pids(&follow.next_events().unwrap()), [0; 0]);

        store.connection().execute("DELETE FROM events", []).unwrap();
        sample::fill(&mut store, [sample::started("a", 7)]);
        assert_eq!(pids(&follow.next_events().unwrap()), [7]);
        assert_eq!(pids(&follow.next_events().unwrap()), [0; 0]);
    }

    #[test]
    fn only_what_matches_is_followed() {
        let (directory, mut store) = sample::store();
        let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
        let filter = Filter {
            server: Some("b".into()),
            ..Filter::default()
        };
        let (mut follow, events) = Follow::start(reader, filter, 10).unwrap();
        assert!(events.is_empty());
        sample::fill(&mut store, [sample::started("a", 2), sample::started("b", 3)]);
        assert_eq!(pids(&follow.next_events().unwrap()), [3]);
    }

    #[test]
    fn more_than_one_look_holds_comes_in_the_next() {
        let (directory, mut store) = sample::store();
        let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
        let (mut follow, _) = Follow::start(reader, Filter::default(), 10).unwrap();
        sample::fill(&mut store, (2..LIMIT + 5).map(|pid| sample::started("a", pid)));
        assert_eq!(follow.next_events().unwrap().len(), 1000);
        assert_eq!(pids(&follow.next_events().unwrap()), [1002, 1003, 1004]);
    }
}

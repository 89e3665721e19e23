//! Results are searched for sensitive content on their way to the store, so that no client waits for it.

use mcpmon_engine::cross_server;
use mcpmon_model::{Recent, Timestamp};
use mcpmon_store::{ClaimedPosts, Destination, PruneCount, RetentionLimits, StoreEntry, StoreError};

/// A destination that receives results after they were searched.
#[derive(Debug)]
pub(super) struct ResultReader<D>(pub(super) D);

impl<D: Destination> Destination for ResultReader<D> {
    fn prepare(&mut self, entries: Vec<StoreEntry>) -> Vec<StoreEntry> {
        let read = entries.into_iter().filter_map(read).collect();
        self.0.prepare(read)
    }

    fn keep(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError> {
        self.0.keep(entries)
    }

    fn prune(&mut self, limits: RetentionLimits, now: Timestamp) -> Result<PruneCount, StoreError> {
        self.0.prune(limits, now)
    }

    fn keeps_unposted(&self) -> bool {
        self.0.keeps_unposted()
    }

    fn claim_unposted(&mut self, sink: &str, now: Timestamp, max: usize) -> Result<ClaimedPosts, StoreError> {
        self.0.claim_unposted(sink, now, max)
    }

    fn rest(&mut self) {
        self.0.rest();
    }
}

/// Converts an entry to the form in which it is stored. Of a result only the kinds of sensitive content are stored, if
/// there are any.
fn read(entry: StoreEntry) -> Option<StoreEntry> {
    let StoreEntry::Unread(session, output, result) = entry else {
        return Some(entry);
    };
    let output = cross_server::read_result(*output, &result)?;
    let output = Box::new(Recent::Output(output));
    Some(StoreEntry::Recent(session, output, None))
}

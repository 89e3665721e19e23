//! Results are read for what is sensitive in them on their way to the store, while no client waits.

use std::borrow::Cow;

use mcpmon_core::{
    decide::cross_server,
    model::{Recent, Timestamp},
};

use crate::record::{Destination, Entry, Limits, Progress, StoreError};

/// A destination that gets results as they were read.
#[derive(Debug)]
pub(super) struct Reading<D>(pub(super) D);

impl<D: Destination> Destination for Reading<D> {
    fn keep(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        self.0.keep(&read(entries))
    }

    fn prune(&mut self, limits: Limits, now: Timestamp) -> Result<Progress, StoreError> {
        self.0.prune(limits, now)
    }

    fn rest(&mut self) {
        self.0.rest();
    }
}

fn read(entries: &[Entry]) -> Cow<'_, [Entry]> {
    if !entries.iter().any(|entry| matches!(entry, Entry::Unread(..))) {
        return Cow::Borrowed(entries);
    }
    let read = entries.iter().filter_map(|entry| {
        let Entry::Unread(session, output, result) = entry else {
            return Some(entry.clone());
        };
        let output = cross_server::read_result((**output).clone(), result)?;
        Some(Entry::Recent(session.clone(), Box::new(Recent::Output(output))))
    });
    Cow::Owned(read.collect())
}

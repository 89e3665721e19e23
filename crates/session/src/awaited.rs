//! The destination of records while the store cannot be opened: they wait in memory until it can be.

use std::{io, iter};

use mcpmon_model::Timestamp;
use mcpmon_store::{
    Access, ClaimedPosts, Destination, PruneCount, RetentionLimits, SessionMember, Store, StoreEntry,
    StoreError, StoreLocation,
};

use super::clock;

/// A store that is opened, and whose session is joined, as soon as that is possible.
#[derive(Debug)]
pub(super) struct AwaitedStore {
    location: StoreLocation,
    member: SessionMember,
    store: Option<Store>,
}

impl AwaitedStore {
    pub(super) const fn new(location: StoreLocation, member: SessionMember) -> Self {
        Self {
            location,
            member,
            store: None,
        }
    }

    fn store(&mut self) -> Result<&mut Store, StoreError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => self.open().map_err(|error| StoreError::Unreachable {
                who: format!("the store {}", self.location.path().display()),
                source: io::Error::other(chain(&error)),
            })?,
        };
        Ok(self.store.insert(store))
    }

    fn open(&self) -> Result<Store, StoreError> {
        let mut store = Store::open_at(&self.location, Access::default())?;
        store.join(clock::now(), &self.member)?;
        Ok(store)
    }
}

impl Destination for AwaitedStore {
    fn keep(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError> {
        self.store()?.keep(entries)
    }

    fn prune(&mut self, limits: RetentionLimits, now: Timestamp) -> Result<PruneCount, StoreError> {
        match &mut self.store {
            Some(store) => store.prune(limits, now),
            None => Ok(PruneCount::default()),
        }
    }

    fn keeps_unposted(&self) -> bool {
        true
    }

    fn claim_unposted(&mut self, sink: &str, now: Timestamp, max: usize) -> Result<ClaimedPosts, StoreError> {
        match &mut self.store {
            Some(store) => store.claim_unposted(sink, now, max),
            None => Ok(ClaimedPosts::default()),
        }
    }

    fn rest(&mut self) {
        if let Some(store) = &mut self.store {
            store.rest();
        }
    }
}

/// Returns an error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

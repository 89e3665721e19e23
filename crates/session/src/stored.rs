//! The shared state in the user's own store. In one transaction, the calls of others are read, and a call is checked and
//! counted. The window itself is in memory, and is updated from the store.

use std::path::PathBuf;

use mcpmon_engine::cross_server::CallWindow;
use mcpmon_guard::Absence;
use mcpmon_model::{Digest, Recent, SharedCall, SharedCallAnswer};
use mcpmon_policy::Policy;
use mcpmon_store::{Access, Generation, SessionMember, Store, StoreError, StoreReader};

use super::{
    process,
    protocol::SharedSessionState,
    shared::{SharedError, StateHolder, read_state},
};

/// The state of one session in a store.
#[derive(Debug)]
pub(super) struct StoreHolder {
    path: PathBuf,
    /// This conversation.
    member: SessionMember,
    /// The number of changes; `None` until the store can be opened.
    generation: Option<Generation>,
    /// Opened when something changes for the first time.
    reader: Option<StoreReader>,
    /// Opened when the first call is checked.
    store: Option<Store>,
    window: CallWindow,
    /// The last row that was read into the window.
    seen: i64,
}

impl StoreHolder {
    pub(super) fn new(path: PathBuf, member: SessionMember, generation: Option<Generation>) -> Self {
        Self {
            path,
            member,
            generation,
            reader: None,
            store: None,
            window: CallWindow::default(),
            seen: 0,
        }
    }

    /// Calls `work` with the updated window, and stores what it returns.
    fn among<T>(
        &mut self,
        work: impl FnOnce(&mut CallWindow) -> (T, Option<Recent>),
    ) -> Result<T, StoreError> {
        let store = match &mut self.store {
            Some(store) => store,
            None => {
                let store = Store::open(&self.path, Access::default())?.with_somebody_waiting()?;
                self.store.insert(store)
            }
        };
        let (window, seen) = (&mut self.window, &mut self.seen);
        let session = &self.member.session;
        let ((value, own), row) = store.among_recent(session, *seen, |news: Vec<(i64, Recent)>| {
            // These rows are committed: they stay in the window even if this transaction fails.
            for (row, recent) in news {
                window.take(recent);
                *seen = row;
            }
            let (value, own) = work(window);
            ((value, own.clone()), own)
        })?;
        if let (Some(own), Some(row)) = (own, row) {
            window.take(own);
            *seen = row;
        }
        Ok(value)
    }
}

impl StateHolder for StoreHolder {
    fn number(&self) -> Option<&Generation> {
        self.generation.as_ref()
    }

    fn name(&self) -> &'static str {
        "store"
    }

    fn absence(&self) -> Absence {
        Absence {
            reason: "the user's own store cannot be used, and mcp.fail_closed is set",
            remedy: "mcpmon doctor",
        }
    }

    fn look(&mut self, _policy: Digest) -> Result<SharedSessionState, SharedError> {
        let changes = self.generation();
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => self.reader.insert(StoreReader::open(&self.path)?),
        };
        // While the store could not be written, only its content at that time was read.
        reader.thaw();
        let generation = Generation::path(&self.path);
        if self.generation.is_none() {
            self.generation = Generation::open(&generation).ok();
        }
        let members = reader.members(&self.member.session)?;
        Ok(SharedSessionState {
            generation,
            changes,
            ..read_state(reader, &self.member, members, process::lives)?
        })
    }

    fn check(&mut self, policy: &Policy, call: &SharedCall) -> Result<SharedCallAnswer, SharedError> {
        Ok(self.among(|window| window.check(policy, call))?)
    }

    fn take(&mut self, recent: Recent) -> Result<(), SharedError> {
        Ok(self.among(|_| ((), Some(recent)))?)
    }

    fn waits_for_disk(&self) -> bool {
        true
    }
}

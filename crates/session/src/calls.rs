//! The calls of a session in the user's own store: in one transaction, the calls of others are read, and a call is
//! checked and counted. The window itself is in memory, and is updated from the store.

use std::path::PathBuf;

use mcpmon_engine::cross_server::CallWindow;
use mcpmon_model::{Recent, SessionId, SharedCall, SharedCallAnswer};
use mcpmon_policy::Policy;
use mcpmon_store::{Access, Store, StoreError};

/// The calls of a session in the store.
#[derive(Debug)]
pub(super) struct StoredCalls {
    path: PathBuf,
    session: SessionId,
    /// Opened when the first call is checked.
    store: Option<Store>,
    window: CallWindow,
    /// The last row that was read into the window.
    seen: i64,
}

impl StoredCalls {
    pub(super) fn new(path: PathBuf, session: SessionId) -> Self {
        Self {
            path,
            session,
            store: None,
            window: CallWindow::default(),
            seen: 0,
        }
    }

    /// Checks a call together with those of all processes of the session, and counts it.
    pub(super) fn check(
        &mut self,
        policy: &Policy,
        call: &SharedCall,
    ) -> Result<SharedCallAnswer, StoreError> {
        self.among(|window| window.check(policy, call))
    }

    /// Makes a recent call known to all processes of the session.
    pub(super) fn take(&mut self, recent: Recent) -> Result<(), StoreError> {
        self.among(|_| ((), Some(recent)))
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
        let ((value, own), row) = store.among_recent(&self.session, *seen, |news: Vec<(i64, Recent)>| {
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

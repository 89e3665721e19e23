//! The calls of a session in the user's own store: what others did is read, a call is checked and counted, in one
//! transaction. The window itself is in memory; the store brings what is new.

use std::path::PathBuf;

use mcpmon_engine::cross_server::CallWindow;
use mcpmon_model::{Recent, SessionId, SharedCall, SharedCallAnswer};
use mcpmon_policy::Policy;
use mcpmon_store::{Access, Store, StoreError};

/// The calls of a session, as the store has them.
#[derive(Debug)]
pub(super) struct StoredCalls {
    path: PathBuf,
    session: SessionId,
    /// Opened with the first call that is checked.
    store: Option<Store>,
    window: CallWindow,
    /// The last row that is in the window.
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

    /// Checks a call beside those of all processes of the session, and counts it.
    pub(super) fn check(
        &mut self,
        policy: &Policy,
        call: &SharedCall,
    ) -> Result<SharedCallAnswer, StoreError> {
        self.among(|window| window.check(policy, call))
    }

    /// Tells all processes of the session what happened in it.
    pub(super) fn take(&mut self, recent: Recent) -> Result<(), StoreError> {
        self.among(|_| ((), Some(recent)))
    }

    /// Does `work` with all that happened, and adds what comes of it.
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
            // Others have them for good: they stay in the window even where this transaction fails.
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

//! Requests of the client that wait for their answers.

use std::{collections::BTreeMap, sync::Mutex};

use mcpmon_model::RequestId;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinHandle},
};

use super::lock;

/// Most requests that wait at a time: each has a connection, or a stream of one.
const MAX_REQUESTS: usize = 1024;

/// The requests of a bridge that wait.
#[derive(Debug, Default)]
pub(super) struct PendingBridgeRequests {
    requests: Mutex<BTreeMap<RequestId, PendingBridgeRequest>>,
    fewer: Notify,
}

#[derive(Debug)]
struct PendingBridgeRequest {
    /// True if the request is cancelled by closing its stream.
    stateless: bool,
    /// True if its stream has no end.
    endless: bool,
    task: AbortHandle,
}

impl PendingBridgeRequests {
    /// Returns whether `more` requests may wait.
    pub(super) fn has_room(&self, more: usize) -> bool {
        lock(&self.requests).len() + more <= MAX_REQUESTS
    }

    /// Starts a task that waits for the answers to `ids`.
    pub(super) fn start(
        &self,
        ids: &[RequestId],
        stateless: bool,
        endless: bool,
        start: impl FnOnce() -> JoinHandle<()>,
    ) -> JoinHandle<()> {
        // The lock is held until the request is registered, so that the task cannot finish it earlier.
        let mut requests = lock(&self.requests);
        let task = start();
        requests.extend(ids.iter().map(|id| {
            let request = PendingBridgeRequest {
                stateless,
                endless,
                task: task.abort_handle(),
            };
            (id.clone(), request)
        }));
        task
    }

    /// Removes a request that was answered. Returns whether it was waiting.
    pub(super) fn answered(&self, id: &RequestId) -> bool {
        let was = lock(&self.requests).remove(id).is_some();
        self.fewer.notify_waiters();
        was
    }

    /// Removes a request for which the client no longer waits. Returns whether the end of its stream tells the server,
    /// so that no message is needed.
    pub(super) fn abandon(&self, id: &RequestId) -> bool {
        let Some(request) = lock(&self.requests).remove(id) else {
            return false;
        };
        self.fewer.notify_waiters();
        if request.stateless {
            request.task.abort();
        }
        request.stateless
    }

    /// Removes all requests, and stops their tasks.
    pub(super) fn abandon_all(&self) {
        for (_, request) in std::mem::take(&mut *lock(&self.requests)) {
            request.task.abort();
        }
        self.fewer.notify_waiters();
    }

    /// Removes and returns all requests.
    pub(super) fn take_all(&self) -> Vec<RequestId> {
        let all = std::mem::take(&mut *lock(&self.requests));
        self.fewer.notify_waiters();
        all.into_keys().collect()
    }

    /// Waits until only requests without an end are left.
    pub(super) async fn none(&self) {
        loop {
            let fewer = self.fewer.notified();
            if lock(&self.requests).values().all(|request| request.endless) {
                return;
            }
            fewer.await;
        }
    }
}

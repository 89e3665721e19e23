//! Requests that wait for their answers.

use std::{collections::BTreeMap, sync::Mutex};

use mcpmon_model::RequestId;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinHandle},
};

use super::lock;

/// Requests that wait at a time: each has a connection, or a stream of one.
const MOST: usize = 1024;

/// Requests that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct PendingBridgeRequests {
    requests: Mutex<BTreeMap<RequestId, PendingBridgeRequest>>,
    fewer: Notify,
}

#[derive(Debug)]
struct PendingBridgeRequest {
    /// True if it is cancelled by closing its stream.
    stateless: bool,
    /// True for a stream without an end.
    endless: bool,
    task: AbortHandle,
}

impl PendingBridgeRequests {
    /// Returns whether so many more may wait.
    pub(super) fn has_room(&self, more: usize) -> bool {
        lock(&self.requests).len() + more <= MOST
    }

    /// Starts a task that waits for the answers to `ids`.
    pub(super) fn start(
        &self,
        ids: &[RequestId],
        stateless: bool,
        endless: bool,
        start: impl FnOnce() -> JoinHandle<()>,
    ) -> JoinHandle<()> {
        // Nothing is done before it is known that it waits.
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

    /// The answer to `id` came. Whether anybody waited.
    pub(super) fn answered(&self, id: &RequestId) -> bool {
        let was = lock(&self.requests).remove(id).is_some();
        self.fewer.notify_waiters();
        was
    }

    /// Nobody waits for `id` any more. Whether that is all there is to do: the server hears of it by the end of its
    /// stream.
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

    /// Nobody waits for anything any more.
    pub(super) fn abandon_all(&self) {
        for (_, request) in std::mem::take(&mut *lock(&self.requests)) {
            request.task.abort();
        }
        self.fewer.notify_waiters();
    }

    /// All that wait, who wait no longer.
    pub(super) fn take_all(&self) -> Vec<RequestId> {
        let all = std::mem::take(&mut *lock(&self.requests));
        self.fewer.notify_waiters();
        all.into_keys().collect()
    }

    /// Waits until nothing waits but what has no end.
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

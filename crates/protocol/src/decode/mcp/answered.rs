//! Requests that were answered: where channels come and go, their answers can come again.

use std::collections::VecDeque;

use mcpmon_model::{RequestId, Timestamp};

use super::PendingClientRequest;

/// Requests of one dialogue that were answered; the oldest is forgotten for a new one.
#[derive(Debug)]
pub(super) struct AnsweredRequests {
    max: usize,
    latest: VecDeque<(RequestId, Timestamp, PendingClientRequest)>,
}

impl AnsweredRequests {
    /// None are remembered.
    pub(super) const NONE: Self = Self::new(0);
    /// The latest are.
    pub(super) const LATEST: Self = Self::new(256);

    const fn new(max: usize) -> Self {
        Self {
            max,
            latest: VecDeque::new(),
        }
    }

    /// Returns whether no requests are remembered.
    pub(super) const fn is_none(&self) -> bool {
        self.max == 0
    }

    pub(super) fn remember(&mut self, id: &RequestId, at: Timestamp, request: &PendingClientRequest) {
        if self.is_none() {
            return;
        }
        self.latest.retain(|(known, ..)| known != id);
        if self.latest.len() == self.max {
            self.latest.pop_front();
        }
        self.latest.push_back((id.clone(), at, request.clone()));
    }

    /// Returns the request with this id, if its answer can come again.
    pub(super) fn again(&self, id: &RequestId) -> Option<(Timestamp, PendingClientRequest)> {
        let (_, at, request) = self.latest.iter().find(|(known, ..)| known == id)?;
        Some((*at, request.clone()))
    }
}

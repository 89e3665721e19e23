//! Requests that wait for an answer, by their id; capped.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use mcpmon_model::{RequestId, Timestamp};

/// Cancelled requests that an answer may still come for.
const CANCELLED: usize = 64;

/// Requests of one side that wait for an answer.
#[derive(Debug)]
pub(super) struct Pending<T> {
    max: usize,
    waiting: BTreeMap<RequestId, PendingRequest<T>>,
    /// Oldest first. An id here may have been answered or used again since.
    cancelled: VecDeque<RequestId>,
}

#[derive(Debug)]
struct PendingRequest<T> {
    at: Timestamp,
    cancelled: bool,
    /// Nothing more than being open is expected of it.
    stands: bool,
    value: T,
}

impl<T> PendingRequest<T> {
    fn is_late(&self, now: Timestamp, timeout: Duration) -> bool {
        !self.stands && now.since(self.at) >= timeout
    }
}

impl<T> Pending<T> {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            max,
            waiting: BTreeMap::new(),
            cancelled: VecDeque::new(),
        }
    }

    /// Returns the reason why a request with this id cannot wait.
    pub(super) fn objection(&self, id: &RequestId) -> Option<&'static str> {
        match self.waiting.get(id) {
            Some(entry) if !entry.cancelled => Some("another request with this id waits for its answer"),
            None if self.waiting.len() >= self.max => Some("too many requests wait for an answer"),
            Some(_) | None => None,
        }
    }

    /// Lets a request wait that nothing was objected to.
    pub(super) fn insert(&mut self, id: RequestId, at: Timestamp, value: T) {
        let entry = PendingRequest {
            at,
            cancelled: false,
            stands: false,
            value,
        };
        self.waiting.insert(id, entry);
    }

    /// Returns whether a request with this id waits, and its sender still wants the answer.
    pub(super) fn waits(&self, id: &RequestId) -> bool {
        self.waiting.get(id).is_some_and(|entry| !entry.cancelled)
    }

    /// Returns whether the sender of any request still expects an answer to it.
    pub(super) fn is_any_awaited(&self) -> bool {
        self.waiting
            .values()
            .any(|entry| !entry.cancelled && !entry.stands)
    }

    /// Returns the waiting request with this id.
    pub(super) fn value(&self, id: &RequestId) -> Option<&T> {
        self.waiting.get(id).map(|entry| &entry.value)
    }

    /// Takes the request that an answer with this id answers, and the time of the request.
    pub(super) fn take(&mut self, id: &RequestId) -> Option<(Timestamp, T)> {
        let entry = self.waiting.remove(id)?;
        Some((entry.at, entry.value))
    }

    /// Its sender no longer wants an answer, which may be on its way. Only the latest of these are remembered.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        let Some(entry) = self.waiting.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut entry.cancelled, true) {
            return;
        }
        self.cancelled.push_back(id.clone());
        if self.cancelled.len() > CANCELLED
            && let Some(oldest) = self.cancelled.pop_front()
            && self.waiting.get(&oldest).is_some_and(|entry| entry.cancelled)
        {
            self.waiting.remove(&oldest);
        }
    }

    /// Has one wait as long as its sender wants to: the answer is the end of a stream that is open.
    pub(super) fn stand(&mut self, id: &RequestId) {
        if let Some(entry) = self.waiting.get_mut(id) {
            entry.stands = true;
        }
    }

    /// Removes what has waited for `timeout`; those whose senders still want an answer.
    pub(super) fn expire(&mut self, now: Timestamp, timeout: Duration) -> Vec<RequestId> {
        let expired = self
            .waiting
            .extract_if(.., |_, entry| entry.is_late(now, timeout));
        expired
            .filter(|(_, entry)| !entry.cancelled)
            .map(|(id, _)| id)
            .collect()
    }

    /// Removes one that has waited for `timeout`; whether it had, and its sender still wants an answer.
    pub(super) fn expires(&mut self, now: Timestamp, timeout: Duration, id: &RequestId) -> bool {
        if !self
            .waiting
            .get(id)
            .is_some_and(|entry| entry.is_late(now, timeout))
        {
            return false;
        }
        self.waiting.remove(id).is_some_and(|entry| !entry.cancelled)
    }

    /// Returns whether one has waited for `timeout`, and its sender still wants an answer.
    pub(super) fn is_late(&self, now: Timestamp, timeout: Duration, id: &RequestId) -> bool {
        let is_late = |entry: &PendingRequest<T>| !entry.cancelled && entry.is_late(now, timeout);
        self.waiting.get(id).is_some_and(is_late)
    }

    /// Removes everything; those whose senders still want an answer.
    pub(super) fn drain(&mut self) -> Vec<RequestId> {
        let waiting = std::mem::take(&mut self.waiting);
        let wanted = waiting.into_iter().filter(|(_, entry)| !entry.cancelled);
        wanted.map(|(id, _)| id).collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> RequestId {
        RequestId::Number(number.to_string().into())
    }

    fn full(max: usize) -> Pending<usize> {
        let mut pending = Pending::new(max);
        for number in 0..max {
            assert_eq!(pending.objection(&id(number)), None);
            pending.insert(id(number), Timestamp(0), number);
        }
        pending
    }

    #[test]
    fn an_id_is_free_again_once_it_was_answered() {
        let mut pending = full(3);
        assert!(pending.objection(&id(1)).is_some());
        assert_eq!(pending.take(&id(1)), Some((Timestamp(0), 1)));
        assert_eq!(pending.objection(&id(1)), None);
        assert_eq!(pending.take(&id(1)), None);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut pending = full(3);
        assert!(pending.objection(&id(3)).is_some());
        pending.take(&id(0));
        assert_eq!(pending.objection(&id(3)), None);
    }

    #[test]
    fn a_number_and_a_text_are_two_ids() {
        let pending = full(1);
        let text = RequestId::Text("0".into());
        assert_eq!(
            pending.objection(&text),
            Some("too many requests wait for an answer")
        );
    }

    #[test]
    fn the_latest_cancelled_can_still_be_answered() {
        let mut pending = full(CANCELLED + 1);
        for number in 0..=CANCELLED {
            pending.cancel(&id(number));
            pending.cancel(&id(number));
        }
        assert_eq!(pending.len(), CANCELLED);
        assert_eq!(pending.take(&id(0)), None);
        assert_eq!(pending.take(&id(1)), Some((Timestamp(0), 1)));
        assert_eq!(pending.objection(&id(2)), None);
    }

    #[test]
    fn what_is_cancelled_is_not_drained() {
        let mut pending = full(3);
        pending.cancel(&id(1));
        assert_eq!(pending.drain(), [id(0), id(2)]);
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn only_what_waited_long_enough_expires() {
        let mut pending = full(2);
        pending.insert(id(2), Timestamp(5), 2);
        pending.cancel(&id(0));
        assert_eq!(pending.expire(Timestamp(10), Duration::from_nanos(6)), [id(1)]);
        assert_eq!(pending.len(), 1);
    }

    #[test]
    fn what_stands_is_never_late() {
        let (mut pending, long) = (full(2), Duration::from_nanos(5));
        pending.stand(&id(0));
        assert!(
            !pending.is_late(Timestamp(10), long, &id(0)) && pending.is_late(Timestamp(10), long, &id(1))
        );
        assert!(!pending.expires(Timestamp(10), long, &id(0)));
        assert_eq!(pending.expire(Timestamp(10), long), [id(1)]);
        assert!(pending.waits(&id(0)), "and is there until it ends");
        pending.insert(id(0), Timestamp(0), 0);
        assert!(
            pending.is_late(Timestamp(10), long, &id(0)),
            "another one with its id"
        );
    }
}

//! Records of processes that wait to be judged, in an order that is fair to users: one who starts many programs does not
//! delay the programs of others.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use mcpmon_common::event::ExecRecord;
use mcpmon_kernel::records::Record;

use super::Core;

/// Most records that wait. Further ones stay in the kernel's ring.
const MAX_QUEUED: usize = 4096;
/// Most records of one user that wait. Beyond, starts that are neither stopped nor of a server are dropped and counted.
const MAX_QUEUED_OF_USER: usize = 2048;
/// Records of a user that are judged before those of others. With as few, records keep their order while there is no
/// backlog.
const QUANTUM: u64 = 8;
/// The time after which the engine looks for new records, although some wait to be judged.
const TURN: Duration = Duration::from_millis(2);

/// The queues of the users.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    users: BTreeMap<u32, UserQueue<T>>,
    waiting: usize,
    /// The time of the latest record that was read, nanoseconds since boot.
    read_until: u64,
    /// True if no record was left in the ring.
    is_complete: bool,
    dropped: u64,
}

#[derive(Debug)]
struct UserQueue<T> {
    records: VecDeque<(u64, T)>,
    /// Records judged since the queue began, plus those that the least served user had then.
    served: u64,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            users: BTreeMap::new(),
            waiting: 0,
            read_until: 0,
            is_complete: true,
            dropped: 0,
        }
    }
}

impl<T> FairQueue<T> {
    /// Adds a record that was written at `time`. A user's record beyond the limit is dropped if `may_drop` is true.
    fn push(&mut self, uid: u32, time: u64, record: T, may_drop: bool) {
        self.read_until = self.read_until.max(time);
        let least = self.users.values().map(|user| user.served).min().unwrap_or(0);
        let user = self.users.entry(uid).or_insert_with(|| UserQueue {
            records: VecDeque::new(),
            served: least,
        });
        if may_drop && user.records.len() >= MAX_QUEUED_OF_USER {
            self.dropped += 1;
            return;
        }
        user.records.push_back((time, record));
        self.waiting += 1;
    }

    /// Removes the next record: the oldest of the users that were served least.
    fn pop(&mut self) -> Option<T> {
        let rank = |user: &UserQueue<T>| {
            let oldest = user.records.front().map(|(time, _)| *time);
            (user.served / QUANTUM, oldest)
        };
        let (uid, _) = self.users.iter().min_by_key(|(_, user)| rank(user))?;
        let uid = *uid;
        let user = self.users.get_mut(&uid)?;
        let record = user.records.pop_front();
        user.served += 1;
        if user.records.is_empty() {
            self.users.remove(&uid);
        }
        self.waiting -= usize::from(record.is_some());
        record.map(|(_, record)| record)
    }

    /// Returns the time up to which the records of a user are judged, in nanoseconds since boot; those of all users if
    /// the user is not known.
    pub(super) fn judged_until(&self, uid: Option<u32>) -> u64 {
        let is_wanted = |of: &u32| uid.is_none_or(|uid| uid == *of);
        let wanted = self.users.iter().filter(|(of, _)| is_wanted(of));
        let oldest = wanted
            .filter_map(|(_, user)| user.records.front().map(|(time, _)| *time))
            .min();
        let read_until = if self.is_complete {
            u64::MAX
        } else {
            self.read_until
        };
        oldest.unwrap_or(read_until)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    fn has_room(&self) -> bool {
        self.waiting < MAX_QUEUED
    }

    /// Returns the number of records that were dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

impl Core {
    /// Reads the records in the rings. Those of processes are queued; those of connections are returned.
    pub(super) fn read(&mut self, rings: &mut mcpmon_kernel::rings::Rings) -> Vec<Record> {
        let mut connections = Vec::new();
        let mut is_complete = false;
        while !is_complete && self.waiting.has_room() {
            let waiting = &mut self.waiting;
            is_complete = rings.drain(|record| {
                let time = record.header().time;
                match owner(&record) {
                    Some((uid, may_drop)) => waiting.push(uid, time, record, may_drop),
                    None => connections.push(record),
                }
            });
        }
        self.waiting.is_complete = is_complete;
        connections
    }

    /// Judges queued records, for a limited time.
    pub(super) fn judge_waiting(&mut self) {
        let end = Instant::now() + TURN;
        while let Some(record) = self.waiting.pop() {
            self.record(record);
            if Instant::now() >= end {
                break;
            }
        }
    }

    /// Judges all records that are queued or in the rings, before the engine ends.
    pub(super) fn judge_rest(&mut self, rings: &mut mcpmon_kernel::rings::Rings) {
        let connections = self.read(rings);
        while let Some(record) = self.waiting.pop() {
            self.record(record);
        }
        for record in connections {
            self.record(record);
        }
    }
}

/// Returns the user of a record of a process, and whether it may be dropped; `None` for connections.
fn owner(record: &Record) -> Option<(u32, bool)> {
    const KEPT: u32 = ExecRecord::FLAG_HELD | ExecRecord::FLAG_KILLED | ExecRecord::FLAG_CANDIDATE;
    match record {
        Record::Exec(exec) => {
            let record = &exec.record;
            Some((record.uid, record.entry.instance == 0 && record.flags & KEPT == 0))
        }
        Record::Fork(fork) => Some((fork.uid, false)),
        Record::Exit(exit) => Some((exit.uid, false)),
        Record::Resume(resume) => Some((resume.record.uid, false)),
        Record::RefusedStart(start) => Some((start.record.uid, false)),
        Record::Connect(_) | Record::Close(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped<T>(queue: &mut FairQueue<T>) -> Vec<T> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn without_a_backlog_records_keep_their_order() {
        let mut queue = FairQueue::default();
        for (time, uid) in [7, 8, 7, 9, 8].into_iter().enumerate() {
            queue.push(uid, time as u64, time, false);
        }
        assert_eq!(popped(&mut queue), [0, 1, 2, 3, 4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_users_flood_delays_others_by_one_quantum_at_most() {
        let mut queue = FairQueue::default();
        for time in 0..1000 {
            queue.push(7, time, 7, false);
        }
        for _ in 0..500 {
            queue.pop();
        }
        for time in [1000, 1001] {
            queue.push(8, time, 8, false);
        }
        let order = popped(&mut queue);
        let last = order.iter().rposition(|uid| *uid == 8).expect("it is judged");
        assert!(last < 2 * QUANTUM as usize, "{last}");
        assert_eq!(order.len(), 502);
    }

    #[test]
    fn only_the_flooding_users_ordinary_starts_are_dropped() {
        let mut queue = FairQueue::default();
        for time in 0..MAX_QUEUED_OF_USER as u64 + 5 {
            queue.push(7, time, 7, true);
        }
        queue.push(7, 9999, 7, false);
        queue.push(8, 9999, 8, true);
        assert_eq!((queue.take_dropped(), queue.take_dropped()), (5, 0));
        assert_eq!(popped(&mut queue).len(), MAX_QUEUED_OF_USER + 2);
    }

    #[test]
    fn records_of_a_user_are_judged_although_others_wait() {
        let mut queue = FairQueue {
            is_complete: false,
            ..FairQueue::default()
        };
        queue.push(7, 10, (), false);
        queue.push(8, 20, (), false);
        assert_eq!(queue.judged_until(Some(7)), 10);
        assert_eq!(queue.judged_until(None), 10);
        assert_eq!(queue.judged_until(Some(9)), 20, "as far as was read");
        queue.is_complete = true;
        assert_eq!(queue.judged_until(Some(9)), u64::MAX);
        assert_eq!(queue.judged_until(None), 10);
    }
}

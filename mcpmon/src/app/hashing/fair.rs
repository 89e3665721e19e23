//! A fair queue: users take turns, so that many or long jobs of one user do not delay those of others.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

/// The waiting jobs, and the numbers of running ones.
#[derive(Debug)]
pub(super) struct Fair<J> {
    waiting: BTreeMap<u32, VecDeque<J>>,
    queued: usize,
    running: BTreeMap<u32, usize>,
    /// The user of the job that was taken last.
    last: u32,
}

/// Most waiting jobs.
pub(super) const WAITING: usize = 16 * 1024;
/// Most waiting jobs of one user. A server has at most one waiting job, and a user runs at most this many servers.
pub(super) const WAITING_OF_USER: usize = 1024;

impl<J> Default for Fair<J> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            queued: 0,
            running: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<J> Fair<J> {
    /// Queues `job`, in place of a waiting one that it `replaces`. Returns it if the queue is full.
    pub(super) fn push(&mut self, user: u32, job: J, replaces: impl Fn(&J) -> bool) -> Result<(), J> {
        let jobs = self.waiting.entry(user).or_default();
        if let Some(before) = jobs.iter_mut().find(|before| replaces(before)) {
            *before = job;
            return Ok(());
        }
        if jobs.len() >= WAITING_OF_USER || self.queued >= WAITING {
            if jobs.is_empty() {
                self.waiting.remove(&user);
            }
            return Err(job);
        }
        jobs.push_back(job);
        self.queued += 1;
        Ok(())
    }

    /// Takes the next job, and its user: users take turns, and at most `share` jobs of one user run at a time.
    pub(super) fn take(&mut self, share: usize) -> Option<(u32, J)> {
        let after = self.waiting.range((Bound::Excluded(self.last), Bound::Unbounded));
        let user = after
            .chain(self.waiting.range(..=self.last))
            .map(|(user, _)| *user)
            .find(|user| self.running.get(user).is_none_or(|running| *running < share))?;
        let jobs = self.waiting.get_mut(&user)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.waiting.remove(&user);
        }
        self.queued -= 1;
        self.last = user;
        *self.running.entry(user).or_default() += 1;
        Some((user, job))
    }

    /// Notes that a job of `user` is done.
    pub(super) fn done(&mut self, user: u32) {
        if let Some(running) = self.running.get_mut(&user) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(jobs: impl IntoIterator<Item = (u32, u32)>) -> Fair<u32> {
        let mut fair = Fair::default();
        for (user, job) in jobs {
            fair.push(user, job, |_| false).expect("room");
        }
        fair
    }

    #[test]
    fn users_take_turns() {
        let mut fair = with([(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (3, 31)]);
        let order: Vec<u32> = std::iter::from_fn(|| fair.take(9)).map(|(_, job)| job).collect();
        assert_eq!(order, [10, 20, 30, 11, 31, 12]);
    }

    #[test]
    fn nobody_has_more_than_a_share() {
        let mut fair = with([(1, 10), (1, 11), (1, 12), (2, 20)]);
        let mut take = || fair.take(2);
        assert_eq!(
            [take(), take(), take()],
            [Some((1, 10)), Some((2, 20)), Some((1, 11))]
        );
        assert_eq!(take(), None, "two are worked on");
        fair.done(1);
        assert_eq!(fair.take(2), Some((1, 12)));
        assert_eq!(fair.take(2), None);
    }

    #[test]
    fn what_became_pointless_gives_its_place() {
        let mut fair = with([(1, 10), (1, 11)]);
        assert_eq!(fair.push(1, 99, |before| *before == 10), Ok(()));
        assert_eq!(
            [fair.take(9), fair.take(9), fair.take(9)],
            [Some((1, 99)), Some((1, 11)), None]
        );
    }

    #[test]
    fn a_full_queue_gives_the_job_back_and_others_have_room() {
        let mut fair = with((0..1024).map(|job| (1, job)));
        assert_eq!(fair.push(1, 7777, |_| false), Err(7777));
        assert_eq!(fair.push(2, 1, |_| false), Ok(()));
    }
}

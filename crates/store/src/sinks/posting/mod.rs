//! Posting of events, one by one, from a thread of its own, so that recording never waits. Queue, attempts, backlog and
//! losses are the same for every receiver; a receiver only posts one event. The backlog in the store is kept under the
//! sink's name.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mcpmon_model::{Severity, Timestamp};
use uuid::Uuid;

use super::{
    super::{ClaimedPosts, UnpostedEvents, writer::now},
    EventFormat, EventSink, StoreEntry, StoredEvent, events, line,
};

/// Most events that wait.
const CAPACITY: usize = 1024;
/// Attempts for one event, including the first.
const TRIES: u32 = 6;
/// Pause before the second attempt; each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest time for the last events when the process ends.
const LAST: Duration = Duration::from_secs(2);
/// Age of an event, in nanoseconds, up to which it is posted later if all attempts failed.
const MAX_AGE: i64 = 3 * 24 * 3600 * 1_000_000_000;

/// A receiver of posts.
pub(super) trait Receiver: Send + 'static {
    /// Posts one event, and waits for the answer.
    ///
    /// # Errors
    /// Returns an error if the event was not accepted.
    fn post(&self, post: &Post) -> Result<(), PostFailure>;
}

/// The reason why a receiver did not accept an event.
pub(super) struct PostFailure {
    /// True if the receiver may accept it later.
    pub(super) may_pass: bool,
    /// The cause, without secrets.
    pub(super) cause: String,
}

/// The sink.
#[derive(Debug)]
pub(super) struct Posting {
    name: &'static str,
    min_severity: Severity,
    /// The reason why nothing is posted, if that is so.
    trouble: Option<String>,
    shared: Arc<PostingShared>,
    thread: Option<JoinHandle<()>>,
}

/// The state that both threads share.
#[derive(Debug, Default)]
struct PostingShared {
    state: Mutex<PostingState>,
    /// Notified when an event came, or the process ends.
    news: Condvar,
    /// Notified when an event was posted or given up.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct PostingState {
    /// The events that are not posted yet; the first one may be in progress.
    waiting: VecDeque<Post>,
    is_ending: bool,
    /// True if the thread makes no more attempts.
    is_over: bool,
    /// Stored events that were acknowledged, or refused for good, and need not be kept any longer.
    settled: Vec<Uuid>,
    /// Stored events that were not posted before the end.
    left: Vec<(Uuid, Timestamp)>,
    lost: u64,
    cause: Option<String>,
}

/// An event to be posted.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) id: Uuid,
    at: Timestamp,
    /// The event in the JSON form of docs/events.md.
    pub(super) body: Arc<[u8]>,
    /// True if the store keeps the event until it is acknowledged.
    is_stored: bool,
}

impl Posting {
    /// Starts posting events of `min_severity` or worse to `receiver`. If `receiver` is an error, the error is reported
    /// as the cause of all losses.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub(super) fn start(
        name: &'static str,
        min_severity: Severity,
        receiver: Result<impl Receiver, String>,
    ) -> io::Result<Self> {
        let mut posting = Self {
            name,
            min_severity,
            trouble: None,
            shared: Arc::default(),
            thread: None,
        };
        match receiver {
            Err(trouble) => posting.trouble = Some(trouble),
            Ok(receiver) => {
                let shared = Arc::clone(&posting.shared);
                let poster = Poster { receiver, shared };
                let thread = std::thread::Builder::new().name(name.to_owned());
                posting.thread = Some(thread.spawn(move || poster.run())?);
            }
        }
        Ok(posting)
    }

    /// Returns whether `event` has to be kept until it is acknowledged.
    fn wants(&self, event: &StoredEvent) -> bool {
        self.trouble.is_none() && event.severity >= self.min_severity
    }

    /// Queues the events that are severe enough. If the queue is full, an event is posted later if `is_stored`, and
    /// counted as lost otherwise.
    fn post<'a>(&mut self, events: impl Iterator<Item = &'a StoredEvent>, is_stored: bool) {
        let mut state = self.shared.lock();
        for event in events.filter(|event| event.severity >= self.min_severity) {
            let cause = match &self.trouble {
                Some(cause) => cause.clone(),
                None if state.waiting.len() < CAPACITY && !state.is_ending => {
                    state.waiting.push_back(Post {
                        id: event.id,
                        at: event.timestamp,
                        body: line(event, EventFormat::Mcpmon).into(),
                        is_stored,
                    });
                    continue;
                }
                None if is_stored => continue,
                None => format!("the {} is behind", self.name),
            };
            state.lost += 1;
            state.cause = Some(cause);
        }
        drop(state);
        self.shared.news.notify_one();
    }

    /// Counts events that were removed from the store unposted.
    fn count_lost(&self, count: u64) {
        if count > 0 {
            let mut state = self.shared.lock();
            state.lost += count;
            state.cause = Some(format!(
                "more events waited for the {} than are kept for it",
                self.name
            ));
        }
    }

    /// Returns the events that the store need not keep any longer.
    fn take_settled(&self) -> Vec<Uuid> {
        std::mem::take(&mut self.shared.lock().settled)
    }

    /// Returns the events that were not posted before the end.
    fn take_left(&self) -> Vec<(Uuid, Timestamp)> {
        std::mem::take(&mut self.shared.lock().left)
    }
}

impl EventSink for Posting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tell(&mut self, entries: &[StoreEntry], is_stored: bool) {
        self.post(events(entries), is_stored);
    }

    /// Returns the changes to the events that the store keeps for the receiver.
    fn backlog(&mut self, entries: &[StoreEntry], claimed_until: Timestamp) -> Option<StoreEntry> {
        let (mut waiting, settled) = (self.take_left(), self.take_settled());
        let wanted = events(entries).filter(|event| self.wants(event));
        waiting.extend(wanted.map(|event| (event.id, event.timestamp)));
        let is_needed = !waiting.is_empty() || !settled.is_empty();
        is_needed.then_some(StoreEntry::Unposted(UnpostedEvents {
            sink: self.name,
            waiting,
            claimed_until,
            settled,
        }))
    }

    fn waiting(&self) -> Vec<(Uuid, Timestamp)> {
        let state = self.shared.lock();
        let stored = state.waiting.iter().filter(|post| post.is_stored);
        stored.map(|post| (post.id, post.at)).collect()
    }

    fn room(&self) -> Option<usize> {
        Some(match self.trouble {
            Some(_) => 0,
            None => CAPACITY.saturating_sub(self.shared.lock().waiting.len()),
        })
    }

    fn post_again(&mut self, claimed: &ClaimedPosts) {
        self.count_lost(claimed.lost);
        self.post(claimed.events.iter(), true);
    }

    fn take_lost(&mut self) -> Option<(u64, String)> {
        let mut state = self.shared.lock();
        let cause = state.cause.take()?;
        Some((std::mem::take(&mut state.lost), cause))
    }

    /// Waits a moment for posts in progress. Events that are left are for [`Self::take_left`] if `is_stored`, and
    /// counted as lost otherwise; the first of them may have been posted nevertheless.
    fn finish(&mut self, is_stored: bool) {
        let mut state = self.shared.lock();
        state.is_ending = true;
        self.shared.news.notify_one();
        let deadline = Instant::now() + LAST;
        while !state.waiting.is_empty() {
            let patience = deadline.saturating_duration_since(Instant::now());
            let is_over = state.is_over || self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            if patience.is_zero() || is_over {
                break;
            }
            (state, _) = self
                .shared
                .progress
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let left: Vec<Post> = state.waiting.drain(..).collect();
        let (stored, lost): (Vec<Post>, Vec<Post>) = left.into_iter().partition(|_| is_stored);
        state.left.extend(stored.iter().map(|post| (post.id, post.at)));
        if !lost.is_empty() {
            tracing::warn!("the {} did not take the last events", self.name);
            state.lost += lost.len() as u64;
            state.cause = Some(format!("the process ended before the {} took them", self.name));
        }
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        self.finish(false);
    }
}

impl PostingShared {
    fn lock(&self) -> MutexGuard<'_, PostingState> {
        // A poisoned lock is used anyway: no code that holds it can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PostingState {
    /// Records the outcome of the post of the first event.
    fn finish_post(&mut self, post: &Post, outcome: Result<(), GivenUp>) {
        self.waiting.pop_front_if(|first| first.id == post.id);
        let age = now().0.saturating_sub(post.at.0);
        let cause = match outcome {
            Ok(()) | Err(GivenUp::Ending) => None,
            Err(GivenUp::Unavailable(cause)) if post.is_stored && age < MAX_AGE => {
                // The claim expires, and the event is claimed again.
                return tracing::warn!(cause, "an event could not be posted, and will be posted later");
            }
            Err(GivenUp::Refused(cause) | GivenUp::Unavailable(cause)) => Some(cause),
        };
        if let Some(cause) = cause {
            tracing::warn!(cause, "an event could not be posted");
            self.lost += 1;
            self.cause = Some(cause);
        }
        if post.is_stored {
            self.settled.push(post.id);
        }
    }
}

/// The state of the thread.
struct Poster<R> {
    receiver: R,
    shared: Arc<PostingShared>,
}

impl<R: Receiver> Poster<R> {
    fn run(&self) {
        while let Some(post) = self.next() {
            let outcome = self.deliver(&post);
            let mut state = self.shared.lock();
            // The waiting events are left for the next process.
            state.is_over = matches!(outcome, Err(GivenUp::Ending));
            if !state.is_over {
                state.finish_post(&post, outcome);
            }
            let is_over = state.is_over;
            drop(state);
            self.shared.progress.notify_one();
            if is_over {
                return;
            }
        }
    }

    /// Returns the first waiting event. Returns `None` if the process ends and there is none.
    fn next(&self) -> Option<Post> {
        let mut state = self.shared.lock();
        loop {
            match state.waiting.front() {
                Some(first) => return Some(first.clone()),
                None if state.is_ending => return None,
                None => {}
            }
            state = self
                .shared
                .news
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn deliver(&self, post: &Post) -> Result<(), GivenUp> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let Err(failure) = self.receiver.post(post) else {
                return Ok(());
            };
            if !failure.may_pass {
                return Err(GivenUp::Refused(failure.cause));
            }
            if attempt >= TRIES {
                return Err(GivenUp::Unavailable(failure.cause));
            }
            if !self.wait(pause) {
                return Err(GivenUp::Ending);
            }
            pause *= 2;
        }
        Ok(())
    }

    /// Waits before another attempt. Returns `false` if the process ends.
    fn wait(&self, pause: Duration) -> bool {
        let state = self.shared.lock();
        let waited = self
            .shared
            .news
            .wait_timeout_while(state, pause, |state| !state.is_ending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.is_ending
    }
}

/// The reason why an event is not posted.
enum GivenUp {
    /// The process ends; the next one tries again.
    Ending,
    /// The receiver refused it.
    Refused(String),
    /// The receiver is unavailable, after several attempts.
    Unavailable(String),
}

#[cfg(test)]
mod tests;

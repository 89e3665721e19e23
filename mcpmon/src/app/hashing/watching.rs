//! Watches for the files of servers that start: their limits, and the threads that wait for a change.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use mcpmon_engine::FileWatch;
use mcpmon_model::{InstanceId, Timestamp};
use mcpmon_pins::{NameCounts, Touched, Watch, WatchQuota};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Most servers that are watched at a time: root has 128 inotify instances by default, and other programs need some.
const MAX_WATCHES: usize = 96;
/// Most servers of one user that are watched at a time.
const MAX_WATCHES_OF_USER: usize = MAX_WATCHES / 2;
/// The time for which a server's files are watched after they were compared: longer than it takes until they are
/// compared for the last time.
const WATCHED: Duration = Duration::from_secs(15);
/// Most possible changes that are reported of one server.
const MAX_DOUBTS: usize = 3;
/// The interval at which a waiting thread checks whether it is to end, milliseconds.
const LOOK: u16 = 500;

/// The kernel's limit of directories and files that one user may watch.
const KERNEL_LIMIT: &str = "/proc/sys/fs/inotify/max_user_watches";
/// The smallest default of any kernel, for a limit that cannot be read.
const MIN_KERNEL_LIMIT: usize = 8192;
/// Most directories and files of all servers: each takes about 1 KiB of the kernel's memory.
const MAX_FILES: usize = 128 * 1024;

/// All current watches.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// Their number for each user.
    counts: Mutex<BTreeMap<u32, usize>>,
    quota: Arc<WatchQuota>,
    /// The names of files that have no watch of their own, for later comparisons.
    names: Mutex<BTreeMap<InstanceId, Weak<NameCounts>>>,
}

/// A watch that counts against its user's limit until it is dropped.
#[derive(Debug)]
pub(super) struct CountedWatch {
    pub(super) watch: Arc<Watch>,
    all: Arc<Watches>,
    uid: u32,
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        // No operation leaves the counts half changed.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a watch for a server that `uid` started at `started`. The first comparison of a server notes the names
    /// that later ones need.
    ///
    /// # Errors
    /// Returns the reason why there is no watch.
    pub(super) fn begin(
        self: &Arc<Self>,
        instance: InstanceId,
        uid: u32,
        started: Timestamp,
        wanted: FileWatch,
    ) -> Result<CountedWatch, String> {
        let mut counts = self.lock();
        let own = counts.get(&uid).copied().unwrap_or_default();
        if own >= MAX_WATCHES_OF_USER || counts.values().sum::<usize>() >= MAX_WATCHES {
            return Err(format!(
                "the files of more than {MAX_WATCHES} servers were to be watched at a time, or of {MAX_WATCHES_OF_USER} of user {uid}"
            ));
        }
        let watch =
            Watch::new(started.0).map_err(|error| format!("no inotify instance can be had: {error}"))?;
        let watch = watch.within(self.quota.share(limit(), uid));
        let watch = self.with_names(instance, watch, wanted);
        counts.insert(uid, own + 1);
        Ok(CountedWatch {
            watch: Arc::new(watch),
            all: Arc::clone(self),
            uid,
        })
    }

    fn with_names(&self, instance: InstanceId, watch: Watch, wanted: FileWatch) -> Watch {
        // No operation leaves the names half changed.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match wanted {
            FileWatch::UntilStarted => {
                let watch = watch.marking();
                names.retain(|_, names| names.strong_count() > 0);
                names.insert(instance, Arc::downgrade(watch.names()));
                watch
            }
            FileWatch::WhileRead | FileWatch::None => match names.get(&instance).and_then(Weak::upgrade) {
                Some(names) => watch.after(names),
                None => watch,
            },
        }
    }
}

/// Returns the most directories and files that may be watched: half of the kernel's limit, because other programs of
/// root need watches too.
fn limit() -> usize {
    let told = fs::read_to_string(KERNEL_LIMIT).ok();
    let told = told.and_then(|text| text.trim().parse().ok());
    (told.unwrap_or(MIN_KERNEL_LIMIT) / 2).min(MAX_FILES)
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        let mut counts = self.all.lock();
        if let Some(count) = counts.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}

impl CountedWatch {
    /// Reports the first change of code, and possible changes before it, from a thread that ends with the time of
    /// watching or when `is_over` returns true.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn tell(
        self,
        is_over: impl Fn() -> bool + Send + 'static,
        tell: impl Fn(Option<PathBuf>) + Send + 'static,
    ) -> std::io::Result<()> {
        let end = Instant::now() + WATCHED;
        let mut doubts = 0;
        let wait = move || {
            while !is_over() && Instant::now() < end {
                match self.watch.touched() {
                    Some(Touched::Code(path)) => return tell(Some(path)),
                    // A user who causes possible changes all the time must not keep the daemon busy.
                    Some(Touched::Perhaps) if doubts < MAX_DOUBTS => {
                        doubts += 1;
                        tell(None);
                    }
                    Some(Touched::Perhaps) | None => {}
                }
                let mut polled = [PollFd::new(
                    std::os::fd::AsFd::as_fd(&*self.watch),
                    PollFlags::POLLIN,
                )];
                // A signal only ends the wait early.
                poll(&mut polled, PollTimeout::from(LOOK)).unwrap_or_default();
            }
        };
        thread::Builder::new().name("watch".to_owned()).spawn(wait)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_watches_to_others() {
        let all = Arc::new(Watches::default());
        // As many as the inotify instances of an ordinary user allow while other tests run.
        {
            let mut counts = all.lock();
            counts.insert(1, MAX_WATCHES_OF_USER - 1);
        }
        let begin = |uid| all.begin(InstanceId(1), uid, Timestamp(0), FileWatch::UntilStarted);
        let last = begin(1).expect("one more");
        let refused = begin(1).expect_err("no further one");
        assert!(refused.contains("user 1"), "{refused}");
        drop(begin(2).expect("another user has some"));
        drop(last);
        drop(begin(1).expect("one that ended makes room"));
        assert_eq!(all.lock().values().sum::<usize>(), MAX_WATCHES_OF_USER - 1);
        all.lock().insert(3, MAX_WATCHES - MAX_WATCHES_OF_USER + 1);
        begin(2).expect_err("of all together");
    }
}

//! A watch over the code that is compared: whether some of it was replaced or written since it was looked at, also where
//! it was put back before anybody looked again.
//!
//! The kernel notes changes of directories and files while they are made, so none falls between two looks. Watched are the
//! names by which files are found, every component of their paths, the code of packages with new code beside it, and
//! code that has another name too. Data is not: servers write to it. A store through a mapping is no such change: leases
//! exclude those that were there, and new ones are known by their end.

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use nix::{
    errno::Errno,
    sys::{
        inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
        stat::FileStat,
    },
};

use super::{
    code::is_code_name,
    file::is_timed,
    names::NameCounts,
    quota::{Need, WatchShare},
    root::FoundFile,
};

/// Most directories and files that are watched for one server.
pub const MAX_WATCHED: usize = 16 * 1024;
/// Most files of these that have no other name: those may be told of by a later comparison.
pub const MAX_MARKED: usize = MAX_WATCHED / 4 * 3;
/// Most names of code and directories that are watched in these.
const MAX_WATCHED_NAMES: usize = 64 * 1024;
/// Most reads for one answer: whoever makes changes faster is told of by the first of them.
const MAX_READS: usize = 64;

/// A change that was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Code was replaced or written, or new code was put beside it. It may have been put back.
    Code(PathBuf),
    /// Code may have been: somebody had a file open for writing that shows by its times whether it was written, or
    /// there were more changes than the kernel could tell. The files have to be compared again, with their times.
    Perhaps,
}

/// Changes of code since the watch was made.
#[derive(Debug)]
pub struct Watch {
    inotify: Inotify,
    /// The time at which the server was started, nanoseconds since the epoch.
    started: i64,
    /// The watches it counts among.
    share: Option<WatchShare>,
    /// True if files of code are watched by themselves, whatever name they are written through.
    marks: bool,
    /// The names of files when they were hashed: to be noted by a watch that marks, to be compared by others.
    names: Arc<NameCounts>,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    interests: HashMap<WatchDescriptor, Interest>,
    /// Directories by path, so that each is looked up once.
    directories: HashMap<PathBuf, WatchDescriptor>,
    /// Number of files that have no other name.
    marked: usize,
    /// True if there was no room for one more of these.
    crowded: bool,
    /// Number of names in all directories.
    names: usize,
    /// The first code that was changed.
    touched: Option<PathBuf>,
    /// Some may have been since this was last asked.
    doubtful: bool,
    /// The first file that had changed before it was looked at, and after the server was started.
    late: Option<PathBuf>,
    /// The reason why something is not watched.
    gap: Option<Errno>,
}

/// The part of a directory that is watched, or a file.
#[derive(Debug)]
struct Interest {
    path: PathBuf,
    names: HashSet<OsString>,
    /// New code counts, too.
    code: bool,
    /// The times of its files tell whether they were written.
    timed: bool,
}

impl Watch {
    /// A watch of nothing yet, for a server that was started at this time, in nanoseconds since the epoch.
    ///
    /// # Errors
    /// Returns an error if the kernel has no room for another.
    pub fn new(started: i64) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        Ok(Self {
            inotify,
            started,
            share: None,
            marks: false,
            names: Arc::default(),
            watched: Mutex::default(),
        })
    }

    /// The same, which counts among the watches of a user.
    #[must_use]
    pub fn within(self, share: WatchShare) -> Self {
        Self {
            share: Some(share),
            ..self
        }
    }

    /// The same, which watches files of code by themselves, too.
    #[must_use]
    pub fn marking(self) -> Self {
        Self { marks: true, ..self }
    }

    /// The same, for files whose names another watch noted before.
    #[must_use]
    pub fn after(self, names: Arc<NameCounts>) -> Self {
        Self { names, ..self }
    }

    /// Returns the names of the files that it does not watch by themselves.
    pub const fn names(&self) -> &Arc<NameCounts> {
        &self.names
    }

    /// Returns whether it is to be given a file of code that has no other name.
    pub(super) fn marks(&self) -> bool {
        self.marks && !self.lock().crowded
    }

    /// Notes when a file or link changed last. One with several names is changed by each new one of these: package managers
    /// make some for every environment. It counts by the time of its last write, unless it got or lost a name since it was hashed
    /// and nothing told whether it was written through that.
    pub(super) fn saw(&self, path: &Path, stat: &FileStat) {
        if self.marks {
            self.names.note(stat);
        }
        let time = if stat.st_nlink > 1 && !self.names.differ(stat) {
            modified(stat)
        } else {
            changed(stat)
        };
        if self.is_late(time) {
            self.lock().late.get_or_insert_with(|| path.to_owned());
        }
    }

    /// Returns whether a time is after the start of the server. One that has not come yet tells nothing: the clock was set back
    /// since, or is that of another host.
    fn is_late(&self, time: i64) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.started <= time && i128::from(time) <= now.as_nanos().cast_signed()
    }

    /// Watches one name in a directory. `open` is asked for the directory where it is new.
    pub(super) fn name(&self, directory: &Path, name: &OsStr, open: impl FnOnce() -> io::Result<FoundFile>) {
        let mut watched = self.lock();
        let is_full = watched.names >= MAX_WATCHED_NAMES;
        if let Some(interest) = self.look_into(&mut watched, directory, open)
            && !interest.names.contains(name)
        {
            if is_full {
                watched.gap = Some(Errno::ENOSPC);
            } else {
                interest.names.insert(name.to_owned());
                watched.names += 1;
            }
        }
    }

    /// Watches a directory, of which names are given later.
    pub(super) fn directory(&self, directory: &Path, open: impl FnOnce() -> io::Result<FoundFile>) {
        self.look_into(&mut self.lock(), directory, open);
    }

    /// Watches a directory for new code.
    pub(super) fn code(&self, directory: &Path, open: impl FnOnce() -> io::Result<FoundFile>) {
        let mut watched = self.lock();
        if let Some(interest) = self.look_into(&mut watched, directory, open) {
            interest.code = true;
        }
    }

    /// Watches a file of code under whatever name it is written to. Of one that has another name the times say little, see
    /// [`Watch::saw`].
    pub(super) fn file(&self, path: &Path, node: &FoundFile) {
        let has_others = node.stat().st_nlink > 1;
        if !has_others && !self.marks {
            return;
        }
        let mut watched = self.lock();
        let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE;
        let descriptor = match has_others {
            true => self.add(&mut watched, node, flags),
            false => self.mark(&mut watched, node, flags),
        };
        let Some(descriptor) = descriptor else {
            return;
        };
        if self.marks {
            self.names.watch(node.stat());
        }
        let timed = !has_others && is_timed(node);
        let before = watched.interests.len();
        watched
            .interests
            .entry(descriptor)
            .and_modify(|interest| interest.timed &= timed)
            .or_insert_with(|| Interest::of(path, timed));
        if !has_others && watched.interests.len() > before {
            watched.marked += 1;
        }
    }

    /// Watches a file that has no other name; a later comparison tells of it where there is no room.
    fn mark(&self, watched: &mut Watched, node: &FoundFile, flags: AddWatchFlags) -> Option<WatchDescriptor> {
        let added = match watched.marked < MAX_MARKED {
            true => self.watch(watched, node, flags, Need::Spare),
            false => Err(Errno::ENOSPC),
        };
        if added.is_err() {
            watched.crowded = true;
        }
        added.ok()
    }

    fn look_into<'w>(
        &self,
        watched: &'w mut Watched,
        path: &Path,
        open: impl FnOnce() -> io::Result<FoundFile>,
    ) -> Option<&'w mut Interest> {
        let known = watched.directories.get(path).copied();
        let descriptor = match known {
            Some(descriptor) => descriptor,
            None => {
                let node = match open() {
                    Ok(node) => node,
                    Err(error) => {
                        watched.lacks(&error);
                        return None;
                    }
                };
                let flags = AddWatchFlags::IN_CREATE
                    | AddWatchFlags::IN_DELETE
                    | AddWatchFlags::IN_MOVED_FROM
                    | AddWatchFlags::IN_MOVED_TO
                    | AddWatchFlags::IN_MODIFY
                    | AddWatchFlags::IN_CLOSE_WRITE
                    | AddWatchFlags::IN_ONLYDIR;
                let descriptor = self.add(watched, &node, flags)?;
                // One in which something was made or removed was changed also; one that was moved only changed itself.
                let stat = node.stat();
                if self.is_late(changed(stat)) && self.started > modified(stat) {
                    watched.late.get_or_insert_with(|| path.to_owned());
                }
                watched.directories.insert(path.to_owned(), descriptor);
                let interest = watched.interests.entry(descriptor);
                interest.or_insert_with(|| Interest::of(path, is_timed(&node)));
                descriptor
            }
        };
        watched.interests.get_mut(&descriptor)
    }

    fn add(&self, watched: &mut Watched, node: &FoundFile, flags: AddWatchFlags) -> Option<WatchDescriptor> {
        match self.watch(watched, node, flags, Need::Must) {
            Ok(descriptor) => Some(descriptor),
            Err(errno) => {
                watched.gap = Some(errno);
                None
            }
        }
    }

    fn watch(
        &self,
        watched: &Watched,
        node: &FoundFile,
        flags: AddWatchFlags,
        need: Need,
    ) -> Result<WatchDescriptor, Errno> {
        let share = self.share.as_ref();
        if watched.interests.len() >= MAX_WATCHED || share.is_some_and(|share| !share.take(need)) {
            return Err(Errno::ENOSPC);
        }
        let added = self.inotify.add_watch(Path::new(&node.own_path()), flags);
        let is_new = added.is_ok_and(|descriptor| !watched.interests.contains_key(&descriptor));
        if let Some(share) = share.filter(|_| !is_new) {
            share.give_back();
        }
        added
    }

    /// The first change of code, or the doubt that came up since this was last asked.
    pub fn touched(&self) -> Option<Touched> {
        let mut watched = self.lock();
        for _ in 0..MAX_READS {
            let Ok(events) = self.inotify.read_events() else {
                break;
            };
            for event in events {
                match watched.concerned(&event) {
                    Some(Touched::Code(path)) => drop(watched.touched.get_or_insert(path)),
                    Some(Touched::Perhaps) => watched.doubtful = true,
                    None => {}
                }
            }
            if watched.touched.is_some() {
                break;
            }
        }
        let doubtful = std::mem::take(&mut watched.doubtful);
        if doubtful && self.marks {
            self.names.doubt();
        }
        let known = watched.touched.clone().map(Touched::Code);
        known.or_else(|| doubtful.then_some(Touched::Perhaps))
    }

    /// A file that was changed after the server was started, and before it was looked at: a server that was not stopped at once
    /// may have read another one.
    pub fn late(&self) -> Option<PathBuf> {
        self.lock().late.clone()
    }

    /// The reason why a part is not watched, if there is one.
    pub fn gap(&self) -> Option<Errno> {
        self.lock().gap
    }

    /// Returns whether there are files of code of which only a later comparison tells that they were written through another name.
    pub fn is_crowded(&self) -> bool {
        self.lock().crowded
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        // No step leaves it half changed.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Watched {
    /// Notes that a directory cannot be opened. One that is not there cannot be looked into either.
    fn lacks(&mut self, error: &io::Error) {
        let is_gone = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        );
        if !is_gone {
            self.gap = Some(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw));
        }
    }

    fn concerned(&self, event: &InotifyEvent) -> Option<Touched> {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return Some(Touched::Perhaps);
        }
        let interest = self.interests.get(&event.wd)?;
        let is_end = event.mask.contains(AddWatchFlags::IN_CLOSE_WRITE);
        let path = match &event.name {
            Some(name) => interest.has(name).then(|| interest.path.join(name))?,
            None if is_end || event.mask.contains(AddWatchFlags::IN_MODIFY) => interest.path.clone(),
            None => return None,
        };
        // A write by a call was told before; a store through a mapping shows in the times.
        Some(if is_end && interest.timed {
            Touched::Perhaps
        } else {
            Touched::Code(path)
        })
    }
}

impl Interest {
    fn of(path: &Path, timed: bool) -> Self {
        Self {
            path: path.to_owned(),
            names: HashSet::new(),
            code: false,
            timed,
        }
    }

    fn has(&self, name: &OsStr) -> bool {
        self.names.contains(name) || (self.code && is_code_name(name))
    }
}

fn changed(stat: &FileStat) -> i64 {
    nanoseconds(stat.st_ctime, stat.st_ctime_nsec)
}

fn modified(stat: &FileStat) -> i64 {
    nanoseconds(stat.st_mtime, stat.st_mtime_nsec)
}

const fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests;

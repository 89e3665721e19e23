//! Watches over the code that is compared: they notice if some of it was replaced or written since it was hashed, even
//! if it was restored before the next check.
//!
//! The kernel (inotify) reports changes of directories and files while they are made, so none is missed between two
//! checks. Watched are the names by which files are found, every component of their paths, the code of packages, with
//! new code in the same directories, and code with several names. Data is not watched, because servers write to it. A
//! store through a mapping is not reported: leases exclude mappings that existed before, and new ones are noticed when
//! they end.

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
        stat::{FileStat, fstat},
    },
};

use super::{
    code::is_code_name,
    file::{FileStamp, is_timed},
    names::NameCounts,
    quota::{Need, WatchShare},
    root::FoundFile,
};

/// Most directories and files that are watched for one server.
pub const MAX_WATCHED: usize = 16 * 1024;
/// Most of these that are files with a single name: changes of the others are noticed by a later comparison.
pub const MAX_MARKED: usize = MAX_WATCHED / 4 * 3;
/// Most names of files and directories that are watched in these.
const MAX_WATCHED_NAMES: usize = 64 * 1024;
/// Most reads for one answer: if changes are made faster, the first of them is reported.
const MAX_READS: usize = 64;

/// A change that was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Code was replaced or written, or new code was added in its directory. It may have been restored since.
    Code(PathBuf),
    /// Code may have been changed: a file was open for writing whose times show whether it was written, or there were
    /// more changes than the kernel could report. The files have to be compared again, with their times.
    Perhaps,
}

/// Changes of code since the watch was made.
#[derive(Debug)]
pub struct Watch {
    inotify: Inotify,
    /// The time at which the server was started, nanoseconds since the epoch.
    started: i64,
    /// The share of watches of its user.
    share: Option<WatchShare>,
    /// True if files of code are watched themselves, so that writes through other names are noticed.
    marks: bool,
    /// The link counts of files when they were hashed: a watch that marks records them, other watches compare them.
    names: Arc<NameCounts>,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    interests: HashMap<WatchDescriptor, Interest>,
    /// Directories by path, so that each is looked up once.
    directories: HashMap<PathBuf, WatchDescriptor>,
    /// Number of watched files with a single name.
    marked: usize,
    /// True if the limit of these was reached.
    crowded: bool,
    /// Number of names in all directories.
    names: usize,
    /// The first changed code.
    touched: Option<PathBuf>,
    /// True if code may have changed since the last call of `touched`.
    doubtful: bool,
    /// The first file that changed after the server was started, and before it was examined.
    late: Option<PathBuf>,
    /// The reason why something could not be watched.
    gap: Option<Errno>,
}

/// A watched file, or the watched part of a directory.
#[derive(Debug)]
struct Interest {
    path: PathBuf,
    names: HashSet<OsString>,
    /// True if new code counts as a change.
    code: bool,
    /// True if the times of its files show whether they were written.
    timed: bool,
}

impl Watch {
    /// Creates an empty watch, for a server that was started at this time, in nanoseconds since the epoch.
    ///
    /// # Errors
    /// Returns an error if the kernel allows no more watches.
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

    /// Counts this watch among those of a user.
    #[must_use]
    pub fn within(self, share: WatchShare) -> Self {
        Self {
            share: Some(share),
            ..self
        }
    }

    /// Also watches files of code themselves.
    #[must_use]
    pub fn marking(self) -> Self {
        Self { marks: true, ..self }
    }

    /// Uses the names that another watch recorded earlier.
    #[must_use]
    pub fn after(self, names: Arc<NameCounts>) -> Self {
        Self { names, ..self }
    }

    /// Returns the record of the files that are not watched themselves.
    pub const fn names(&self) -> &Arc<NameCounts> {
        &self.names
    }

    /// Returns whether files of code with a single name are to be watched.
    pub(super) fn marks(&self) -> bool {
        self.marks && !self.lock().crowded
    }

    /// Records the time at which a file or link last changed. A new name changes the change time of a file, and package
    /// managers create some in every environment. So a file with several names counts by its modification time, unless
    /// its number of names changed since it was hashed while no watch noticed writes through the others.
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

    /// Returns whether a time is after the start of the server. A time in the future is ignored: the clock was set back
    /// since, or belongs to another host.
    fn is_late(&self, time: i64) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.started <= time && i128::from(time) <= now.as_nanos().cast_signed()
    }

    /// Watches one name in a directory. `open` is called if the directory is not watched yet.
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

    /// Watches a directory; names in it are added later.
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

    /// Watches a file of code, whatever name it is written through, and notes when it changed last. No event reports a write
    /// after it was found and before the watch stands; the metadata shows it.
    pub(super) fn file(&self, path: &Path, node: &FoundFile) {
        self.file_itself(path, node);
        match fstat(node) {
            Ok(stat) if FileStamp::of(&stat) == FileStamp::of(node.stat()) => self.saw(path, &stat),
            Ok(_) | Err(_) => drop(self.lock().touched.get_or_insert_with(|| path.to_owned())),
        }
    }

    /// The times of a file with several names show little, see [`Watch::saw`].
    fn file_itself(&self, path: &Path, node: &FoundFile) {
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

    /// Watches a file with a single name. If there is no room, only a later comparison notices a change.
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
                // Creating or removing an entry changes the modification time too; a directory that was moved has only
                // a new change time.
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

    /// Returns the first change of code, or whether there may have been one since the last call.
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

    /// Returns a file that changed after the server was started, and before it was examined: a server that was not
    /// stopped at its start may have read another content.
    pub fn late(&self) -> Option<PathBuf> {
        self.lock().late.clone()
    }

    /// Returns the reason why a part is not watched, if there is one.
    pub fn gap(&self) -> Option<Errno> {
        self.lock().gap
    }

    /// Returns whether there are files of code for which only a later comparison notices writes through another name.
    pub fn is_crowded(&self) -> bool {
        self.lock().crowded
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Watched {
    /// Records that a directory cannot be opened. If it does not exist, nothing in it can be used either.
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
        // A write by a system call was reported before; a store through a mapping changes the times.
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

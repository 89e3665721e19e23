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
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use nix::{
    errno::Errno,
    sys::{
        inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
        stat::FileStat,
    },
};

use super::{code::is_code_name, file::is_timed, root::FoundFile};

/// Most directories and files that are watched for one server.
pub const MAX_WATCHED: usize = 16 * 1024;
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
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    interests: HashMap<WatchDescriptor, Interest>,
    /// Directories by path, so that each is looked up once.
    directories: HashMap<PathBuf, WatchDescriptor>,
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
            watched: Mutex::default(),
        })
    }

    /// Notes when a file or link changed last. One with several names is changed by each new one of these: package managers
    /// make some for every environment. It counts by the time of its last write.
    pub(super) fn saw(&self, path: &Path, stat: &FileStat) {
        let time = if stat.st_nlink > 1 {
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

    /// Watches a file under whatever name it is written to. Its times say little: see [`Watch::saw`].
    pub(super) fn file(&self, path: &Path, node: &FoundFile) {
        let mut watched = self.lock();
        let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE;
        if let Some(descriptor) = self.add(&mut watched, node, flags) {
            watched
                .interests
                .entry(descriptor)
                .or_insert_with(|| Interest::of(path, false));
        }
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
        let added = match watched.interests.len() < MAX_WATCHED {
            true => self.inotify.add_watch(Path::new(&node.own_path()), flags),
            false => Err(Errno::ENOSPC),
        };
        match added {
            Ok(descriptor) => Some(descriptor),
            Err(errno) => {
                watched.gap = Some(errno);
                None
            }
        }
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
mod tests {
    use std::{
        fs::{self, File},
        sync::Arc,
    };

    use test_case::test_case;

    use super::*;
    use crate::{
        Root,
        file::FileHasher,
        package::{Collector, DirectoryRole, PackageLimits},
    };

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    struct Tree {
        directory: tempfile::TempDir,
        watch: Arc<Watch>,
    }

    impl Tree {
        /// `/a/link` leads to `/a/b`; `/a/b/main.py` is watched by the way over the link, and has another name elsewhere.
        fn make(below: &str) -> Result<Self, Box<dyn std::error::Error>> {
            let directory = tempfile::tempdir_in(below)?;
            let path = |name: &str| directory.path().join(name);
            fs::create_dir_all(path("a/b/__pycache__"))?;
            fs::create_dir(path("other"))?;
            for name in ["main.py", "one.py", "data.json", "server.lock"] {
                fs::write(path("a/b").join(name), "1")?;
            }
            fs::hard_link(path("a/b/main.py"), path("other/name"))?;
            std::os::unix::fs::symlink("b", path("a/link"))?;
            let watch = Arc::new(Watch::new(0)?);
            let root = Root::at(directory.path())?.watched(Some(Arc::clone(&watch)));
            let found = root.canonical(Path::new("/a/link/main.py"))?;
            assert_eq!(found, Path::new("/a/b/main.py"));
            let mut files = FileHasher::default();
            let limits = PackageLimits::default();
            let mut package = Collector::new(&root, &mut files, limits, &|| false, PathBuf::from("/a"));
            package.add_directory(Path::new("/a/b"), DirectoryRole::Python)?;
            assert_eq!(package.finish().len(), 4);
            Ok(Self { directory, watch })
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn open(&self, name: &str) -> io::Result<File> {
            File::options().read(true).write(true).open(self.path(name))
        }
    }

    type Change = fn(&Tree) -> io::Result<()>;

    const DISK: &str = "/var/tmp";
    const MEMORY: &str = "/dev/shm";

    fn code(path: &str) -> Option<Touched> {
        Some(Touched::Code(path.into()))
    }

    #[test_case(|tree| fs::write(tree.path("a/b/one.py"), "2") => code("/a/b/one.py"); "written")]
    #[test_case(|tree| fs::write(tree.path("other/name"), "2") => code("/a/b/main.py"); "written by another name")]
    #[test_case(|tree| {
        fs::rename(tree.path("a/b/one.py"), tree.path("old"))?;
        fs::rename(tree.path("old"), tree.path("a/b/one.py"))
    } => code("/a/b/one.py"); "replaced and put back")]
    #[test_case(|tree| {
        fs::rename(tree.path("a/b"), tree.path("a/c"))?;
        fs::rename(tree.path("a/c"), tree.path("a/b"))
    } => code("/a/b"); "a directory replaced and put back")]
    #[test_case(|tree| fs::remove_file(tree.path("a/link")) => code("/a/link"); "a link on the way")]
    #[test_case(|tree| fs::write(tree.path("a/b/json.py"), "2") => code("/a/b/json.py"); "new code beside it")]
    #[test_case(|tree| tree.open("a/b/main.py").map(drop) => code("/a/b/main.py"); "opened for writing where times say little")]
    #[test_case(|tree| tree.open("a/b/one.py").map(drop) => Some(Touched::Perhaps); "opened for writing")]
    #[test_case(|tree| {
        let now = SystemTime::now();
        tree.open("a/b/one.py")?.set_times(fs::FileTimes::new().set_accessed(now).set_modified(now))
    } => Some(Touched::Perhaps); "touched")]
    #[test_case(|tree| fs::write(tree.path("a/b/state.json"), "2") => None; "data beside it")]
    #[test_case(|tree| fs::write(tree.path("a/b/data.json"), "2") => None; "data written")]
    #[test_case(|tree| fs::rename(tree.path("a/b/data.json"), tree.path("a/b/new")) => None; "data moved")]
    #[test_case(|tree| fs::remove_file(tree.path("a/b/server.lock")) => None; "a lock file")]
    #[test_case(|tree| fs::write(tree.path("a/b/server.log"), "2") => None; "a log")]
    #[test_case(|tree| fs::write(tree.path("a/b/__pycache__/one.pyc"), "2") => None; "a cache")]
    #[test_case(|tree| fs::create_dir(tree.path("a/b/.cache")) => None; "a new cache")]
    #[test_case(|tree| fs::write(tree.path("a/x.py"), "2") => None; "above it")]
    #[test_case(|tree| fs::read(tree.path("a/b/one.py")).map(drop) => None; "read")]
    #[test_case(|tree| fs::hard_link(tree.path("a/b/one.py"), tree.path("other/third")) => None; "one more name elsewhere")]
    fn changes_of(change: Change) -> Option<Touched> {
        let tree = Tree::make(DISK).expect("a tree");
        assert_eq!(tree.watch.touched(), None);
        change(&tree).expect("changed");
        let touched = tree.watch.touched();
        let known = touched.clone().filter(|touched| *touched != Touched::Perhaps);
        assert_eq!(
            tree.watch.touched(),
            known,
            "it stays known, and a doubt is told once"
        );
        touched
    }

    /// A store through a mapping changes no time there.
    #[test]
    fn in_memory_code_that_was_open_for_writing_is_changed() {
        let tree = Tree::make(MEMORY).expect("a tree");
        drop(tree.open("a/b/one.py").expect("it is there"));
        assert_eq!(tree.watch.touched(), code("/a/b/one.py"));
    }

    #[test]
    fn more_changes_than_can_be_told_are_a_doubt() -> Outcome {
        let tree = Tree::make(MEMORY)?;
        let limit: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")?
            .trim()
            .parse()?;
        let (one, two) = (tree.path("a/b/x"), tree.path("a/b/y"));
        fs::write(&one, "")?;
        for _ in 0..=limit / 2 {
            fs::rename(&one, &two)?;
            fs::rename(&two, &one)?;
        }
        let answers: Vec<_> = std::iter::repeat_with(|| tree.watch.touched())
            .take(limit)
            .collect();
        let doubts = answers.into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(doubts, [Touched::Perhaps]);
        Ok(())
    }

    /// A file that was put back after the server had read another one is found by its time.
    #[test]
    fn what_changed_after_the_start_is_known() -> Outcome {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("code/main.py");
        fs::create_dir(directory.path().join("code"))?;
        fs::write(&path, "1")?;
        let late = |started: i64| -> Result<Option<PathBuf>, Box<dyn std::error::Error>> {
            let watch = Arc::new(Watch::new(started)?);
            let root = Root::at(directory.path())?.watched(Some(Arc::clone(&watch)));
            let main = root.canonical(Path::new("/code/main.py"))?;
            root.watch_file(&main, &root.find(&main)?);
            Ok(watch.late())
        };
        let before = changed(&nix::sys::stat::stat(&path)?);
        assert_eq!(late(before)?, Some("/code/main.py".into()));
        assert_eq!(late(before + 1)?, None);
        // A package manager gives a file another name for each environment.
        let mut linked = before;
        while linked == before {
            let other = directory.path().join("other");
            fs::hard_link(&path, &other)?;
            linked = changed(&nix::sys::stat::stat(&path)?);
            if linked == before {
                fs::remove_file(other)?;
            }
        }
        assert_eq!(late(before + 1)?, None);
        let code = directory.path().join("code");
        let moved = directory.path().join("moved");
        // Until a tick of the kernel's clock has passed.
        while changed(&nix::sys::stat::stat(&code)?) <= before {
            fs::rename(&code, &moved)?;
            fs::rename(&moved, &code)?;
        }
        assert_eq!(late(before + 1)?, Some("/code".into()));
        Ok(())
    }

    #[test]
    fn a_time_that_has_not_come_yet_tells_nothing() -> Outcome {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let now = i64::try_from(now)?;
        let watch = Watch::new(now)?;
        assert!(watch.is_late(now));
        assert!(!watch.is_late(now - 1), "before the start");
        assert!(!watch.is_late(now + 3_600_000_000_000), "in an hour");
        Ok(())
    }

    #[test]
    fn a_directory_that_may_not_be_opened_is_a_gap_and_one_that_is_gone_is_none() -> Outcome {
        for (errno, gap) in [(Errno::ENOENT, None), (Errno::EMFILE, Some(Errno::EMFILE))] {
            let watch = Watch::new(0)?;
            watch.code(Path::new("/srv"), || Err(errno.into()));
            assert_eq!(watch.gap(), gap);
        }
        Ok(())
    }

    #[test]
    fn what_cannot_be_watched_is_known() -> Outcome {
        let watch = Watch::new(0)?;
        let root = Root::at(Path::new("/"))?;
        assert_eq!(watch.gap(), None);
        watch.code(Path::new("/bin/sh"), || root.find(Path::new("/bin/sh")));
        assert_eq!(watch.gap(), Some(Errno::ENOTDIR));
        Ok(())
    }
}

//! The file system of a process, seen from outside: every path is resolved inside its root and mount namespace, and no
//! symbolic link leads out of it.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use mcpmon_model::Writers;
use nix::{
    fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat},
    sys::stat::{FileStat, Mode, SFlag, fstat, fstatat},
};

use super::{code::leads_to_code, watch::Watch};

/// Most symbolic links followed for one path, the kernel's own limit.
const MAX_LINKS: usize = 40;
/// Most names read from one directory.
const MAX_NAMES: usize = 100_000;

/// The root directory of a process, or any directory used as one.
#[derive(Debug)]
pub struct Root {
    descriptor: OwnedFd,
    /// Is notified of each file before it is examined.
    watch: Option<Arc<Watch>>,
}

/// A file that was found but not opened for reading, so that a device or pipe is never touched.
#[derive(Debug)]
pub struct FoundFile {
    descriptor: OwnedFd,
    stat: FileStat,
}

/// An entry of a directory with its metadata.
pub(super) trait AsStat {
    /// The metadata when it was looked at.
    fn as_stat(&self) -> &FileStat;
}

impl AsStat for FileStat {
    fn as_stat(&self) -> &FileStat {
        self
    }
}

impl AsStat for FoundFile {
    fn as_stat(&self) -> &FileStat {
        &self.stat
    }
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Link,
    /// Named pipe.
    Pipe,
    /// Unix socket.
    Socket,
    /// Character or block device.
    Device,
}

impl Root {
    /// Uses the directory at `path` in this process's own file system as a root.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened or is not a directory.
    pub fn at(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_PATH | OFlag::O_DIRECTORY).bits())
            .open(path)?;
        Ok(Self::from_descriptor(file.into()))
    }

    pub(super) const fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self {
            descriptor,
            watch: None,
        }
    }

    /// Adds a watch over everything that is examined from now on.
    pub(super) fn watched(self, watch: Option<Arc<Watch>>) -> Self {
        Self { watch, ..self }
    }

    /// Returns whether the watch, if there is one, has to watch this file itself: it is code, and the watch has room or
    /// the file has other names.
    pub(super) fn watches_file(&self, path: &Path, stat: &FileStat) -> bool {
        let name = path.file_name().unwrap_or_default();
        let is_wanted = |watch: &Arc<Watch>| stat.st_nlink > 1 || watch.marks();
        self.watch.as_ref().is_some_and(is_wanted) && leads_to_code(name, stat)
    }

    /// Watches a name in a directory, if there is a watch.
    fn watch_name(&self, directory: &Path, name: &OsStr) {
        if let Some(watch) = &self.watch {
            watch.name(directory, name, || self.find(directory));
        }
    }

    /// Watches the directory of a canonical path, and every component of that path, if there is a watch.
    pub(super) fn watch_way(&self, path: &Path) {
        let (Some(watch), Some(directory)) = (&self.watch, path.parent()) else {
            return;
        };
        for path in directory.ancestors() {
            if let (Some(above), Some(name)) = (path.parent(), path.file_name()) {
                self.watch_name(above, name);
            }
        }
        watch.directory(directory, || self.find(directory));
    }

    /// Watches an entry whose directory is watched, where there is a watch and it leads to code; then it is looked at `again`, for
    /// what was found before may be gone.
    ///
    /// # Errors
    /// As `again`.
    pub(super) fn watch_entry<E: AsStat>(
        &self,
        path: &Path,
        found: E,
        again: impl FnOnce() -> io::Result<E>,
    ) -> io::Result<E> {
        match (path.parent(), path.file_name()) {
            (Some(directory), Some(name)) if self.watch.is_some() && leads_to_code(name, found.as_stat()) => {
                self.watch_name(directory, name);
                again()
            }
            (Some(_) | None, Some(_) | None) => Ok(found),
        }
    }

    /// Passes a file of code to the watch, if there is one.
    pub(super) fn watch_file(&self, path: &Path, node: &FoundFile) {
        if let Some(watch) = &self.watch {
            watch.file(path, node);
        }
    }

    /// Passes the time of the last change of code or of a link to the watch, if there is one.
    pub(super) fn watch_time(&self, path: &Path, stat: &FileStat) {
        if let Some(watch) = &self.watch
            && leads_to_code(path.file_name().unwrap_or_default(), stat)
        {
            watch.saw(path, stat);
        }
    }

    /// Watches a directory for new code, if there is a watch.
    pub(super) fn watch_code(&self, directory: &Path) {
        if let Some(watch) = &self.watch {
            watch.code(directory, || self.find(directory));
        }
    }

    /// Finds `path`, following symbolic links inside the root.
    ///
    /// # Errors
    /// Returns the errors of `openat2(2)`, which needs Linux 5.6.
    pub fn find(&self, path: &Path) -> io::Result<FoundFile> {
        self.look_up(path, OFlag::O_PATH)
    }

    /// Finds `path` itself if it is a symbolic link.
    ///
    /// # Errors
    /// Returns the errors of [`Root::find`].
    pub fn find_link(&self, path: &Path) -> io::Result<FoundFile> {
        self.look_up(path, OFlag::O_PATH | OFlag::O_NOFOLLOW)
    }

    fn look_up(&self, path: &Path, flags: OFlag) -> io::Result<FoundFile> {
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        FoundFile::new(openat2(&self.descriptor, path, how)?)
    }

    /// Returns whether `path` leads to a file of this kind.
    pub fn is(&self, path: &Path, kind: EntryKind) -> bool {
        self.find(path).is_ok_and(|node| node.kind() == kind)
    }

    /// Returns the path without symbolic links, `.` and `..`, absolute inside the root.
    ///
    /// # Errors
    /// Returns the errors of [`Root::find`]; `ELOOP` after 40 links.
    pub fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut done = PathBuf::from("/");
        let mut pending: Vec<OsString> = Vec::new();
        let mut links = 0;
        push_components(&mut pending, path);
        while let Some(name) = pending.pop() {
            if name == ".." {
                done.pop();
                continue;
            }
            let candidate = done.join(&name);
            self.watch_name(&done, &name);
            let node = self.find_link(&candidate)?;
            if node.kind() != EntryKind::Link {
                done = candidate;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(nix::errno::Errno::ELOOP.into());
            }
            let target = PathBuf::from(node.target()?);
            if target.is_absolute() {
                done = PathBuf::from("/");
            }
            push_components(&mut pending, &target);
        }
        Ok(done)
    }

    /// Returns the users who can change `node`, found at `path`, or replace it. The answer comes from owners and modes
    /// of the file and every directory above it; it is unknown if the path contains a link or leads to another file.
    pub fn writers(&self, path: &Path, node: &FoundFile) -> Writers {
        let is_roots = |path: &Path| {
            let found = self
                .find_link(path)
                .ok()
                .filter(|found| is_roots_alone(&found.stat));
            found.map(|found| found.identity())
        };
        let above_are_roots = path.ancestors().skip(1).all(|path| is_roots(path).is_some());
        if above_are_roots && path.is_absolute() && is_roots(path) == Some(node.identity()) {
            Writers::Root
        } else {
            Writers::Others
        }
    }

    /// Returns the content of a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Root::find`]; `FileTooLarge` beyond the limit; `InvalidInput` if it is not a regular
    /// file.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let node = self.find(path)?;
        if node.kind() != EntryKind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut content = Vec::new();
        node.open()?.take(limit + 1).read_to_end(&mut content)?;
        if content.len() as u64 > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("over {limit} bytes"),
            ));
        }
        Ok(content)
    }

    /// Returns the names in a directory, sorted.
    ///
    /// # Errors
    /// Returns the errors of [`Root::find`] and [`FoundFile::names`].
    pub fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.watch_code(path);
        self.find(path)?.names()
    }
}

/// Returns whether a file belongs to root, and its mode allows no other user to write it. An access list cannot grant more
/// than the mode.
pub(super) fn is_roots_alone(stat: &FileStat) -> bool {
    let others = Mode::S_IWGRP | Mode::S_IWOTH;
    let mode = Mode::from_bits_truncate(stat.st_mode);
    stat.st_uid == 0 && !mode.intersects(others)
}

/// Puts the components of `path` on a stack, the first on top.
fn push_components(stack: &mut Vec<OsString>, path: &Path) {
    stack.extend(path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    }));
}

impl AsFd for FoundFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl FoundFile {
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let stat = fstat(&descriptor)?;
        Ok(Self { descriptor, stat })
    }

    pub(super) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.descriptor.try_clone()
    }

    pub(super) fn as_raw_fd(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// Returns its kind.
    pub fn kind(&self) -> EntryKind {
        EntryKind::of(&self.stat)
    }

    /// Returns its metadata when it was found.
    pub const fn stat(&self) -> &FileStat {
        &self.stat
    }

    /// Returns device and inode.
    pub(super) const fn identity(&self) -> (u64, u64) {
        (self.stat.st_dev, self.stat.st_ino)
    }

    /// Opens it for reading, if it is a regular file or directory: opening a device can have effects.
    ///
    /// # Errors
    /// Returns `InvalidInput` for any other kind, or the errors of `open(2)`.
    pub fn open(&self) -> io::Result<File> {
        if !matches!(self.kind(), EntryKind::File | EntryKind::Directory) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "neither a regular file nor a directory",
            ));
        }
        OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
            .open(self.own_path())
    }

    /// Returns the target of a symbolic link, unchanged.
    ///
    /// # Errors
    /// Returns the errors of `readlinkat(2)`.
    pub fn target(&self) -> io::Result<OsString> {
        Ok(readlinkat(&self.descriptor, OsStr::new(""))?)
    }

    /// Returns the names in a directory, sorted.
    ///
    /// # Errors
    /// Returns the errors of `open(2)`; `FileTooLarge` for a directory of over 100,000 names.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.own_path())? {
            if names.len() == MAX_NAMES {
                let message = format!("a directory of over {MAX_NAMES} names");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
            }
            names.push(entry?.file_name());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the metadata of the entry `name` of a directory, without following links.
    ///
    /// # Errors
    /// Returns the errors of `fstatat(2)`.
    pub fn stat_entry(&self, name: &OsStr) -> io::Result<FileStat> {
        debug_assert!(!name.as_bytes().contains(&b'/'), "a name is one component");
        Ok(fstatat(&self.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW)?)
    }

    /// Returns the entry `name` of a directory, without following links.
    ///
    /// # Errors
    /// Returns the errors of `openat(2)`.
    pub fn entry(&self, name: &OsStr) -> io::Result<Self> {
        debug_assert!(!name.as_bytes().contains(&b'/'), "a name is one component");
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Self::new(openat(&self.descriptor, name, flags, Mode::empty())?)
    }

    pub(super) fn own_path(&self) -> String {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())
    }
}

impl EntryKind {
    /// Returns the kind in `stat`.
    pub fn of(stat: &FileStat) -> Self {
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFDIR => Self::Directory,
            SFlag::S_IFLNK => Self::Link,
            SFlag::S_IFIFO => Self::Pipe,
            SFlag::S_IFSOCK => Self::Socket,
            SFlag::S_IFREG => Self::File,
            _ => Self::Device,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use test_case::test_case;

    use super::*;

    fn tree() -> io::Result<(tempfile::TempDir, Root)> {
        let outside = tempfile::tempdir()?;
        let inside = outside.path().join("root");
        fs::create_dir_all(inside.join("a/b"))?;
        fs::write(outside.path().join("secret"), "outside")?;
        fs::write(inside.join("a/file"), "inside")?;
        symlink("/a/file", inside.join("absolute"))?;
        symlink("../a/./file", inside.join("a/relative"))?;
        symlink("../../../../secret", inside.join("a/b/escape"))?;
        symlink(outside.path().join("secret"), inside.join("escape-absolute"))?;
        symlink("loop-b", inside.join("loop-a"))?;
        symlink("loop-a", inside.join("loop-b"))?;
        symlink("a", inside.join("directory"))?;
        let root = Root::at(&inside)?;
        Ok((outside, root))
    }

    #[test_case("/a/file" => "/a/file")]
    #[test_case("a/b/../file" => "/a/file"; "dots")]
    #[test_case("/absolute" => "/a/file"; "an absolute link means the root")]
    #[test_case("/a/relative" => "/a/file"; "a relative link")]
    #[test_case("/directory/relative" => "/a/file"; "a link to a directory")]
    #[test_case("/../../a/file" => "/a/file"; "above the root is the root")]
    #[test_case("/a/b/escape" => "not found"; "a link with many parents")]
    #[test_case("/escape-absolute" => "not found"; "a link to a path of the host")]
    #[test_case("/loop-a" => "loop"; "a loop")]
    #[test_case("/a/file/x" => "other"; "below a file")]
    fn paths_stay_inside(path: &str) -> String {
        let (_keep, root) = tree().expect("a temporary tree");
        let canonical = root.canonical(Path::new(path));
        let followed = root.find(Path::new(path));
        assert_eq!(canonical.is_ok(), followed.is_ok(), "{path}");
        match canonical.map_err(|error| nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0))) {
            Ok(path) => path.display().to_string(),
            Err(nix::errno::Errno::ENOENT) => "not found".to_owned(),
            Err(nix::errno::Errno::ELOOP) => "loop".to_owned(),
            Err(_) => "other".to_owned(),
        }
    }

    #[test]
    fn what_is_no_file_is_found_and_never_opened() -> io::Result<()> {
        let (keep, root) = tree()?;
        nix::unistd::mkfifo(&keep.path().join("root/pipe"), Mode::S_IRWXU)?;
        let pipe = root.find(Path::new("/pipe"))?;
        assert_eq!(pipe.kind(), EntryKind::Pipe);
        assert_eq!(
            pipe.open().map_err(|error| error.kind()).err(),
            Some(io::ErrorKind::InvalidInput)
        );
        assert_eq!(
            Root::at(Path::new("/dev"))?.find(Path::new("null"))?.kind(),
            EntryKind::Device
        );
        Ok(())
    }

    #[test]
    fn reads_are_bounded() -> io::Result<()> {
        let (_keep, root) = tree()?;
        assert_eq!(root.read(Path::new("/a/file"), 6)?, b"inside");
        let too_large = root.read(Path::new("/a/file"), 5).map_err(|error| error.kind());
        assert_eq!(too_large, Err(io::ErrorKind::FileTooLarge));
        assert_eq!(root.names(Path::new("/a"))?, ["b", "file", "relative"]);
        Ok(())
    }

    #[test]
    fn only_what_root_alone_can_write_is_roots() -> io::Result<()> {
        let root = Root::at(Path::new("/"))?;
        let shell = fs::canonicalize("/bin/sh")?;
        let node = root.find(&shell)?;
        assert_eq!(root.writers(&shell, &node), Writers::Root);
        // The same file, through paths that show nothing about its writers.
        let directory = tempfile::tempdir()?;
        let link = directory.path().canonicalize()?.join("link");
        symlink(&shell, &link)?;
        let own = directory.path().canonicalize()?.join("own");
        fs::write(&own, "")?;
        for path in [
            link.as_path(),
            own.as_path(),
            Path::new("/bin"),
            Path::new("bin/sh"),
            Path::new("/gone"),
        ] {
            assert_eq!(root.writers(path, &node), Writers::Others, "{}", path.display());
        }
        assert_eq!(
            root.writers(&own, &root.find(&own)?),
            Writers::Others,
            "everyone may write to a directory above it"
        );
        Ok(())
    }
}

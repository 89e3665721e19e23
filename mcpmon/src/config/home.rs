//! The own file of a user whom this process is not: read as that user would read it.
//!
//! A daemon may read everything, and what it reads shows in messages about mistakes. So the file is opened with the
//! rights of its user, on a thread of its own, and is believed only where it is the user's or root's. What hangs (a home
//! directory on a network that is away) is not waited for.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use nix::{
    fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2},
    unistd::{Gid, Uid, User, setfsgid, setfsuid},
};

use super::{
    Source, SourceError, Sources,
    sources::{FILE_NAME, contents},
    trust,
};

/// How long a file is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Files that are read at a time, those that hang among them.
const MOST: usize = 16;

/// Files that are read now.
static READING: AtomicUsize = AtomicUsize::new(0);

impl Sources {
    /// Reads `.config/mcpmon/mcpmon.yaml` in the home directory that the system has for `uid`; `None` where there is no
    /// such file or no such user. What the user's environment says does not matter: whoever runs as the user could
    /// change that.
    ///
    /// # Errors
    /// Where it is there and cannot be read in time, or is neither the user's nor root's.
    pub fn of_home(uid: u32) -> Result<Option<Self>, SourceError> {
        let failed = |source| SourceError::Read {
            path: PathBuf::from(format!("the policy file of user {uid}")),
            source,
        };
        let turn = Turn::take().ok_or_else(|| failed(io::ErrorKind::ResourceBusy.into()))?;
        let (tell, told) = mpsc::channel();
        let reading = move || {
            let found = of_user(uid);
            drop(turn);
            // Nobody hears it who does not wait any more.
            let _heard = tell.send(found);
        };
        thread::Builder::new()
            .name("mcpmon-home".to_owned())
            .spawn(reading)
            .map_err(failed)?;
        told.recv_timeout(PATIENCE)
            .unwrap_or_else(|_| Err(failed(io::ErrorKind::TimedOut.into())))
    }
}

/// One of those who read.
struct Turn;

impl Turn {
    fn take() -> Option<Self> {
        let turn = Self;
        // Given back where it is one too many.
        (READING.fetch_add(1, Ordering::Relaxed) < MOST).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        READING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Changes whose rights this thread has: it is to end with this.
fn of_user(uid: u32) -> Result<Option<Sources>, SourceError> {
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else {
        return Ok(None);
    };
    let path = user.dir.join(".config/mcpmon").join(FILE_NAME);
    read_as(&path, user.uid, user.gid)
}

fn read_as(path: &Path, uid: Uid, gid: Gid) -> Result<Option<Sources>, SourceError> {
    let failed = |source| SourceError::Read {
        path: path.to_owned(),
        source,
    };
    take_rights(uid, gid).map_err(failed)?;
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let text = contents(path, file, |metadata| {
        Ok(trust::check_owner(path, metadata, uid.as_raw())?)
    })?;
    Ok(Some(Sources::of_file(Source::File(path.to_owned()), text)))
}

/// This thread opens files as that user from here on, and no longer as root.
fn take_rights(uid: Uid, gid: Gid) -> io::Result<()> {
    setfsgid(gid);
    setfsuid(uid);
    // They only tell what was before.
    match (setfsgid(gid), setfsuid(uid)) == (gid, uid) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Opens without waiting, and not by way of what this process has open.
fn open(path: &Path) -> io::Result<File> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(openat2(AT_FDCWD, path, how)?.into())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, chown, symlink},
    };

    use super::*;

    /// Somebody who is not root.
    const NOBODY: u32 = 65_534;
    /// Everybody gets there.
    const OPEN: &str = "/var/tmp";

    /// As the tests' own user, and as another one where that can be.
    fn users() -> Vec<u32> {
        let own = Uid::effective();
        match own.is_root() {
            true => vec![0, NOBODY],
            false => vec![own.as_raw()],
        }
    }

    fn read(path: &Path, uid: u32) -> Result<Option<Sources>, SourceError> {
        let path = path.to_owned();
        let reading = thread::spawn(move || read_as(&path, Uid::from_raw(uid), Gid::from_raw(uid)));
        reading.join().expect("no panic")
    }

    /// A directory of `uid` that others do not see into.
    fn home(uid: u32) -> tempfile::TempDir {
        let home = tempfile::tempdir_in(OPEN).expect("a directory");
        if uid != Uid::effective().as_raw() {
            chown(home.path(), Some(uid), Some(uid)).expect("owned");
        }
        home
    }

    fn put(path: &Path, text: &str, uid: u32, mode: u32) {
        fs::write(path, text).expect("written");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
        if uid != Uid::effective().as_raw() {
            chown(path, Some(uid), Some(uid)).expect("owned");
        }
    }

    #[test]
    fn a_users_own_file_is_read() {
        for uid in users() {
            let home = home(uid);
            let path = home.path().join(FILE_NAME);
            assert!(matches!(read(&path, uid), Ok(None)), "none is there");
            put(&path, "version: 1\n", uid, 0o600);
            let found = read(&path, uid).expect("readable").expect("there");
            assert_eq!(found.parts()[0].1, "version: 1\n");
            let link = home.path().join("link.yaml");
            symlink(FILE_NAME, &link).expect("a link");
            assert!(matches!(read(&link, uid), Ok(Some(_))), "by an own link");
        }
    }

    #[test]
    fn what_the_user_may_not_read_is_not_read() {
        let own = Uid::effective().as_raw();
        for uid in users() {
            let home = home(uid);
            let secret = tempfile::NamedTempFile::new_in(OPEN).expect("a file");
            put(secret.path(), "secret: x\n", own, 0o000);
            let link = home.path().join(FILE_NAME);
            symlink(secret.path(), &link).expect("a link");
            if uid != 0 {
                let refused = read(&link, uid).expect_err("with the rights of the user");
                assert!(
                    matches!(&refused, SourceError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied),
                    "{refused}"
                );
            }
            put(secret.path(), "version: 1\n", own, 0o644);
            assert!(
                matches!(read(&link, uid), Ok(Some(_))),
                "own or root's, for all to read"
            );
            if own == 0 {
                put(secret.path(), "version: 1\n", 1, 0o644);
                let refused = read(&link, uid).expect_err("somebody else's");
                assert!(matches!(refused, SourceError::Distrusted(_)), "{refused}");
            }
        }
    }

    #[test]
    fn what_is_no_file_or_too_large_is_told() {
        let uid = users()[0];
        let home = home(uid);
        let pipe = home.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
        assert!(matches!(read(&pipe, uid), Err(SourceError::NotAFile { .. })));
        let large = home.path().join("large");
        put(&large, &"#".repeat((1 << 20) + 1), uid, 0o600);
        assert!(matches!(read(&large, uid), Err(SourceError::TooLarge { .. })));
        let open = File::open(&large).expect("open");
        let own = PathBuf::from(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&open)
        ));
        let refused = read(&own, uid).expect_err("what this process has open");
        assert!(matches!(refused, SourceError::Read { .. }), "{refused}");
    }

    #[test]
    fn a_number_without_a_user_has_no_file() {
        assert!(matches!(Sources::of_home(u32::MAX - 7), Ok(None)));
    }
}

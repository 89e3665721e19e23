//! The policy file of another user than the one of this process.
//!
//! A daemon may read every file, and messages about mistakes show parts of what it reads. So a file is read only if its
//! user could read it: it belongs to that user, or it belongs to root and everyone may read it, and no link leads to it
//! from outside the home directory. A file that hangs (a home directory on an unreachable network) is not waited for.

use std::{
    collections::BTreeSet,
    fs::{File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    unistd::{Uid, User},
};

use super::{
    Source, SourceError, Sources,
    sources::{FILE_NAME, contents},
    trust,
};

/// The directory of [`FILE_NAME`] in a home directory.
const DIRECTORY: &str = ".config/mcpmon";
/// The longest wait for a file.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most files that are read at a time, including those that hang.
const MAX_READS: usize = 16;
/// Mode bit of files that everyone may read.
const FOR_ALL: u32 = 0o004;

/// The users whose files are being read.
static READING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

impl Sources {
    /// Reads `.config/mcpmon/mcpmon.yaml` in the home directory that the system has for `uid`. Returns `None` if there
    /// is no such file or no such user. The user's environment is not considered, because every program of the user
    /// could change it.
    ///
    /// # Errors
    /// Returns an error if it exists and cannot be read in time, or does not belong to the user.
    pub fn of_home(uid: u32) -> Result<Option<Self>, SourceError> {
        let failed = |source| SourceError::Read {
            path: PathBuf::from(format!("the policy file of user {uid}")),
            source,
        };
        let turn = UserTurn::take(uid).map_err(|busy| failed(busy.into()))?;
        let (tell, told) = mpsc::channel();
        let reading = move || {
            let found = of_user(uid);
            drop(turn);
            // The caller may have stopped waiting.
            let _heard = tell.send(found);
        };
        thread::Builder::new()
            .name("mcpmon-home".to_owned())
            .spawn(reading)
            .map_err(failed)?;
        told.recv_timeout(TIMEOUT)
            .unwrap_or_else(|_| Err(failed(io::ErrorKind::TimedOut.into())))
    }
}

/// The right to read a user's file. There is one for each user, so that a hanging file does not block other users.
#[derive(Debug)]
struct UserTurn(u32);

impl UserTurn {
    fn take(uid: u32) -> Result<Self, io::ErrorKind> {
        let mut reading = Self::reading();
        if reading.len() >= MAX_READS {
            return Err(io::ErrorKind::ResourceBusy);
        }
        match reading.insert(uid) {
            true => Ok(Self(uid)),
            // The earlier read hangs: the error is the same as its own.
            false => Err(io::ErrorKind::TimedOut),
        }
    }

    fn reading() -> MutexGuard<'static, BTreeSet<u32>> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        READING.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UserTurn {
    fn drop(&mut self) {
        Self::reading().remove(&self.0);
    }
}

fn of_user(uid: u32) -> Result<Option<Sources>, SourceError> {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => read_in(&user.dir, uid),
        Ok(None) | Err(_) => Ok(None),
    }
}

fn read_in(home: &Path, uid: u32) -> Result<Option<Sources>, SourceError> {
    let path = home.join(DIRECTORY).join(FILE_NAME);
    let file = match open(home) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SourceError::Read { path, source }),
    };
    let text = contents(&path, file, |metadata| check(&path, metadata, uid))?;
    Ok(Some(Sources::of_file(Source::File(path), text)))
}

/// Opens the file without blocking, and only if it is below the home directory.
fn open(home: &Path) -> io::Result<File> {
    let home = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_PATH | OFlag::O_DIRECTORY).bits())
        .open(home)?;
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let path = Path::new(DIRECTORY).join(FILE_NAME);
    Ok(openat2(&home, &path, how)?.into())
}

/// Checks that the user owns the file and can read it.
fn check(path: &Path, metadata: &Metadata, uid: u32) -> Result<(), SourceError> {
    trust::check_owner(path, metadata, uid)?;
    match metadata.uid() == uid || metadata.mode() & FOR_ALL != 0 {
        true => Ok(()),
        false => Err(SourceError::Read {
            path: path.to_owned(),
            source: io::ErrorKind::PermissionDenied.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        io::Write as _,
        os::unix::fs::{PermissionsExt as _, chown, symlink},
        process::Command,
    };

    use super::*;

    /// A user who is not root.
    const NOBODY: u32 = 65_534;

    /// Returns the tests' own user, and another one if the tests can change users.
    fn users() -> Vec<u32> {
        let own = Uid::effective();
        match own.is_root() {
            true => vec![0, NOBODY],
            false => vec![own.as_raw()],
        }
    }

    /// A home directory, and the path of the file in it.
    fn home() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().expect("a directory");
        let directory = home.path().join(DIRECTORY);
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join(FILE_NAME);
        (home, path)
    }

    fn put(path: &Path, text: &str, uid: u32, mode: u32) {
        fs::write(path, text).expect("written");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
        if fs::metadata(path).expect("it is there").uid() != uid {
            chown(path, Some(uid), Some(uid)).expect("owned");
        }
    }

    fn kind(refused: &SourceError) -> Option<io::ErrorKind> {
        if let SourceError::Read { source, .. } = refused {
            return Some(source.kind());
        }
        None
    }

    #[test]
    fn a_users_own_file_is_read() {
        for uid in users() {
            let (home, path) = home();
            assert!(matches!(read_in(home.path(), uid), Ok(None)), "none is there");
            let kept = home.path().join("kept.yaml");
            put(&kept, "version: 1\n", uid, 0o600);
            symlink("../../kept.yaml", &path).expect("a link");
            let found = read_in(home.path(), uid).expect("readable").expect("there");
            assert_eq!(found.parts()[0].1, "version: 1\n", "by an own link");
            fs::remove_file(&path).expect("removed");
            put(&path, "version: 1\n# own\n", uid, 0o600);
            let found = read_in(home.path(), uid).expect("readable").expect("there");
            assert_eq!(found.parts()[0].1, "version: 1\n# own\n");
        }
    }

    #[test]
    fn what_lies_elsewhere_is_not_read() {
        for uid in users() {
            let (home, path) = home();
            let elsewhere = tempfile::NamedTempFile::new().expect("a file");
            put(elsewhere.path(), "version: 1\n", uid, 0o644);
            let open = File::open(elsewhere.path()).expect("open");
            let number = std::os::fd::AsRawFd::as_raw_fd(&open);
            for target in [
                elsewhere.path().to_owned(),
                PathBuf::from(format!("/proc/self/fd/{number}")),
            ] {
                symlink(&target, &path).expect("a link");
                let refused = read_in(home.path(), uid).expect_err("outside of the home directory");
                assert_eq!(kind(&refused), Some(io::ErrorKind::CrossesDevices), "{refused:?}");
                fs::remove_file(&path).expect("removed");
            }
        }
    }

    #[test]
    fn what_the_user_could_not_read_is_not_read() {
        let own = Uid::effective().as_raw();
        let other = users().pop().expect("a user").wrapping_add(1);
        let (home, path) = home();
        put(&path, "version: 1\n", own, 0o640);
        if own == 0 {
            let refused = read_in(home.path(), other).expect_err("root's and its group's");
            assert_eq!(
                kind(&refused),
                Some(io::ErrorKind::PermissionDenied),
                "{refused:?}"
            );
            put(&path, "version: 1\n", own, 0o644);
            assert!(
                matches!(read_in(home.path(), other), Ok(Some(_))),
                "for all to read"
            );
            put(&path, "version: 1\n", NOBODY, 0o644);
        }
        let refused = read_in(home.path(), other).expect_err("somebody else's");
        assert!(matches!(refused, SourceError::Distrusted(_)), "{refused:?}");
    }

    /// Set in the process that reads users' files with no more rights than the packaged service.
    const AS_SERVICE: &str = "MCPMON_TEST_HOMES";
    const UNIT: &str = include_str!("../../../deploy/systemd/mcpmon.service");

    /// The kernel's numbers of the capabilities in the unit.
    const CAPABILITIES: [(&str, u32); 9] = [
        ("CAP_DAC_READ_SEARCH", READ_SEARCH),
        ("CAP_KILL", 5),
        ("CAP_NET_ADMIN", 12),
        ("CAP_SYS_PTRACE", 19),
        ("CAP_SYS_ADMIN", 21),
        ("CAP_SYS_RESOURCE", 24),
        ("CAP_LEASE", 28),
        ("CAP_PERFMON", 38),
        ("CAP_BPF", 39),
    ];
    /// The capability to read the files of others.
    const READ_SEARCH: u32 = 2;

    /// Returns the capabilities the unit grants to the service.
    fn allowed() -> impl Iterator<Item = (&'static str, u32)> {
        let mut lines = UNIT.lines();
        let allowed = lines.find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
        let names = allowed.expect("the unit names them").split(' ');
        names.map(|name| {
            let known = CAPABILITIES.iter().find(|(known, _)| *known == name);
            *known.unwrap_or_else(|| panic!("{name} has no number here"))
        })
    }

    /// Returns the capabilities of this process.
    fn own() -> u64 {
        let status = fs::read_to_string("/proc/self/status").expect("it can be read");
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:\t"));
        u64::from_str_radix(mask.expect("it is told"), 16).expect("a mask")
    }

    const fn may(mask: u64, number: u32) -> bool {
        mask & 1 << number != 0
    }

    /// Creates homes in a directory: with a file of the user, with one of another user that everyone may read, and with
    /// one that only root may read.
    fn homes(directory: &Path, uid: u32) {
        let owned = [("own", uid, 0o600), ("other", uid + 1, 0o644), ("root", 0, 0o640)];
        for (name, owner, mode) in owned {
            let path = directory.join(name).join(DIRECTORY).join(FILE_NAME);
            fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
            put(&path, "version: 1\n", owner, mode);
            for above in path.ancestors().skip(1).take(3) {
                fs::set_permissions(above, Permissions::from_mode(0o700)).expect("a mode");
                chown(above, Some(uid), Some(uid)).expect("owned");
            }
        }
    }

    fn look_at_homes(directory: &Path, uid: u32) {
        let beyond = allowed().fold(own(), |mask, (_, number)| mask & !(1 << number));
        assert_eq!(beyond, 0, "no more than the unit says");
        assert!(may(own(), READ_SEARCH), "and not less");
        let read = |home: &str| read_in(&directory.join(home), uid);
        let own = read("own").expect("readable").expect("there");
        assert_eq!(own.parts()[0].1, "version: 1\n");
        let refused = read("other").expect_err("somebody else's");
        assert!(matches!(refused, SourceError::Distrusted(_)), "{refused:?}");
        let refused = read("root").expect_err("root's and its group's");
        assert_eq!(
            kind(&refused),
            Some(io::ErrorKind::PermissionDenied),
            "{refused:?}"
        );
    }

    /// This test starts itself again, with the capabilities of the unit and no others.
    #[test]
    #[ignore = "it needs root: `cargo xtask test` runs it"]
    fn what_the_service_may_do_is_enough_and_no_more_is_read() {
        if let Some(directory) = std::env::var_os(AS_SERVICE) {
            return look_at_homes(Path::new(&directory), NOBODY);
        }
        if !may(own(), READ_SEARCH) {
            let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(
                !is_ci,
                "cannot run, and under CI it must: it needs CAP_DAC_READ_SEARCH"
            );
            // Not `eprintln!`, which the test harness captures.
            return writeln!(
                io::stderr().lock(),
                "skipped: users' files as the service reads them: it needs CAP_DAC_READ_SEARCH"
            )
            .expect("a place for words");
        }
        let directory = tempfile::tempdir().expect("a directory");
        homes(directory.path(), NOBODY);
        let allowed = allowed().map(|(name, _)| name.trim_start_matches("CAP_").to_lowercase());
        let allowed: String = allowed.map(|name| format!(",+{name}")).collect();
        let tested = Command::new("setpriv")
            .arg(format!("--bounding-set=-all{allowed}"))
            .arg("--inh-caps=-all")
            .arg(std::env::current_exe().expect("this program"))
            .arg("home::tests::what_the_service_may_do_is_enough_and_no_more_is_read")
            .args(["--exact", "--ignored", "--nocapture"])
            .env(AS_SERVICE, directory.path())
            .output()
            .expect("setpriv of util-linux");
        let said = String::from_utf8_lossy(&tested.stdout);
        assert!(
            tested.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&tested.stderr)
        );
    }

    #[test]
    fn what_is_no_file_or_too_large_is_told() {
        let uid = Uid::effective().as_raw();
        let (home, path) = home();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
        assert!(matches!(
            read_in(home.path(), uid),
            Err(SourceError::NotAFile { .. })
        ));
        fs::remove_file(&path).expect("removed");
        put(&path, &"#".repeat((1 << 20) + 1), uid, 0o600);
        assert!(matches!(
            read_in(home.path(), uid),
            Err(SourceError::TooLarge { .. })
        ));
    }

    #[test]
    fn a_number_without_a_user_has_no_file() {
        assert!(matches!(Sources::of_home(u32::MAX - 7), Ok(None)));
    }

    #[test]
    fn one_that_hangs_takes_no_turn_of_others() {
        const USERS: u32 = u32::MAX - 100;
        let hanging = UserTurn::take(USERS).expect("the first");
        for _ in 0..MAX_READS {
            assert_eq!(UserTurn::take(USERS).err(), Some(io::ErrorKind::TimedOut));
        }
        drop(UserTurn::take(USERS + 1).expect("another user's"));
        drop(hanging);
        drop(UserTurn::take(USERS).expect("given back"));
    }
}

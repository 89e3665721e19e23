//! Installed shims: they stay in a directory that the user puts in front of `PATH`, and work without `mcpmon run`.

use std::{
    env,
    ffi::OsStr,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, symlink},
    path::{Path, PathBuf},
};

use super::{DEFAULT_PATH, INHERITED, InheritedSettings, NAMES, PROGRAM, absolute, invoked};

/// The settings for wrappers that installed shims start.
#[derive(Clone, Debug, Default)]
pub struct ShimSettings {
    /// Value of `--config`.
    pub config: Option<PathBuf>,
    /// Value of `--db`.
    pub db: Option<PathBuf>,
    /// The daemon's socket.
    pub socket: PathBuf,
}

/// The installed shims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledShims {
    /// The names that have a shim.
    pub names: Vec<&'static str>,
    /// True if `PATH` leads to them first.
    pub is_in_front: bool,
}

/// The reason why shims cannot be installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A file there is not mcpmon's.
    #[error("{} is not mcpmon's: give a directory of its own with --dir", .0.display())]
    NotOurs(PathBuf),
    /// No shims are installed there.
    #[error("there are no launchers of mcpmon in {}", .0.display())]
    Nothing(PathBuf),
    /// A file operation failed.
    #[error("cannot change {path}", path = .path.display())]
    Change {
        /// File or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Returns the default directory: `$XDG_DATA_HOME/mcpmon/shims`, or below `~/.local/share`.
pub fn usual_directory() -> Option<PathBuf> {
    let place = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = place("XDG_DATA_HOME").or_else(|| place("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join("mcpmon/shims"))
}

/// Installs shims that lead to `program` in `directory`: one for each launcher that exists elsewhere on `PATH`.
///
/// # Errors
/// [`InstallError`]; no file that is not mcpmon's was changed.
pub fn install(
    directory: &Path,
    program: &Path,
    told: &ShimSettings,
) -> Result<InstalledShims, InstallError> {
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    install_for(directory, program, told, &path)
}

fn install_for(
    directory: &Path,
    program: &Path,
    told: &ShimSettings,
    path: &OsStr,
) -> Result<InstalledShims, InstallError> {
    let links = links(directory, program)?;
    let failed = |source| InstallError::Change {
        path: directory.to_owned(),
        source,
    };
    let inherited = InheritedSettings {
        config: told.config.clone(),
        db: told.db.clone(),
        socket: told.socket.clone(),
        allow_local_config: false,
        openai: None,
    };
    let inherited = serde_json::to_vec(&absolute(&inherited).map_err(failed)?).expect("paths are text");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed)?;
    put(&directory.join(INHERITED), |new| fs::write(new, &inherited))?;
    let mut names = Vec::new();
    for (name, link) in links {
        if invoked::is_there(name, path) {
            put(&link, |new| symlink(program, new))?;
            names.push(name);
        } else {
            take_away(&link)?;
        }
    }
    let first = env::split_paths(path).find(|place| names.iter().any(|name| place.join(name).exists()));
    Ok(InstalledShims {
        names,
        is_in_front: first.as_deref() == Some(directory),
    })
}

/// Removes the shims in `directory`, and the directory if it is empty then.
///
/// # Errors
/// [`InstallError`]; no file that is not mcpmon's was changed.
pub fn remove(directory: &Path, program: &Path) -> Result<(), InstallError> {
    if !directory.join(INHERITED).exists() {
        return Err(InstallError::Nothing(directory.to_owned()));
    }
    for (_, link) in links(directory, program)? {
        take_away(&link)?;
    }
    take_away(&directory.join(INHERITED))?;
    match fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(InstallError::Change {
            path: directory.to_owned(),
            source: error,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the path of each shim in `directory`. Returns an error if a file there is not mcpmon's.
fn links(directory: &Path, program: &Path) -> Result<Vec<(&'static str, PathBuf)>, InstallError> {
    let links: Vec<_> = NAMES.map(|name| (name, directory.join(name))).into();
    let is_ours = |link: &Path| {
        fs::read_link(link)
            .is_ok_and(|target| target == program || target.file_name() == Some(PROGRAM.as_ref()))
    };
    let other = links
        .iter()
        .find(|(_, link)| fs::symlink_metadata(link).is_ok() && !is_ours(link));
    match other {
        Some((_, link)) => Err(InstallError::NotOurs(link.clone())),
        None => Ok(links),
    }
}

/// Makes a file with `make` and renames it to `path` in one step, because another process may look it up at any moment.
fn put(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), InstallError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    make(&new)
        .and_then(|()| fs::rename(&new, path))
        .map_err(|source| InstallError::Change {
            path: path.to_owned(),
            source,
        })
}

fn take_away(path: &Path) -> Result<(), InstallError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(InstallError::Change {
            path: path.to_owned(),
            source: error,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a directory with programs called `npx` and `uvx`, and a value of `PATH` with `shims` in front of it.
    fn host() -> (tempfile::TempDir, PathBuf, std::ffi::OsString) {
        let root = tempfile::tempdir().expect("a directory");
        let programs = root.path().join("bin");
        fs::create_dir(&programs).expect("a directory");
        for name in ["npx", "uvx"] {
            symlink("/bin/cat", programs.join(name)).expect("a program");
        }
        let shims = root.path().join("data/shims");
        let path = env::join_paths([&shims, &programs]).expect("a path");
        (root, shims, path)
    }

    const PROGRAM: &str = "/proc/self/exe";

    fn installed(shims: &Path, path: &OsStr) -> Result<InstalledShims, InstallError> {
        let told = ShimSettings {
            socket: "/run/mcpmon.sock".into(),
            ..ShimSettings::default()
        };
        install_for(shims, Path::new(PROGRAM), &told, path)
    }

    #[test]
    fn launchers_stay_until_they_are_taken_away() {
        let (_root, shims, path) = host();
        for _ in 0..2 {
            let done = installed(&shims, &path).expect("put in place");
            assert_eq!((done.names, done.is_in_front), (vec!["npx", "uvx"], true));
        }
        assert_eq!(
            fs::read_link(shims.join("npx")).expect("a link"),
            Path::new(PROGRAM)
        );
        assert_eq!(
            fs::read_dir(&shims).expect("there").count(),
            3,
            "no more than launchers and one file"
        );
        let behind =
            env::join_paths(env::split_paths(&path).collect::<Vec<_>>().iter().rev()).expect("a path");
        assert!(!installed(&shims, &behind).expect("again").is_in_front);
        remove(&shims, Path::new(PROGRAM)).expect("taken away");
        assert!(!shims.exists());
        let nothing = remove(&shims, Path::new(PROGRAM));
        assert!(matches!(nothing, Err(InstallError::Nothing(_))), "{nothing:?}");
    }

    #[test]
    fn what_is_not_there_any_more_has_no_launcher() {
        let (root, shims, path) = host();
        installed(&shims, &path).expect("put in place");
        fs::remove_file(root.path().join("bin/uvx")).expect("uninstalled");
        assert_eq!(installed(&shims, &path).expect("again").names, ["npx"]);
        let gone = fs::symlink_metadata(shims.join("uvx")).expect_err("taken away");
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let (root, shims, path) = host();
        let programs = root.path().join("bin");
        let refused = installed(&programs, &path);
        assert!(
            matches!(&refused, Err(InstallError::NotOurs(link)) if link.ends_with("npx")),
            "{refused:?}"
        );
        assert_eq!(fs::read_dir(&programs).expect("there").count(), 2);
        installed(&shims, &path).expect("put in place");
        fs::write(shims.join("mine"), "x").expect("a file");
        remove(&shims, Path::new(PROGRAM)).expect("taken away");
        assert_eq!(fs::read_dir(&shims).expect("there").count(), 1);
        fs::write(shims.join(INHERITED), "{}").expect("a file");
        fs::write(shims.join("npx"), "x").expect("a file");
        let refused = remove(&shims, Path::new(PROGRAM));
        assert!(matches!(refused, Err(InstallError::NotOurs(_))), "{refused:?}");
    }
}

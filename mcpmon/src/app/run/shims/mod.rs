//! Shims for launchers of packages, in front of `PATH`: a server that is started by one of them is wrapped without
//! further configuration. They belong to one session of `mcpmon run`, or stay installed (`installed`). A session has
//! shims for servers that are installed as programs (`mcp-server-git`), too.
//!
//! Interpreters have no shims: `python3` finds its own files by looking itself up on `PATH`, and build scripts do the
//! same with `node`. Nor have tools that mostly build, such as `npm`.

mod installed;
mod invoked;

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, symlink},
    path::{Path, PathBuf},
    process,
};

use serde::{Deserialize, Serialize};

pub(crate) use self::invoked::{is_this, shim_target};
pub use self::{
    installed::{InstallError, InstalledShims, ShimSettings, install, remove, usual_directory},
    invoked::{ShimError, inherited, run},
};
use mcpmon_detect::launch::LaunchRules;

use super::codex;
use crate::app::control::DEFAULT_SOCKET;

/// The launchers with shims: each starts a package or an image under its own name. Sorted.
pub(super) const NAMES: [&str; 9] = [
    "bunx", "docker", "npx", "pipx", "pnpm", "pnpx", "podman", "uv", "uvx",
];
/// The file name of this program.
const PROGRAM: &str = "mcpmon";
/// File beside the shims with the settings for wrappers.
const INHERITED: &str = ".mcpmon.json";
/// Most names that are tried for a new directory.
const ATTEMPTS: u32 = 64;
/// Most programs on `PATH` whose names are looked at.
const MAX_PROGRAMS: usize = 50_000;
/// Most shims for servers that are installed as programs.
const MAX_SERVERS: usize = 256;

/// The settings that wrappers inherit from `mcpmon run`, or from the installation. They are in a file because clients
/// start servers without most of their environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedSettings {
    /// The configuration file, if one was named.
    pub config: Option<PathBuf>,
    /// The store, if one was named.
    pub db: Option<PathBuf>,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// True if a configuration in the working directory may be used.
    pub allow_local_config: bool,
    /// The URL of OpenAI's models, for agents below this run that take it as an argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openai: Option<String>,
}

impl Default for InheritedSettings {
    /// The settings outside `mcpmon run`.
    fn default() -> Self {
        Self {
            config: None,
            db: None,
            socket: DEFAULT_SOCKET.into(),
            allow_local_config: false,
            openai: None,
        }
    }
}

/// A directory of shims. Dropping this removes it.
#[derive(Debug)]
pub(super) struct Shims(PathBuf);

impl Shims {
    /// Makes a directory of shims that only this user can write to.
    pub(super) fn make(inherited: &InheritedSettings) -> io::Result<Self> {
        let own = fs::read_link("/proc/self/exe")?;
        let above = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let above = above
            .filter(|path| path.is_absolute() && path.is_dir())
            .unwrap_or_else(std::env::temp_dir);
        let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        // A program that only checks whether a launcher exists must not find a shim without one.
        let agents = inherited.openai.is_some().then_some(codex::PROGRAM);
        let names = NAMES.into_iter().chain(agents);
        let names = names.filter(|name| invoked::is_there(name, &path));
        let names = names.map(str::to_owned).chain(servers(&path));
        Self::make_in(&above, &own, names, &absolute(inherited)?)
    }

    fn make_in(
        above: &Path,
        own: &Path,
        names: impl Iterator<Item = String>,
        inherited: &InheritedSettings,
    ) -> io::Result<Self> {
        let pid = process::id();
        let mut taken = 0;
        let shims = loop {
            let path = above.join(format!("mcpmon-shims-{pid}-{taken}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break Self(path),
                // The directory is left over from a process with the same id, or another user made it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && taken < ATTEMPTS => taken += 1,
                Err(error) => return Err(error),
            }
        };
        // Under its own name the program is found even if there are no launchers.
        for name in names.chain([PROGRAM.to_owned()]) {
            symlink(own, shims.0.join(name))?;
        }
        fs::write(shims.0.join(INHERITED), serde_json::to_vec(inherited)?)?;
        Ok(shims)
    }

    /// Returns `path` with this directory in front.
    pub(super) fn in_front_of(&self, path: Option<OsString>) -> OsString {
        let mut joined = self.0.clone().into_os_string();
        joined.push(":");
        joined.push(path.unwrap_or_else(|| DEFAULT_PATH.into()));
        joined
    }
}

impl Drop for Shims {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, path = %self.0.display(), "launchers stay behind");
        }
    }
}

/// Returns the names of programs on `path` that are MCP servers by their names.
fn servers(path: &OsStr) -> BTreeSet<String> {
    let rules = LaunchRules::default();
    let entries = std::env::split_paths(path)
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten();
    let names = entries
        .take(MAX_PROGRAMS)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| !NAMES.contains(&name.as_str()) && rules.detect(&[name]).is_some())
        .filter(|name| invoked::is_there(name, path))
        .take(MAX_SERVERS)
        .collect()
}

/// The search path if `PATH` is unset.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Makes the paths absolute, because wrappers run in other directories.
fn absolute(inherited: &InheritedSettings) -> io::Result<InheritedSettings> {
    let absolute = |path: &Option<PathBuf>| path.as_ref().map(std::path::absolute).transpose();
    Ok(InheritedSettings {
        config: absolute(&inherited.config)?,
        db: absolute(&inherited.db)?,
        socket: std::path::absolute(&inherited.socket)?,
        allow_local_config: inherited.allow_local_config,
        openai: inherited.openai.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn launchers_are_there_for_as_long_as_they_are_held() {
        let above = tempfile::tempdir().expect("a directory");
        let own = Path::new("/proc/self/exe");
        let inherited = InheritedSettings {
            db: Some("/tmp/x.db".into()),
            ..InheritedSettings::default()
        };
        let make = || {
            Shims::make_in(
                above.path(),
                own,
                NAMES.map(str::to_owned).into_iter(),
                &inherited,
            )
        };
        let (first, second) = (make().expect("the first"), make().expect("another name"));
        assert_ne!(first.0, second.0);
        let mode = fs::metadata(&first.0).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        for name in NAMES {
            assert!(first.0.join(name).is_symlink(), "{name}");
        }
        let read = fs::read(first.0.join(INHERITED)).expect("written");
        assert_eq!(
            serde_json::from_slice::<InheritedSettings>(&read).expect("JSON"),
            inherited
        );
        let path = first.in_front_of(Some("/bin".into()));
        assert_eq!(path, OsString::from(format!("{}:/bin", first.0.display())));
        let gone = first.0.clone();
        drop(first);
        assert!(!gone.exists() && second.0.exists());
    }

    #[test]
    fn servers_are_found_by_the_names_of_programs() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["mcp-server-git", "notes-mcp-server", "git", "npx"] {
            symlink("/bin/cat", directory.path().join(name)).expect("a program");
        }
        fs::write(directory.path().join("mcp-server-data"), "no program").expect("a file");
        let found = servers(directory.path().as_os_str());
        assert_eq!(Vec::from_iter(found), ["mcp-server-git", "notes-mcp-server"]);
    }

    #[test]
    fn names_are_sorted() {
        assert!(NAMES.is_sorted());
    }
}

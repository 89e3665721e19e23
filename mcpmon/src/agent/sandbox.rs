//! Sandbox of a server: the places on this host that its rules are drawn from, and what has to be there before it starts.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{ffi::OsStringExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use mcpmon_detect::{launch::LaunchRules, protected_paths::Places};
use mcpmon_engine::sandbox::{
    DirectoryEntry, DirectoryListing, DrawnSandbox, SandboxPlaces, draw, package_caches,
};
use mcpmon_model::{PathPattern, SandboxRules};
use mcpmon_policy::{Egress, SandboxMode, SandboxPolicy};
use mcpmon_stdio::OpenProgram;
use nix::unistd::mkdtemp;

/// Most entries of a directory that are looked at.
const MAX_ENTRIES: usize = 16_384;
/// Directories above a script in which its package is looked for.
const MAX_PACKAGE_DEPTH: usize = 8;
/// The files that a package has in its uppermost directory.
const PACKAGE_FILES: [&str; 5] = [
    "package.json",
    "pyproject.toml",
    "setup.py",
    "pyvenv.cfg",
    "deno.json",
];
/// Directories beside a `bin` that its programs are made of.
const BESIDE_BIN: [&str; 4] = ["lib", "lib64", "libexec", "include"];
/// Variable that names the directory of temporary files.
const TEMPORARY: &str = "TMPDIR";

/// The rules of a sandbox that is still to be made.
#[derive(Clone, Debug, Default)]
pub(in crate::agent) struct Draft {
    /// The rules.
    pub(in crate::agent) rules: SandboxRules,
    /// Grants that have no effect.
    pub(in crate::agent) remarks: Vec<String>,
}

/// The server that a sandbox is made for.
#[derive(Debug)]
pub(in crate::agent) struct Sandboxed<'a> {
    /// The program that is started.
    pub(in crate::agent) program: &'a OpenProgram,
    /// The environment that says where its home and the caches of its package manager are.
    pub(in crate::agent) environment: &'a [(OsString, OsString)],
    /// The directory of temporary files that is its own; without one it shares that of its environment.
    pub(in crate::agent) temporary: Option<&'a Path>,
    /// The places of protected files.
    pub(in crate::agent) protected: &'a Places,
    /// Further protected files.
    pub(in crate::agent) extra: &'a [PathPattern],
}

/// A directory of temporary files that is removed with all that lies in it.
#[derive(Debug)]
pub(in crate::agent) struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Makes the directory that a server has in a sandbox which leaves it none of others; `None` where it needs none.
    pub(in crate::agent) fn for_mode(mode: SandboxMode) -> Option<Self> {
        match mode {
            SandboxMode::Strict => match Self::new() {
                Ok(directory) => Some(directory),
                Err(error) => {
                    tracing::warn!(%error, "the server has no temporary directory");
                    None
                }
            },
            SandboxMode::Off | SandboxMode::HomeReadonly => None,
        }
    }

    /// Makes one.
    pub(in crate::agent) fn new() -> io::Result<Self> {
        let template = env::temp_dir().join("mcpmon-server-XXXXXX");
        let path = mkdtemp(&template)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        Ok(Self(fs::canonicalize(path)?))
    }

    /// Returns its path.
    pub(in crate::agent) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::info!(path = %self.0.display(), %error, "temporary files of the server are left behind");
        }
    }
}

impl Sandboxed<'_> {
    /// Draws the rules of its sandbox, with `egress`, the list that no kernel enforces.
    pub(in crate::agent) fn draw(self, sandbox: &SandboxPolicy, egress: Option<&Egress>) -> Draft {
        let variable = |name: &str| variable(self.environment, name).map(PathBuf::from);
        let home = variable("HOME").filter(|home| home.is_absolute());
        let home = home.and_then(|home| fs::canonicalize(home).ok());
        let workspace = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let workspace = fs::canonicalize(&workspace).unwrap_or(workspace);
        let words = words(self.program);
        let caches = match sandbox.mode {
            SandboxMode::Off => Vec::new(),
            SandboxMode::HomeReadonly | SandboxMode::Strict => {
                let programs = programs(self.program, &words);
                let caches = package_caches(programs.iter().map(String::as_str), home.as_deref(), variable);
                caches.iter().for_each(|cache| make_cache(cache));
                caches
            }
        };
        let package = package(self.program, &words, home.as_deref());
        let shared = variable(TEMPORARY).filter(|path| path.is_absolute());
        let temporary = self.temporary.map(Path::to_owned).or(shared);
        let places = SandboxPlaces {
            home: home.as_deref(),
            workspace: &workspace,
            package: &package,
            caches: &caches,
            temporary: temporary.as_deref(),
            protected: self.protected,
            extra: self.extra,
        };
        let DrawnSandbox { rules, remarks } = draw(sandbox, egress, &places, &mut HostFiles);
        Draft { rules, remarks }
    }
}

/// Returns the value of a variable.
pub(in crate::agent) fn variable<'e>(
    environment: &'e [(OsString, OsString)],
    wanted: &str,
) -> Option<&'e OsStr> {
    let mut variables = environment.iter();
    variables.find_map(|(name, value)| (name == wanted).then_some(value.as_os_str()))
}

/// Tells a server of its temporary directory.
pub(in crate::agent) fn with_temporary(
    environment: &mut Vec<(OsString, OsString)>,
    directory: &TemporaryDirectory,
) {
    environment.retain(|(name, _)| name != TEMPORARY);
    environment.push((TEMPORARY.into(), directory.0.clone().into()));
}

/// Makes a cache, which its package manager cannot where the home may only be read.
fn make_cache(cache: &Path) {
    if let Err(error) = fs::create_dir_all(cache) {
        tracing::info!(path = %cache.display(), %error, "the cache of a package manager is not there");
    }
}

fn words(program: &OpenProgram) -> Vec<String> {
    let words = program.arguments.iter();
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns the programs that a command runs, as far as its words tell.
fn programs(program: &OpenProgram, words: &[String]) -> Vec<String> {
    let scripts = program.scripts.iter().map(|(path, _)| path.as_path());
    let files = scripts.chain([program.path.as_path()]);
    let files = files.map(|path| path.to_string_lossy().into_owned());
    files.chain(LaunchRules::searched(words)).collect()
}

/// Returns the files and directories that a server is made of: its program, and the package that its script lies in.
fn package(program: &OpenProgram, words: &[String], home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    let interpreters = program.scripts.iter().map(|(path, _)| path.clone());
    let mut files: Vec<PathBuf> = interpreters.chain([program.path.clone()]).collect();
    for script in LaunchRules::scripts(words) {
        let directory = PathBuf::from(script.directory.unwrap_or_default());
        files.extend(script.path.map(|path| directory.join(path)));
        // A launcher finds its project in the directory that it is told of, unless that is all of a home.
        let directory = std::path::absolute(directory).ok();
        found.extend(directory.filter(|directory| !is_above(directory, home)));
    }
    for path in files {
        let Ok(called) = std::path::absolute(&path) else {
            continue;
        };
        let real = fs::canonicalize(&called).ok();
        for path in [Some(called), real].into_iter().flatten() {
            found.extend(around(&path, home));
        }
    }
    // Rules are made of files without links.
    found
        .iter()
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Returns whether a directory is the root or a home, or has the home in it.
fn is_above(directory: &Path, home: Option<&Path>) -> bool {
    directory.parent().is_none() || home.is_some_and(|home| home.starts_with(directory))
}

/// Returns a file, and what it needs of its package or installation.
fn around(path: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let above: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .take(MAX_PACKAGE_DEPTH)
        .take_while(|directory| !is_above(directory, home))
        .collect();
    let has_package = |directory: &&&Path| PACKAGE_FILES.iter().any(|name| directory.join(name).exists());
    match (above.iter().find(has_package), above.first()) {
        (Some(package), _) => found.push((*package).to_owned()),
        (None, Some(directory)) if directory.file_name() == Some(OsStr::new("bin")) => {
            let installation = directory.parent().unwrap_or(directory);
            found.extend(BESIDE_BIN.iter().map(|name| installation.join(name)));
            found.push((*directory).to_owned());
        }
        (None, Some(directory)) => found.push((*directory).to_owned()),
        (None, None) => {}
    }
    found
}

/// This host's files.
struct HostFiles;

impl DirectoryListing for HostFiles {
    fn entries(&mut self, directory: &Path) -> Vec<DirectoryEntry> {
        let entries = fs::read_dir(directory).into_iter().flatten().take(MAX_ENTRIES);
        entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                Some(DirectoryEntry {
                    is_link: entry.file_type().ok()?.is_symlink(),
                    name: OsString::from_vec(entry.file_name().into_vec()),
                })
            })
            .collect()
    }

    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        fs::canonicalize(path).ok()
    }
}

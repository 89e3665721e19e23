//! Sandbox of a server: the places on this host that its rules are drawn from, and what has to be there before it starts.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{ffi::OsStringExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use mcpmon_detect::{
    launch::{LaunchRules, Stage},
    protected_paths::Places,
};
use mcpmon_engine::sandbox::{
    DirectoryEntry, DirectoryListing, DrawnSandbox, SandboxPlaces, draw, package_caches,
};
use mcpmon_model::{Event, EventKind, Layer, PathPattern, SandboxRules, ServerId, Severity};
use mcpmon_policy::{Egress, SandboxMode, SandboxPolicy};
use mcpmon_session::clock;
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
pub(super) struct Draft {
    /// The rules.
    pub(super) rules: SandboxRules,
    /// Grants that have no effect.
    pub(super) remarks: Vec<String>,
}

/// The server that a sandbox is made for.
#[derive(Debug)]
pub(super) struct Sandboxed<'a> {
    /// The program that is started.
    pub(super) program: &'a OpenProgram,
    /// Its environment.
    pub(super) environment: &'a [(OsString, OsString)],
    /// The places of protected files.
    pub(super) protected: &'a Places,
    /// Further protected files.
    pub(super) extra: &'a [PathPattern],
}

/// A directory of temporary files that is removed with all that lies in it.
#[derive(Debug)]
pub(super) struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn new() -> io::Result<Self> {
        let template = env::temp_dir().join("mcpmon-server-XXXXXX");
        let path = mkdtemp(&template)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        Ok(Self(fs::canonicalize(path)?))
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
    /// Draws the rules of its sandbox, with `egress`, the list that no kernel enforces. A server that may use no temporary
    /// files of others has a directory of its own, for as long as that is kept.
    pub(super) fn draw(
        self,
        sandbox: &SandboxPolicy,
        egress: Option<&Egress>,
    ) -> (Draft, Option<TemporaryDirectory>) {
        let temporary = match sandbox.mode {
            SandboxMode::Strict => own_temporary(),
            SandboxMode::Off | SandboxMode::HomeReadonly => None,
        };
        let variable = |name: &str| super::environment::variable(self.environment, name).map(PathBuf::from);
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
        let temporary_path = temporary.as_ref().map(|directory| directory.0.clone()).or(shared);
        let places = SandboxPlaces {
            home: home.as_deref(),
            workspace: &workspace,
            package: &package,
            caches: &caches,
            temporary: temporary_path.as_deref(),
            protected: self.protected,
            extra: self.extra,
        };
        let DrawnSandbox { rules, remarks } = draw(sandbox, egress, &places, &mut HostFiles);
        (Draft { rules, remarks }, temporary)
    }
}

fn own_temporary() -> Option<TemporaryDirectory> {
    match TemporaryDirectory::new() {
        Ok(directory) => Some(directory),
        Err(error) => {
            tracing::warn!(%error, "the server has no temporary directory");
            None
        }
    }
}

/// Tells a server of its temporary directory.
pub(super) fn with_temporary(environment: &mut Vec<(OsString, OsString)>, directory: &TemporaryDirectory) {
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
    let scripts = program.scripts.iter().map(|(path, _)| path.clone());
    let interpreted = match LaunchRules::stage(words) {
        Stage::Script { path } => Some(PathBuf::from(path)),
        Stage::Module { .. }
        | Stage::Shell { .. }
        | Stage::Launcher
        | Stage::Program
        | Stage::Container { .. }
        | Stage::Inline => None,
    };
    for path in scripts.chain([program.path.clone()]).chain(interpreted) {
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

/// Returns a file, and what it needs of its package or installation.
fn around(path: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let is_too_much = |directory: &Path| {
        directory.parent().is_none() || home.is_some_and(|home| home.starts_with(directory))
    };
    let above: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .take(MAX_PACKAGE_DEPTH)
        .take_while(|directory| !is_too_much(directory))
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

/// Builds the event about a part of a sandbox that is missing, and reports it on standard error too.
pub(super) fn degraded(server: &ServerId, cause: String) -> Event {
    tracing::warn!(%server, cause, "the sandbox of the server is not as it was asked for");
    let kind = EventKind::EnforcementDegraded {
        component: "server sandbox".to_owned(),
        cause,
    };
    let mut event = Event::new(clock::now(), Layer::Stdio, kind);
    event.severity = Severity::Medium;
    event.reason = Some("`mcpmon doctor` tells what this kernel can keep a server from".to_owned());
    event
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

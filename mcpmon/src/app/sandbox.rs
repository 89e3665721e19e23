//! Sandboxes of servers: the places on this host that the rules are made from, and the directories that must exist
//! before a server starts.

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
    DirectoryEntry, DirectoryListing, DrawnSandbox, PackageCache, SandboxPlaces, draw, holds_home,
    package_caches,
};
use mcpmon_model::{PathPattern, SandboxRules};
use mcpmon_policy::{Egress, SandboxMode, SandboxPolicy};
use mcpmon_stdio::OpenProgram;
use nix::unistd::mkdtemp;

/// Most entries of a directory that are looked at.
const MAX_ENTRIES: usize = 16_384;
/// Levels above a script in which its package is looked for.
const MAX_PACKAGE_DEPTH: usize = 8;
/// Files that mark the top directory of a package.
const PACKAGE_FILES: [&str; 5] = [
    "package.json",
    "pyproject.toml",
    "setup.py",
    "pyvenv.cfg",
    "deno.json",
];
/// Directories beside a `bin` that belong to the same installation.
const BESIDE_BIN: [&str; 4] = ["lib", "lib64", "libexec", "include"];
/// Variable that names the directory of temporary files.
const TEMPORARY: &str = "TMPDIR";

/// The rules of a sandbox that is not made yet.
#[derive(Clone, Debug, Default)]
pub(in crate::app) struct Draft {
    /// The rules.
    pub(in crate::app) rules: SandboxRules,
    /// Grants that have no effect.
    pub(in crate::app) remarks: Vec<String>,
}

/// The server that a sandbox is made for.
#[derive(Debug)]
pub(in crate::app) struct Sandboxed<'a> {
    /// The program that is started.
    pub(in crate::app) program: &'a OpenProgram,
    /// The server's environment, which names its home and the caches of its package manager.
    pub(in crate::app) environment: &'a [(OsString, OsString)],
    /// A directory for its own temporary files; without one it uses that of its environment.
    pub(in crate::app) temporary: Option<&'a Path>,
    /// The places of protected files.
    pub(in crate::app) protected: &'a Places,
    /// Further protected files.
    pub(in crate::app) extra: &'a [PathPattern],
}

/// A directory for temporary files. Dropping this removes it with its content.
#[derive(Debug)]
pub(in crate::app) struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Makes the directory for a server in a strict sandbox, which cannot use the shared one. Returns `None` in other
    /// modes, or if it cannot be made.
    pub(in crate::app) fn for_mode(mode: SandboxMode) -> Option<Self> {
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

    /// Makes a directory that only this user may use.
    pub(in crate::app) fn new() -> io::Result<Self> {
        let template = env::temp_dir().join("mcpmon-server-XXXXXX");
        let path = mkdtemp(&template)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        Ok(Self(fs::canonicalize(path)?))
    }

    /// Returns the path of the directory.
    pub(in crate::app) fn path(&self) -> &Path {
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
    /// Draws the rules of the server's sandbox. `egress` is its egress list if the kernel programs do not enforce it.
    /// The server may write to the caches of its package manager, which are made here.
    pub(in crate::app) fn draw(self, sandbox: &SandboxPolicy, egress: Option<&Egress>) -> Draft {
        let caches = match sandbox.mode {
            SandboxMode::Off => Vec::new(),
            SandboxMode::HomeReadonly | SandboxMode::Strict => self.caches(),
        };
        caches.iter().for_each(|cache| make_cache(&cache.path));
        self.drawn(sandbox, egress, &caches, true)
    }

    /// Draws the rules for a server that is not trusted yet: it reads the caches, and writes nothing that others use.
    pub(in crate::app) fn draw_untrusted(self, sandbox: &SandboxPolicy, caches: &[PackageCache]) -> Draft {
        self.drawn(sandbox, None, caches, false)
    }

    /// Returns the caches of the package managers that start the server, as far as they are recognised by their names.
    pub(in crate::app) fn caches(&self) -> Vec<PackageCache> {
        let programs = programs(self.program, &words(self.program));
        let programs = programs.iter().map(String::as_str);
        package_caches(programs, self.home().as_deref(), |name| self.variable(name))
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        variable(self.environment, name).map(PathBuf::from)
    }

    fn home(&self) -> Option<PathBuf> {
        let home = self.variable("HOME").filter(|home| home.is_absolute())?;
        fs::canonicalize(home).ok()
    }

    fn drawn(
        &self,
        sandbox: &SandboxPolicy,
        egress: Option<&Egress>,
        caches: &[PackageCache],
        writes_shared: bool,
    ) -> Draft {
        let home = self.home();
        let workspace = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let workspace = fs::canonicalize(&workspace).unwrap_or(workspace);
        let package = package(self.program, &words(self.program), home.as_deref());
        let caches: Vec<PathBuf> = caches.iter().map(|cache| cache.path.clone()).collect();
        let shared = self.variable(TEMPORARY).filter(|path| path.is_absolute());
        let temporary = self.temporary.map(Path::to_owned).or(shared);
        let places = SandboxPlaces {
            home: home.as_deref(),
            workspace: &workspace,
            package: &package,
            caches: &caches,
            temporary: temporary.as_deref(),
            writes_shared,
            protected: self.protected,
            extra: self.extra,
        };
        let DrawnSandbox { rules, remarks } = draw(sandbox, egress, &places, &mut HostFiles);
        Draft { rules, remarks }
    }
}

/// Returns the value of a variable.
pub(in crate::app) fn variable<'e>(
    environment: &'e [(OsString, OsString)],
    wanted: &str,
) -> Option<&'e OsStr> {
    let mut variables = environment.iter();
    variables.find_map(|(name, value)| (name == wanted).then_some(value.as_os_str()))
}

/// Sets the variable for temporary files to this directory.
pub(in crate::app) fn with_temporary(
    environment: &mut Vec<(OsString, OsString)>,
    directory: &TemporaryDirectory,
) {
    environment.retain(|(name, _)| name != TEMPORARY);
    environment.push((TEMPORARY.into(), directory.0.clone().into()));
}

/// Makes a cache, because the package manager cannot if the home is read-only.
fn make_cache(cache: &Path) {
    if let Err(error) = fs::create_dir_all(cache) {
        tracing::info!(path = %cache.display(), %error, "the cache of a package manager is not there");
    }
}

fn words(program: &OpenProgram) -> Vec<String> {
    let words = program.arguments.iter();
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns the programs that a command runs, as far as its words name them.
fn programs(program: &OpenProgram, words: &[String]) -> Vec<String> {
    let scripts = program.scripts.iter().map(|(path, _)| path.as_path());
    let files = scripts.chain([program.path.as_path()]);
    let files = files.map(|path| path.to_string_lossy().into_owned());
    files.chain(LaunchRules::searched(words)).collect()
}

/// Returns the files and directories that a server consists of: its program, and the package of its script. The paths
/// contain no links, and none of the directories contains a home.
fn package(program: &OpenProgram, words: &[String], home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    let interpreters = program.scripts.iter().map(|(path, _)| path.clone());
    let mut files: Vec<PathBuf> = interpreters.chain([program.path.clone()]).collect();
    // A script that stands in for its program, as those of version managers do, passes the program's arguments on.
    let called = program.scripts.first().map(|(path, _)| path.to_string_lossy());
    let from = called.and_then(|called| words.iter().position(|word| *word == called));
    let shown = from.map_or(&[][..], |from| &words[from..]);
    for script in LaunchRules::scripts(words)
        .into_iter()
        .chain(LaunchRules::scripts(shown))
    {
        let directory = PathBuf::from(script.directory.unwrap_or_default());
        files.extend(script.path.map(|path| directory.join(path)));
        // Some launchers find their project in a directory that an option names.
        found.extend(std::path::absolute(directory).ok());
    }
    for path in files {
        let Ok(called) = std::path::absolute(&path) else {
            continue;
        };
        let real = fs::canonicalize(&called).ok();
        for path in [without_links_above(&called), real].into_iter().flatten() {
            found.extend(around(&path, home));
        }
    }
    // The sandbox decides by the real path, not by the spelling.
    found
        .iter()
        .filter_map(|path| fs::canonicalize(path).ok())
        .filter(|path| !holds_home(path, home))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Resolves the links in a file's directory, but not the file itself.
fn without_links_above(path: &Path) -> Option<PathBuf> {
    let directory = fs::canonicalize(path.parent()?).ok()?;
    Some(directory.join(path.file_name()?))
}

/// Returns a file, and the directories that it needs of its package or installation.
fn around(path: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let above: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .take(MAX_PACKAGE_DEPTH)
        .take_while(|directory| !holds_home(directory, home))
        .collect();
    let has_package = |directory: &&&Path| PACKAGE_FILES.iter().any(|name| directory.join(name).exists());
    match (above.iter().find(has_package), above.first()) {
        (Some(package), _) => found.push((*package).to_owned()),
        (None, Some(directory)) if directory.file_name() == Some(OsStr::new("bin")) => {
            let installation = directory.parent().unwrap_or(directory);
            found.extend(BESIDE_BIN.iter().map(|name| installation.join(name)));
            found.push((*directory).to_owned());
        }
        // The shims of a version manager start programs that lie beside their directory.
        (None, Some(directory)) if directory.file_name() == Some(OsStr::new("shims")) => {
            found.extend(directory.parent().map(Path::to_owned));
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use test_case::test_case;

    use super::*;

    #[test]
    fn a_shim_of_a_version_manager_is_given_its_manager_and_its_script() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(directory.path()).expect("a directory");
        for name in ["manager/shims", "home/shims", "repo/bin"] {
            fs::create_dir_all(root.join(name)).expect("a directory");
        }
        fs::write(root.join("repo/bin/server.py"), "").expect("a file");
        for (shim, expected) in [
            (
                "manager/shims/python3",
                vec![
                    "manager",
                    "manager/shims/python3",
                    "repo/bin",
                    "repo/bin/server.py",
                ],
            ),
            (
                "home/shims/python3",
                vec!["home/shims/python3", "repo/bin", "repo/bin/server.py"],
            ),
        ] {
            let path = root.join(shim);
            fs::write(&path, "#!/bin/sh\n").expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
            let script = root.join("repo/bin/server.py").into_os_string();
            let program = OpenProgram::resolve(path.as_os_str(), &[script], None).expect("a shim");
            let package = package(&program, &words(&program), Some(&root.join("home")));
            let below = package.iter().filter_map(|path| path.strip_prefix(&root).ok());
            let below: Vec<_> = below.map(|path| path.display().to_string()).collect();
            assert_eq!(below, expected, "{shim}");
        }
    }

    /// Returns the package of a command on a host with a home at `home` and a repository beside it, in which `link`
    /// leads to the home.
    #[test_case(&["sh", "@/home/documents/../x.sh"] => vec!["home/x.sh"]; "two dots")]
    #[test_case(&["env", "-C", "@/home/documents/..", "sh", "x.sh"] => vec!["home/x.sh"]; "a directory with two dots")]
    #[test_case(&["env", "-C", "@/repo/link", "sh", "x.sh"] => vec!["home/x.sh"]; "a directory that is a link")]
    #[test_case(&["sh", "@/repo/link/x.sh"] => vec!["home/x.sh"]; "behind a link")]
    #[test_case(&["sh", "@/repo/linked.sh"] => vec!["home/x.sh", "repo"]; "a link to a file")]
    #[test_case(&["sh", "@/repo/bin/y.sh"] => vec!["repo/bin", "repo/bin/y.sh"]; "a link beside its programs")]
    #[test_case(&["uv", "--directory", "@/repo/link", "run", "x"] => Vec::<String>::new(); "a project that is a link")]
    #[test_case(&["uv", "--directory", "@/repo", "run", "x"] => vec!["repo"]; "a project")]
    fn no_home_is_a_package(command: &[&str]) -> Vec<String> {
        let directory = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(directory.path()).expect("a directory");
        for name in ["home/documents", "repo/bin"] {
            fs::create_dir_all(root.join(name)).expect("a directory");
        }
        for name in ["home/x.sh", "home/package.json", "repo/bin/y.sh"] {
            fs::write(root.join(name), "").expect("a file");
        }
        for (name, target) in [
            ("repo/link", "home"),
            ("repo/bin/../lib", "home"),
            ("repo/linked.sh", "home/x.sh"),
        ] {
            symlink(root.join(target), root.join(name)).expect("a link");
        }
        let words: Vec<String> = command
            .iter()
            .map(|word| word.replace('@', &root.display().to_string()))
            .collect();
        let arguments: Vec<OsString> = words.iter().skip(1).map(OsString::from).collect();
        let mut program = OpenProgram::resolve(OsStr::new("/bin/sh"), &arguments, None).expect("a shell");
        program.arguments = words.iter().map(OsString::from).collect();
        let package = package(&program, &super::words(&program), Some(&root.join("home")));
        let below = package.iter().filter_map(|path| path.strip_prefix(&root).ok());
        below.map(|path| path.display().to_string()).collect()
    }
}

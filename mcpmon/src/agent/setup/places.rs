//! Existing files of clients.

use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    clients::{Base, Client, Place},
    plan::Form,
};

/// Names below one place that are looked at; plugins bring whole repositories.
const MAX_LOOKED_AT: usize = 50_000;
/// Directories that `**` goes down.
const MAX_DEPTH: usize = 8;
/// Directories in which no client keeps servers.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// The roots of a user's places.
#[derive(Clone, Debug)]
pub struct Roots {
    /// The home.
    pub home: PathBuf,
    /// `$XDG_CONFIG_HOME`, or what stands for it.
    pub config: PathBuf,
    /// `$CLAUDE_CONFIG_DIR`.
    pub claude: Option<PathBuf>,
    /// The host's root directory.
    pub host: PathBuf,
}

impl Roots {
    /// Those of this process; `None` where it has no home.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        let directory = |name| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let home = directory("HOME")?;
        Some(Self {
            config: directory("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            claude: directory("CLAUDE_CONFIG_DIR"),
            host: PathBuf::from("/"),
            home,
        })
    }

    /// The owner of the home, where that is somebody else than `user`: what was made there would not be theirs.
    #[must_use]
    pub fn owner_other_than(&self, user: u32) -> Option<u32> {
        let owner = fs::metadata(&self.home).ok()?.uid();
        (owner != user).then_some(owner)
    }
}

/// A file of a client.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) client: &'static Client,
    pub(super) path: PathBuf,
    pub(super) form: Form,
    /// True if it is the host's, and no user's.
    pub(super) is_hosts: bool,
    /// The project it belongs to.
    pub(super) project: Option<PathBuf>,
}

/// The files of a client that are there, in the order of its places.
pub(super) fn files(client: &'static Client, roots: &Roots, projects: &[PathBuf]) -> Vec<Found> {
    let mut found = Vec::new();
    for place in client.places {
        let bases = match base_of(place.base, roots) {
            Some(base) => vec![base],
            None => projects.to_vec(),
        };
        for base in bases {
            let steps: Vec<_> = place.path.split('/').collect();
            let mut paths = Vec::new();
            let mut budget = MAX_LOOKED_AT;
            matching(&base, &steps, &mut budget, &mut paths);
            paths.sort();
            found.extend(paths.into_iter().map(|path| of(client, place, &base, path)));
        }
    }
    found
}

fn of(client: &'static Client, place: &'static Place, base: &Path, path: PathBuf) -> Found {
    Found {
        client,
        path,
        form: Form {
            dialect: place.dialect,
            servers: place.servers,
        },
        is_hosts: place.base == Base::Host,
        project: (place.base == Base::Project).then(|| base.to_owned()),
    }
}

/// Returns the root of a place; `None` for one in each project.
fn base_of(base: Base, roots: &Roots) -> Option<PathBuf> {
    match base {
        Base::Home => Some(roots.home.clone()),
        Base::Config => Some(roots.config.clone()),
        Base::Claude(below_home) => {
            let own = || roots.home.join(below_home);
            Some(roots.claude.clone().unwrap_or_else(own))
        }
        Base::Host => Some(roots.host.clone()),
        Base::Project => None,
    }
}

/// Adds what is there below `directory`. What cannot be listed is not there.
fn matching(directory: &Path, steps: &[&str], budget: &mut usize, found: &mut Vec<PathBuf>) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    match (*step, rest) {
        ("**", rest) => below(directory, MAX_DEPTH, rest, budget, found),
        (step, []) => {
            let path = directory.join(step);
            if fs::symlink_metadata(&path).is_ok() {
                found.push(path);
            }
        }
        (step, rest) => matching(&directory.join(step), rest, budget, found),
    }
}

fn below(directory: &Path, depth: usize, rest: &[&str], budget: &mut usize, found: &mut Vec<PathBuf>) {
    matching(directory, rest, budget, found);
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        if depth == 0 || *budget == 0 {
            return;
        }
        *budget -= 1;
        // Links could lead round in circles, or out of the place.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            below(&entry.path(), depth - 1, rest, budget, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::clients::CLIENTS, *};

    #[test]
    fn every_scope_of_every_client_is_found() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let files_there = [
            "home/.claude.json",
            "home/.claude/plugins/cache/a/b/.mcp.json",
            "home/.claude/plugins/repos/.mcp.json",
            "home/.claude/plugins/cache/node_modules/.mcp.json",
            "home/.claude/.mcp.json",
            "home/.cursor/mcp.json",
            "config/Claude/claude_desktop_config.json",
            "config/Code/User/mcp.json",
            "config/Code/User/settings.json",
            "project/.mcp.json",
            "project/.cursor/mcp.json",
            "project/.vscode/mcp.json",
            "project/.vscode/settings.json",
            "host/etc/claude-code/managed-mcp.json",
        ];
        for file in files_there {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        }
        let mut roots = Roots {
            home: root.join("home"),
            config: root.join("config"),
            claude: None,
            host: root.join("host"),
        };
        let found = |roots: &Roots, projects: &[PathBuf]| -> Vec<String> {
            let all = CLIENTS.iter().flat_map(|client| files(client, roots, projects));
            all.map(|found| found.path.strip_prefix(root).unwrap().display().to_string())
                .collect()
        };
        let none = [
            "home/.claude/plugins/cache/node_modules/.mcp.json",
            "home/.claude/.mcp.json",
        ];
        let mut expected: Vec<_> = files_there.iter().filter(|file| !none.contains(file)).collect();
        let mut all = found(&roots, &[root.join("project")]);
        expected.sort();
        all.sort();
        assert_eq!(all.iter().collect::<Vec<_>>(), expected);
        let user = nix::unistd::geteuid().as_raw();
        assert_eq!(roots.owner_other_than(user), None);
        assert_eq!(roots.owner_other_than(user + 1), Some(user));
        roots.claude = Some(root.join("elsewhere"));
        assert!(!found(&roots, &[]).iter().any(|file| file.contains(".claude")));
    }
}

//! The existing configuration files of clients.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::{
    plan::FileForm,
    table::{CLIENTS, Client, PathStart, Scope, path_variables},
};

/// Most directory entries that are examined below one place: plugins contain whole repositories.
const MAX_LOOKED_AT: usize = 50_000;
/// Most levels of directories that `**` matches.
const MAX_DEPTH: usize = 8;
/// Directories in which no client has servers.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// The directories in which the paths of the table begin.
#[derive(Clone, Debug)]
pub struct Roots {
    /// The user's home directory.
    pub home: PathBuf,
    /// Absolute paths in environment variables that the table names.
    pub variables: BTreeMap<String, PathBuf>,
    /// The host's root directory.
    pub host: PathBuf,
}

impl Roots {
    /// Returns the directories of this process. Returns `None` if there is no home directory.
    pub fn of_process() -> Option<Self> {
        let directory = |name: &str| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let variables = path_variables().into_iter();
        Some(Self {
            home: directory("HOME")?,
            variables: variables
                .filter_map(|(name, _)| Some((name.to_owned(), directory(name)?)))
                .collect(),
            host: PathBuf::from("/"),
        })
    }

    /// Returns the owner of the home directory, if that is not `user`: files that are created there would belong to
    /// `user`.
    pub fn owner_other_than(&self, user: u32) -> Option<u32> {
        let owner = fs::metadata(&self.home).ok()?.uid();
        (owner != user).then_some(owner)
    }
}

/// A file of a client.
#[derive(Debug)]
pub(crate) struct ClientFile {
    pub(crate) form: FileForm,
    pub(crate) path: PathBuf,
    /// The project that it belongs to.
    pub(crate) project: Option<PathBuf>,
}

/// Lists the files of a client that exist, in the order of the table.
pub(crate) fn files(client: &'static Client, roots: &Roots, projects: &[PathBuf]) -> Vec<ClientFile> {
    let mut found = Vec::new();
    for file in &client.files {
        let form = FileForm { client, file };
        for (start, rest) in file.paths.iter().filter_map(|path| PathStart::parse(path)) {
            let bases = match base(start, roots) {
                Some(base) => vec![base],
                None => projects.to_vec(),
            };
            for base in bases {
                let steps: Vec<_> = rest.split('/').collect();
                let mut paths = Vec::new();
                let mut budget = MAX_LOOKED_AT;
                matching(&base, &steps, &mut budget, &mut paths);
                paths.sort();
                let project = (file.scope == Scope::Project).then(|| base.clone());
                let found_here = paths.into_iter().map(|path| ClientFile {
                    form,
                    path,
                    project: project.clone(),
                });
                found.extend(found_here);
            }
        }
    }
    found
}

/// Returns the path of a file of settings, which exists once for each user.
pub(crate) fn setting_path(path: &str, roots: &Roots) -> Option<PathBuf> {
    let (start, rest) = PathStart::parse(path)?;
    base(start, roots).map(|base| base.join(rest))
}

/// Returns whether there is a file or directory of a client on this host.
pub fn is_present(client: &'static Client, roots: &Roots, projects: &[PathBuf]) -> bool {
    let hooks = client.hooks.iter().map(|hooks| &hooks.path);
    let mut settings = hooks.chain(client.models.iter().flat_map(|address| &address.paths));
    let is_there = |path: &String| {
        let path = setting_path(path, roots);
        path.is_some_and(|path| path.parent().is_some_and(Path::is_dir))
    };
    settings.any(is_there) || !files(client, roots, projects).is_empty()
}

/// Lists the existing directories of a client's skills, each with its project.
pub(crate) fn skill_directories(
    client: &'static Client,
    roots: &Roots,
    projects: &[PathBuf],
) -> Vec<(PathBuf, Option<PathBuf>)> {
    let mut found = Vec::new();
    for (start, rest) in client.skills.iter().filter_map(|path| PathStart::parse(path)) {
        let bases = match base(start, roots) {
            Some(base) => vec![(base, None)],
            None => projects
                .iter()
                .map(|project| (project.clone(), Some(project.clone())))
                .collect(),
        };
        for (base, project) in bases {
            let steps: Vec<_> = rest.split('/').collect();
            let mut paths = Vec::new();
            let mut budget = MAX_LOOKED_AT;
            matching(&base, &steps, &mut budget, &mut paths);
            paths.sort();
            found.extend(paths.into_iter().map(|path| (path, project.clone())));
        }
    }
    found
}

/// Lists the directories with a SKILL.md, sorted. Links in `directory` itself are followed, because installers put a
/// skill in one place and link to it from others.
pub(crate) fn skills_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if is_skill(directory) {
        return vec![directory.to_owned()];
    }
    let mut waiting: Vec<(PathBuf, usize)> = subdirectories(directory, Links::Follow)
        .map(|path| (path, MAX_SKILL_DEPTH))
        .collect();
    let mut budget = MAX_LOOKED_AT;
    while let Some((path, depth)) = waiting.pop() {
        if budget == 0 {
            break;
        }
        budget -= 1;
        if is_skill(&path) {
            found.push(path);
        } else if depth > 0 {
            waiting.extend(subdirectories(&path, Links::Leave).map(|path| (path, depth - 1)));
        }
    }
    found.sort();
    found
}

/// Lists the directories in which clients would find files of a project, sorted; `directory` always comes first.
pub(crate) fn projects_below(directory: &Path) -> Vec<PathBuf> {
    let of_projects = |path: &'static String| {
        let (start, rest) = PathStart::parse(path)?;
        let first = rest.split('/').next().filter(|first| !first.contains('*'))?;
        (start == PathStart::Project).then_some(first)
    };
    let files = CLIENTS.iter().flat_map(|client| &client.files);
    let paths = files.flat_map(|file| &file.paths);
    let paths = paths.chain(CLIENTS.iter().flat_map(|client| &client.skills));
    let names: BTreeSet<&str> = paths.filter_map(of_projects).collect();
    let is_project = |path: &Path| {
        names
            .iter()
            .any(|name| fs::symlink_metadata(path.join(name)).is_ok())
    };
    let mut found = Vec::new();
    let mut waiting = vec![(directory.to_owned(), MAX_DEPTH)];
    let mut budget = MAX_LOOKED_AT;
    while let Some((path, depth)) = waiting.pop() {
        if budget == 0 {
            break;
        }
        budget -= 1;
        if depth > 0 {
            waiting.extend(subdirectories(&path, Links::Leave).map(|path| (path, depth - 1)));
        }
        if path == directory || is_project(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The file that makes a directory a skill.
const SKILL: &str = "SKILL.md";
/// Levels of directories in which skills are searched for.
const MAX_SKILL_DEPTH: usize = 4;

/// The treatment of links to directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Follow,
    Leave,
}

fn is_skill(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join(SKILL)).is_ok_and(|metadata| !metadata.is_dir())
}

fn subdirectories(directory: &Path, links: Links) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let entries = entries.filter_map(Result::ok).take(MAX_LOOKED_AT);
    entries.filter_map(move |entry| {
        let kind = entry.file_type().ok()?;
        let path = entry.path();
        let is_directory = kind.is_dir() || links == Links::Follow && kind.is_symlink() && path.is_dir();
        let is_skipped = SKIPPED.iter().any(|skipped| entry.file_name() == *skipped);
        (is_directory && !is_skipped).then_some(path)
    })
}

/// Returns the directory in which a path begins; `None` for a path in each project.
fn base(start: PathStart<'_>, roots: &Roots) -> Option<PathBuf> {
    match start {
        PathStart::Home => Some(roots.home.clone()),
        PathStart::Variable { name, below_home } => {
            let own = || roots.home.join(below_home);
            Some(roots.variables.get(name).cloned().unwrap_or_else(own))
        }
        PathStart::Host => Some(roots.host.clone()),
        PathStart::Project => None,
    }
}

/// Adds the files below `directory` that match a path of the table. A directory that cannot be listed counts as empty.
fn matching(directory: &Path, steps: &[&str], budget: &mut usize, found: &mut Vec<PathBuf>) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    if *step == "**" {
        return below(directory, MAX_DEPTH, rest, budget, found);
    }
    let paths = match step.split_once('*') {
        Some((prefix, suffix)) => listed(directory, prefix, suffix, budget),
        None => vec![directory.join(step)],
    };
    for path in paths {
        match rest {
            [] if fs::symlink_metadata(&path).is_ok() => found.push(path),
            [] => {}
            rest => matching(&path, rest, budget, found),
        }
    }
}

/// Lists the entries of a directory whose names begin with `prefix` and end with `suffix`.
fn listed(directory: &Path, prefix: &str, suffix: &str, budget: &mut usize) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for entry in entries.filter_map(Result::ok).take(*budget) {
        *budget -= 1;
        let name = entry.file_name();
        let is_named = name.to_str().is_some_and(|name| {
            name.len() >= prefix.len() + suffix.len() && name.starts_with(prefix) && name.ends_with(suffix)
        });
        if is_named {
            paths.push(entry.path());
        }
    }
    paths
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
        // Links could form circles, or lead elsewhere.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            below(&entry.path(), depth - 1, rest, budget, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an example for a path of the table, with `x` for each star.
    fn example(path: &str) -> String {
        path.replace("**", "x/y").replace('*', "x")
    }

    #[test]
    fn every_path_of_the_table_is_found() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let mut roots = Roots {
            home: root.join("home"),
            variables: BTreeMap::new(),
            host: root.join("host"),
        };
        let projects = [root.join("project")];
        let mut expected = Vec::new();
        for path in CLIENTS
            .iter()
            .flat_map(|client| &client.files)
            .flat_map(|file| &file.paths)
        {
            let (start, rest) = PathStart::parse(path).expect("a prefix");
            let base = base(start, &roots).unwrap_or_else(|| root.join("project"));
            expected.push(base.join(example(rest)));
        }
        for path in &expected {
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, "{}").expect("written");
        }
        for skipped in [
            "home/.claude/plugins/cache/node_modules/.mcp.json",
            "home/.claude/.mcp.json",
        ] {
            let path = root.join(skipped);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, "{}").expect("written");
        }
        let found = |roots: &Roots, projects: &[PathBuf]| -> Vec<PathBuf> {
            let all = CLIENTS.iter().flat_map(|client| files(client, roots, projects));
            all.map(|file| file.path).collect()
        };
        let mut all = found(&roots, &projects);
        all.sort();
        expected.sort();
        assert_eq!(all, expected);
        assert!(
            found(&roots, &[])
                .iter()
                .all(|path| !path.starts_with(&projects[0]))
        );

        let user = nix::unistd::geteuid().as_raw();
        assert_eq!(roots.owner_other_than(user), None);
        assert_eq!(roots.owner_other_than(user + 1), Some(user));
        let elsewhere = root.join("elsewhere");
        roots.variables.insert("CLAUDE_CONFIG_DIR".to_owned(), elsewhere);
        let is_claude = |path: &PathBuf| path.ends_with(".claude.json");
        assert!(!found(&roots, &[]).iter().any(is_claude));
    }

    #[test]
    fn skills_are_found_where_clients_look_for_them() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let roots = Roots {
            home: root.join("home"),
            variables: BTreeMap::new(),
            host: root.join("host"),
        };
        let skill = |path: &str| {
            fs::create_dir_all(root.join(path)).expect("made");
            fs::write(root.join(path).join(SKILL), "").expect("written");
        };
        for path in [
            "home/.claude/skills/a",
            "home/.claude/skills/a/examples/inner",
            "home/.claude/plugins/cache/market/tool/1.0/skills/b",
            "home/.claude/skills/group/c",
            "project/.claude/skills/d",
            "elsewhere/e",
            "home/.claude/skills/node_modules/f",
        ] {
            skill(path);
        }
        std::os::unix::fs::symlink(root.join("elsewhere/e"), root.join("home/.claude/skills/e"))
            .expect("link");
        let client = crate::table::client("claude-code").expect("a client");
        let found = skill_directories(client, &roots, &[root.join("project")]);
        let found: Vec<_> = found
            .iter()
            .flat_map(|(path, _)| skills_below(path))
            .map(|path| path.strip_prefix(root).expect("below").display().to_string())
            .collect();
        assert_eq!(
            found,
            [
                "home/.claude/skills/a",
                "home/.claude/skills/e",
                "home/.claude/skills/group/c",
                "home/.claude/plugins/cache/market/tool/1.0/skills/b",
                "project/.claude/skills/d",
            ]
        );
        assert_eq!(
            skills_below(&root.join("elsewhere/e")),
            [root.join("elsewhere/e")]
        );
        let projects = projects_below(root);
        assert_eq!(
            projects,
            [root.to_owned(), root.join("home"), root.join("project")]
        );
    }
}

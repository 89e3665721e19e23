//! The owner of a script or program, derived from its path: a package, a project directory, or the file itself.

use super::{
    command::{basename, program_name},
    package::{NameOrigin, PackageName},
};
use crate::tables::{self, WordList};

/// Names that any server could have, with `-` for `_`: those of the entry points of projects.
static ENTRY_POINTS: WordList = tables::LAUNCH.list("file", "entry_points");
/// Names of entry points that only say that it is some MCP server.
static MCP_ENTRY_POINTS: WordList = tables::LAUNCH.list("file", "mcp_entry_points");
/// Directories inside a project.
static INSIDE: WordList = tables::LAUNCH.list("file", "inside");
/// Directories that contain several MCP servers.
static COLLECTIONS: WordList = tables::LAUNCH.list("file", "collections");
/// Directories whose entries are homes of users.
const HOMES: &[&str] = &["home", "Users"];
/// Most directories from the end of a path that are read.
const MAX_DEPTH: usize = 8;

/// The parts of a path that name its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileName {
    /// Name of the package or project that the file belongs to, if the path contains it.
    pub(super) owner: Option<PackageName>,
    /// The relation of the file to its owner.
    pub(super) part: FilePart,
    /// Name of the file without its ending.
    pub(super) stem: String,
    /// True if that ending is one of a script, and not of a program.
    is_script: bool,
}

/// The part of its owner that a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilePart {
    /// The entry point of an installed package.
    Installed,
    /// A command in a package cache that npx and the like fill for one launch.
    Cached,
    /// The entry point of a project directory.
    Entry,
    /// The entry point of a project in a directory of MCP servers.
    Collected,
    /// Any other file: only its own name counts.
    Other,
}

impl FileName {
    /// Reads `path`, relative to `directory` if that is known.
    pub(super) fn read(path: &str, directory: Option<&str>) -> Self {
        let is_script = stem(basename(path)) != program_name(path);
        let stem = stem(basename(path)).to_owned();
        let joined = match directory {
            Some(directory) if !path.starts_with('/') => format!("{directory}/{path}"),
            Some(_) | None => path.to_owned(),
        };
        let parts: Vec<&str> = joined
            .split(['/', '\\'])
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        let directories = parts.split_last().map_or(&[][..], |(_, directories)| directories);
        let (owner, part) = owner(directories, &stem);
        Self {
            owner,
            part,
            stem,
            is_script,
        }
    }
}

impl FileName {
    /// Returns whether the file has the ending of a script: an interpreter runs it.
    pub(super) fn is_script(&self) -> bool {
        self.is_script
    }
}

/// Returns whether `name` is one that any server could have: that of an entry point (`index`), or just MCP.
pub(super) fn says_nothing(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    ENTRY_POINTS.contains(&name.as_str()) || MCP_ENTRY_POINTS.contains(&name.as_str())
}

fn owner(directories: &[&str], stem: &str) -> (Option<PackageName>, FilePart) {
    if let Some(modules) = directories.iter().rposition(|part| *part == "node_modules") {
        return installed(directories, modules, stem);
    }
    if let Some(packages) = directories
        .iter()
        .rposition(|part| matches!(*part, "site-packages" | "dist-packages"))
    {
        return (
            directories.get(packages + 1).map(|name| PackageName::bare(name)),
            FilePart::Installed,
        );
    }
    let mut outer = directories
        .iter()
        .rev()
        .take(MAX_DEPTH)
        .skip_while(|part| INSIDE.contains(part));
    let (Some(project), around) = (outer.next(), outer.next()) else {
        return (None, FilePart::Other);
    };
    // A user's name can be any word.
    if around.is_some_and(|around| HOMES.contains(around)) {
        return (None, FilePart::Other);
    }
    let name = PackageName {
        scope: None,
        bare: (*project).to_owned(),
        origin: NameOrigin::Place,
    };
    let of_a_person = outer.next().is_some_and(|beyond| HOMES.contains(beyond));
    let collected = !of_a_person && around.is_some_and(|around| COLLECTIONS.contains(around));
    let part = if !(says_nothing(stem) || is_within(stem, project)) {
        FilePart::Other
    } else if collected {
        FilePart::Collected
    } else {
        FilePart::Entry
    };
    (Some(name), part)
}

/// Returns the npm package below the `node_modules` at index `modules`.
fn installed(directories: &[&str], modules: usize, stem: &str) -> (Option<PackageName>, FilePart) {
    let inside = &directories[modules + 1..];
    match inside {
        [".bin", ..] | [] => {
            let cached = directories[..modules].iter().any(|part| {
                matches!(*part, "_npx" | "dlx" | "_dlx")
                    || part.starts_with("bunx-")
                    || part.starts_with("dlx-")
            });
            (
                Some(PackageName::bare(stem)),
                if cached {
                    FilePart::Cached
                } else {
                    FilePart::Installed
                },
            )
        }
        [scope, name, ..] if scope.starts_with('@') => (
            Some(PackageName {
                scope: scope.strip_prefix('@').map(str::to_owned),
                bare: (*name).to_owned(),
                origin: NameOrigin::Registry,
            }),
            FilePart::Installed,
        ),
        [name, ..] => (Some(PackageName::bare(name)), FilePart::Installed),
    }
}

/// Returns `file` without the ending of a program or script, and without the version of an archive.
fn stem(file: &str) -> &str {
    static ENDINGS: WordList = tables::LAUNCH.list("file", "endings");
    let Some((stem, ending)) = file.rsplit_once('.') else {
        return file;
    };
    if stem.is_empty() || !ENDINGS.contains(&ending) {
        return file;
    }
    let version = (ending == "jar").then(|| {
        stem.match_indices('-')
            .find(|(at, _)| stem[at + 1..].starts_with(|c: char| c.is_ascii_digit()))
    });
    version.flatten().map_or(stem, |(at, _)| &stem[..at])
}

/// Returns whether every word of `stem` is a word of the project's name: `weather.py` in `weather-mcp`.
fn is_within(stem: &str, project: &str) -> bool {
    let separators = ['-', '_', '.'];
    stem.split(separators)
        .all(|word| project.split(separators).any(|other| other == word))
}

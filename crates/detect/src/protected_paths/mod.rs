//! Protected files: files that decide what runs and what is stopped, files with secrets, and the accesses of a call to
//! them.
//!
//! Texts become paths (`candidates`, `shell`, `patch`, `code`), paths are normalised (`spelling`, `fold`), and compared
//! with the table. Nothing is looked up here: the caller provides what only a file system knows, for example the
//! targets of links ([`Files`]).

mod braces;
mod candidates;
mod code;
mod fold;
mod patch;
mod places;
mod protection;
mod shell;
mod spelling;
mod table;
#[cfg(test)]
mod tests;
mod uses;
mod words;

use std::collections::{HashMap, HashSet};

use mcpmon_model::{Call, MAX_PATH, PathMatch, PathPattern, PlainPath};

pub use self::places::NO_FILES;
pub use self::places::{Files, Places, RealPath};
pub use self::protection::{Protection, protection};
use self::{braces::Room, table::TABLE, uses::Use};
use super::arguments::Arguments;

/// Most paths of one call that are looked up.
pub const MAX_LOOKUPS: usize = 1024;
/// Most paths with wildcards in one call: each is compared with every protected path.
const MAX_GLOBS: usize = 1024;

/// The reason why a file is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathCategory {
    /// mcpmon's own policy, store, sockets, unit and program.
    McpmonConfig,
    /// Hooks and settings of clients.
    ClientHooks,
    /// The configuration of a client's MCP servers.
    ClientMcpConfig,
    /// The files that shells run when they start.
    ShellConfig,
    /// The sources of packages.
    PackageConfig,
    /// The files that git runs.
    GitConfig,
    /// The settings of logins and of connections.
    SshConfig,
    /// Registries of containers.
    DockerConfig,
    /// Credentials and addresses of clusters.
    KubeConfig,
    /// The instructions that agents read at the start of every session.
    AgentInstructions,
    /// The files that run without a person starting them.
    Autostart,
    /// `mcp.config_guard.extra_paths`.
    Extra,
    /// Keys, tokens, passwords: protected from being read.
    Credential,
}

impl PathCategory {
    /// Returns its name in reasons and documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpmonConfig => "mcpmon-config",
            Self::ClientHooks => "client-hooks",
            Self::ClientMcpConfig => "client-mcp-config",
            Self::ShellConfig => "shell-config",
            Self::PackageConfig => "package-config",
            Self::GitConfig => "git-config",
            Self::SshConfig => "ssh-config",
            Self::DockerConfig => "docker-config",
            Self::KubeConfig => "kube-config",
            Self::AgentInstructions => "agent-instructions",
            Self::Autostart => "autostart",
            Self::Extra => "extra_paths",
            Self::Credential => "credential",
        }
    }
}

/// The access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileAccess {
    /// The file is read.
    Read,
    /// The file is written, or replaced.
    Write,
    /// The file is moved or removed, with its contents.
    Remove,
}

impl FileAccess {
    /// Returns the access as a verb in a sentence.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Remove => "removes",
        }
    }
}

/// A protected file that a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The category because of which it is protected.
    pub category: PathCategory,
    /// The access to it.
    pub access: FileAccess,
    /// The file, a home directory as `~`.
    pub path: String,
}

/// The protected files that a call touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The first one of each kind.
    pub files: Vec<Touch>,
    /// True if the call names more files than were checked.
    pub is_cut: bool,
}

/// Returns the protected files that a call touches: by writing any of them, or by reading those with secrets.
///
/// `extra` are further protected paths.
pub fn touched(call: &Call<'_>, arguments: &Arguments<'_>, files: &Files, extra: &[PathPattern]) -> Touched {
    let mut found: Vec<Touch> = Vec::new();
    let uses = candidates::candidates(&call.tool, arguments);
    let mut is_cut = uses.is_cut();
    let mut globs = 0;
    let mut room = Room::new();
    let mut real: HashMap<&str, Vec<&str>> = HashMap::new();
    for RealPath { given, real: leads } in &files.real {
        real.entry(given).or_default().push(leads);
    }
    for Use { path, access } in uses.iter() {
        let leads = real.get(path.as_str()).into_iter().flatten().copied();
        for text in [path.as_str()].into_iter().chain(leads) {
            for path in spelling::paths(text, &files.places, &mut room) {
                if has_wildcards(&path.names) {
                    globs += 1;
                    if globs > MAX_GLOBS {
                        is_cut = true;
                        continue;
                    }
                }
                let touch = meet(&path, *access, &files.places, extra);
                found.extend(touch.filter(|touch| !is_told(&found, touch)));
            }
        }
    }
    Touched {
        files: found,
        is_cut: is_cut || room.is_cut(),
    }
}

fn has_wildcards(names: &[String]) -> bool {
    names.iter().any(|name| name.contains(['*', '?', '[']))
}

fn is_told(found: &[Touch], touch: &Touch) -> bool {
    let is_alike = |told: &Touch| told.category == touch.category && told.access == touch.access;
    found.iter().any(is_alike)
}

/// Returns the protected file that reading a resource reads, if its URI names one. Every category counts except
/// instructions, which are there to be read.
pub fn read_by_uri(uri: &str, files: &Files, extra: &[PathPattern]) -> Option<Touch> {
    let real = files.real.iter().filter(|real| real.given == uri);
    let texts = [uri].into_iter().chain(real.map(|real| real.real.as_str()));
    let mut room = Room::new();
    let paths: Vec<PlainPath> = texts
        .flat_map(|text| spelling::paths(text, &files.places, &mut room))
        .collect();
    let meetings = paths.iter().flat_map(|path| {
        let protected = meet(path, FileAccess::Write, &files.places, extra);
        [protected, meet(path, FileAccess::Read, &files.places, extra)]
    });
    let touches = meetings
        .flatten()
        .filter(|touch| touch.category != PathCategory::AgentInstructions);
    touches.min_by_key(|touch| touch.category).map(|touch| Touch {
        access: FileAccess::Read,
        ..touch
    })
}

/// Returns the paths of a call that have to be looked up in a file system, because a written path may be a link to
/// another file. At most [`MAX_LOOKUPS`].
pub fn lookups(call: &Call<'_>, arguments: &Arguments<'_>) -> Vec<Lookup> {
    let uses = candidates::candidates(&call.tool, arguments);
    let changed = uses.iter().filter(|one| one.access != FileAccess::Read);
    let mut known = HashSet::new();
    changed
        .filter(|one| known.insert(&one.path))
        .filter_map(|one| Lookup::of(one.path.clone()))
        .take(MAX_LOOKUPS)
        .collect()
}

/// A file that a call names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedFile {
    /// The path, without a scheme; `~` for the home directory; otherwise as in the call.
    pub path: String,
    /// The access to it.
    pub access: FileAccess,
}

/// Returns the files that a call names, protected or not, with the access that its words describe.
pub fn named_files(tool: &str, arguments: &Arguments<'_>) -> Vec<NamedFile> {
    let uses = candidates::candidates(tool, arguments);
    let named = uses.iter().filter_map(|one| {
        let Lookup { address, .. } = Lookup::of(one.path.clone())?;
        Some(NamedFile {
            path: address,
            access: one.access,
        })
    });
    named.take(MAX_LOOKUPS).collect()
}

/// A path to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The path as in the call.
    pub given: String,
    /// The path without a scheme; `~` for the home directory; otherwise unchanged.
    pub address: String,
}

impl Lookup {
    /// Returns the lookup of a path, or of the URI of a file; `None` if it cannot be one.
    pub fn of(given: String) -> Option<Self> {
        let is_path = given.len() <= MAX_PATH && !given.contains('\0');
        let address = is_path.then(|| spelling::address(&given))?;
        (!address.contains("://")).then_some(Self { given, address })
    }
}

fn meet(path: &PlainPath, access: FileAccess, places: &Places, extra: &[PathPattern]) -> Option<Touch> {
    let names: Vec<String> = path.names.iter().map(|name| name.to_lowercase()).collect();
    let touch = |category| Touch {
        category,
        access,
        path: path.to_string(),
    };
    let meets = |pattern: &PathPattern, category| match pattern.meets(path.start, &names) {
        Some(PathMatch::Itself) => true,
        // Removing a directory removes its contents. A repository's configuration is excluded, because it is created
        // with the repository.
        Some(PathMatch::Above) => access == FileAccess::Remove && category != PathCategory::GitConfig,
        None => false,
    };
    let rows = match access {
        _ if has_wildcards(&names) => TABLE.all(),
        FileAccess::Remove => TABLE.rows_below(&names),
        FileAccess::Read | FileAccess::Write => TABLE.rows(&names),
    };
    let is_secret = |row: &&&table::ProtectedPath| row.category == PathCategory::Credential;
    let secret = || {
        let mut secrets = rows.iter().filter(is_secret);
        let is_public = names.last().is_some_and(|name| name.ends_with(".pub"));
        // A project's own `.env` may be written, because that discloses nothing.
        let counts = |row: &&&table::ProtectedPath| access == FileAccess::Read || !row.pattern.is_anywhere();
        let found = secrets.find(|row| counts(row) && meets(&row.pattern, row.category));
        found.filter(|_| !is_public).map(|row| touch(row.category))
    };
    if access == FileAccess::Read {
        return secret();
    }
    if places.is_own(path) {
        return Some(touch(PathCategory::McpmonConfig));
    }
    let mut guarded = rows.iter().filter(|row| !is_secret(row));
    if let Some(row) = guarded.find(|row| meets(&row.pattern, row.category))
        && !TABLE.is_sample(&names)
    {
        return Some(touch(row.category));
    }
    let is_extra = extra.iter().any(|pattern| meets(pattern, PathCategory::Extra));
    is_extra.then(|| touch(PathCategory::Extra)).or_else(secret)
}

/// Returns whether a path is relative to a directory that it does not name.
fn is_relative(text: &str) -> bool {
    !text.starts_with(['/', '~', '$', '%', '\\'])
        && text.get(1..2).is_none_or(|c| c != ":")
        && !text.contains("://")
        && !text
            .get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
}

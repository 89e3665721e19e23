//! The names of a launch target, and the server id derived from them.

use mcpmon_model::{Digest, ServerId, one_spelling};

use super::{
    command::{Word, basename, program_name},
    file::{FileName, FilePart, says_nothing},
    package::{NameOrigin, PackageName},
    pattern::{PatternKind, is_tool},
    target::{Subject, Target},
};
use crate::tables::{self, WordList};

/// Last parts of a dotted module name that are not its name.
static MODULE_ENTRIES: WordList = tables::LAUNCH.list("identity", "module_entries");

/// A name of a launch target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// The name.
    pub(super) name: PackageName,
    /// The kind of name.
    pub(super) kind: PatternKind,
    /// The evidence besides the name.
    pub(super) ground: Ground,
}

/// The evidence for a claim besides the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// The name alone.
    Name,
    /// The command is in a cache that was filled for this launch.
    Cache,
    /// The project is in a directory of MCP servers.
    Collection,
    /// The command line of an SDK serves it.
    Sdk,
}

impl Claim {
    /// Returns whether the name is that of a developers' tool.
    pub(super) fn is_of_a_tool(&self) -> bool {
        [self.name.full(), self.name.bare.clone()]
            .iter()
            .any(|name| is_tool(&name.to_ascii_lowercase(), self.kind))
    }
}

/// Returns the names of `target`, the one that names the server best first.
pub(super) fn claims(target: &Target<'_>) -> Vec<Claim> {
    let directory = target.directory.as_deref();
    match &target.subject {
        Subject::Package { spec, command, .. } => package_claims(spec, command.as_deref(), directory),
        Subject::Module(name) => module_claims(name, directory),
        Subject::File(path) => file_claims(path, directory),
        Subject::Served(path) => file_claims(path, directory)
            .into_iter()
            .map(|claim| Claim {
                ground: Ground::Sdk,
                ..claim
            })
            .collect(),
        Subject::Program(path) if path.contains('/') => program_claims(path),
        Subject::Program(name) => vec![by_name(
            PackageName::bare(program_name(name)),
            PatternKind::Package,
        )],
        Subject::Image(image) => PackageName::from_image(image)
            .map(|name| by_name(name, PatternKind::Package))
            .into_iter()
            .collect(),
        Subject::Task(name) => task_claims(name, directory),
        Subject::Code => Vec::new(),
    }
}

/// Returns the id of the server that `target` starts, with the name in `claim`.
///
/// The id is the name without scope and version (`@modelcontextprotocol/server-memory` is `server-memory`), so that
/// npx, bunx, `node PATH` and a shell give the same one. A name without meaning (`@stripe/mcp`) gets its scope or
/// directory in front (`stripe-mcp`). The id has one spelling ([`one_spelling`]): Python spells one server as the
/// module `mcp_server_time` and the command `mcp-server-time`. Two packages of one bare name (`@a/x-mcp`, `@b/x-mcp`)
/// share an id; they differ in the name and the hash of the package. Without any name the id is `mcp-` and eight digits
/// of the hash of the command.
pub(super) fn server_id(target: &Target<'_>, claim: Option<&Claim>) -> ServerId {
    claim
        .and_then(|claim| named(target, claim))
        .and_then(|id| ServerId::new(one_spelling(&id)).ok())
        .unwrap_or_else(|| hashed(target))
}

fn named(target: &Target<'_>, claim: &Claim) -> Option<String> {
    let bare = match &target.subject {
        Subject::Module(_) => module_name(&claim.name.bare),
        Subject::Package { .. }
        | Subject::File(_)
        | Subject::Served(_)
        | Subject::Program(_)
        | Subject::Image(_)
        | Subject::Task(_)
        | Subject::Code => claim.name.bare.as_str(),
    };
    if !says_nothing(bare) {
        return Some(bare.to_owned());
    }
    if let Some(scope) = &claim.name.scope {
        return Some(format!("{scope}-{bare}"));
    }
    match &target.subject {
        Subject::File(path) | Subject::Served(path) => around(path, target.directory.as_deref(), bare),
        Subject::Module(_) | Subject::Task(_) => match target.directory.as_deref() {
            Some(directory) => around("index.js", Some(directory), bare),
            None => Some(bare.to_owned()),
        },
        Subject::Program(path) if path.contains("/node_modules/") => None,
        Subject::Package { .. } | Subject::Program(_) | Subject::Image(_) | Subject::Code => {
            Some(bare.to_owned())
        }
    }
}

/// Returns `bare` with the name of the project around the file in front; `None` if the path does not contain it.
fn around(path: &str, directory: Option<&str>, bare: &str) -> Option<String> {
    let owner = FileName::read(path, directory).owner?.bare;
    (!says_nothing(&owner) && owner != bare).then(|| {
        if owner.to_ascii_lowercase().contains("mcp") {
            owner
        } else {
            format!("{owner}-{bare}")
        }
    })
}

fn hashed(target: &Target<'_>) -> ServerId {
    let mut text = subject_text(&target.subject).to_owned();
    for argument in &target.arguments {
        text.push('\0');
        text.push_str(argument);
    }
    let id = format!("mcp-{}", Digest::of(text.as_bytes()).short(8));
    ServerId::new(id).expect("hexadecimal digits are fine in an id")
}

/// Returns the word of the command line that names the subject.
pub(super) fn subject_text<'t>(subject: &'t Subject<'_>) -> &'t str {
    match subject {
        Subject::Package { spec: text, .. }
        | Subject::Module(text)
        | Subject::File(text)
        | Subject::Served(text)
        | Subject::Program(text)
        | Subject::Image(text)
        | Subject::Task(text) => text,
        Subject::Code => "",
    }
}

fn by_name(name: PackageName, kind: PatternKind) -> Claim {
    Claim {
        name,
        kind,
        ground: Ground::Name,
    }
}

fn package_claims(spec: &str, command: Option<&str>, directory: Option<&str>) -> Vec<Claim> {
    let package = match PackageName::from_package(spec) {
        Some(name) => Some(name),
        None => directory.map(|directory| PackageName::bare(basename(directory))),
    };
    let command = command.map(|command| PackageName::bare(program_name(command)));
    // One repository can have many commands; a package of a registry is known best by its own name.
    let names = match &package {
        Some(name) if name.origin == NameOrigin::Registry => [package, command],
        Some(_) | None => [command, package],
    };
    names
        .into_iter()
        .flatten()
        .map(|name| by_name(name, PatternKind::Package))
        .collect()
}

fn module_claims(name: &Word<'_>, directory: Option<&str>) -> Vec<Claim> {
    let mut claims = vec![by_name(PackageName::bare(name), PatternKind::Module)];
    if let Some(directory) = directory {
        claims.extend(entry_claim(&FileName::read(
            &name.replace('.', "/"),
            Some(directory),
        )));
    }
    claims
}

fn module_name(name: &str) -> &str {
    let mut name = name;
    while let Some((front, last)) = name.rsplit_once('.') {
        if front.is_empty() || !MODULE_ENTRIES.contains(&last) {
            break;
        }
        name = front;
    }
    name
}

fn file_claims(path: &str, directory: Option<&str>) -> Vec<Claim> {
    let file = FileName::read(path, directory);
    let kind = if is_command(path) {
        PatternKind::Package
    } else {
        PatternKind::Script
    };
    let own = by_name(PackageName::bare(&file.stem), kind);
    match (file.part, entry_claim(&file)) {
        (FilePart::Installed | FilePart::Cached, Some(owner)) if file.stem == owner.name.bare => vec![owner],
        (FilePart::Installed | FilePart::Cached, Some(owner)) if !file.stem.contains("install") => {
            vec![owner]
        }
        (FilePart::Entry | FilePart::Collected, Some(owner)) if says_nothing(&file.stem) => vec![owner, own],
        (FilePart::Entry | FilePart::Collected, Some(owner)) => vec![own, owner],
        (
            FilePart::Installed | FilePart::Cached | FilePart::Entry | FilePart::Collected | FilePart::Other,
            _,
        ) => vec![own],
    }
}

fn program_claims(path: &str) -> Vec<Claim> {
    let file = FileName::read(path, None);
    if file.is_script() {
        // An interpreter runs it, and the server has the same names whether the command names the interpreter or not.
        return file_claims(path, None);
    }
    let own = by_name(PackageName::bare(program_name(path)), PatternKind::Package);
    let owner = entry_claim(&file).filter(|owner| owner.name != own.name);
    match owner {
        Some(owner) if says_nothing(&own.name.bare) => vec![owner, own],
        Some(owner) => vec![own, owner],
        None => vec![own],
    }
}

/// Returns the claim of the package or project whose entry point `file` is.
fn entry_claim(file: &FileName) -> Option<Claim> {
    let ground = match file.part {
        FilePart::Installed | FilePart::Entry => Ground::Name,
        FilePart::Cached => Ground::Cache,
        FilePart::Collected => Ground::Collection,
        FilePart::Other => return None,
    };
    let name = file.owner.clone()?;
    Some(Claim {
        name,
        kind: PatternKind::Package,
        ground,
    })
}

/// Returns the claims of the task itself, and of the project whose main task it is.
fn task_claims(name: &str, directory: Option<&str>) -> Vec<Claim> {
    let mut claims = vec![by_name(PackageName::bare(name), PatternKind::Script)];
    if matches!(name, "start" | "serve") {
        claims.extend(
            directory.and_then(|directory| entry_claim(&FileName::read("index.js", Some(directory)))),
        );
    }
    claims
}

/// Returns whether `path` is that of an installed command.
fn is_command(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or_default();
    matches!(parts.next(), Some("bin" | ".bin" | "Scripts" | "sbin")) && !file.contains('.')
}

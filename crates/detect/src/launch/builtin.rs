//! The built-in rules: names, well-known packages and subcommands, and where a file lies.

use mcpmon_model::NameGlob;

use super::{
    command::{Word, basename},
    identity::{Claim, Ground},
    launchers::LAUNCHERS,
    pattern::{PatternKind, mentions_mcp},
    rules::MAX_NAME,
    runner,
    target::{Subject, Target},
};
use crate::tables::{self, WordList};

/// Packages, by full name, that are MCP servers although their names do not show it; their registries do.
static SERVERS: WordList = tables::LAUNCH.list("known", "servers");

/// Returns the claim, the rule and, if the rule gives one, the id by which `target` is a server.
pub(super) fn built_in<'c>(
    globs: &[NameGlob],
    target: &Target<'_>,
    claims: &'c [Claim],
) -> Option<(&'c Claim, String, Option<&'static str>)> {
    if let Some((claim, pattern, id)) = subcommand(target, claims) {
        return Some((claim, pattern, Some(id)));
    }
    if let Some(claim) = claims.iter().find(|claim| claim.ground == Ground::Sdk) {
        return Some((claim, "run by an MCP SDK".to_owned(), None));
    }
    let (claim, pattern) = claims.iter().find_map(|claim| {
        let full = claim.name.full().to_ascii_lowercase();
        if full.len() > MAX_NAME || is_idle_sdk(target, &full, claim) {
            return None;
        }
        let pattern = by_name(globs, claim, &full).or_else(|| by_ground(claim, &full))?;
        Some((claim, pattern))
    })?;
    (!claims.iter().any(Claim::is_of_a_tool)).then_some((claim, pattern, None))
}

/// Returns the glob that matches the name; in a dotted module name any part can be the server's name.
fn by_name(globs: &[NameGlob], claim: &Claim, full: &str) -> Option<String> {
    if !mentions_mcp(full) {
        return None;
    }
    let matching = |name: &str| {
        globs
            .iter()
            .find(|glob| glob.matches(name))
            .map(NameGlob::to_string)
    };
    let bare = full.rsplit('/').next().unwrap_or(full);
    let part = || match claim.kind {
        PatternKind::Module => bare.split('.').find_map(matching),
        PatternKind::Package | PatternKind::Script => None,
    };
    matching(full).or_else(|| matching(bare)).or_else(part)
}

/// Returns the pattern that supports a claim whose name does not.
fn by_ground(claim: &Claim, full: &str) -> Option<String> {
    let bare = full.rsplit('/').next().unwrap_or(full);
    let known = |name: &str| SERVERS.contains(&name);
    if known(full) || (claim.kind == PatternKind::Module && known(&full.replace('_', "-"))) {
        return Some(format!("known server {full}"));
    }
    match claim.ground {
        Ground::Cache
            if bare.starts_with("server-")
                || SERVERS
                    .iter()
                    .any(|server| basename(server) == bare && bare != "server") =>
        {
            Some("server in a package cache".to_owned())
        }
        Ground::Collection => Some("directory of MCP servers".to_owned()),
        Ground::Cache | Ground::Name | Ground::Sdk => None,
    }
}

fn subcommand<'c>(target: &Target<'_>, claims: &'c [Claim]) -> Option<(&'c Claim, String, &'static str)> {
    claims.iter().find_map(|claim| {
        let full = claim.name.full();
        let known = LAUNCHERS.subcommand.iter().find(|known| {
            known
                .programs
                .iter()
                .any(|program| *program == full || *program == claim.name.bare)
                && follows(&target.arguments, &known.words, known.more)
        })?;
        Some((claim, format!("{full} {}", known.words.join(" ")), &*known.id))
    })
}

/// Returns whether the arguments are these words, with options after them, or with anything after them (`more`).
fn follows(arguments: &[Word<'_>], words: &[String], more: bool) -> bool {
    let mut both = arguments.iter().zip(words);
    let next = arguments.get(words.len());
    arguments.len() >= words.len()
        && both.all(|(argument, word)| *argument == **word)
        && (more || next.is_none_or(|next| next.starts_with('-')))
}

/// Returns whether the command of an SDK serves nothing: it is a server only with [`Ground::Sdk`].
fn is_idle_sdk(target: &Target<'_>, full: &str, claim: &Claim) -> bool {
    let by_name = match target.subject {
        Subject::Program(_) | Subject::Package { .. } | Subject::Module(_) => true,
        Subject::File(_) => claim.kind == PatternKind::Package && claim.ground == Ground::Name,
        Subject::Served(_) | Subject::Image(_) | Subject::Task(_) | Subject::Code => false,
    };
    by_name && runner::is_sdk(full)
}

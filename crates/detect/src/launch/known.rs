//! Facts about published servers that no rule can tell from a name: packages whose names do not say MCP,
//! programs of which one subcommand is a server, and clients that bridge to a server elsewhere.

use crate::tables::{self, WordList};

/// Packages, by full name, that are MCP servers though nothing in the name says so: their registries do.
pub(super) static SERVERS: WordList = tables::LAUNCH.list("known", "servers");

/// A program of which a subcommand is a server.
pub(super) struct Subcommand {
    /// Package or program, by full or bare name.
    pub(super) programs: &'static [&'static str],
    /// The words that follow it.
    pub(super) words: &'static [&'static str],
    /// The words that may follow besides options: `claude mcp` takes `add`, `codex mcp-server` none.
    pub(super) more: More,
    /// Id of the server.
    pub(super) id: &'static str,
}

/// The words that may follow those of a [`Subcommand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    /// Anything.
    Anything,
    /// Options only: another word would be a subcommand of its own (`shadcn mcp init`).
    Options,
}

/// Programs with a server inside.
pub(super) const SUBCOMMANDS: &[Subcommand] = &[
    subcommand(
        &["claude", "@anthropic-ai/claude-code"],
        &["mcp", "serve"],
        More::Anything,
        "claude-mcp",
    ),
    subcommand(
        &["codex", "@openai/codex"],
        &["mcp-server"],
        More::Anything,
        "codex-mcp-server",
    ),
    subcommand(&["goose"], &["mcp"], More::Anything, "goose-mcp"),
    subcommand(
        &["docker"],
        &["mcp", "gateway", "run"],
        More::Anything,
        "docker-mcp-gateway",
    ),
    subcommand(&["dart"], &["mcp-server"], More::Anything, "dart-mcp-server"),
    subcommand(
        &["firebase", "firebase-tools"],
        &["mcp"],
        More::Options,
        "firebase-mcp",
    ),
    subcommand(
        &["firebase", "firebase-tools"],
        &["experimental:mcp"],
        More::Options,
        "firebase-mcp",
    ),
    subcommand(&["ng", "@angular/cli"], &["mcp"], More::Options, "angular-mcp"),
    subcommand(&["shadcn"], &["mcp"], More::Options, "shadcn-mcp"),
    subcommand(&["prisma"], &["mcp"], More::Options, "prisma-mcp"),
    subcommand(&["convex"], &["mcp", "start"], More::Anything, "convex-mcp"),
    subcommand(
        &["playwright"],
        &["run-mcp-server"],
        More::Anything,
        "playwright-mcp",
    ),
    subcommand(
        &["playwright"],
        &["run-test-mcp-server"],
        More::Anything,
        "playwright-test-mcp",
    ),
    subcommand(&["repomix"], &["--mcp"], More::Anything, "repomix-mcp"),
    subcommand(&["eslint"], &["--mcp"], More::Anything, "eslint-mcp"),
    subcommand(&["gopls"], &["mcp"], More::Options, "gopls-mcp"),
    subcommand(&["semgrep"], &["mcp"], More::Options, "semgrep-mcp"),
    subcommand(&["trivy"], &["mcp"], More::Options, "trivy-mcp"),
    subcommand(&["snyk"], &["mcp"], More::Options, "snyk-mcp"),
    subcommand(&["gk"], &["mcp"], More::Options, "gitkraken-mcp"),
    subcommand(
        &["serena", "oraios/serena"],
        &["start-mcp-server"],
        More::Anything,
        "serena",
    ),
    subcommand(&["basic-memory"], &["mcp"], More::Anything, "basic-memory-mcp"),
    subcommand(&["pieces"], &["mcp", "start"], More::Anything, "pieces-mcp"),
    subcommand(&["pieces"], &["--mcp", "start"], More::Anything, "pieces-mcp"),
    subcommand(&["browser-use"], &["--mcp"], More::Anything, "browser-use-mcp"),
    subcommand(
        &["claude-flow"],
        &["mcp", "start"],
        More::Anything,
        "claude-flow-mcp",
    ),
    subcommand(&["ruv-swarm"], &["mcp", "start"], More::Anything, "ruv-swarm-mcp"),
    subcommand(&["@smithery/cli"], &["run"], More::Anything, "smithery"),
    subcommand(&["heroku"], &["mcp:start"], More::Anything, "heroku-mcp"),
    subcommand(&["artisan"], &["boost:mcp"], More::Anything, "laravel-boost-mcp"),
    subcommand(&["artisan"], &["mcp:start"], More::Anything, "laravel-mcp"),
];

const fn subcommand(
    programs: &'static [&'static str],
    words: &'static [&'static str],
    more: More,
    id: &'static str,
) -> Subcommand {
    Subcommand {
        programs,
        words,
        more,
        id,
    }
}

/// Programs that carry a client's stdio to a server elsewhere, or a server's stdio to the network; the id
/// is that of the server behind.
pub(super) static BRIDGES: WordList = tables::LAUNCH.list("known", "bridges");

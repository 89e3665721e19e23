//! Facts about published servers that no rule can tell from a name: packages whose names do not say MCP,
//! programs of which one subcommand is a server, and clients that bridge to a server elsewhere.

use serde::Deserialize;

use crate::tables::{self, WordList};

/// Packages, by full name, that are MCP servers though nothing in the name says so: their registries do.
pub(super) static SERVERS: WordList = tables::LAUNCH.list("known", "servers");

/// A program of which a subcommand is a server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subcommand {
    /// Package or program, by full or bare name.
    #[serde(deserialize_with = "tables::words")]
    pub(super) programs: Vec<String>,
    /// The words that follow it.
    #[serde(deserialize_with = "tables::words")]
    pub(super) words: Vec<String>,
    /// True if words besides options may follow: `claude mcp` takes `add`, `codex mcp-server` none.
    #[serde(default)]
    pub(super) more: bool,
    /// Id of the server.
    pub(super) id: String,
}

/// Programs that carry a client's stdio to a server elsewhere, or a server's stdio to the network; the id
/// is that of the server behind.
pub(super) static BRIDGES: WordList = tables::LAUNCH.list("known", "bridges");

//! Facts about published servers that no rule can derive from a name: packages whose names do not mention MCP, programs
//! with a subcommand that is a server, and clients that bridge to a server elsewhere.

use serde::Deserialize;

use crate::tables::{self, WordList};

/// Packages, by full name, that are MCP servers although their names do not show it; their registries do.
pub(super) static SERVERS: WordList = tables::LAUNCH.list("known", "servers");

/// A program with a subcommand that is a server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subcommand {
    /// Package or program, by full or bare name.
    #[serde(deserialize_with = "tables::words")]
    pub(super) programs: Vec<String>,
    /// The words that follow it.
    #[serde(deserialize_with = "tables::words")]
    pub(super) words: Vec<String>,
    /// True if words other than options may follow: `claude mcp` takes `add`, `codex mcp-server` takes none.
    #[serde(default)]
    pub(super) more: bool,
    /// Id of the server.
    pub(super) id: String,
}

/// Programs that connect a client's stdio to a server elsewhere, or a server's stdio to the network; the id is that of
/// the server at the other end.
pub(super) static BRIDGES: WordList = tables::LAUNCH.list("known", "bridges");

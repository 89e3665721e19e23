//! Clients and the places of their MCP servers. A further client is one more row.

use super::jsonc::Dialect;

/// A program that starts MCP servers.
#[derive(Debug)]
pub struct Client {
    /// The name for `--client`.
    pub name: &'static str,
    /// The display name.
    pub title: &'static str,
    /// The places of its servers.
    pub(super) places: &'static [Place],
}

/// A file, or several of one form.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) base: Base,
    /// Below the base. `*` stands for one name, `**` for any number of them.
    pub(super) path: &'static str,
    pub(super) dialect: Dialect,
    /// Members on the way to objects of servers; `*` stands for every name, no member for the root itself.
    pub(super) servers: &'static [&'static [&'static str]],
}

/// The start of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The user's home.
    Home,
    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    Config,
    /// `$CLAUDE_CONFIG_DIR`, else this below the home.
    Claude(&'static str),
    /// A project's directory.
    Project,
    /// The host's own files.
    Host,
}

const MCP_SERVERS: &[&[&str]] = &[&["mcpServers"]];

/// In the order in which they are told.
pub static CLIENTS: [Client; 4] = [
    Client {
        name: "claude-code",
        title: "Claude Code",
        places: &[
            Place {
                base: Base::Claude(""),
                path: ".claude.json",
                dialect: Dialect::Json,
                servers: &[&["mcpServers"], &["projects", "*", "mcpServers"]],
            },
            Place {
                base: Base::Claude(".claude"),
                path: "plugins/cache/**/.mcp.json",
                dialect: Dialect::Json,
                servers: &[&["mcpServers"], &[]],
            },
            Place {
                base: Base::Claude(".claude"),
                path: "plugins/repos/**/.mcp.json",
                dialect: Dialect::Json,
                servers: &[&["mcpServers"], &[]],
            },
            Place {
                base: Base::Project,
                path: ".mcp.json",
                dialect: Dialect::Json,
                servers: MCP_SERVERS,
            },
            Place {
                base: Base::Host,
                path: "etc/claude-code/managed-mcp.json",
                dialect: Dialect::Json,
                servers: MCP_SERVERS,
            },
        ],
    },
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        places: &[Place {
            base: Base::Config,
            path: "Claude/claude_desktop_config.json",
            dialect: Dialect::Json,
            servers: MCP_SERVERS,
        }],
    },
    Client {
        name: "cursor",
        title: "Cursor",
        places: &[
            Place {
                base: Base::Home,
                path: ".cursor/mcp.json",
                dialect: Dialect::Jsonc,
                servers: MCP_SERVERS,
            },
            Place {
                base: Base::Project,
                path: ".cursor/mcp.json",
                dialect: Dialect::Jsonc,
                servers: MCP_SERVERS,
            },
        ],
    },
    Client {
        name: "vscode",
        title: "VS Code",
        places: &[
            Place {
                base: Base::Config,
                path: "Code/User/mcp.json",
                dialect: Dialect::Jsonc,
                servers: &[&["servers"]],
            },
            Place {
                base: Base::Config,
                path: "Code/User/settings.json",
                dialect: Dialect::Jsonc,
                servers: &[&["mcp", "servers"]],
            },
            Place {
                base: Base::Project,
                path: ".vscode/mcp.json",
                dialect: Dialect::Jsonc,
                servers: &[&["servers"]],
            },
            Place {
                base: Base::Project,
                path: ".vscode/settings.json",
                dialect: Dialect::Jsonc,
                servers: &[&["mcp", "servers"]],
            },
        ],
    },
];

/// The client of this name.
#[must_use]
pub fn client(name: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_told_apart_and_every_client_has_a_place() {
        let names: BTreeSet<_> = CLIENTS.iter().map(|client| client.name).collect();
        assert_eq!(names.len(), CLIENTS.len());
        for row in &CLIENTS {
            assert!(!row.places.is_empty(), "{}", row.name);
            assert!(row.places.iter().all(|place| !place.servers.is_empty()));
            assert!(row.places.iter().all(|place| !place.path.starts_with('/')));
            assert!(std::ptr::eq(client(row.name).unwrap(), row));
        }
    }
}

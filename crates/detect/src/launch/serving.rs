//! The process of a launch that serves: launchers, package managers and shells come before it.

use super::{LaunchRules, Stage};

/// A process of a launch, as the host shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its arguments, which it may have written over.
    pub argv: Vec<String>,
    /// True if it writes to the pipe that the client reads.
    pub is_heard: bool,
}

impl LaunchRules {
    /// Returns the position of the serving process among those of a launch, parents before children: the first one that
    /// writes to the client's pipe and is neither launcher nor shell. If there is none, the first process serves.
    pub fn serving(members: &[Member]) -> usize {
        let serves = |member: &Member| match Self::stage(&member.argv) {
            Stage::Launcher | Stage::Shell { .. } => false,
            Stage::Script { .. }
            | Stage::Module { .. }
            | Stage::Program
            | Stage::Container { .. }
            | Stage::Inline => member.is_heard,
        };
        members.iter().position(serves).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    /// As launchers of November 2026 were seen; `-` in front of a process that does not write to the client's pipe.
    const NPX: &[&[&str]] = &[
        &["npm exec @a/memory@1.0", "", "", "", ""],
        &["sh", "-c", "'mcp-memory'"],
        &["node", "/home/me/.npm/_npx/c98c/node_modules/.bin/mcp-memory"],
    ];
    const NPM_EXEC: &[&[&str]] = &[
        &["node", "/usr/bin/npm", "exec", "-y", "--", "@a/memory@1.0"],
        &["sh", "-c", "'mcp-memory'"],
        &["node", "/home/me/.npm/_npx/c98c/node_modules/.bin/mcp-memory"],
    ];
    const BUNX: &[&[&str]] = &[
        &["/usr/bin/bunx", "@a/memory@1.0"],
        &[
            "node",
            "/home/me/.bun/install/cache/.bunx-0/@a/memory@1.0/node_modules/.bin/mcp-memory",
        ],
    ];
    const PNPM_DLX: &[&[&str]] = &[
        &["/usr/bin/pnpm", "dlx", "@a/memory@1.0"],
        &[
            "-",
            "sh",
            "-c",
            "trap '' INT TERM HUP\nwhile read -r line; do :; done",
        ],
        &[
            "node",
            "/home/me/.cache/pnpm/dlx/0056/m/node_modules/.bin/../.pnpm/@a+memory@1.0/node_modules/@a/memory/dist/index.js",
        ],
    ];
    const UVX: &[&[&str]] = &[
        &["/usr/bin/uv", "tool", "uvx", "mcp-server-time==1.0"],
        &[
            "/home/me/.cache/uv/archive-v0/aC/bin/python",
            "/home/me/.cache/uv/archive-v0/aC/bin/mcp-server-time",
        ],
    ];
    const UV_RUN: &[&[&str]] = &[
        &["uv", "run", "--with", "mcp-server-time==1.0", "mcp-server-time"],
        &[
            "/home/me/.cache/uv/builds-v0/.tmpT/bin/python",
            "/home/me/.cache/uv/builds-v0/.tmpT/bin/mcp-server-time",
        ],
    ];
    const PIPX_BY_UV: &[&[&str]] = &[
        &[
            "/opt/pipx/bin/uv",
            "tool",
            "run",
            "--from",
            "mcp-server-time==1.0",
            "--python",
            "/usr/bin/python3.11",
            "mcp-server-time",
        ],
        &[
            "/home/me/.cache/uv/archive-v0/aC/bin/python",
            "/home/me/.cache/uv/archive-v0/aC/bin/mcp-server-time",
        ],
    ];
    /// The process that pipx executes.
    const PIPX: &[&[&str]] = &[&[
        "/home/me/.local/pipx/.cache/d2/bin/python",
        "/home/me/.local/pipx/.cache/d2/bin/mcp-server-time",
    ]];
    const DOCKER: &[&[&str]] = &[&["docker", "run", "-i", "--rm", "mcp/memory"]];
    const SHELL: &[&[&str]] = &[&["sh", "/srv/server.sh"], &["-", "sleep", "1"]];

    #[test_case(NPX => 2; "npx")]
    #[test_case(NPM_EXEC => 2; "npm exec")]
    #[test_case(BUNX => 1; "bunx")]
    #[test_case(PNPM_DLX => 2; "pnpm dlx")]
    #[test_case(UVX => 1; "uvx")]
    #[test_case(UV_RUN => 1; "uv run")]
    #[test_case(PIPX_BY_UV => 1; "pipx with uv")]
    #[test_case(PIPX => 0; "pipx")]
    #[test_case(DOCKER => 0; "docker")]
    #[test_case(SHELL => 0; "a shell that serves")]
    #[test_case(&[] => 0; "nothing is known")]
    fn trees(processes: &[&[&str]]) -> usize {
        let members = processes.iter().map(|argv| {
            let is_heard = argv.first() != Some(&"-");
            let argv = if is_heard { argv } else { &argv[1..] };
            Member {
                argv: argv.iter().map(|word| (*word).to_owned()).collect(),
                is_heard,
            }
        });
        LaunchRules::serving(&members.collect::<Vec<_>>())
    }
}

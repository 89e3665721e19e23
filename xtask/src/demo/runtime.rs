//! The demo's MCP servers: real ones, from npm or from PyPI, at fixed versions, stored under `target/demo`.

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::shell;

const NPM_SERVER: &str = "@modelcontextprotocol/server-everything@2026.8.31";
/// A stdio server, the SDK that it was written for, and a bridge that offers it over Streamable HTTP.
const PYPI_PACKAGES: [&str; 3] = ["mcp-server-time==2026.10.10", "mcp==1.30.0", "mcp-proxy==0.12.0"];

/// The runtime of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Runtime {
    Node,
    Python,
}

impl Runtime {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    /// Returns the name of the server and its origin.
    pub(super) fn server(self) -> String {
        match self {
            Self::Node => format!("{NPM_SERVER} from npm"),
            Self::Python => format!("{} from PyPI", PYPI_PACKAGES[0]),
        }
    }

    /// Fetches the server into `directory`, so that it starts without the network later.
    pub(super) fn fetch(self, directory: &Path) -> Result<()> {
        match self {
            Self::Node => {
                let mut npx = shell::command("npx");
                npx.env("npm_config_cache", directory.join("npm"))
                    .env("npm_config_loglevel", "error");
                shell::run(npx.args(["--yes", "--package", NPM_SERVER, "--", "node", "--eval", ""]))
            }
            Self::Python => {
                let venv = directory.join("venv");
                shell::run(shell::command("python3").args(["-m", "venv"]).arg(&venv))?;
                let mut pip = shell::command(venv.join("bin/pip"));
                pip.args(["install", "--quiet", "--disable-pip-version-check"]);
                shell::run(pip.args(PYPI_PACKAGES))
            }
        }
    }

    /// Returns the command that starts the server on its standard input and output.
    pub(super) fn stdio(self, directory: &Path) -> Command {
        match self {
            Self::Node => npx(directory, &["stdio"]),
            Self::Python => as_user(directory.join("venv/bin/mcp-server-time")),
        }
    }

    /// Returns the command that starts the server over Streamable HTTP on every address, at `/mcp`.
    pub(super) fn http(self, directory: &Path, port: u16) -> Command {
        match self {
            Self::Node => {
                let mut server = npx(directory, &["streamableHttp"]);
                server.env("PORT", port.to_string());
                server
            }
            Self::Python => {
                let mut proxy = as_user(directory.join("venv/bin/mcp-proxy"));
                proxy.args(["--host", "0.0.0.0", "--port", &port.to_string(), "--"]);
                proxy.arg(directory.join("venv/bin/mcp-server-time"));
                proxy
            }
        }
    }
}

fn npx(directory: &Path, arguments: &[&str]) -> Command {
    let mut npx = as_user("npx");
    npx.args(["--offline", "--yes", NPM_SERVER]).args(arguments);
    npx.env("npm_config_cache", directory.join("npm"))
        .env("npm_config_loglevel", "error");
    npx
}

/// Returns a command that runs as the user who called sudo, because the server does not need root.
fn as_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let variable = |name| std::env::var(name).ok();
    match (variable("SUDO_UID"), variable("SUDO_GID")) {
        (Some(user), Some(group)) => {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid", &user, "--regid", &group, "--clear-groups", "--"])
                .arg(program);
            command
        }
        (Some(_), None) | (None, _) => Command::new(program),
    }
}

/// Returns the words of a command, for a wrapper that starts it.
pub(super) fn words(command: &Command) -> Vec<&std::ffi::OsStr> {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .collect()
}

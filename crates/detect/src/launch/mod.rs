//! MCP server launches, recognised from their argument vectors.
//!
//! A command is peeled level by level (wrappers, shells, runners, interpreters) down to what it runs, and
//! only the name of that is judged: no argument ever makes a command a server.

mod bridge;
mod builtin;
mod command;
mod container;
mod declared;
mod file;
mod identity;
mod interpreter;
mod known;
mod launchers;
mod loader;
mod options;
mod package;
mod pattern;
mod prefix;
mod rules;
mod runner;
mod serving;
mod shell;
mod target;
#[cfg(test)]
mod tests;
mod unpinned;
mod walk;
mod way;

pub use declared::matches_declared;
pub use rules::LaunchRules;
pub use serving::Member;
pub use unpinned::{Unpinned, UnpinnedKind};
pub use way::ScriptPath;

use mcpmon_model::ServerId;

/// An MCP server that a command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The server: the same however it is started.
    pub server: ServerId,
    /// The stage of the process of this very command.
    pub stage: Stage,
    /// The rule that matched, for a person to read.
    pub pattern: String,
    /// Package, module, image or program, with its scope and without its version.
    pub name: String,
}

/// The stage of a process in a chain of launches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A launcher, shell or wrapper that will start or become something else: npx, uvx, env, `sh -c`.
    Launcher,
    /// A shell that is itself what the command names: it will start or become something else, or serves.
    Shell {
        /// Its script, as given in argv; `None` for a line in an argument.
        script: Option<String>,
    },
    /// An interpreter serving a script.
    Script {
        /// As given in argv, perhaps relative.
        path: String,
    },
    /// An interpreter serving a module or package by name: `python -m NAME`, `deno run npm:NAME`.
    Module {
        /// As given in argv.
        name: String,
    },
    /// A program of its own.
    Program,
    /// A container client: the server runs elsewhere.
    Container {
        /// As given in argv; with `exec` the container's name.
        image: String,
    },
    /// Source code in an argument or on standard input.
    Inline,
}

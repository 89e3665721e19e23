//! MCP server launches, recognised from their argument vectors.
//!
//! A command is unwrapped level by level (wrappers, shells, runners, interpreters) down to the program that it runs,
//! and only the name of that program is judged: no argument ever makes a command a server.

mod bridge;
mod budget;
mod builtin;
mod command;
mod container;
mod declared;
mod file;
mod identity;
mod installer;
mod interpreter;
mod launchers;
mod loader;
mod options;
mod package;
mod pattern;
mod prefix;
mod program;
mod rules;
mod runner;
mod serving;
mod shell;
mod target;
#[cfg(test)]
mod tests;
mod unpinned;
mod way;

pub use declared::matches_declared;
pub use installer::InstallerRun;
pub use program::CodePlace;
pub use rules::LaunchRules;
pub use serving::Member;
pub use unpinned::{Fetched, Unpinned, UnpinnedKind};
pub use way::ScriptPath;

use mcpmon_model::{Package, ServerId};

/// An MCP server that a command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The server; the same for every way to start it.
    pub server: ServerId,
    /// The stage of the process of this command.
    pub stage: Stage,
    /// The rule that matched, as text for a person.
    pub pattern: String,
    /// Package, module, image or program, with its scope and without its version.
    pub name: String,
    /// The package of what runs, as far as the words of the command tell.
    pub package: Option<Package>,
    /// True if the command is that of a declaration, which names the server.
    pub is_declared: bool,
    /// The id by which a list permits the server; `None` if that is `server`.
    pub permitting: Option<ServerId>,
}

/// The stage of a process in a chain of launches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A launcher, shell or wrapper that will start or become something else: npx, uvx, env, `sh -c`.
    Launcher,
    /// A shell that the command itself names: it will start or become something else, or it serves.
    Shell {
        /// Its script, as given in argv; `None` for a line in an argument.
        script: Option<String>,
    },
    /// An interpreter serving a script.
    Script {
        /// The path as given in argv, perhaps relative.
        path: String,
    },
    /// An interpreter serving a module or package by name: `python -m NAME`, `deno run npm:NAME`.
    Module {
        /// The name as given in argv.
        name: String,
    },
    /// A program without an interpreter.
    Program,
    /// A container client: the server runs elsewhere.
    Container {
        /// The image as given in argv; with `exec` the container's name.
        image: String,
    },
    /// Source code in an argument or on standard input.
    Inline,
}

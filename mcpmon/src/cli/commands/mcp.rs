//! `mcpmon mcp …`, as in other tools: an error that names the command of mcpmon.

use clap::{Args, Command};

use crate::cli::{CliError, ErrorKind};

/// Other tools have their commands below `mcp`
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(in crate::cli) struct Options {
    /// The command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Subcommands of other tools, and the command of mcpmon that does the same.
const OTHER_VERBS: [(&str, &str); 8] = [
    ("add", "setup"),
    ("audit", "events"),
    ("install", "setup"),
    ("list", "servers"),
    ("log", "events"),
    ("logs", "events"),
    ("pin", "pins"),
    ("scan", "inspect"),
];

pub(in crate::cli) fn error(options: &Options, command: &Command) -> CliError {
    let verb = options.words.iter().find(|word| !word.starts_with('-'));
    let own = verb.and_then(|verb| {
        let known = command.find_subcommand(verb);
        let known = known
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name);
        let other = || {
            OTHER_VERBS
                .iter()
                .find(|(name, _)| name == verb)
                .map(|(_, own)| *own)
        };
        known.or_else(other)
    });
    let hint = match own {
        Some(own) => format!("`mcpmon {own}`; `mcpmon {own} --help` shows its options"),
        None => "`mcpmon --help` lists the commands".to_owned(),
    };
    let error = anyhow::anyhow!("commands of mcpmon have no `mcp` before them");
    CliError::new(ErrorKind::Usage, error).with_hint(hint)
}

//! `mcpmon completions SHELL`: prints the script that completes commands and options in a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli::{CliError, Output};

/// Print the script that completes mcpmon's commands and options in a shell
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(in crate::cli) fn run(
    options: &Options,
    command: &Command,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    // The script would contain hidden commands, too.
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut command = Command::new("mcpmon")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(visible.cloned());
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "mcpmon", &mut script);
    output.page(&String::from_utf8_lossy(&script))?;
    Ok(output.flush()?)
}

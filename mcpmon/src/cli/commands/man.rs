//! `mcpmon man [COMMAND]`: prints the manual page of mcpmon or of one command; `--directory` writes all pages, for
//! packages.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;

use crate::cli::{CliError, ErrorKind, Output};

/// Print the manual page of mcpmon, or of a command, for man(1)
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The command, such as `events` or `pins trust`
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the page of every command into this directory, which exists, instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    directory: Option<PathBuf>,
}

pub(in crate::cli) fn run(
    options: &Options,
    mut command: Command,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    if let Some(directory) = &options.directory {
        clap_mangen::generate_to(command, directory)
            .with_context(|| format!("cannot write the pages into {}", directory.display()))
            .map_err(|error| CliError::new(ErrorKind::Environment, error))?;
        return Ok(());
    }
    // Builds the commands' full names.
    command.build();
    for name in &options.command {
        let found = command
            .find_subcommand(name)
            .filter(|command| !command.is_hide_set());
        command = found.cloned().ok_or_else(|| {
            let error = anyhow::anyhow!("there is no command `{}`", options.command.join(" "));
            CliError::new(ErrorKind::Usage, error).with_hint("`mcpmon --help` lists the commands")
        })?;
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    output.page(&String::from_utf8_lossy(&page))?;
    Ok(output.flush()?)
}

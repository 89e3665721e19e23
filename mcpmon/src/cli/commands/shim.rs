//! `mcpmon shim`: shims that wrap servers, for every program that has their directory at the front of `PATH`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::{
    app::{
        run::{InstallError, ShimSettings, install_shims, remove_shims, usual_shims},
        setup::Program,
    },
    cli::{CliError, ErrorKind, Output, daemon::Socket},
};

/// Put launchers in place that wrap the MCP servers they start, or take them away
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a directory with npx, uvx, docker and the like, as far as they are there
    Install {
        #[command(flatten)]
        place: ShimDirectory,
        #[command(flatten)]
        socket: Socket,
    },
    /// Take that directory away
    Remove {
        #[command(flatten)]
        place: ShimDirectory,
    },
}

#[derive(Debug, Args)]
struct ShimDirectory {
    /// The directory, instead of mcpmon/shims where programs of this user keep their data
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(in crate::cli) fn run(options: &Options, output: &mut Output<'_>) -> Result<(), CliError> {
    let program = Program::running().map_err(|error| CliError::new(ErrorKind::Environment, error))?;
    match &options.command {
        Command::Install { place, socket } => {
            let directory = place.directory()?;
            if program.is_fleeting {
                output.note(&format!(
                    "warning: launchers will start {}, which may not stay: install mcpmon, and run `mcpmon shim install` again",
                    program.path
                ))?;
            }
            let told = ShimSettings {
                config: output.globals.config.clone(),
                db: output.globals.db.clone(),
                socket: socket.path.clone(),
            };
            let done = install_shims(&directory, Path::new(&program.path), &told).map_err(explain)?;
            let place = directory.display();
            match done.names.is_empty() {
                true => output.note(&format!("PATH has none of the launchers: {place} is empty"))?,
                false => output.note(&format!("{place} wraps what {} start", done.names.join(", ")))?,
            }
            if !done.is_in_front {
                output.note("to be put in front of PATH, where a shell or a client starts:")?;
                output.page(&format!("export PATH=\"{place}:$PATH\"\n"))?;
            }
        }
        Command::Remove { place } => {
            let directory = place.directory()?;
            remove_shims(&directory, Path::new(&program.path)).map_err(explain)?;
            output.note(&format!("the launchers in {} are gone", directory.display()))?;
        }
    }
    Ok(output.flush()?)
}

impl ShimDirectory {
    fn directory(&self) -> Result<PathBuf, CliError> {
        let given = self.dir.as_deref().map(std::path::absolute).transpose()?;
        given.or_else(usual_shims).ok_or_else(|| {
            let error = "HOME is not set to an absolute path: there is no place for launchers";
            CliError::new(ErrorKind::Environment, anyhow::anyhow!(error)).with_hint("give one with --dir DIR")
        })
    }
}

fn explain(error: InstallError) -> CliError {
    let kind = match error {
        InstallError::NotOurs(_) | InstallError::Nothing(_) => ErrorKind::Usage,
        InstallError::Change { .. } => ErrorKind::Environment,
    };
    CliError::new(kind, error)
}

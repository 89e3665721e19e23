//! Runs the suite and prints its table; `bridge SOCKET` is the server's process in it.

#![expect(clippy::print_stdout, reason = "a tool for developers")]

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use mcpmon_redteam::{Core, Live, bridge, load, play, table};

#[derive(Debug, Parser)]
#[command(about = "Runs attacks and near misses through the core and through the real wrapper")]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only cases with this in their name
    #[arg(long, default_value = "", value_name = "TEXT")]
    only: String,
    /// Only through the core
    #[arg(long)]
    core: bool,
    /// One JSON object a case, instead of the table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Hand standard input and output on to whoever listens at a socket
    #[command(hide = true)]
    Bridge {
        /// The socket
        socket: PathBuf,
    },
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(Command::Bridge { socket }) = options.command {
        bridge(&socket)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    for case in load()?.into_iter().filter(|case| case.id.contains(&options.only)) {
        let mut reports = vec![("core", play(&case, &mut Core::new(&case)?)?)];
        if !options.core {
            reports.push(("wrapper", play(&case, &mut Live::new(&case)?)?));
        }
        rows.push((case, reports));
    }
    let holds = rows
        .iter()
        .filter(|(_, reports)| reports.iter().all(|(_, report)| report.against.is_empty()))
        .count();
    match options.json {
        true => {
            for (case, reports) in &rows {
                println!("{}", mcpmon_redteam::json(case, reports));
            }
        }
        false => println!("{}\n{holds} of {} cases hold", table(&rows), rows.len()),
    }
    Ok(match holds == rows.len() && !rows.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

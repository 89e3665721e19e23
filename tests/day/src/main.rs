//! Runs the actions and prints their table; `client` is the process of a client.

#![expect(clippy::print_stdout, reason = "a tool for developers")]

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use mcpmon_day::{Action, Cache, Config, Row, all, groups, json, page, run, serve, summary, table};

#[derive(Debug, Parser)]
#[command(about = "Performs honest actions of ordinary days before servers behind mcpmon")]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only actions with this in their name
    #[arg(long, default_value = "", value_name = "NAME")]
    only: String,
    /// Only this configuration: enforce, observe, daemon-enforce or daemon-observe
    #[arg(long, value_name = "NAME")]
    config: Option<String>,
    /// Only the actions that CI runs
    #[arg(long)]
    slice: bool,
    /// Print one JSON object for each result, instead of the table
    #[arg(long)]
    json: bool,
    /// List the actions and perform none
    #[arg(long)]
    list: bool,
    /// Print the tables of the documentation and perform nothing
    #[arg(long)]
    page: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a server and use it
    #[command(hide = true)]
    Client {
        /// The command of the server
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(Command::Client { command }) = options.command {
        serve(&command)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.page {
        print!("{}", page(&groups()));
        return Ok(ExitCode::SUCCESS);
    }
    let is_meant =
        |action: &Action| action.name.contains(&options.only) && (action.is_in_slice || !options.slice);
    let actions: Vec<Action> = all().filter(is_meant).collect();
    if options.list {
        for action in &actions {
            println!("{}\t{}", action.name, action.description);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut configs = Config::ALL.to_vec();
    configs.retain(|config| options.config.as_deref().is_none_or(|name| name == config.name()));
    ensure!(
        !configs.is_empty() && !actions.is_empty(),
        "no such action or configuration"
    );
    let Some(cache) = Cache::open()? else {
        return Ok(ExitCode::from(3));
    };
    let mut rows = Vec::new();
    for config in configs {
        rows.extend(run(config, &actions, &cache)?);
    }
    match options.json {
        true => rows.iter().for_each(|row| println!("{}", json(row))),
        false => println!("{}\n{}", table(&rows), summary(&rows)),
    }
    let is_explained = |row: &Row| row.is_as_expected() || row.action.known.is_some();
    Ok(match rows.iter().all(is_explained) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

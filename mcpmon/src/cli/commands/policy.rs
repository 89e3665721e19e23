//! `mcpmon policy check|schema`.

use std::{io::Write, path::PathBuf};

use serde_json::json;

use crate::config::{self, ConfigError, Loaded, Search, Sources, Trust};

/// Policy files: check them, describe them.
#[derive(Debug, clap::Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PolicyCommand {
    /// Say whether files can be used, and everything that is wrong with them.
    Check(CheckArgs),
    /// Print the JSON Schema of the format, for editors.
    Schema,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Files, each checked alone; without any, what the daemon would load.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One JSON object for each file.
    #[arg(long)]
    json: bool,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything can be used.
    Valid,
    /// Something cannot.
    Invalid,
}

impl Outcome {
    /// The exit code for it.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Invalid => 2,
        }
    }
}

/// Runs the command: results go to `out`, mistakes (without `--json`) to `err`. `search` and `trust` are those of
/// a daemon started the same way; files given by name are believed whoever wrote them.
///
/// # Errors
/// Where `out` or `err` cannot be written.
pub fn run(
    args: &PolicyArgs,
    search: &Search,
    trust: Trust,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Outcome> {
    match &args.command {
        PolicyCommand::Check(args) => check(args, search, trust, out, err),
        PolicyCommand::Schema => {
            out.write_all(config::schema().as_bytes())?;
            Ok(Outcome::Valid)
        }
    }
}

fn check(
    args: &CheckArgs,
    search: &Search,
    trust: Trust,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let results: Vec<_> = if args.files.is_empty() {
        vec![("the configuration".to_owned(), config::load(search, trust))]
    } else {
        let check_one = |path: &PathBuf| {
            let result = Sources::read(path, Trust::Anyone)
                .map_err(ConfigError::from)
                .and_then(|sources| config::load_sources(&sources));
            (path.display().to_string(), result)
        };
        args.files.iter().map(check_one).collect()
    };
    for (name, result) in &results {
        match (result, args.json) {
            (result, true) => writeln!(out, "{}", as_json(name, result))?,
            (Ok(loaded), false) => writeln!(out, "{}", summary(loaded))?,
            (Err(error), false) => writeln!(err, "{error}\n")?,
        }
    }
    let valid = results.iter().all(|(_, result)| result.is_ok());
    Ok(if valid { Outcome::Valid } else { Outcome::Invalid })
}

fn summary(loaded: &Loaded) -> String {
    let sources: Vec<_> = loaded.sources.iter().map(ToString::to_string).collect();
    let not_in_force: Vec<_> = loaded.not_in_force.iter().map(ToString::to_string).collect();
    let not_in_force = match &not_in_force[..] {
        [] => String::new(),
        keys => format!("; not in force yet: {}", keys.join(", ")),
    };
    format!(
        "ok: {} ({}, {}{not_in_force})",
        sources.join(" + "),
        count(loaded.policy.servers.len(), "server"),
        count(loaded.policy.network.rules.len(), "network rule"),
    )
}

fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

fn as_json(name: &str, result: &Result<Loaded, ConfigError>) -> serde_json::Value {
    match result {
        Ok(loaded) => json!({
            "ok": true,
            "sources": loaded.sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "hash": loaded.hash,
            "servers": loaded.policy.servers.len(),
            "network_rules": loaded.policy.network.rules.len(),
            "not_in_force": loaded.not_in_force.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        Err(ConfigError::Invalid(invalid)) => {
            json!({"ok": false, "file": name, "errors": invalid.problems()})
        }
        Err(error @ (ConfigError::Source(_) | ConfigError::Vanished)) => {
            json!({"ok": false, "file": name, "errors": [{"message": error.to_string()}]})
        }
    }
}

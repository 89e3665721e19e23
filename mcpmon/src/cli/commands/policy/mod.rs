//! `mcpmon policy accept|check|explain|generate|import|schema`.

mod accept;
mod explain;
mod generate;
mod import;
#[cfg(test)]
mod known_rules;

use std::{io::Write, path::PathBuf};

use mcpmon_config::{ConfigError, LoadedConfiguration, LocalConfig, Search, Sources, Trust};
use serde_json::json;

pub(in crate::cli) use self::{
    accept::{AcceptArgs, accept},
    explain::{RuleKeys, explain, rule_keys},
    generate::generate,
};

use crate::cli::{CliError, ErrorKind, Globals};

/// Check, explain, generate or import policies, and accept what was found
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PolicyArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: PolicyCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum PolicyCommand {
    /// Accept what was found: a suppression is added to the configuration.
    Accept(AcceptArgs),
    /// Say whether files can be used, and everything that is wrong with them.
    Check(CheckArgs),
    /// Say which rules are in force, in which order, and where they come from.
    Explain(explain::ExplainArgs),
    /// Write a policy that allows what was used in a session, and nothing else.
    Generate(generate::GenerateArgs),
    /// Convert another tool's policy.
    Import(import::ImportArgs),
    /// Print the JSON Schema of the format, for editors.
    Schema,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CheckArgs {
    /// Files, each checked alone; without any, what the daemon would load.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One JSON object for each file.
    #[arg(long)]
    json: bool,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum PolicyOutcome {
    /// All of it can be used.
    Valid,
    /// There is a mistake.
    Invalid,
}

impl PolicyOutcome {
    /// Returns the exit status for it.
    pub(in crate::cli) const fn exit_code(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Invalid => 2,
        }
    }
}

/// Runs the command: results go to `out`, mistakes (without `--json`) to `err`. `search` and `trust` are those of a
/// daemon started in the same way; files of the command line are trusted whoever wrote them.
///
/// # Errors
/// Returns an error if `out` or `err` cannot be written.
pub(in crate::cli) fn run(
    args: &PolicyArgs,
    search: &Search,
    trust: Trust,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<PolicyOutcome> {
    match &args.command {
        PolicyCommand::Check(args) => check(args, search, trust, out, err),
        PolicyCommand::Import(args) => import::import(args, out, err),
        // These commands read a store, and are run with the streams of other commands.
        PolicyCommand::Accept(_) | PolicyCommand::Explain(_) | PolicyCommand::Generate(_) => {
            Ok(PolicyOutcome::Valid)
        }
        PolicyCommand::Schema => {
            out.write_all(mcpmon_config::schema().as_bytes())?;
            Ok(PolicyOutcome::Valid)
        }
    }
}

/// Loads the configuration that a process of this user finds, for commands that only read it.
///
/// # Errors
/// Returns an error if it cannot be used.
pub(in crate::cli) fn in_force(globals: &Globals) -> Result<LoadedConfiguration, CliError> {
    let search = Search::of_process(globals.config.clone(), LocalConfig::Ignore);
    let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
    mcpmon_config::load(&search, trust).map_err(|error| CliError::new(ErrorKind::Usage, error))
}

fn check(
    args: &CheckArgs,
    search: &Search,
    trust: Trust,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<PolicyOutcome> {
    let is_own = args.files.is_empty() && matches!(search.read_own(trust), Ok(Some(_)));
    let results: Vec<_> = if args.files.is_empty() {
        vec![("the configuration".to_owned(), mcpmon_config::load(search, trust))]
    } else {
        let check_one = |path: &PathBuf| {
            let result = Sources::read(path, Trust::Anyone)
                .map_err(ConfigError::from)
                .and_then(|sources| mcpmon_config::load_sources(&sources));
            (path.display().to_string(), result)
        };
        args.files.iter().map(check_one).collect()
    };
    let mut outcome = PolicyOutcome::Valid;
    for (name, result) in results {
        if result.is_err() {
            outcome = PolicyOutcome::Invalid;
        }
        match (result, args.json) {
            (result, true) => writeln!(out, "{}", as_json(&name, result))?,
            (Ok(loaded), false) => writeln!(out, "{}", summary(&loaded))?,
            (Err(error), false) => writeln!(err, "{:#}\n", anyhow::Error::new(error))?,
        }
    }
    if is_own && !args.json {
        writeln!(
            err,
            "note: where a daemon runs, this file can only tighten the daemon's policy"
        )?;
    }
    Ok(outcome)
}

fn summary(loaded: &LoadedConfiguration) -> String {
    let sources: Vec<_> = loaded.sources.iter().map(ToString::to_string).collect();
    let not_in_force: Vec<_> = loaded.not_in_force.iter().map(ToString::to_string).collect();
    let not_in_force = match &not_in_force[..] {
        [] => String::new(),
        keys => format!("; not in force: {}", keys.join(", ")),
    };
    let policy = &loaded.policy;
    let mut counts = vec![count(policy.servers.len(), "server")];
    let more = [
        (policy.extent().rules, "rule"),
        (policy.extent().listed, "listed name"),
        (policy.suppressions.len(), "suppression"),
    ];
    let more = more.iter().filter(|(number, _)| *number > 0);
    counts.extend(more.map(|(number, thing)| count(*number, thing)));
    counts.push(count(policy.network.rules.len(), "network rule"));
    format!(
        "ok: {} ({}{not_in_force})",
        sources.join(" + "),
        counts.join(", ")
    )
}

fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

fn as_json(name: &str, result: Result<LoadedConfiguration, ConfigError>) -> serde_json::Value {
    match result {
        Ok(loaded) => json!({
            "ok": true,
            "file": name,
            "sources": loaded.sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "hash": loaded.hash,
            "servers": loaded.policy.servers.len(),
            "rules": loaded.policy.extent().rules,
            "listed": loaded.policy.extent().listed,
            "suppressions": loaded.policy.suppressions.len(),
            "network_rules": loaded.policy.network.rules.len(),
            "not_in_force": loaded.not_in_force.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        Err(ConfigError::Invalid(invalid)) => {
            json!({"ok": false, "file": name, "errors": invalid.problems()})
        }
        Err(error @ (ConfigError::Source(_) | ConfigError::Vanished)) => {
            json!({"ok": false, "file": name, "errors": [{"message": format!("{:#}", anyhow::Error::new(error))}]})
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use insta::assert_snapshot;

    use super::*;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: PolicyArgs,
    }

    /// Returns the outcome, standard output and standard error of `mcpmon policy WORDS`, in a directory with two files
    /// and on a host without configuration.
    fn policy(words: &[&str]) -> (PolicyOutcome, String, String) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("written");
        };
        file(
            "good.yaml",
            "mcp: {servers: [{id: a, command: x}], registry: {persistent: false}}\n",
        );
        file("bad.yaml", "mode: loud\n");
        let mut line = vec!["policy".to_owned()];
        for word in words {
            let path = directory.path().join(word);
            let is_file = word.ends_with(".yaml");
            line.push(if is_file {
                path.display().to_string()
            } else {
                (*word).to_owned()
            });
        }
        let args = CommandLine::try_parse_from(line)
            .expect("a valid command line")
            .args;
        let search = Search {
            explicit: None,
            variable: None,
            local: None,
            user: None,
            system: directory.path().join("etc"),
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let outcome = run(&args, &search, Trust::Anyone, &mut out, &mut err).expect("written");
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            text.replace(&directory.path().display().to_string(), "DIR")
        };
        (outcome, text(out), text(err))
    }

    #[test]
    fn every_file_is_checked() {
        let (outcome, out, err) = policy(&["check", "bad.yaml", "good.yaml", "missing.yaml"]);
        assert_eq!(outcome.exit_code(), 2);
        assert_snapshot!(out, @"ok: DIR/good.yaml (1 server, 0 network rules; not in force: mcp.registry.persistent)");
        assert_snapshot!(err, @r"
    DIR/bad.yaml:1:7: mode: unknown value `loud`: expected `enforce` or `observe`
       |
     1 | mode: loud
       |       ^^^^

    cannot read DIR/missing.yaml: No such file or directory (os error 2)
    ");
    }

    #[test]
    fn without_files_it_checks_what_a_daemon_would_load() {
        let (outcome, out, err) = policy(&["check"]);
        assert_eq!((outcome.exit_code(), err.as_str()), (0, ""));
        assert_snapshot!(out, @"ok: embedded default (0 servers, 9 network rules)");
    }

    #[test]
    fn what_a_file_holds_is_counted() {
        let text = "version: 1
mcp:
  tool_policy: denylist
  denied_tools: [{tool: a}, {tool: b}]
  blocked_tools: [c]
  rules:
    - {id: one, match: {tool_name: x}, decision: BLOCK}
  resource_rules:
    - {id: two, match: {uri_pattern: 'file:///x'}, decision: BLOCK}
  suppressions: [{rule: tool_poisoning, reason: known}]
";
        let sources = Sources::of_parts(vec![(
            mcpmon_config::Source::File("a.yaml".into()),
            text.to_owned(),
        )]);
        let loaded =
            mcpmon_config::load_sources(&sources.expect("a part")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            summary(&loaded),
            "ok: a.yaml (0 servers, 2 rules, 3 listed names, 1 suppression, 0 network rules)"
        );
    }

    #[test]
    fn a_file_of_the_user_is_told_from_the_host_s() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("mcpmon.yaml");
        std::fs::write(&file, "mode: enforce\n").expect("written");
        let search = Search {
            explicit: None,
            variable: None,
            local: None,
            user: Some(file),
            system: directory.path().join("etc"),
        };
        let args = CommandLine::try_parse_from(["policy", "check"])
            .expect("valid")
            .args;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        run(&args, &search, Trust::Anyone, &mut out, &mut err).expect("written");
        assert_eq!(
            String::from_utf8(err).expect("text"),
            "note: where a daemon runs, this file can only tighten the daemon's policy\n"
        );
    }

    #[test]
    fn json_is_one_object_a_file() {
        let (outcome, out, err) = policy(&["check", "--json", "good.yaml", "bad.yaml", "missing.yaml"]);
        assert_eq!((outcome, err.as_str()), (PolicyOutcome::Invalid, ""));
        assert_snapshot!(out, @r#"
    {"ok":true,"file":"DIR/good.yaml","sources":["DIR/good.yaml"],"hash":"sha256:8161ecab674ae4ad6c7afd87255d5bbcc9f1e816226edba7062ea0d9727ab6d9","servers":1,"rules":0,"listed":0,"suppressions":0,"network_rules":0,"not_in_force":["mcp.registry.persistent"]}
    {"ok":false,"file":"DIR/bad.yaml","errors":[{"file":"DIR/bad.yaml","line":1,"column":7,"key":"mode","message":"unknown value `loud`: expected `enforce` or `observe`"}]}
    {"ok":false,"file":"DIR/missing.yaml","errors":[{"message":"cannot read DIR/missing.yaml: No such file or directory (os error 2)"}]}
    "#);
    }

    #[test]
    fn the_schema_is_json() {
        let (outcome, out, _) = policy(&["schema"]);
        assert_eq!(outcome, PolicyOutcome::Valid);
        let schema: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(schema["title"], "Config");
    }
}

//! The command line: the only module that prints. The subcommands are in `commands/`.

mod change;
mod commands;
mod daemon;
mod definition;
mod error;
mod filters;
mod help;
mod kernel_state;
mod listing;
mod output;
mod own_state;
mod question;
mod remote;
mod session;
mod store;
mod summary;
mod table;
mod text;
mod time;

use std::{env, ffi::OsString, io, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use mcpmon_config::{LocalConfig, Search, Trust};

pub use error::{CliError, ErrorKind};
pub use output::{Color, Output};

use crate::app::{bridge, probe::CANARY_COMMAND, releaser, run::run_shim, scan::confined};
use commands::{
    approve, calls, check, completions, connections, detach, detections, doctor, events, execs, explain,
    held_calls, inspect, kill, man, mcp, pins, policy, registry, report, servers, setup, shim, status, wrap,
};

/// Sees and stops what Model Context Protocol servers do on this host.
#[derive(Debug, Parser)]
#[command(
    name = "mcpmon",
    version,
    arg_required_else_help = true,
    propagate_version = true
)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// The options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Configuration file, instead of MCPMON_CONFIG and the usual places
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Store to read, without a daemon
    #[arg(long, value_name = "FILE", global = true)]
    pub db: Option<PathBuf>,
    /// One JSON object a line instead of a table
    #[arg(long, global = true)]
    pub json: bool,
    /// The use of color: `auto` honours NO_COLOR
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", global = true)]
    pub color: Color,
}

#[derive(Debug, Subcommand)]
enum Command {
    Approvals(approve::Approvals),
    Approve(approve::Approve),
    Bodies(commands::bodies::Options),
    Bundle(commands::bundle::BundleArgs),
    Calls(calls::Options),
    Check(check::Options),
    Completions(completions::Options),
    Connections(connections::Options),
    Daemon(commands::daemon::Options),
    Detach(detach::Options),
    Detections(detections::Options),
    Doctor(doctor::Options),
    Events(events::Options),
    Execs(execs::Options),
    Explain(explain::Options),
    Hook(commands::hook::Options),
    Inspect(inspect::Options),
    Kill(kill::Options),
    Logs(commands::logs::Options),
    Man(man::Options),
    #[command(hide = true)]
    Mcp(mcp::Options),
    Pins(pins::Options),
    Policy(policy::PolicyArgs),
    Proxy(commands::proxy::Options),
    Registry(registry::Options),
    Report(report::Options),
    Run(commands::run::Options),
    Scan(commands::scan::Options),
    Servers(servers::Options),
    Setup(setup::Options),
    Shim(shim::Options),
    Status(status::Options),
    Top(commands::top::Options),
    /// List the tools of servers, how they stand and what was found in them
    Tools(registry::ChosenDefinitions),
    #[command(alias = "mcp-proxy")]
    Wrap(wrap::Options),
    /// Speaks with a remote server for `mcpmon wrap --url`, which starts it
    #[command(name = bridge::VERB, hide = true)]
    Bridge {
        /// The server; what is asked there comes in a variable
        url: Option<String>,
    },
    /// Runs a server in namespaces and a sandbox of its own for `mcpmon scan --start`, which starts it
    #[command(name = confined::VERB, hide = true)]
    Confined(confined::Confinement),
    /// Lets go what the kernel stopped for the daemon, which starts it, once that is gone
    #[command(name = releaser::VERB, hide = true)]
    ReleaseHeld,
    /// Ends at once: the process a self-test starts, to be seen
    #[command(name = CANARY_COMMAND, hide = true)]
    SelfTestExec {
        nonce: String,
    },
}

/// `mcpmon wrap` by itself: its client waits for it, and building the whole command line takes 0.6 ms more. Help, global
/// options before the verb and every mistake are left to the whole one.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true)]
struct Wrap {
    #[command(flatten)]
    globals: Globals,
    #[command(flatten)]
    options: wrap::Options,
}

impl Wrap {
    fn of(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let arguments: Vec<OsString> = arguments.into_iter().skip(1).collect();
        match arguments.first()?.to_str()? {
            "wrap" => Self::try_parse_from(&arguments).ok(),
            _ => None,
        }
    }
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    // Done first: if this program was called as a shim, an agent waits for the launcher.
    if let Some(Err(error)) = run_shim() {
        let code = error.exit_code();
        CliError::new(ErrorKind::Environment, error).report(&mut io::stderr().lock());
        return ExitCode::from(code);
    }
    if let Some(Wrap { globals, options }) = Wrap::of(env::args_os()) {
        return match wrap::run(options, &globals) {
            Ok(code) => code,
            Err(error) => error.report(&mut io::stderr().lock()),
        };
    }
    let parsed = help::grouped(Cli::command()).try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return error::usage(&error),
    };
    match run(cli) {
        Ok(code) => code,
        Err(error) => error.report(&mut io::stderr().lock()),
    }
}

fn run(cli: Cli) -> Result<ExitCode, CliError> {
    let globals = &cli.globals;
    if let Command::Daemon(options) = cli.command {
        return commands::daemon::run(options, globals).map(|()| ExitCode::SUCCESS);
    }
    // Standard output carries the protocol.
    if let Command::Wrap(options) = cli.command {
        return wrap::run(options, globals);
    }
    if let Command::Bridge { .. } = cli.command {
        wrap::start_log();
        return bridge::run()
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| CliError::new(ErrorKind::Environment, error));
    }
    if let Command::Confined(confinement) = &cli.command {
        let own = confined::OwnFiles {
            config: globals.config.clone(),
            store: globals.db.clone(),
        };
        return confined::run(confinement, &own)
            .map_err(|error| CliError::new(ErrorKind::Environment, error));
    }
    // Its standard streams are kernel tables.
    if let Command::ReleaseHeld = cli.command {
        return releaser::run()
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| CliError::new(ErrorKind::Environment, error));
    }
    // It logs from other threads, which would wait for the locked streams.
    if let Command::Proxy(options) = cli.command {
        return commands::proxy::run(options, globals).map(|()| ExitCode::SUCCESS);
    }
    // It logs as long as it runs.
    if let Command::Approvals(approve::Approvals {
        command: approve::Command::Listen(options),
    }) = cli.command
    {
        return commands::callback::run(options, globals).map(|()| ExitCode::SUCCESS);
    }
    // The agent uses both streams.
    if let Command::Run(options) = cli.command {
        return commands::run::run(options, globals);
    }
    let (mut data, mut notes) = (io::stdout().lock(), io::stderr().lock());
    let mut output = Output::new(&mut data, &mut notes, globals);
    let now = time::now();
    match cli.command {
        Command::Approvals(options) => match options.command {
            approve::Command::List { pending } => {
                approve::list(pending, &store::open(globals)?, now, &mut output)
            }
            approve::Command::Show { id } => held_calls::show(&id, &store::open(globals)?, now, &mut output),
            approve::Command::Allow(options) => approve::allow(&options, now, &mut output),
            approve::Command::Deny(one) => approve::deny(&one, now, &mut output),
            approve::Command::Listen(_) => Ok(()),
        },
        Command::Approve(options) => approve::approve(&options, now, &mut output),
        Command::Bodies(options) => commands::bodies::run(&options, &store::open(globals)?, now, &mut output),
        Command::Bundle(args) => commands::bundle::run(&args, now, &mut output),
        Command::Calls(options) => calls::run(options, &store::open(globals)?, now, &mut output),
        Command::Check(options) => {
            return check::run(&options, now, &mut output).map(ExitCode::from);
        }
        Command::Hook(options) => return commands::hook::run(&options, now, &mut output),
        Command::Completions(options) => completions::run(&options, &Cli::command(), &mut output),
        Command::Detach(options) => detach::run(&options, &mut output),
        Command::Detections(options) => detections::run(options, &store::open(globals)?, now, &mut output),
        Command::Kill(options) => kill::run(&options, now, &mut output),
        Command::Logs(options) => commands::logs::run(&options, &mut output),
        Command::Man(options) => man::run(&options, help::grouped(Cli::command()), &mut output),
        Command::Mcp(options) => Err(mcp::error(&options, &Cli::command())),
        Command::Inspect(options) => {
            inspect::run(&options, globals, &policy::in_force(globals)?, &mut output)
        }
        Command::Registry(options) => match options.command {
            registry::Command::List(chosen) => registry::list(&chosen, &store::open(globals)?, &mut output),
            registry::Command::Show { subject } => {
                registry::show(&subject, &store::open(globals)?, &mut output)
            }
        },
        Command::Report(options) => report::run(&options, &store::open(globals)?, &mut output),
        Command::Tools(chosen) => registry::tools(&chosen, &store::open(globals)?, &mut output),
        Command::Connections(options) => connections::run(options, store::open(globals)?, now, &mut output),
        Command::Events(options) => events::run(options, store::open(globals)?, now, &mut output),
        Command::Execs(options) => execs::run(options, &store::open(globals)?, now, &mut output),
        Command::Explain(options) => explain::run(&options, &store::open(globals)?, now, &mut output),
        Command::Servers(options) => servers::run(&options, &store::open(globals)?, now, &mut output),
        Command::Doctor(options) => doctor::run(&options, &mut output),
        Command::Pins(options) => match options.command {
            pins::Command::List(list) => pins::list(&list, &store::open(globals)?, &mut output),
            pins::Command::Diff(chosen) => pins::diff(&chosen, &store::open(globals)?, &mut output),
            pins::Command::Reset(chosen) => pins::reset(&chosen, now, &mut output),
            pins::Command::Trust(chosen) => pins::trust(&chosen, now, &mut output),
        },
        Command::Scan(options) => {
            commands::scan::run(&options, &policy::in_force(globals)?, now, &mut output)
        }
        Command::Setup(options) => setup::run(&options, &mut output),
        Command::Shim(options) => shim::run(&options, &mut output),
        Command::Status(options) => status::run(&options, &mut output),
        Command::Top(options) => commands::top::run(&options, &mut output),
        Command::Bridge { .. }
        | Command::Confined(_)
        | Command::Daemon(_)
        | Command::Proxy(_)
        | Command::ReleaseHeld
        | Command::Run(_)
        | Command::Wrap(_)
        | Command::SelfTestExec { .. } => Ok(()),
        Command::Policy(policy::PolicyArgs {
            command: policy::PolicyCommand::Accept(options),
        }) => policy::accept(&options, &mut output),
        Command::Policy(policy::PolicyArgs {
            command: policy::PolicyCommand::Explain(options),
        }) => policy::explain(&options, now, &mut output),
        Command::Policy(policy::PolicyArgs {
            command: policy::PolicyCommand::Generate(options),
        }) => policy::generate(&options, &mut output),
        Command::Policy(options) => {
            let search = Search::of_process(globals.config.clone(), LocalConfig::Ignore);
            let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
            let outcome = policy::run(&options, &search, trust, &mut data, &mut notes)?;
            return Ok(ExitCode::from(outcome.exit_code()));
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_plain_wrap_is_read_as_the_whole_command_line_reads_it() {
        let plain: [&[&str]; 3] = [
            &["mcpmon", "wrap", "--", "server", "--help"],
            &[
                "mcpmon", "wrap", "--server", "a", "--db", "f", "--", "server", "-x",
            ],
            &[
                "mcpmon",
                "wrap",
                "--config=c",
                "--json",
                "--allow-local-config",
                "--socket",
                "s",
                "--",
                "a",
            ],
        ];
        for arguments in plain {
            let alone = Wrap::of(arguments.iter().map(OsString::from)).expect("plain");
            let Cli { globals, command } = Cli::try_parse_from(arguments).expect("the same");
            let Command::Wrap(options) = command else {
                panic!("{command:?}");
            };
            assert_eq!(
                format!("{:?} {:?}", alone.globals, alone.options),
                format!("{globals:?} {options:?}")
            );
        }
        let others: [&[&str]; 6] = [
            &["mcpmon"],
            &["mcpmon", "--json", "wrap", "--", "a"],
            &["mcpmon", "wrap", "--help"],
            &["mcpmon", "wrap", "--version"],
            &["mcpmon", "wrap", "a"],
            &["mcpmon", "events"],
        ];
        for arguments in others {
            assert!(
                Wrap::of(arguments.iter().map(OsString::from)).is_none(),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn every_shell_completes_the_commands_that_help_shows() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = printed(&["mcpmon", "completions", shell]).unwrap();
            for part in ["approvals", "allow-local-config"] {
                assert!(script.contains(part), "{shell}: no {part}");
            }
            for hidden in [CANARY_COMMAND, bridge::VERB, confined::VERB, releaser::VERB] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
        let error = Cli::try_parse_from(["mcpmon", "completions", "tcsh"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn a_manual_page_is_of_mcpmon_or_of_one_command() {
        let page = printed(&["mcpmon", "man"]).unwrap();
        for part in [".TH mcpmon 1", "mcpmon\\-events(1)", "Examples:"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains(CANARY_COMMAND), "{page}");
        let page = printed(&["mcpmon", "man", "pins", "trust"]).unwrap();
        assert!(page.contains(".TH mcpmon-pins-trust 1"), "{page}");
        for none in [&["mcpmon", "man", "nothing"], &["mcpmon", "man", CANARY_COMMAND]] {
            assert_eq!(printed(none).unwrap_err().kind, ErrorKind::Usage);
        }
    }

    /// Returns the output of a command that needs no store.
    fn printed(arguments: &[&str]) -> Result<String, CliError> {
        let cli = Cli::try_parse_from(arguments).unwrap();
        let (mut data, mut notes) = (Vec::new(), Vec::new());
        let mut output = Output::plain(&mut data, &mut notes, output::Form::Table);
        let command = help::grouped(Cli::command());
        if let Command::Completions(options) = cli.command {
            completions::run(&options, &command, &mut output)?;
        } else if let Command::Man(options) = cli.command {
            man::run(&options, command, &mut output)?;
        }
        Ok(String::from_utf8(data).unwrap())
    }

    #[test]
    fn a_command_below_mcp_is_an_error_that_names_the_command() {
        for (words, hint) in [
            (
                &["mcpmon", "mcp", "calls", "--session", "s"][..],
                "`mcpmon calls`;",
            ),
            (&["mcpmon", "mcp", "--json", "list"], "`mcpmon servers`;"),
            (&["mcpmon", "mcp"], "`mcpmon --help`"),
            (&["mcpmon", "mcp", "self-test-exec"], "`mcpmon --help`"),
        ] {
            let Command::Mcp(options) = Cli::try_parse_from(words).unwrap().command else {
                panic!("{words:?}");
            };
            let error = mcp::error(&options, &Cli::command());
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.hints[0].starts_with(hint), "{words:?}: {:?}", error.hints);
        }
    }

    #[test]
    fn globals_go_before_and_after_the_command() {
        for arguments in [["mcpmon", "--json", "events"], ["mcpmon", "events", "--json"]] {
            assert!(Cli::try_parse_from(arguments).unwrap().globals.json);
        }
    }

    #[test]
    fn a_type_that_no_event_has_is_a_usage_error_that_says_which_is_meant() {
        let error = Cli::try_parse_from(["mcpmon", "events", "--type", "mcp_tool_sen"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let error = error.to_string();
        assert!(error.contains("'mcp_tool_seen'"), "{error}");
        Cli::try_parse_from([
            "mcpmon",
            "events",
            "--type",
            "mcp_tool_seen",
            "--type",
            "policy_loaded",
        ])
        .unwrap();
    }

    #[test]
    fn a_bad_time_is_a_usage_error_that_says_what_is_good() {
        let error = Cli::try_parse_from(["mcpmon", "events", "--since", "yesterday"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        insta::assert_snapshot!(error, @"
        error: invalid value 'yesterday' for '--since <TIME>': expected a time span such as 45s, 30m, 1h or 2d, or a time such as 2026-11-20T12:00:00Z

        For more information, try '--help'.
        ");
    }
}

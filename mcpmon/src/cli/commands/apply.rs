//! `mcpmon explain --apply`: carries out the command that an event recommends.

use anyhow::anyhow;
use clap::{Parser, Subcommand};
use jiff::civil::Date;
use mcpmon_model::{ServerId, Timestamp};
use mcpmon_store::StoredEvent;

use super::{
    approve::{self, Approve},
    policy::{self, AcceptArgs},
};
use crate::cli::{CliError, ErrorKind, Output, daemon::Socket};

/// The commands that are carried out: they accept what one server offers, or what was found in it.
#[derive(Debug, Parser)]
#[command(name = "mcpmon", disable_help_flag = true, disable_help_subcommand = true)]
struct ApplyCommand {
    #[command(subcommand)]
    remedy: Remedy,
}

#[derive(Debug, Subcommand)]
enum Remedy {
    Approve(Approve),
    #[command(subcommand)]
    Policy(PolicyRemedy),
}

#[derive(Debug, Subcommand)]
enum PolicyRemedy {
    Accept(AcceptArgs),
}

impl Remedy {
    /// Parses the line, if it is one of these commands.
    fn parse(line: &str) -> Option<Self> {
        let words = shlex::split(line)?;
        // A name that cannot be typed is recorded with `*`, and would be another name.
        let is_whole = words.iter().all(|word| !word.contains('*'));
        let line = is_whole.then(|| ApplyCommand::try_parse_from(words).ok())?;
        Some(line?.remedy)
    }

    /// Returns the server for which it accepts something.
    fn server(&self) -> Option<ServerId> {
        match self {
            Self::Approve(Approve {
                subject: Some(subject),
                ..
            }) => Some(approve::parse(subject).ok()?.server),
            Self::Approve(Approve { server, .. }) => server.clone(),
            Self::Policy(PolicyRemedy::Accept(args)) => Some(args.server.clone()),
        }
    }
}

/// Carries out the command that `event` recommends. Findings are accepted until `until`, if it is given.
pub(super) fn apply(
    event: &StoredEvent,
    remedy: Option<&str>,
    until: Option<Date>,
    socket: &Socket,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let refused = |error, hint: String| CliError::new(ErrorKind::Refused, error).with_hint(hint);
    let Some(line) = remedy else {
        let error = anyhow!("event {} names no command that would allow it", event.id);
        let hint =
            "`mcpmon explain` without --apply shows the rule, and the keys of the policy that it goes by";
        return Err(refused(error, hint.to_owned()));
    };
    let Some(remedy) = Remedy::parse(line) else {
        let error = anyhow!("what event {} names accepts nothing by itself", event.id);
        return Err(refused(error, format!("the event says: {line}")));
    };
    // Other processes write events, too: an event about one server must not make a person accept another one's
    // definitions.
    if remedy.server().as_ref().map(ServerId::as_str) != event.server_id.as_deref() {
        let error = anyhow!(
            "event {} names a command for another server than its own",
            event.id
        );
        return Err(refused(error, format!("the event says: {line}")));
    }
    match remedy {
        Remedy::Approve(_) if until.is_some() => {
            let error = anyhow!("a definition is accepted as it is, and not until a day");
            let hint = "leave out --until: a definition that changes is judged anew";
            Err(CliError::new(ErrorKind::Usage, error).with_hint(hint))
        }
        Remedy::Approve(mut options) => {
            options.socket = socket.clone();
            approve::approve(&options, now, output)
        }
        Remedy::Policy(PolicyRemedy::Accept(mut args)) => {
            args.socket = socket.clone();
            args.until = until;
            args.reason = Some(format!("event {}", event.id));
            policy::accept(&args, output)
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("mcpmon approve files:read_file" => Some("files".to_owned()); "a definition")]
    #[test_case("mcpmon approve 'files:read '\\''all'\\'' --server x'" => Some("files".to_owned()); "a name with quotes and options")]
    #[test_case("mcpmon policy accept output-task-over-1 --server files --tool read_file" => Some("files".to_owned()); "a finding")]
    #[test_case("mcpmon policy accept persona --server files --tool ''" => Some("files".to_owned()); "a finding in what is no tool's")]
    #[test_case("mcpmon policy accept persona --server files --tool 'a*b'" => None; "a name that cannot be typed")]
    #[test_case("mcpmon policy explain blocked_tools" => None; "a look")]
    #[test_case("mcpmon kill --all --off" => None; "another command")]
    #[test_case("mcpmon approve files:read_file; reboot" => None; "two commands")]
    #[test_case("mcpmon approve 'files:read" => None; "an open quotation")]
    #[test_case("add the server by hand" => None; "no command")]
    fn remedies(line: &str) -> Option<String> {
        Some(Remedy::parse(line)?.server()?.to_string())
    }
}

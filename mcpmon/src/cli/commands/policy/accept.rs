//! `mcpmon policy accept`: adds a suppression, so that a finding is accepted from now on.

use anyhow::anyhow;
use clap::Args;
use jiff::civil::Date;
use mcpmon_config::{AcceptEdit, Acceptance};
use mcpmon_model::ServerId;
use mcpmon_policy::Suppression;

use crate::{
    app::setup,
    cli::{CliError, ErrorKind, Output, daemon::Socket, question, time},
};

/// The finding to accept.
#[derive(Debug, Args)]
pub(in crate::cli) struct AcceptArgs {
    /// Ids of rules, as `rules` in `mcpmon detections --json` has them, or names of what they find
    #[arg(value_name = "RULE", required = true)]
    rules: Vec<String>,
    /// The server that it is accepted of
    #[arg(long, value_name = "ID", value_parser = server_id)]
    pub(in crate::cli) server: ServerId,
    /// The tool, prompt or resource that it is accepted of, '' for what is none's; without it, all of the server
    #[arg(long, value_name = "NAME", value_parser = exact)]
    tool: Option<String>,
    /// The last day on which it is accepted, UTC, such as 2027-01-31; without it, every day
    #[arg(long, value_name = "DATE", value_parser = time::last_day)]
    pub(in crate::cli) until: Option<Date>,
    /// The reason, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) reason: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) socket: Socket,
}

fn server_id(id: &str) -> Result<ServerId, String> {
    ServerId::new(exact(id)?).map_err(|error| error.to_string())
}

/// Checks that a name stands for itself only. Servers choose their names, so accepting a pattern could accept other
/// servers' findings.
fn exact(name: &str) -> Result<String, String> {
    match Suppression::is_pattern(name) {
        true => Err(
            "`*` and `?` stand for other names, too; a suppression that is to hold for several is written \
                     into the configuration by hand"
                .to_owned(),
        ),
        false => Ok(name.to_owned()),
    }
}

pub(in crate::cli) fn accept(args: &AcceptArgs, output: &mut Output<'_>) -> Result<(), CliError> {
    let user = nix::unistd::geteuid().as_raw();
    let (loaded, search) = question::policy(&args.socket, output)?;
    let reason = args
        .reason
        .clone()
        .unwrap_or_else(|| format!("accepted by user {user}"));
    let wanted = args.rules.iter().map(|rule| Acceptance {
        rule: rule.clone(),
        server: Some(args.server.to_string()),
        tool: args.tool.clone(),
        until: args.until.map(|day| day.to_string()),
        reason: reason.clone(),
    });
    let wanted: Vec<Acceptance> = wanted.collect();
    let entries = || {
        let lines = wanted.iter().map(|acceptance| format!("    - {acceptance}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let edit = AcceptEdit::new(&loaded, search.new_file(), &wanted)
        .map_err(|error| CliError::new(ErrorKind::Usage, error))?;
    let Some(edit) = edit else {
        let error = anyhow!(
            "no program can add this to the configuration ({})",
            question::sources(&loaded)
        );
        let hint = format!("add it by hand:\nmcp:\n  suppressions:\n{}", entries());
        return Err(CliError::new(ErrorKind::Refused, error).with_hint(hint));
    };
    setup::write_policy(&edit.path, edit.before.as_deref(), &edit.after, user).map_err(|error| {
        let hint = format!(
            "whoever may change {} runs the command, or adds by hand:\nmcp:\n  suppressions:\n{}",
            edit.path.display(),
            entries()
        );
        CliError::new(ErrorKind::Environment, error).with_hint(hint)
    })?;
    for rule in &args.rules {
        output.note(&format!(
            "{rule} is accepted of {}{} in {}",
            args.server,
            match args.tool.as_deref() {
                Some("") => ":''".to_owned(),
                Some(tool) => format!(":{tool}"),
                None => String::new(),
            },
            edit.path.display()
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use test_case::test_case;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: AcceptArgs,
    }

    fn parsed(words: &[&str]) -> Result<AcceptArgs, String> {
        let line = ["accept", "persona"].iter().chain(words);
        match Line::try_parse_from(line) {
            Ok(line) => Ok(line.args),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test_case("files", "read_file"; "a name")]
    #[test_case("files", "a b[c]{d}+.$"; "signs that are no pattern")]
    #[test_case("files", ""; "no tool")]
    fn names_are_accepted_of(server: &str, tool: &str) {
        let args = parsed(&["--server", server, "--tool", tool]).expect("names");
        assert_eq!((args.server.as_str(), args.tool.as_deref()), (server, Some(tool)));
    }

    #[test_case("files", "*", "--tool"; "every tool")]
    #[test_case("files", "?*", "--tool"; "every tool with a name")]
    #[test_case("files", "db://app:***@db/x", "--tool"; "a name without its secret")]
    #[test_case("*", "read", "--server"; "every server")]
    #[test_case("file?", "read", "--server"; "a server with one letter more")]
    fn a_pattern_is_accepted_by_hand(server: &str, tool: &str, option: &str) {
        let error = parsed(&["--server", server, "--tool", tool]).expect_err("a pattern");
        assert!(error.contains(option) && error.contains("by hand"), "{error}");
    }
}

//! `mcpmon policy accept`: what was found and stopped is accepted from now on.

use anyhow::anyhow;
use clap::Args;
use mcpmon_config::{AcceptEdit, Acceptance};
use mcpmon_model::ServerId;

use crate::{
    agent::setup,
    cli::{CliError, ErrorKind, Globals, Output, daemon::Socket, question},
};

/// What to accept.
#[derive(Debug, Args)]
pub(in crate::cli) struct AcceptArgs {
    /// Ids of rules, as `rules` in `mcpmon detections --json` has them, or names of what they find
    #[arg(value_name = "RULE", required = true)]
    rules: Vec<String>,
    /// The server that it is accepted of
    #[arg(long, value_name = "ID", value_parser = |id: &str| ServerId::new(id))]
    server: ServerId,
    /// The tool, prompt or resource that it is accepted of; without it, all of the server
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The reason, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    socket: Socket,
}

pub(in crate::cli) fn accept(
    args: &AcceptArgs,
    globals: &Globals,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let user = nix::unistd::geteuid().as_raw();
    let (loaded, search) = question::policy(globals, &args.socket, output)?;
    let reason = args
        .reason
        .clone()
        .unwrap_or_else(|| format!("accepted by user {user}"));
    let wanted = args.rules.iter().map(|rule| Acceptance {
        rule: rule.clone(),
        server: Some(args.server.to_string()),
        tool: args.tool.clone(),
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
            args.tool
                .as_ref()
                .map_or_else(String::new, |tool| format!(":{tool}")),
            edit.path.display()
        ))?;
    }
    Ok(())
}

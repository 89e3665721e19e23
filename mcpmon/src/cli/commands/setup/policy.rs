//! The policy of a user after `mcpmon setup`: provided, and described.

use mcpmon_clients::SetupEffect;
use mcpmon_config::{LocalConfig, Search, Trust};
use mcpmon_policy::Mode;
use mcpmon_session::note_mode;
use serde_json::{Map, Value, json};

use crate::{
    app::setup::{PolicyChange, PolicyError, PolicyReport, PolicyWish, provide_policy},
    cli::{
        CliError, ErrorKind, Globals,
        output::{Form, Output},
    },
};

/// Returns the policy after this run.
pub(super) fn policy(
    globals: &Globals,
    wish: &PolicyWish,
    effect: SetupEffect,
) -> Result<PolicyReport, CliError> {
    let search = Search::of_process(globals.config.clone(), LocalConfig::Ignore);
    let user = nix::unistd::geteuid().as_raw();
    let provided = provide_policy(&search, Trust::for_user(user), wish, user, effect);
    if let (Ok(report), Some(own), SetupEffect::Write) = (&provided, search.own_file(), effect)
        && report.path.as_deref() == Some(own)
    {
        let mode = if report.enforces {
            Mode::Enforce
        } else {
            Mode::Observe
        };
        note_mode(None, own, mode);
    }
    provided.map_err(|error| {
        let kind = match error {
            PolicyError::Config(_) | PolicyError::Unclear { .. } | PolicyError::Present { .. } => {
                ErrorKind::Usage
            }
            PolicyError::Write { .. } | PolicyError::Change { .. } | PolicyError::Mode { .. } => {
                ErrorKind::Environment
            }
        };
        CliError::new(kind, error)
    })
}

/// Prints the last lines of a run: whether anything is blocked from now on.
pub(super) fn tell_policy(
    report: &PolicyReport,
    effect: SetupEffect,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    if output.form == Form::Json {
        output.json(&policy_object(report, effect))?;
    }
    for line in policy_lines(report, effect) {
        output.note(&line)?;
    }
    Ok(output.flush()?)
}

fn policy_object(report: &PolicyReport, effect: SetupEffect) -> Map<String, Value> {
    let action = match report.change {
        PolicyChange::None => "none",
        PolicyChange::Written => "write",
        PolicyChange::Enforced => "enforce",
        PolicyChange::Observed => "observe",
    };
    let done = effect == SetupEffect::Write && report.change != PolicyChange::None;
    let object = json!({
        "policy": report.path,
        "mode": if report.enforces { "enforce" } else { "observe" },
        "action": action,
        "done": done,
    });
    object.as_object().cloned().unwrap_or_default()
}

fn policy_lines(report: &PolicyReport, effect: SetupEffect) -> Vec<String> {
    let path = report.path.as_ref().map(|path| path.display().to_string());
    let path = path.as_deref().unwrap_or("the built-in one");
    let change = match (report.change, effect) {
        (PolicyChange::None, _) => "the policy is",
        (PolicyChange::Written, SetupEffect::Write) => "wrote a first policy:",
        (PolicyChange::Written, SetupEffect::Preview) => "would write a first policy:",
        (PolicyChange::Enforced, SetupEffect::Write) => "set `mode: enforce` in",
        (PolicyChange::Enforced, SetupEffect::Preview) => "would set `mode: enforce` in",
        (PolicyChange::Observed, SetupEffect::Write) => "set `mode: observe` in",
        (PolicyChange::Observed, SetupEffect::Preview) => "would set `mode: observe` in",
    };
    let change = format!("{change} {path}");
    match report.enforces {
        false => vec![
            change,
            "NOTHING IS BLOCKED: this policy only observes, for every server that mcpmon wraps, by setup or by hand"
                .to_owned(),
            "  what it would have blocked: mcpmon events --action would_block".to_owned(),
            "  to switch enforcement on:   mcpmon setup --enforce".to_owned(),
        ],
        true => vec![
            change,
            "enforcing: changed servers do not start, poisoned tools are hidden, poisoned results are withheld".to_owned(),
        ],
    }
}

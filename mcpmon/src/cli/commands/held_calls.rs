//! `mcpmon approvals show|allow|deny ID`: a person's answer to a held call.

use anyhow::anyhow;
use clap::Args;
use mcpmon_config::{AcceptEdit, AllowedCall};
use mcpmon_model::{CallAnswer, HeldCall, Timestamp};
use mcpmon_policy::Suppression;
use mcpmon_store::{StoreReader, json::rfc3339};
use serde_json::{Map, Value, json};

use crate::{
    app::{held_calls::waiting, setup},
    cli::{
        CliError, ErrorKind, Output, change::ChangePlace, daemon::Socket, output::Form, question, store,
        text, time,
    },
};

/// For how long a held call is allowed.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct AllowanceExtent {
    /// A held call: this very call (the default)
    #[arg(long, conflicts_with_all = ["session", "rule"])]
    once: bool,
    /// A held call: this one and every later one of its tool in its session, with any arguments
    #[arg(long, conflicts_with = "rule")]
    session: bool,
    /// A held call: this one, and every later one of its tool by a rule that is written into the configuration
    #[arg(long)]
    rule: bool,
}

impl AllowanceExtent {
    pub(super) const fn is_given(self) -> bool {
        self.once || self.session || self.rule
    }
}

/// Returns the id of a held call, if `subject` is one; the name of a definition contains a colon.
pub(super) fn id(subject: &str) -> Option<&str> {
    (!subject.contains(':')).then_some(subject)
}

/// Returns an error for a text that cannot be an id, before any store or daemon is asked.
fn digits(id: &str) -> Result<&str, CliError> {
    match !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(id),
        false => Err(CliError::new(
            ErrorKind::Usage,
            anyhow!(
                "`{}` is neither the id of a held call nor SERVER:TOOL",
                text::escape(id)
            ),
        )
        .with_hint("ids are hexadecimal digits: see `mcpmon approvals list --pending`")),
    }
}

pub(super) fn allow(
    id: &str,
    extent: AllowanceExtent,
    socket: &Socket,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let id = digits(id)?;
    let place = ChangePlace::find(output.globals, socket)?;
    if extent.rule {
        let held = find(&store::open(output.globals)?, id, now)?;
        write_rule(&held, socket, output)?;
    }
    let (answer, what) = match extent.session {
        true => (
            CallAnswer::Session,
            "goes on, and so does every later call of it in its session",
        ),
        false => (CallAnswer::Once, "goes on"),
    };
    let subject = place.answer_call(now, id, answer)?;
    Ok(output.note(&format!("the held call of {} {what}", text::escape(&subject)))?)
}

pub(super) fn deny(
    id: &str,
    socket: &Socket,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let id = digits(id)?;
    let subject = ChangePlace::find(output.globals, socket)?.answer_call(now, id, CallAnswer::Deny)?;
    Ok(output.note(&format!("the held call of {} is refused", text::escape(&subject)))?)
}

/// Returns the held call with this id.
fn find(reader: &StoreReader, id: &str, now: Timestamp) -> Result<HeldCall, CliError> {
    let mut meant = waiting(reader, now)?
        .into_iter()
        .filter(|held| held.id.starts_with(id));
    let refused =
        |error| CliError::new(ErrorKind::Refused, error).with_hint("see `mcpmon approvals list --pending`");
    let Some(held) = meant.next() else {
        return Err(refused(anyhow!(
            "no call waits with the id {id}: it was answered or taken back, its time ran out, or there never was one"
        )));
    };
    match meant.next() {
        None => Ok(held),
        Some(_) => Err(refused(anyhow!(
            "more than one call has an id that begins with `{id}`"
        ))),
    }
}

/// Writes a rule into the configuration that allows later calls of the tool.
fn write_rule(held: &HeldCall, socket: &Socket, output: &mut Output<'_>) -> Result<(), CliError> {
    let user = nix::unistd::geteuid().as_raw();
    let (server, tool) = (held.identity.server.as_str(), held.tool.as_str());
    if Suppression::is_pattern(server) || Suppression::is_pattern(tool) {
        let error = anyhow!("the name of the tool or its server would stand for other names in a rule, too");
        return Err(CliError::new(ErrorKind::Refused, error)
            .with_hint("allow it with --once or --session, or write the rule by hand"));
    }
    let (loaded, search) = question::policy(socket, output)?;
    let is_answerable = |rule: &str| {
        let mut layers = loaded.policy.rules.layers();
        layers.any(|rules| rules.calls.iter().any(|known| known.id == rule))
    };
    let unanswerable = held
        .rules()
        .find(|rule| *rule != "defaults" && !is_answerable(rule));
    if let Some(rule) = unanswerable {
        let error = anyhow!(
            "what asks is `{}`, and no rule over calls answers that",
            text::escape(rule)
        );
        let hint = match rule.as_str() {
            "new_tool" => format!(
                "accept the tool with `mcpmon approve {}`",
                text::escape(&held.subject())
            ),
            rule => format!(
                "change it in the configuration: see `mcpmon policy explain {}`",
                text::escape(rule)
            ),
        };
        return Err(CliError::new(ErrorKind::Refused, error).with_hint(hint));
    }
    let wanted = AllowedCall {
        id: format!("allowed-{}", held.id),
        server: server.to_owned(),
        tool: tool.to_owned(),
        reason: format!("allowed by user {user} when it was asked about"),
    };
    let by_hand = format!("mcp:\n  rules:\n    - {wanted}");
    let edit = AcceptEdit::allowing(&loaded, search.new_file(), &wanted)
        .map_err(|error| CliError::new(ErrorKind::Usage, error))?;
    let Some(edit) = edit else {
        let error = anyhow!(
            "no program can add this to the configuration ({})",
            question::sources(&loaded)
        );
        return Err(CliError::new(ErrorKind::Refused, error).with_hint(format!("add it by hand:\n{by_hand}")));
    };
    setup::write_policy(&edit.path, edit.before.as_deref(), &edit.after, user).map_err(|error| {
        let path = edit.path.display();
        CliError::new(ErrorKind::Environment, error).with_hint(format!(
            "whoever may change {path} runs the command, or adds by hand:\n{by_hand}"
        ))
    })?;
    let path = edit.path.display();
    Ok(output.note(&format!("rule {} in {path} allows it from now on", wanted.id))?)
}

/// Returns all of a held call, as lines that are safe to show.
pub(super) fn shown(id: &str, reader: &StoreReader, now: Timestamp) -> Result<Vec<String>, CliError> {
    Ok(lines(&find(reader, digits(id)?, now)?, now))
}

/// Prints all of a held call.
pub(in crate::cli) fn show(
    id: &str,
    reader: &StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let held = find(reader, digits(id)?, now)?;
    match output.form {
        Form::Json => output.json(&object(&held, now))?,
        Form::Table => output.safe(&lines(&held, now))?,
    }
    Ok(output.flush()?)
}

/// Returns the call as a JSON object.
pub(super) fn object(held: &HeldCall, now: Timestamp) -> Map<String, Value> {
    let object = json!({
        "id": held.id,
        "server_id": held.identity.server.as_str(),
        "session_id": held.session.as_ref().map(|session| session.as_str()),
        "uid": held.identity.uid,
        "tool_name": held.tool,
        "arguments": held.arguments,
        "arguments_sha256": held.arguments_hash.to_string(),
        "rule": held.rule,
        "other_rules": held.other_rules,
        "reason": held.reason,
        "since": rfc3339(held.since),
        "expires": rfc3339(held.expires),
        "left_ms": left_milliseconds(held, now),
    });
    let Value::Object(object) = object else {
        unreachable!("an object was written");
    };
    object
}

/// Returns the time that is left for an answer.
pub(super) fn left(held: &HeldCall, now: Timestamp) -> String {
    time::span(left_milliseconds(held, now))
}

fn left_milliseconds(held: &HeldCall, now: Timestamp) -> u64 {
    u64::try_from(held.expires.0.saturating_sub(now.0) / 1_000_000).unwrap_or(0)
}

/// Returns all of a call, as lines that are safe to show. The arguments are JSON, whose escapes are kept.
fn lines(held: &HeldCall, now: Timestamp) -> Vec<String> {
    let session = held.session.as_ref().map_or("", |session| session.as_str());
    let rules: Vec<&str> = held.rules().map(String::as_str).collect();
    let rules = rules.join(", ");
    let fields = [
        ("Call", held.id.as_str()),
        ("Server", held.identity.server.as_str()),
        ("Session", session),
        ("Tool", held.tool.as_str()),
        ("Rule", rules.as_str()),
        ("Reason", held.reason.as_str()),
    ];
    let mut lines: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}: {}", text::escape(value)))
        .collect();
    lines.push(format!(
        "Waits since {} UTC, for another {}",
        time::short(held.since),
        left(held, now)
    ));
    lines.push(format!("Arguments ({}):", held.arguments_hash));
    let pretty = serde_json::from_str::<Value>(&held.arguments).ok();
    // Numbers that this program cannot represent would change: then the arguments are shown as they were written.
    let is_same = |value: &Value| value.to_string().len() == held.arguments.len();
    let pretty = pretty
        .filter(is_same)
        .and_then(|value| serde_json::to_string_pretty(&value).ok());
    let shown = pretty.as_deref().unwrap_or(&held.arguments);
    lines.extend(shown.lines().map(|line| format!("  {}", text::escape_json(line))));
    lines.push(String::new());
    lines.push(format!(
        "mcpmon approvals allow {0} [--once|--session|--rule], or mcpmon approvals deny {0}",
        held.id
    ));
    lines
}

//! The servers of one file, for a person or a script.

use mcpmon_clients::{FileReport, FileTrouble, PlanOutcome, PlannedServer, SetupEffect};
use mcpmon_detect::mask::{mask_arguments, mask_text};
use serde_json::{Map, Value, json};

use super::is_changed;
use crate::cli::text;

/// Returns the changed servers in the form of a file difference, without recognised secrets. Returns nothing for a file
/// that is not changed.
pub(super) fn difference(report: &FileReport) -> String {
    if !is_changed(report) {
        return String::new();
    }
    let mut lines = Vec::new();
    for server in report.servers.iter().filter(|server| server.outcome.changes()) {
        if lines.is_empty() {
            let path = report.path.display().to_string();
            let path = text::escape(&path);
            lines.extend([format!("--- {path}"), format!("+++ {path}")]);
        }
        let name = server.path.join(".");
        lines.push(format!("@@ line {}: {} @@", server.line, text::escape(&name)));
        let url = server.url.as_deref();
        lines.extend(start(&server.before, url).iter().map(|line| format!("-{line}")));
        lines.extend(start(&server.after, url).iter().map(|line| format!("+{line}")));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns a command line as members, or the URL if there is no command, made safe to show.
fn start(words: &[String], url: Option<&str>) -> Vec<String> {
    if let (true, Some(url)) = (words.is_empty(), url) {
        let member = format!("\"url\": {}", json!(mask_text(url)));
        return vec![text::escape_json(&member).into_owned()];
    }
    let literals: Vec<_> = mask_arguments(words)
        .iter()
        .map(|word| json!(word).to_string())
        .collect();
    let (command, arguments) = literals
        .split_first()
        .map_or(("null", &[][..]), |(command, arguments)| {
            (command.as_str(), arguments)
        });
    let mut members = vec![format!("\"command\": {command}")];
    if !arguments.is_empty() {
        members.push(format!("\"args\": [{}]", arguments.join(", ")));
    }
    members
        .iter()
        .map(|member| text::escape_json(member).into_owned())
        .collect()
}

pub(super) fn objects(report: &FileReport, effect: SetupEffect) -> Vec<Map<String, Value>> {
    let about = |rest: Value| {
        let mut object = Map::new();
        object.insert("client".to_owned(), json!(report.client.id));
        object.insert("file".to_owned(), json!(report.path));
        object.extend(rest.as_object().cloned().unwrap_or_default());
        object
    };
    let done = effect == SetupEffect::Write && report.trouble.is_none();
    let mut objects: Vec<_> = report
        .servers
        .iter()
        .map(|server| {
            about(json!({
                "server": server.path.last(),
                "path": server.path,
                "line": server.line,
                "action": action(server.outcome),
                "done": done && server.outcome.changes(),
                "reason": reason(server.outcome),
                "url": server.url.as_deref().map(mask_text),
                "before": mask_arguments(&server.before),
                "after": mask_arguments(&server.after),
                "backup": report.backup,
            }))
        })
        .collect();
    if let Some(trouble) = &report.trouble {
        let place = match trouble {
            FileTrouble::Malformed(mistake) => Some((mistake.line, mistake.column)),
            FileTrouble::File(_) | FileTrouble::Ledger(_) | FileTrouble::Unclear(_) | FileTrouble::Unsure => {
                None
            }
        };
        objects.push(about(json!({
            "error": told(trouble),
            "line": place.map(|(line, _)| line),
            "column": place.map(|(_, column)| column),
        })));
    }
    objects
}

const fn action(outcome: PlanOutcome) -> &'static str {
    match outcome {
        PlanOutcome::Wrap => "wrap",
        PlanOutcome::Update => "update",
        PlanOutcome::Unwrap => "unwrap",
        PlanOutcome::Wrapped
        | PlanOutcome::ByHand
        | PlanOutcome::Bare
        | PlanOutcome::Remote
        | PlanOutcome::Unclear(_) => "none",
    }
}

/// Returns the reason why a server is left alone.
const fn reason(outcome: PlanOutcome) -> Option<&'static str> {
    match outcome {
        PlanOutcome::Wrap | PlanOutcome::Update | PlanOutcome::Unwrap => None,
        PlanOutcome::Wrapped => Some("wrapped already"),
        PlanOutcome::ByHand => Some("wrapped by hand, and left alone"),
        PlanOutcome::Bare => Some("not wrapped"),
        PlanOutcome::Remote => {
            Some("not wrapped: it is remote; `mcpmon setup --remote` lets mcpmon speak to it")
        }
        PlanOutcome::Unclear(reason) => Some(reason),
    }
}

/// Returns the notes on a file besides the difference.
pub(super) fn notes(report: &FileReport, effect: SetupEffect) -> Vec<String> {
    let path = report.path.display();
    if let Some(trouble) = &report.trouble {
        let place = match trouble {
            FileTrouble::Malformed(_) => ":",
            FileTrouble::File(_) | FileTrouble::Ledger(_) | FileTrouble::Unclear(_) | FileTrouble::Unsure => {
                ": "
            }
        };
        return vec![format!("{path}{place}{}; it is left as it is", told(trouble))];
    }
    let mut notes = vec![format!(
        "{}: {path}: {}",
        report.client.name,
        sum(&report.servers, effect)
    )];
    for server in &report.servers {
        if let (PlanOutcome::ByHand | PlanOutcome::Remote | PlanOutcome::Unclear(_), Some(reason)) =
            (server.outcome, reason(server.outcome))
        {
            notes.push(format!("  {}: {reason}", server.path.join(".")));
        }
    }
    if is_changed(report) && effect == SetupEffect::Write {
        match (&report.backup, report.restored) {
            (_, true) => notes.push("  it is byte for byte what it was".to_owned()),
            (Some(backup), false) => notes.push(format!("  a copy from before is {}", backup.display())),
            (None, false) => {}
        }
        notes.push(format!("  restart {} to make it hold", report.client.name));
    }
    notes
}

/// Counts servers by outcome: `2 wrapped, 1 wrapped already`.
fn sum(servers: &[PlannedServer], effect: SetupEffect) -> String {
    let count =
        |wanted: fn(PlanOutcome) -> bool| servers.iter().filter(|server| wanted(server.outcome)).count();
    let would = match effect {
        SetupEffect::Write => "",
        SetupEffect::Preview => "to be ",
    };
    let parts = [
        (
            count(|outcome| outcome == PlanOutcome::Wrap),
            format!("{would}wrapped"),
        ),
        (
            count(|outcome| outcome == PlanOutcome::Update),
            format!("{would}pointed to this mcpmon"),
        ),
        (
            count(|outcome| outcome == PlanOutcome::Unwrap),
            format!("{would}unwrapped"),
        ),
        (
            count(|outcome| outcome == PlanOutcome::Wrapped),
            "wrapped already".to_owned(),
        ),
        (
            count(|outcome| outcome == PlanOutcome::ByHand),
            "wrapped by hand".to_owned(),
        ),
        (
            count(|outcome| outcome == PlanOutcome::Bare),
            "not wrapped".to_owned(),
        ),
        (
            count(|outcome| outcome == PlanOutcome::Remote),
            "remote".to_owned(),
        ),
        (
            count(|outcome| matches!(outcome, PlanOutcome::Unclear(_))),
            "unclear".to_owned(),
        ),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn told(trouble: &FileTrouble) -> String {
    let mut text = trouble.to_string();
    let mut cause = std::error::Error::source(trouble);
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    text
}

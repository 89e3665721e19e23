//! `mcpmon explain`: shows a whole event, the rule that decided, and the way to allow it.

use clap::Args;
use jiff::civil::Date;
use mcpmon_config::{LoadedConfiguration, Outline};
use mcpmon_model::{Action, Timestamp};
use mcpmon_store::{StoreReader, StoredEvent, json as form};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    apply::apply,
    policy::{RuleKeys, rule_keys},
};
use crate::cli::{
    CliError, Globals, Output, daemon::Socket, listing, output::Form, question, summary::summary, time,
};

/// Characters of one value of the evidence.
const MAX_VALUE: usize = 400;
/// Elements of one list of the evidence.
const MAX_ELEMENTS: usize = 20;

/// Say why something was refused or noted: the rule, the evidence, and what would allow it
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The event's id, as a refusal or `mcpmon events --json` names it
    #[arg(value_name = "ID")]
    id: Uuid,
    /// Carry out the command that would allow it: the definition, or what was found, is accepted
    #[arg(long)]
    apply: bool,
    /// The last day on which what was found is accepted, UTC, such as 2027-01-31
    #[arg(long, value_name = "DATE", requires = "apply", value_parser = time::last_day)]
    until: Option<Date>,
    #[command(flatten)]
    socket: Socket,
}

pub(in crate::cli) fn run(
    options: &Options,
    reader: &StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let event = listing::named(reader, options.id)?;
    let (loaded, rule) = policy_of(&event, &options.socket, output)?;
    match output.form {
        Form::Json => output.json(&object(&event, rule.as_ref(), &loaded))?,
        Form::Table => output.text(&page(&event, rule.as_ref(), &loaded))?,
    }
    output.flush()?;
    match options.apply {
        true => apply(
            &event,
            remedy(&event),
            options.until,
            &options.socket,
            now,
            output,
        ),
        false => Ok(()),
    }
}

/// Returns all of an event with its rule and remedy, as lines that are not escaped yet; notes come first.
pub(super) fn explained(
    id: Uuid,
    reader: &StoreReader,
    globals: &Globals,
    socket: &Socket,
) -> Result<Vec<String>, CliError> {
    let event = listing::named(reader, id)?;
    let (mut data, mut notes) = (Vec::new(), Vec::new());
    let mut output = Output::new(&mut data, &mut notes, globals);
    let (loaded, rule) = policy_of(&event, socket, &mut output)?;
    let notes = String::from_utf8_lossy(&notes).into_owned();
    let mut lines: Vec<String> = notes.lines().map(str::to_owned).collect();
    lines.extend(page(&event, rule.as_ref(), &loaded));
    Ok(lines)
}

/// Returns the policy in force, and the keys of the rule in the event.
fn policy_of(
    event: &StoredEvent,
    socket: &Socket,
    output: &mut Output<'_>,
) -> Result<(LoadedConfiguration, Option<RuleKeys>), CliError> {
    let (loaded, _) = question::policy(socket, output)?;
    let rule = event.rule.as_deref();
    let rule = rule.map(|rule| rule_keys(rule, &Outline::of(&loaded)));
    Ok((loaded, rule))
}

/// Returns the command in the event with which a person can allow the use, or get more information.
fn remedy(event: &StoredEvent) -> Option<&str> {
    event.data.get("remedy")?.as_str()
}

/// Returns the fields of the event's type.
fn evidence(event: &StoredEvent) -> impl Iterator<Item = (&String, &Value)> {
    event.data.iter().filter(|(name, _)| *name != "remedy")
}

fn object(event: &StoredEvent, rule: Option<&RuleKeys>, loaded: &LoadedConfiguration) -> Map<String, Value> {
    let keys = |rule: &RuleKeys| -> Vec<Value> {
        let key =
            |(key, value, place): (&str, &str, &str)| json!({"key": key, "value": value, "place": place});
        rule.keys().map(key).collect()
    };
    let mut object = Map::new();
    object.insert("event".to_owned(), form::to_json(event).into());
    object.insert(
        "rule".to_owned(),
        event.rule.as_ref().map_or(Value::Null, |name| {
            json!({
                "name": name,
                "what": rule.and_then(|rule| rule.what.as_ref()),
                "keys": rule.map(keys),
            })
        }),
    );
    let evidence: Map<String, Value> = evidence(event)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    object.insert("evidence".to_owned(), evidence.into());
    object.insert("remedy".to_owned(), json!(remedy(event)));
    object.insert("policy".to_owned(), question::sources(loaded).into());
    object
}

fn page(event: &StoredEvent, rule: Option<&RuleKeys>, loaded: &LoadedConfiguration) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{}: {}",
            done(event.action),
            event.reason.clone().unwrap_or_else(|| summary(event))
        ),
        format!(
            "  event: {} of {} UTC, {}",
            event.id,
            time::short(event.timestamp),
            event.kind
        ),
        format!("  severity: {}", event.severity.as_str()),
    ];
    for (name, value) in [("server", &event.server_id), ("session", &event.session_id)] {
        lines.extend(value.as_ref().map(|value| format!("  {name}: {value}")));
    }
    if let Some(process) = &event.process {
        let comm = process.comm.as_deref().unwrap_or_default();
        lines.push(format!("  process: {} {comm}", process.pid));
    }
    let mut evidence = evidence(event).peekable();
    if evidence.peek().is_some() {
        lines.extend([String::new(), "Evidence:".to_owned()]);
        evidence.for_each(|(name, value)| field(name, value, 2, &mut lines));
    }
    lines.push(String::new());
    match (&event.rule, rule) {
        (Some(name), rule) => {
            let what = rule.and_then(|rule| rule.what.as_ref());
            lines.push(format!(
                "Rule: {name}{}",
                what.map_or_else(String::new, |what| format!(": {what}"))
            ));
        }
        (None, _) => lines.push("Rule: none".to_owned()),
    }
    let is_refusal = matches!(
        event.action,
        Action::Block | Action::WouldBlock | Action::WouldAsk
    );
    let mut keys = rule.into_iter().flat_map(RuleKeys::lines).peekable();
    let remedy = remedy(event);
    if is_refusal && (remedy.is_some() || keys.peek().is_some()) {
        lines.extend([String::new(), "What would allow it, or shows more:".to_owned()]);
        lines.extend(remedy.map(|remedy| format!("  {remedy}")));
        if keys.peek().is_some() {
            lines.push(format!(
                "  another value of (policy: {}):",
                question::sources(loaded)
            ));
        }
    }
    lines.extend(keys.map(|line| format!("    {}", line.trim_start())));
    lines
}

const fn done(action: Action) -> &'static str {
    match action {
        Action::Allow => "allowed",
        Action::Audit => "noted",
        Action::WouldAsk => "would wait for a person's answer",
        Action::WouldBlock => "would be blocked",
        Action::Block => "blocked",
    }
}

/// Adds a field of the evidence, with all nested values.
fn field(name: &str, value: &Value, indent: usize, lines: &mut Vec<String>) {
    let gap = " ".repeat(indent);
    match value {
        Value::Object(fields) => {
            lines.push(format!("{gap}{name}:"));
            fields
                .iter()
                .for_each(|(name, value)| field(name, value, indent + 2, lines));
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            lines.push(format!("{gap}{name}:"));
            for (number, item) in (1..).zip(items).take(MAX_ELEMENTS) {
                field(&number.to_string(), item, indent + 2, lines);
            }
            let more = items.len().saturating_sub(MAX_ELEMENTS);
            if more > 0 {
                lines.push(format!("{gap}  and {more} more: --json shows them"));
            }
        }
        Value::String(text) => lines.push(format!("{gap}{name}: {}", cut(text))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            lines.push(format!("{gap}{name}: {}", cut(&value.to_string())));
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use insta::assert_snapshot;
    use mcpmon_model::Event;
    use mcpmon_store::{new_event_id, sample};

    use super::*;
    use crate::cli::{commands::scene, store};

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    const POLICY: &str = "version: 1\nmcp:\n  blocked_tools: [read_file]\n";

    fn blocked() -> Event {
        let mut event = sample::called("read_file", 1);
        event.action = Action::Block;
        event.rule = Some("blocked_tools".to_owned());
        event.reason = Some("tool read_file of files is blocked (`mcp.blocked_tools`)".to_owned());
        event.remedy = Some("mcpmon policy explain blocked_tools".to_owned());
        event
    }

    fn explained(event: Option<Event>, asked: Uuid, form: Form) -> String {
        let line = ["explain".to_owned(), asked.to_string()];
        let options = CommandLine::try_parse_from(line).expect("a command line").options;
        scene::shown_under(POLICY, Vec::new(), event.into_iter().collect(), form, |output| {
            let reader = store::open(output.globals)?;
            run(&options, &reader, Timestamp(0), output).map(|()| 0)
        })
        .replace(&asked.to_string(), "ID")
    }

    fn recorded(mut event: Event) -> (Event, Uuid) {
        let id = new_event_id(event.timestamp);
        event.id = Some(id);
        (event, Uuid::from_bytes(id.0))
    }

    #[test]
    fn a_refusal_with_its_rule_and_what_would_allow_it() {
        let (event, id) = recorded(blocked());
        assert_snapshot!(explained(Some(event), id, Form::Table));
    }

    #[test]
    fn the_same_as_json() {
        let (event, id) = recorded(blocked());
        assert_snapshot!(explained(Some(event), id, Form::Json));
    }

    #[test]
    fn an_id_that_nothing_has_is_said_to_be_that() {
        let (_, other) = recorded(blocked());
        let (event, _) = recorded(blocked());
        let told = explained(Some(event), other, Form::Table);
        assert!(
            told.contains("no event ID") && told.contains("imitates"),
            "{told}"
        );
        assert!(told.ends_with("ExitCode(unix_exit_status(1))"), "{told}");
    }
}

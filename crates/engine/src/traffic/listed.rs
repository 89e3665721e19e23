//! Events about listed definitions: seen, changed, renamed, found, left out.

use std::borrow::Cow;

use mcpmon_model::{
    Action, Definition, DefinitionKind, DefinitionRecord, DefinitionStatus, Denial, Event, EventKind,
    Finding, InspectionSubject, RawJson, Severity,
};
use mcpmon_policy::Policy;

use super::{
    sieve,
    tell::{Teller, cut, ruled},
};
use crate::{
    apps,
    definitions::{DefinitionEntry, PinStanding, Sight, SightReport},
    rules::Ruling,
    wording::{command, shown},
};

/// Longest text of a description in an event, bytes.
const MAX_DESCRIPTION: usize = 4 << 10;

/// Builds the events about one item: that it was listed, how it changed, and what was found.
pub(super) fn tell(
    teller: &Teller<'_>,
    policy: &Policy,
    entry: &DefinitionEntry,
    sight: &Sight,
    change: Option<(&Definition, &Definition)>,
    ruling: &Ruling,
    events: &mut Vec<Event>,
) {
    let findings: Vec<Finding> = entry.findings(teller.now, policy).cloned().collect();
    let mut told = listed(teller, entry, sight, findings.clone());
    ruled(&mut told, ruling);
    events.push(told);
    if let Some((before, new)) = change {
        let mut told = teller.event(EventKind::ToolChanged {
            definition: entry.record.key.kind,
            tool_name: entry.record.key.name.clone(),
            previous_hash: before.hash,
            new_hash: Some(new.hash),
            changes: before.changes(new),
            renamed_from: None,
            detections: findings.clone(),
        });
        told.severity = Severity::Medium;
        ruled(&mut told, ruling);
        events.push(told);
    }
    if sight.is_read() {
        let subject = subject(entry.record.key.kind);
        let name = Some(entry.record.key.name.as_str()).filter(|name| !name.is_empty());
        let action = |finding: &Finding| match &ruling.block {
            Some(_) => Action::Block,
            None if finding.severity >= policy.inspection.alert_threshold => Action::Audit,
            None => Action::Allow,
        };
        let found = findings.iter().take(sieve::MAX_REPORTED);
        events.extend(
            found.map(|finding| teller.detection(subject, name, finding, action(finding), ruling.told())),
        );
    }
}

/// Returns the content of the report about one item.
pub(super) fn report(
    teller: &Teller<'_>,
    policy: &Policy,
    entry: &DefinitionEntry,
    sight: &Sight,
    ruling: &Ruling,
) -> SightReport {
    let listed = match sight {
        Sight::Contradicted(other) => other,
        Sight::Same
        | Sight::New
        | Sight::Unchanged
        | Sight::Changed(_)
        | Sight::Repeated
        | Sight::Refused(_) => &entry.record.seen,
    };
    let objection = ruling.told();
    let findings = entry.findings(teller.now, policy);
    SightReport {
        session: teller.conversation.session.clone(),
        hash: listed.hash,
        action: objection.map_or(Action::Allow, |objection| objection.effect.action()),
        rule: objection.map(|objection| objection.rule.clone().into_owned()),
        patterns: findings
            .map(|finding| (finding.pattern.clone(), finding.severity))
            .collect(),
    }
}

/// Builds the event that something was listed.
fn listed(teller: &Teller<'_>, entry: &DefinitionEntry, sight: &Sight, findings: Vec<Finding>) -> Event {
    let record = &entry.record;
    let status = match (sight, entry.standing.pin) {
        (Sight::New, _) => DefinitionStatus::New,
        (Sight::Changed(_) | Sight::Contradicted(_), _) | (_, PinStanding::Changed) => {
            DefinitionStatus::Changed
        }
        (Sight::Same | Sight::Unchanged | Sight::Repeated | Sight::Refused(_), _) => {
            DefinitionStatus::Unchanged
        }
    };
    let description = if sight.is_read() {
        description(record)
    } else {
        None
    };
    let mut event = teller.event(EventKind::ToolSeen {
        definition: record.key.kind,
        tool_name: record.key.name.clone(),
        tool_hash: record.seen.hash,
        server_type: teller.conversation.server_type,
        description,
        status,
        max_severity: findings.iter().map(|finding| finding.severity).max(),
        detections: findings,
    });
    if matches!(sight, Sight::Repeated) {
        event.action = Action::Audit;
        event.severity = Severity::Low;
        event.rule = Some("duplicate_name".to_owned());
        event.reason = Some(format!(
            "{} was listed twice at once, both times the same",
            shown(&record.key.name)
        ));
    }
    event
}

/// Returns the description in a definition.
fn description(record: &DefinitionRecord) -> Option<String> {
    let text = match record.key.kind {
        DefinitionKind::Instructions => RawJson::trusted(&record.seen.canonical).text(),
        DefinitionKind::Tool
        | DefinitionKind::Prompt
        | DefinitionKind::Resource
        | DefinitionKind::Template => record.seen.text_of("description"),
        DefinitionKind::Skill => RawJson::trusted(&record.seen.canonical)
            .member("frontmatter")
            .and_then(|frontmatter| frontmatter.member("description")?.text()),
        DefinitionKind::App => apps::demands(&record.seen).map(Cow::Owned),
    };
    text.map(|text| cut(&text, MAX_DESCRIPTION).to_owned())
}

/// Builds the event that a definition was renamed.
pub(super) fn renaming(teller: &Teller<'_>, entry: &DefinitionEntry, before: &DefinitionEntry) -> Event {
    let old = &before.record;
    let mut event = teller.event(EventKind::ToolChanged {
        definition: entry.record.key.kind,
        tool_name: entry.record.key.name.clone(),
        previous_hash: old.seen.hash,
        new_hash: Some(entry.record.seen.hash),
        changes: old.seen.changes(&entry.record.seen),
        renamed_from: Some(old.key.name.clone()),
        detections: Vec::new(),
    });
    event.action = Action::Audit;
    event.severity = Severity::Medium;
    event.rule = Some("version_pin".to_owned());
    event.reason = Some(format!(
        "{} is what {} was",
        shown(&entry.record.key.name),
        shown(&old.key.name)
    ));
    event
}

/// Builds the event that a definition is no longer listed. There is none for resources, which come and go with the
/// files or data behind them.
pub(super) fn vanished(teller: &Teller<'_>, entry: &DefinitionEntry) -> Option<Event> {
    let DefinitionRecord { key, seen, .. } = &entry.record;
    if key.kind == DefinitionKind::Resource {
        return None;
    }
    let mut event = teller.event(EventKind::ToolChanged {
        definition: key.kind,
        tool_name: key.name.clone(),
        previous_hash: seen.hash,
        new_hash: None,
        changes: Vec::new(),
        renamed_from: None,
        detections: Vec::new(),
    });
    event.action = Action::Audit;
    event.severity = Severity::Low;
    event.rule = Some("version_pin".to_owned());
    event.reason = Some(match key.name.as_str() {
        "" => format!("the {} are gone", key.kind.as_str()),
        name => format!("the {} {} is no longer listed", key.kind.as_str(), shown(name)),
    });
    Some(event)
}

/// Builds one event for all items that did not fit.
pub(super) fn refused(teller: &Teller<'_>, kind: DefinitionKind, sights: &[Sight]) -> Option<Event> {
    let mut refused = sights.iter().filter_map(|sight| match sight {
        Sight::Refused(full) => Some(full),
        Sight::Same
        | Sight::New
        | Sight::Unchanged
        | Sight::Changed(_)
        | Sight::Repeated
        | Sight::Contradicted(_) => None,
    });
    let cause = refused.next()?;
    let server = teller.conversation.identity.server.as_str();
    let denial = Denial {
        rule: "max_tools".to_owned(),
        reason: format!("{cause}"),
        remedy: Some(command(&["registry", "list", "--server", server])),
        event: None,
    };
    let summary = format!(
        "{} {}s of {server} are beyond what is inspected",
        refused.count() + 1,
        kind.as_str()
    );
    Some(teller.judged(&summary, "", Some((&denial, Action::Block, Severity::Medium))))
}

const fn subject(kind: DefinitionKind) -> InspectionSubject {
    match kind {
        DefinitionKind::Tool | DefinitionKind::Skill | DefinitionKind::App => InspectionSubject::Definition,
        DefinitionKind::Prompt => InspectionSubject::Prompt,
        DefinitionKind::Resource | DefinitionKind::Template => InspectionSubject::Resource,
        DefinitionKind::Instructions => InspectionSubject::Instructions,
    }
}

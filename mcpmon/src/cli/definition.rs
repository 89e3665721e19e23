//! Definitions in listings: their status, findings and names.

use mcpmon_model::{DefinitionKind, DefinitionRecord, Severity};
use mcpmon_store::{json, name};
use serde_json::{Map, Value};

use super::table::Tone;

/// The status of a definition, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusWord {
    /// It is pinned as it is listed.
    Pinned,
    /// It differs from its pin.
    Changed,
    /// The definition has no pin.
    New,
    /// The definition is left out of its list.
    Hidden,
}

impl StatusWord {
    pub(super) fn of(record: &DefinitionRecord) -> Self {
        if record.is_changed() {
            return Self::Changed;
        }
        match (record.hidden, &record.pinned) {
            (true, _) => Self::Hidden,
            (false, Some(_)) => Self::Pinned,
            (false, None) => Self::New,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Changed => "changed!",
            Self::New => "new",
            Self::Hidden => "hidden",
        }
    }

    pub(super) const fn tone(self) -> Tone {
        match self {
            Self::Pinned => Tone::Ordinary,
            Self::New => Tone::Notable,
            Self::Changed | Self::Hidden => Tone::Alarming,
        }
    }
}

/// Counts the findings: `1 high`, `2 critical, 1 low`, `none`.
pub(super) fn findings(record: &DefinitionRecord) -> String {
    let counts: Vec<String> = [
        Severity::Critical,
        Severity::High,
        Severity::Medium,
        Severity::Low,
        Severity::Info,
    ]
    .into_iter()
    .filter_map(|severity| {
        let count = record
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count();
        (count > 0).then(|| format!("{count} {}", severity.as_str()))
    })
    .collect();
    match counts.is_empty() {
        true => "none".to_owned(),
        false => counts.join(", "),
    }
}

/// Returns the highest severity of the findings.
pub(super) fn worst(record: &DefinitionRecord) -> Option<Severity> {
    record.findings.iter().map(|finding| finding.severity).max()
}

/// Returns the name of a tool; for other kinds, the kind and the name.
pub(super) fn shown_name(record: &DefinitionRecord) -> String {
    match record.key.kind {
        DefinitionKind::Tool => record.key.name.clone(),
        DefinitionKind::Instructions => "(instructions)".to_owned(),
        DefinitionKind::Prompt
        | DefinitionKind::Resource
        | DefinitionKind::Template
        | DefinitionKind::Skill
        | DefinitionKind::App => {
            format!("{} {}", name(&record.key.kind), record.key.name)
        }
    }
}

/// Returns the description as it was listed last.
pub(super) fn description(record: &DefinitionRecord) -> String {
    let definition: Option<Value> = serde_json::from_str(&record.seen.canonical).ok();
    match definition {
        Some(Value::String(instructions)) => instructions,
        Some(definition) => {
            let own = definition["description"].as_str();
            // A skill has its description in the frontmatter.
            let text = own.or_else(|| definition["frontmatter"]["description"].as_str());
            text.unwrap_or_default().to_owned()
        }
        None => String::new(),
    }
}

/// Returns all of a definition as a JSON object.
pub(super) fn object(record: &DefinitionRecord) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        object.insert(name.to_owned(), value);
    };
    let identity = &record.key.identity;
    put("server_id", identity.server.to_string().into());
    put("name", identity.name.clone().into());
    put("uid", identity.uid.into());
    put("kind", name(&record.key.kind).into());
    put("tool_name", record.key.name.clone().into());
    put(
        "status",
        StatusWord::of(record).as_str().trim_end_matches('!').into(),
    );
    put("tool_hash", record.seen.hash.to_string().into());
    if let Some(pinned) = &record.pinned {
        put("pinned_hash", pinned.hash.to_string().into());
    }
    if let Some(by) = &record.approved_by {
        put("approved_by", by.clone().into());
    }
    put("hidden", record.hidden.into());
    put("first_seen", json::rfc3339(record.first_seen).into());
    put("last_seen", json::rfc3339(record.last_seen).into());
    put(
        "detections",
        serde_json::to_value(&*record.findings).expect("findings are plain values"),
    );
    if let Ok(definition) = serde_json::from_str::<Value>(&record.seen.canonical) {
        put("definition", definition);
    }
    object
}

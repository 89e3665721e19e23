//! The result of a scan as JSON: an object for each server, each skill and each finding.

use mcpmon_model::Digest;
use serde_json::{Map, Value, json};

use crate::app::scan::{
    Definitions, Scan, ScanFinding, ScannedFile, ScannedServer, ScannedSkill, SkillState, skill_id,
};

/// Returns every object, files first.
pub(super) fn all(scanned: &Scan) -> Vec<Map<String, Value>> {
    let mut objects = Vec::new();
    for file in &scanned.files {
        objects.extend(file.findings.iter().map(|found| {
            let mut object = finding(found, "");
            object.insert("client".to_owned(), file.client.id.as_str().into());
            object
        }));
        for server in &file.servers {
            objects.push(server_object(file, server));
            objects.extend(server.findings.iter().map(|found| {
                let mut object = finding(found, server.configured.id.as_str());
                object.insert("client".to_owned(), file.client.id.as_str().into());
                object.insert("server_id".to_owned(), server.configured.id.as_str().into());
                object
            }));
        }
    }
    for skill in &scanned.skills {
        objects.push(skill_object(skill));
        objects.extend(skill.findings.iter().map(|found| {
            let mut object = finding(found, skill_id(&skill.name).as_str());
            object.insert("skill".to_owned(), skill.name.as_str().into());
            object
        }));
    }
    objects
}

fn server_object(file: &ScannedFile, server: &ScannedServer) -> Map<String, Value> {
    let configured = &server.configured;
    let (source, definitions, fault) = match &server.definitions {
        Definitions::Unknown => ("unknown", Value::Null, None),
        Definitions::Registry(count) => ("registry", (*count).into(), None),
        Definitions::Listed(count) => ("listed", (*count).into(), None),
        Definitions::Failed(fault) => ("failed", Value::Null, Some(fault)),
    };
    object(json!({
        "type": "server",
        "client": file.client.id,
        "file": file.path.display().to_string(),
        "line": configured.place.line,
        "column": configured.place.column,
        "server_id": configured.id.as_str(),
        "name": configured.name(),
        "wrapped": configured.is_wrapped,
        "source": source,
        "definitions": definitions,
        "fault": fault,
        "started": server.started.map(|started| json!({
            "sandbox": started.has_sandbox,
            "network": started.has_network,
        })),
        "tools": server.tools,
    }))
}

fn skill_object(skill: &ScannedSkill) -> Map<String, Value> {
    let clients: Vec<&str> = skill.clients.iter().map(|client| client.id.as_str()).collect();
    let (state, changes) = match &skill.state {
        SkillState::New => ("new", &[][..]),
        SkillState::Unchanged => ("unchanged", &[][..]),
        SkillState::Changed(changes) => ("changed", changes.as_slice()),
    };
    object(json!({
        "type": "skill",
        "clients": clients,
        "path": skill.path.display().to_string(),
        "skill": skill.name,
        "sha256": skill.digest.to_string(),
        "state": state,
        "changes": changes,
    }))
}

fn finding(found: &ScanFinding, subject: &str) -> Map<String, Value> {
    let finding = &found.finding;
    let mut object = object(json!({
        "type": "finding",
        "rule": finding.rule,
        "pattern": finding.name,
        "severity": finding.severity.as_str(),
        "file": found.file.display().to_string(),
    }));
    if let Some(place) = finding.place {
        object.insert("line".to_owned(), place.line.into());
        object.insert("column".to_owned(), place.column.into());
    }
    if !found.item.is_empty() {
        object.insert("item".to_owned(), found.item.as_str().into());
    }
    object.insert("message".to_owned(), finding.message.as_str().into());
    object.insert("accepted".to_owned(), found.is_accepted.into());
    object.insert("fingerprint".to_owned(), fingerprint(found, subject).into());
    object
}

/// Returns an identifier of a finding that stays the same when lines move.
pub(super) fn fingerprint(found: &ScanFinding, subject: &str) -> String {
    let file = found.file.to_string_lossy();
    let finding = &found.finding;
    let parts = [
        finding.rule.as_str(),
        subject,
        &found.item,
        &file,
        &finding.message,
    ];
    let text = serde_json::to_string(&parts).expect("texts are plain values");
    Digest::of(text.as_bytes()).short(32)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

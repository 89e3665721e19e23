//! The result of a scan as SARIF 2.1.0, which code scanning reads.

use std::{collections::BTreeMap, env, path::Path};

use mcpmon_detect::{instructions, inventory};
use mcpmon_model::Severity;
use serde_json::{Value, json};
use url::Url;

use super::objects::fingerprint;
use crate::app::scan::{Scan, ScanFinding, skill_id};

/// The schema of the format.
const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// The base of paths below the current directory.
const BASE: &str = "SRCROOT";
/// The name and version of the fingerprint.
const FINGERPRINT: &str = "mcpmon/v1";
/// The address of the project's repository, which has a page for each rule; empty if the repository is not public.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Returns the log of one run.
pub(super) fn log(scanned: &Scan) -> Value {
    let root = env::current_dir()
        .ok()
        .and_then(|path| Url::from_directory_path(path).ok());
    let found: Vec<(String, &ScanFinding)> = findings(scanned);
    let mut rules: BTreeMap<&str, &ScanFinding> = BTreeMap::new();
    for (_, finding) in &found {
        rules.entry(&finding.finding.rule).or_insert(finding);
    }
    let indexes: BTreeMap<&str, usize> = rules.keys().enumerate().map(|(index, id)| (*id, index)).collect();
    let results: Vec<Value> = found
        .iter()
        .map(|(subject, finding)| {
            result(
                finding,
                subject,
                root.as_ref(),
                indexes[finding.finding.rule.as_str()],
            )
        })
        .collect();
    let mut run = json!({
        "tool": {"driver": {
            "name": "mcpmon",
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": rules.iter().map(|(id, finding)| rule(id, finding)).collect::<Vec<_>>(),
        }},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": true}],
        "results": results,
    });
    if let Some(root) = &root {
        run["originalUriBaseIds"] = json!({BASE: {"uri": root.as_str()}});
    }
    json!({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})
}

/// Returns every finding with the server or skill that it belongs to.
fn findings(scanned: &Scan) -> Vec<(String, &ScanFinding)> {
    let of_files = scanned.files.iter().flat_map(|file| {
        let of_file = file.findings.iter().map(|finding| (String::new(), finding));
        let of_servers = file.servers.iter().flat_map(|server| {
            let id = server.configured.id.to_string();
            server.findings.iter().map(move |finding| (id.clone(), finding))
        });
        of_file.chain(of_servers)
    });
    let of_skills = scanned.skills.iter().flat_map(|skill| {
        let id = skill_id(&skill.name).to_string();
        skill.findings.iter().map(move |finding| (id.clone(), finding))
    });
    of_files.chain(of_skills).collect()
}

fn rule(id: &str, finding: &ScanFinding) -> Value {
    let of_texts = instructions::rules().find(|rule| rule.id == id);
    let (short, full, help, severity) = match (inventory::rule(id), of_texts) {
        (Some(rule), _) => (
            rule.title.as_str(),
            rule.why.as_str(),
            rule.remedy.as_str(),
            rule.severity,
        ),
        (None, Some(rule)) => (
            rule.name.as_str(),
            "A text that models read turns against their user.",
            "Look at the text, and remove what should not be there.",
            finding.finding.severity,
        ),
        (None, None) => (
            finding.finding.name.as_str(),
            "A text that models read holds what a person does not see, or a secret.",
            "Look at the text, and remove what should not be there.",
            finding.finding.severity,
        ),
    };
    let page = match inventory::rule(id).is_some() || of_texts.is_some() {
        true => format!("docs/rules/{id}.md"),
        false => "docs/detection.md".to_owned(),
    };
    let mut rule = json!({
        "id": id,
        "shortDescription": {"text": short},
        "fullDescription": {"text": full},
        "help": {"text": format!("{help} See {page}.")},
        "defaultConfiguration": {"level": level(severity)},
        "properties": {"tags": ["security"], "security-severity": score(severity)},
    });
    if !REPOSITORY.is_empty() {
        rule["helpUri"] = format!("{REPOSITORY}/blob/main/{page}").into();
    }
    rule
}

fn result(found: &ScanFinding, subject: &str, root: Option<&Url>, index: usize) -> Value {
    let finding = &found.finding;
    let mut location = json!({"artifactLocation": artifact(&found.file, root)});
    if let Some(place) = finding.place {
        location["region"] = json!({"startLine": place.line, "startColumn": place.column});
    }
    let mut place = json!({"physicalLocation": location});
    if !subject.is_empty() {
        place["logicalLocations"] = json!([{"name": subject, "kind": "module"}]);
    }
    let mut result = json!({
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": level(finding.severity),
        "message": {"text": finding.message},
        "locations": [place],
        "partialFingerprints": {FINGERPRINT: fingerprint(found, subject)},
        "properties": {"severity": finding.severity.as_str()},
    });
    if found.is_accepted {
        result["suppressions"] = json!([{"kind": "external", "status": "accepted"}]);
    }
    result
}

/// Returns the location of a file: relative to the current directory if the file is below that, or else absolute.
fn artifact(file: &Path, root: Option<&Url>) -> Value {
    let Ok(url) = Url::from_file_path(file) else {
        return json!({"uri": ""});
    };
    let relative = root.filter(|root| url.as_str().starts_with(root.as_str()));
    match relative.and_then(|root| root.make_relative(&url)) {
        Some(relative) => json!({"uri": relative, "uriBaseId": BASE}),
        None => json!({"uri": url.as_str()}),
    }
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Info => "note",
    }
}

/// Returns the score by which code scanning sorts a severity, from 0 to 10.
const fn score(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "9.5",
        Severity::High => "8.0",
        Severity::Medium => "5.5",
        Severity::Low => "3.0",
        Severity::Info => "0.0",
    }
}

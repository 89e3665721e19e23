//! Each rule with a hit and a near miss, in words of our own.

use serde_json::json;
use test_case::test_case;

use super::*;

fn scanner() -> Scanner {
    Scanner::new(&crate::policy::Detection::default().builtin, &[]).expect("no patterns")
}

fn of_definition(description: &str) -> Vec<Finding> {
    let definition = json!({"name": "probe", "description": description}).to_string();
    scanner().definition(
        RawJson::trusted(&definition),
        &Scene {
            own: &["probe", "read_notes"],
            ..Scene::default()
        },
    )
}

fn of_output(text: &str) -> Vec<Finding> {
    let result = json!({"content": [{"type": "text", "text": text}]}).to_string();
    scanner().output(RawJson::trusted(&result), &Source::default())
}

fn alarms(findings: &[Finding]) -> Vec<&str> {
    let alarms = findings
        .iter()
        .filter(|finding| finding.severity >= Severity::High);
    alarms.map(|finding| finding.pattern.as_str()).collect()
}

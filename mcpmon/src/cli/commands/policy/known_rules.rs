//! Known rules: a check against the sources that `mcpmon policy explain` knows every rule that an event or a
//! refusal can name.

use std::{collections::BTreeSet, ffi::OsStr, fs, path::Path};

use mcpmon_config::{Outline, Sources, load_sources};

use crate::app::question::{About, BESIDE, guide};

/// The text in front of a rule's name in the sources.
const BEFORE: &[&str] = &[
    "rule: \"",
    "rule = Some(\"",
    "RULE: &str = \"",
    "DEFAULTS: &str = \"",
    "SHARE: &str = \"",
    "const KEY: &str = \"",
    "refused( \"",
    "= objection(\"",
    "rule) = (scene.used, \"",
];

/// The text before and after a choice of a rule: every string literal between the two is a rule's name.
const CHOSEN: &[(&str, &str)] = &[
    ("let rule = match ", "};"),
    ("const fn rule(subject: InspectionSubject)", "} }"),
    ("(rule, action, severity, reason) = match", "IncidentForm {"),
    ("impl CrossServerRule {", "} }"),
    ("handled(", ")"),
];

#[test]
fn every_rule_is_known() {
    let found: BTreeSet<String> = sources().iter().flat_map(|text| named(text)).collect();
    for name in [
        "burst",
        "credential_file",
        "defaults",
        "dlp",
        "max_body",
        "output_poisoning",
        "proxy_share",
        "rate_limit",
        "sampling",
        "server_policy",
        "strict_json",
        "undeclared_server",
    ] {
        assert!(found.contains(name), "{name} is not seen any more: {found:?}");
    }
    let outline = outline();
    let is_known = |name: &&String| {
        let is_of = |about: &About| about.names.contains(&name.as_str());
        guide().chain(BESIDE).any(is_of) || name.contains('.') && outline.meaning(name).is_some()
    };
    let unknown: Vec<&String> = found.iter().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "`policy explain` does not know {unknown:?}");
}

#[test]
fn no_rule_is_known_that_nobody_names() {
    let found: BTreeSet<String> = sources().iter().flat_map(|text| named(text)).collect();
    let mut names = guide().chain(BESIDE).flat_map(|about| about.names);
    assert_eq!(names.find(|name| !found.contains(**name)), None);
}

#[test]
fn every_key_of_a_rule_is_one() {
    let outline = outline();
    let mut keys = guide().chain(BESIDE).flat_map(|about| about.keys);
    assert_eq!(keys.find(|key| outline.meaning(key).is_none()), None);
}

fn outline() -> Outline {
    Outline::of(&load_sources(&Sources::embedded_default()).expect("valid"))
}

/// Returns the sources of the program without their tests; each run of white space is replaced by one blank.
fn sources() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting = vec![root.join("src"), root.join("../crates")];
    let mut texts = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory of sources");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if is_source(&path) {
            let text = fs::read_to_string(&path).expect("a source");
            let text: Vec<&str> = text.split_whitespace().collect();
            let text = text.join(" ");
            texts.push(
                text.split("#[cfg(test)] mod tests {")
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
    }
    texts
}

fn is_source(path: &Path) -> bool {
    let of_tests = ["tests", "fixture", "harness", "sample", "known_rules"];
    let is_of_tests = |part: &OsStr| {
        let part = part.to_string_lossy();
        of_tests.iter().any(|name| part.contains(name))
    };
    path.extension().is_some_and(|extension| extension == "rs") && !path.iter().any(is_of_tests)
}

/// Returns the rules that a source names.
fn named(text: &str) -> Vec<String> {
    let after = BEFORE.iter().flat_map(|before| text.split(before).skip(1));
    let after = after.filter_map(|rest| rest.split('"').next());
    let chosen = CHOSEN.iter().flat_map(|(start, end)| {
        let parts = text.split(start).skip(1);
        parts.flat_map(move |part| {
            part.split(end)
                .next()
                .unwrap_or_default()
                .split('"')
                .skip(1)
                .step_by(2)
        })
    });
    let is_name = |name: &&str| {
        let is_plain = |c: char| c.is_ascii_lowercase() || "_.".contains(c);
        !name.is_empty() && name.chars().all(is_plain)
    };
    after.chain(chosen).filter(is_name).map(str::to_owned).collect()
}

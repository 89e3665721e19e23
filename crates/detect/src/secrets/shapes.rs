//! Secrets that are recognised by a pattern, each searched for only around a word that it must contain.

use std::{
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use mcpmon_model::Severity;
use regex::Regex;
use serde::Deserialize;

use crate::tables;

use super::{SecretHit, value};

/// A form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretShape {
    /// Name of the pattern.
    #[serde(deserialize_with = "tables::kept")]
    kind: &'static str,
    /// Words of which one is there, in lower case.
    pub(super) words: Vec<String>,
    /// The form; its first group is the secret, if it has one.
    pattern: String,
    /// The severity.
    severity: Severity,
    /// The compiled pattern; compiled when it is first needed.
    #[serde(skip)]
    regex: OnceLock<Regex>,
}

/// The distance around a word that is examined, bytes.
const BEFORE: usize = 120;
const AFTER: usize = 600;

pub(super) static SHAPES: LazyLock<Vec<SecretShape>> =
    LazyLock::new(|| tables::rows(include_str!("../../rules/tables/shapes.toml")));

/// Finds secrets of this form around the positions of its words, ascending.
pub(super) fn find(shape: usize, text: &str, places: &[usize], hits: &mut Vec<SecretHit>) {
    let shape = &SHAPES[shape];
    let compile = || Regex::new(&shape.pattern).expect("every built-in pattern is compiled by a test");
    let regex = shape.regex.get_or_init(compile);
    for window in windows(text, places) {
        for found in regex.captures_iter(&text[window.clone()]) {
            let secret = found
                .get(1)
                .or_else(|| found.get(0))
                .map_or(0..0, |group| group.range());
            let span = window.start + secret.start..window.start + secret.end;
            let spelled = &text[span.clone()];
            let severity = match value::is_placeholder(spelled) || value::is_sequential(spelled) {
                true => Severity::Low,
                false => shape.severity,
            };
            // Amazon's have letters of both cases: it may be the digest of a file.
            let is_digest = shape.kind == "aws_credential"
                && spelled
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let is_certain = shape.kind == "password_hash" || value::is_generated(spelled) && !is_digest;
            hits.push(SecretHit::new(shape.kind, severity, span).only_if(is_certain));
        }
    }
}

/// Returns the ranges around positions, merged if they overlap, so that no byte is searched twice.
fn windows(text: &str, places: &[usize]) -> Vec<Range<usize>> {
    let mut windows: Vec<Range<usize>> = Vec::new();
    for &place in places {
        let from = text.floor_char_boundary(place.saturating_sub(BEFORE));
        let to = text.ceil_char_boundary((place + AFTER).min(text.len()));
        match windows.last_mut() {
            Some(last) if from <= last.end => last.end = last.end.max(to),
            Some(_) | None => windows.push(from..to),
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_no_word_is_in_upper_case() {
        for (index, shape) in SHAPES.iter().enumerate() {
            let mut hits = Vec::new();
            find(index, "nothing of the kind", &[0], &mut hits);
            assert!(hits.is_empty(), "{}", shape.kind);
            assert!(
                shape
                    .words
                    .iter()
                    .all(|word| word.to_lowercase() == *word && word.len() >= 2)
            );
        }
    }

    #[test]
    fn stretches_are_joined() {
        let text = "x".repeat(5000);
        assert_eq!(windows(&text, &[0, 100, 4000]), [0..700, 3880..4600]);
    }
}

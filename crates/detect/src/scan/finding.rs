//! Findings from matches: one for each pattern in a field, with its position and its context.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range};

use mcpmon_model::{Category, Finding, Match, Severity, TextStance};

use super::super::mask;

/// Longest text of a match, characters.
const MAX_TEXT: usize = 200;
/// Characters of context on either side.
const CONTEXT: usize = 50;
/// Most matches of one finding that are reported.
const MAX_MATCHES: usize = 8;

/// Most findings of one text that are kept; further ones are kept only if they are worse than all others of their
/// pattern.
const MAX_FINDINGS: usize = 200;

/// Most findings of one text that are reported in separate events; of more, the worst ones come first.
pub const MAX_REPORTED: usize = 20;

/// The findings in one text. Whatever their number, the worst one of each pattern is kept.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    all: Vec<Finding>,
    /// For each pattern the severity of the worst assertion, and of the worst mention.
    worst: BTreeMap<String, [Option<Severity>; 2]>,
}

impl Findings {
    /// Adds a finding, unless there are many and it is no worse than the others of its pattern.
    pub fn add(&mut self, finding: Finding) {
        if !self.worst.contains_key(&finding.pattern) {
            self.worst.insert(finding.pattern.clone(), [None; 2]);
        }
        let Some(worst) = self.worst.get_mut(&finding.pattern) else {
            return;
        };
        let worst = &mut worst[usize::from(finding.standing == TextStance::Quoted)];
        let is_worse = worst.is_none_or(|worst| worst < finding.severity);
        if is_worse {
            *worst = Some(finding.severity);
        }
        if is_worse || self.all.len() < MAX_FINDINGS {
            self.all.push(finding);
        }
    }

    /// Returns the worst severity of a pattern, in assertions and mentions.
    pub(super) fn worst(&self, pattern: &str) -> Option<Severity> {
        self.worst.get(pattern)?.iter().copied().max().flatten()
    }

    /// Returns the kept findings: in the order of the text, or the worst first if there are more than are reported.
    pub fn into_vec(mut self) -> Vec<Finding> {
        if self.all.len() > MAX_REPORTED {
            self.all.sort_by_key(|finding| Reverse(finding.severity));
        }
        self.all
    }
}

impl Extend<Finding> for Findings {
    fn extend<I: IntoIterator<Item = Finding>>(&mut self, findings: I) {
        findings.into_iter().for_each(|finding| self.add(finding));
    }
}

/// A match in a field.
#[derive(Clone, Debug)]
pub(super) struct Hit<'a> {
    /// The id of the rule.
    pub(super) rule: &'a str,
    /// The name of the pattern.
    pub(super) pattern: &'a str,
    /// The kind of attack.
    pub(super) category: Category,
    /// The severity.
    pub(super) severity: Severity,
    /// The stance: asserted or quoted.
    pub(super) standing: TextStance,
    /// The range in the field.
    pub(super) span: Range<usize>,
    /// The decoded text, if the match was encoded.
    pub(super) decoded: Option<String>,
}

impl<'a> Hit<'a> {
    /// Returns the pattern, and the matched bytes of the text.
    pub(super) fn said<'t>(&self, text: &'t str) -> (&'a str, &'t [u8]) {
        let bytes = text.as_bytes().get(self.span.clone());
        (self.pattern, bytes.unwrap_or_default())
    }
}

/// Returns the matches of a field as findings, in the order of the pattern names.
pub(super) fn findings(field: &str, text: &str, mut hits: Vec<Hit<'_>>) -> Vec<Finding> {
    // Of the matches of one pattern the worst one counts; mentions do not soften assertions.
    hits.sort_by(|a, b| {
        let one = (a.pattern, a.standing, b.severity, a.span.start);
        one.cmp(&(b.pattern, b.standing, a.severity, b.span.start))
    });
    let mut found: Vec<Finding> = Vec::new();
    for hit in hits {
        match found.last_mut() {
            Some(last) if last.pattern == hit.pattern => {
                let position = text.floor_char_boundary(hit.span.start);
                if last.matches.len() < MAX_MATCHES
                    && last.matches.iter().all(|known| known.position != position)
                {
                    last.matches.push(matched(text, &hit));
                }
                if hit.severity > last.severity {
                    last.severity = hit.severity;
                    last.rules.clear();
                }
                if hit.severity == last.severity && last.rules.iter().all(|rule| rule != hit.rule) {
                    last.rules.push(hit.rule.to_owned());
                }
            }
            Some(_) | None => found.push(Finding {
                pattern: hit.pattern.to_owned(),
                rules: vec![hit.rule.to_owned()],
                category: hit.category,
                severity: hit.severity,
                field: field.to_owned(),
                matches: vec![matched(text, &hit)],
                standing: hit.standing,
            }),
        }
    }
    found
}

fn matched(text: &str, hit: &Hit<'_>) -> Match {
    let start = text.floor_char_boundary(hit.span.start);
    let end = text.ceil_char_boundary(hit.span.end).max(start);
    let said = hit.decoded.as_deref().unwrap_or_else(|| &text[start..end]);
    let from = back(text, start, CONTEXT);
    let to = forth(text, end.min(forth(text, start, MAX_TEXT)), CONTEXT);
    Match {
        text: first(&mask::mask_text(first(said))).to_owned(),
        position: start,
        context: mask::mask_text(&text[from..to]),
    }
}

fn first(text: &str) -> &str {
    &text[..forth(text, 0, MAX_TEXT)]
}

fn back(text: &str, from: usize, chars: usize) -> usize {
    text[..from]
        .char_indices()
        .rev()
        .take(chars)
        .last()
        .map_or(from, |(at, _)| at)
}

fn forth(text: &str, from: usize, chars: usize) -> usize {
    text[from..]
        .char_indices()
        .nth(chars)
        .map_or(text.len(), |(at, _)| from + at)
}

/// Returns the next higher severity, at most critical.
pub(super) const fn raised(severity: Severity) -> Severity {
    match severity {
        Severity::Info => Severity::Low,
        Severity::Low => Severity::Medium,
        Severity::Medium => Severity::High,
        Severity::High | Severity::Critical => Severity::Critical,
    }
}

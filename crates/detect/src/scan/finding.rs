//! Findings from what was matched: one for each pattern in a field, with where it stands and what stands around it.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range};

use mcpmon_model::{Category, Finding, Match, Severity, TextStance};

use super::super::mask;

/// Longest text of a match, characters.
const MAX_TEXT: usize = 200;
/// Characters of context on either side.
const CONTEXT: usize = 50;
/// Most matches that a finding tells.
const MAX_MATCHES: usize = 8;

/// Findings of one text that are told one by one. More are only kept where they are worse than all of their pattern.
const MAX_FINDINGS: usize = 200;

/// Findings of one text of which an event of its own tells; of more, the worst ones come first.
pub const MAX_TOLD: usize = 20;

/// The findings in one text: however many there are, the worst of each pattern is kept.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    all: Vec<Finding>,
    /// By the names of patterns: the worst that is said, the worst that is only told of.
    worst: BTreeMap<String, [Option<Severity>; 2]>,
}

impl Findings {
    /// Adds one, unless there are many and it says nothing that they do not say.
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

    /// The worst that was found of a pattern, whether it is said or only told of.
    pub(super) fn worst(&self, pattern: &str) -> Option<Severity> {
        self.worst.get(pattern)?.iter().copied().max().flatten()
    }

    /// All that is kept: as they stand in the text, or the worst first where they are more than are told.
    pub fn into_vec(mut self) -> Vec<Finding> {
        if self.all.len() > MAX_TOLD {
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

/// Something found in a field.
#[derive(Clone, Debug)]
pub(super) struct Hit<'a> {
    /// The id of the rule.
    pub(super) rule: &'a str,
    /// Name of what it finds.
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
    /// The pattern that it is of, and what says so in the text in which it was found.
    pub(super) fn said<'t>(&self, text: &'t str) -> (&'a str, &'t [u8]) {
        let bytes = text.as_bytes().get(self.span.clone());
        (self.pattern, bytes.unwrap_or_default())
    }
}

/// The hits of a field as findings, in the order of the pattern names.
pub(super) fn findings(field: &str, text: &str, mut hits: Vec<Hit<'_>>) -> Vec<Finding> {
    // Of hits of one pattern the worst one speaks; those that are only told of do not soften it.
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

/// One level worse, at most critical.
pub(super) const fn raised(severity: Severity) -> Severity {
    match severity {
        Severity::Info => Severity::Low,
        Severity::Low => Severity::Medium,
        Severity::Medium => Severity::High,
        Severity::High | Severity::Critical => Severity::Critical,
    }
}

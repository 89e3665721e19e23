//! One text: its unseen characters, its meaning, and the meaning of its encodings.

use std::{collections::BTreeMap, ops::Range, sync::LazyLock};

use crate::instructions::{Kind, Names, Outcome};

use mcpmon_model::{Category, Severity, TextStance};
use regex::Regex;

use super::finding::{Hit, raised};
use crate::normalise::{
    decode::{self, Layer},
    raw::{self, TerminalWrite, Unseen},
    skeleton::Skeleton,
};

/// The rule over encoded commands.
const ENCODED: &str = "encoded_text";
/// Most levels of decoded texts within decoded texts.
const MAX_DEPTH: usize = 2;

/// The place of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a definition, which a model takes for instructions.
    Definition,
    /// In a result, which a model should take for data.
    Output,
}

/// The context of a text's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    /// The place.
    pub(super) place: Place,
    /// Tools of the same server.
    pub(super) own: &'a Names<'a>,
    /// Names in the schemas of the definition, if the text is in a definition.
    pub(super) parameters: &'a Names<'a>,
    /// Tools of other servers.
    pub(super) others: &'a Names<'a>,
    /// True if its name is that of a document.
    pub(super) is_document: bool,
    /// True if it describes a parameter.
    pub(super) is_parameter: bool,
}

/// Returns the matches in a text, in view of its place.
pub(super) fn hits(text: &str, setting: &Setting<'_>) -> Vec<Hit<'static>> {
    let mut found = Vec::new();
    let skeleton = Skeleton::of(text);
    if !skeleton.is_plain() {
        unseen(text, setting, &mut found);
    }
    said(text, &skeleton, setting, 0, &mut found);
    found
}

fn unseen(text: &str, setting: &Setting<'_>, found: &mut Vec<Hit<'static>>) {
    for (kind, span) in raw::unseen(text) {
        let Some((pattern, severity)) = telling(kind, setting.place, text, &span) else {
            continue;
        };
        let spelled = (kind == Unseen::Tags).then(|| raw::spelled(&text[span.clone()]));
        if let Some(spelled) = &spelled {
            let layer = Layer {
                text: spelled.clone(),
                origin: span.clone(),
                is_opaque: true,
            };
            decoded(&layer, setting, 0, found);
        }
        found.push(Hit {
            rule: pattern,
            pattern,
            category: Category::HiddenInstructions,
            severity,
            standing: TextStance::Asserted,
            span,
            decoded: spelled,
        });
    }
}

/// Returns the rule and the severity of unseen characters; most of them are legitimate in outputs.
fn telling(kind: Unseen, place: Place, text: &str, span: &Range<usize>) -> Option<(&'static str, Severity)> {
    let run = &text[span.clone()];
    let pattern = match kind {
        Unseen::Tags => "tag_characters",
        Unseen::Bidi => "bidi_control",
        Unseen::ZeroWidth => "zero_width",
        Unseen::Variation => "variation_selectors",
        Unseen::PrivateUse => "private_use_characters",
        Unseen::Ansi => "terminal_escape",
    };
    let severity = match (place, kind) {
        (Place::Definition, _) => Severity::High,
        (Place::Output, Unseen::Tags) if run.chars().nth(2).is_some() => Severity::High,
        (Place::Output, Unseen::Variation) if run.chars().nth(7).is_some() => Severity::Low,
        (Place::Output, Unseen::Ansi) => {
            // The last of several successive escapes begins a command.
            let last = run.char_indices().next_back().map_or(0, |(at, _)| at);
            match raw::terminal_write(&text[span.start + last..])? {
                TerminalWrite::Stored => Severity::High,
                TerminalWrite::Shown => Severity::Low,
            }
        }
        (Place::Output, _) => return None,
    };
    Some((pattern, severity))
}

/// Adds the matches in a text and in its decoded layers.
fn said(
    text: &str,
    skeleton: &Skeleton<'_>,
    setting: &Setting<'_>,
    depth: usize,
    found: &mut Vec<Hit<'static>>,
) {
    for mut hit in judged(&skeleton.text, setting) {
        hit.span = skeleton.original(hit.span.start)..skeleton.original(hit.span.end).min(text.len());
        found.push(hit);
    }
    if depth < MAX_DEPTH {
        for layer in decode::layers(text) {
            decoded(&layer, setting, depth + 1, found);
        }
    }
}

/// Commands, addresses and verbs that give encoded text in a definition a purpose.
static COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)https?://|\b(?:curl|wget|bash|sh|nc|netcat|powershell|python3?|perl|exec|eval|rm|chmod|cat|sudo|ssh|scp|ignore|send|execute|read|upload|system)\b|/(?:bin|etc|tmp)/|/dev/tcp")
        .expect("a constant pattern is compiled by every test")
});

/// Adds the matches that only a decoded text has; they are more severe, because hiding them was deliberate.
fn decoded(layer: &Layer, setting: &Setting<'_>, depth: usize, found: &mut Vec<Hit<'static>>) {
    if setting.place == Place::Definition && COMMAND.is_match(&layer.text) && layer.is_opaque {
        found.push(Hit {
            rule: ENCODED,
            pattern: ENCODED,
            category: Category::HiddenInstructions,
            severity: Severity::High,
            standing: TextStance::Asserted,
            span: layer.origin.clone(),
            decoded: Some(layer.text.clone()),
        });
    }
    let mut inner = Vec::new();
    said(
        &layer.text,
        &Skeleton::of(&layer.text),
        setting,
        depth,
        &mut inner,
    );
    // A match that was found in the text itself is not one of the decoded text only because an escape is near it.
    // Elsewhere a harmless match must not hide a worse one.
    let around = layer.origin.start.saturating_sub(decode::AROUND)..layer.origin.end + decode::AROUND;
    let mut known: BTreeMap<&str, Severity> = BTreeMap::new();
    for hit in found.iter() {
        let is_here = !layer.is_opaque && touches(&hit.span, &around);
        let severity = if is_here { Severity::Critical } else { hit.severity };
        let worst = known.entry(hit.pattern).or_insert(severity);
        *worst = severity.max(*worst);
    }
    for mut hit in inner {
        hit.severity = raised(hit.severity);
        if known.get(hit.pattern).is_some_and(|worst| *worst >= hit.severity) {
            continue;
        }
        known.insert(hit.pattern, hit.severity);
        hit.decoded
            .get_or_insert_with(|| layer.text.get(hit.span.clone()).unwrap_or(&layer.text).to_owned());
        hit.span = layer.origin.clone();
        found.push(hit);
    }
}

/// Returns the matches of the rules in a normalised text.
fn judged(text: &str, setting: &Setting<'_>) -> Vec<Hit<'static>> {
    let place = match setting.place {
        Place::Definition if setting.is_parameter => crate::instructions::Place::Schema,
        Place::Definition => crate::instructions::Place::Description,
        Place::Output => crate::instructions::Place::Output,
    };
    let context = crate::instructions::Context {
        place,
        own: setting.own,
        parameters: setting.parameters,
        others: setting.others,
        is_document: setting.is_document,
    };
    let matches = crate::instructions::matches(text, &context);
    let hits = matches.into_iter().map(|matched| Hit {
        rule: &matched.rule.id,
        pattern: &matched.rule.name,
        category: category(matched.rule.kind),
        severity: match matched.outcome {
            Outcome::Note => Severity::Low,
            Outcome::Alert => Severity::Medium,
            Outcome::Act if matched.rule.critical => Severity::Critical,
            Outcome::Act => Severity::High,
        },
        standing: match matched.is_mention {
            true => TextStance::Quoted,
            false => TextStance::Asserted,
        },
        span: matched.span,
        decoded: None,
    });
    hits.collect()
}

const fn category(kind: Kind) -> Category {
    match kind {
        Kind::CredentialTheft => Category::CredentialTheft,
        Kind::Exfiltration => Category::Exfiltration,
        Kind::HiddenInstructions => Category::HiddenInstructions,
        Kind::ShellInjection => Category::ShellInjection,
        Kind::PathTraversal => Category::PathTraversal,
        Kind::CrossToolOverride => Category::CrossToolOverride,
        Kind::StealthInstruction => Category::StealthInstruction,
    }
}

/// Returns whether a span touches any of `parts`.
pub(super) fn touches(span: &Range<usize>, part: &Range<usize>) -> bool {
    span.start < part.end && part.start < span.end.max(span.start + 1)
}

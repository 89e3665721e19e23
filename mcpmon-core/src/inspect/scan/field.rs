//! One text: what is unseen in it, what it says, and what its encodings say.

use std::{collections::BTreeMap, ops::Range, sync::LazyLock};

use regex::Regex;

use crate::model::{Category, Severity, Standing};

use super::{
    concepts::{self, Around},
    engine::{ENGINE, Sighting},
    finding::{Hit, raised},
    rules::{Place, Rule, Told, ToolNamed},
    sighted::Sighted,
    standing::Manner,
};
use crate::inspect::{
    normalise::{
        decode::{self, Layer},
        raw::{self, TerminalWrite, Unseen},
        skeleton::Skeleton,
    },
    vector,
};

/// Decoded texts within decoded texts.
const MAX_DEPTH: usize = 2;

/// What is known where a text stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    /// Where it stands.
    pub(super) place: Place,
    /// Tools of the server itself.
    pub(super) own: &'a [&'a str],
    /// Tools of others.
    pub(super) others: &'a [&'a str],
    /// Whether it is said to be a document by its name.
    pub(super) is_document: bool,
    /// Whether it describes a parameter.
    pub(super) is_parameter: bool,
}

/// What is found in a text, by the place in it.
pub(super) fn hits(text: &str, setting: &Setting<'_>) -> Vec<Hit<'static>> {
    let mut found = Vec::new();
    unseen(text, setting, &mut found);
    said(text, setting, 0, &mut found);
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
            pattern,
            category: Category::HiddenInstructions,
            severity,
            standing: Standing::Asserted,
            span,
            decoded: spelled,
        });
    }
}

/// Name and severity of unseen characters; outputs carry most of them for good reasons.
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
        (Place::Output, Unseen::Variation) if run.chars().nth(7).is_some() => Severity::Medium,
        (Place::Output, Unseen::Ansi) => {
            // The last of several escapes in a row begins a command.
            let last = run.char_indices().next_back().map_or(0, |(at, _)| at);
            match raw::terminal_write(&text[span.start + last..])? {
                TerminalWrite::Stored => Severity::High,
                TerminalWrite::Shown => Severity::Medium,
            }
        }
        (Place::Output, _) => return None,
    };
    Some((pattern, severity))
}

/// What a text says, and what its encodings say.
fn said(text: &str, setting: &Setting<'_>, depth: usize, found: &mut Vec<Hit<'static>>) {
    let skeleton = Skeleton::of(text);
    for mut hit in judged(&skeleton.text, setting) {
        hit.span = skeleton.original(hit.span.start)..skeleton.original(hit.span.end).min(text.len());
        found.push(hit);
    }
    if depth < MAX_DEPTH && decode::may_encode(text) {
        for layer in decode::layers(text) {
            decoded(&layer, setting, depth + 1, found);
        }
    }
}

/// What encoded text in a definition is for, if it is for anything: a command, an address, something to be done.
static COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)https?://|\b(?:curl|wget|bash|sh|nc|netcat|powershell|python3?|perl|exec|eval|rm|chmod|cat|sudo|ssh|scp|ignore|send|execute|read|upload|system)\b|/(?:bin|etc|tmp)/|/dev/tcp")
        .expect("a constant pattern is compiled by every test")
});

/// What only a decoded text says is worse: someone went to the trouble of hiding it.
fn decoded(layer: &Layer, setting: &Setting<'_>, depth: usize, found: &mut Vec<Hit<'static>>) {
    if setting.place == Place::Definition && COMMAND.is_match(&layer.text) && layer.is_opaque {
        found.push(Hit {
            pattern: "encoded_text",
            category: Category::HiddenInstructions,
            severity: Severity::High,
            standing: Standing::Asserted,
            span: layer.origin.clone(),
            decoded: Some(layer.text.clone()),
        });
    }
    let mut inner = Vec::new();
    said(&layer.text, setting, depth, &mut inner);
    // What is read with an escape and was found where it stands is nothing that is only decoded; elsewhere a harmless
    // hit hides no worse one.
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

/// What the rules say of a skeleton.
fn judged(text: &str, setting: &Setting<'_>) -> Vec<Hit<'static>> {
    let sighted = ENGINE.sightings(text, setting.place);
    let manner = Manner::of(text, setting.place, setting.is_document);
    let mut hits = meant(text, setting, sighted.as_ref(), &manner);
    let Some(sighted) = sighted else {
        return hits;
    };
    for rule in setting.place.rules() {
        let openers = sighted.each(rule.opener);
        for opener in openers.filter(|opener| holds(rule, text, &sighted, opener, setting)) {
            let standing = manner.standing(&opener.span, opener.signal.is_deed());
            // What is only told of is worth knowing and no alarm.
            let severity = match (standing, rule.told) {
                (Standing::Asserted, _) | (_, Told::Counts) => rule.severity,
                (Standing::Quoted, Told::Softens) => rule.severity.min(Severity::Medium),
            };
            hits.push(Hit {
                pattern: rule.name,
                category: rule.category,
                severity,
                standing,
                span: opener.span.clone(),
                decoded: None,
            });
        }
    }
    hits
}

/// What the sentences of a skeleton are up to; of data only those around what speaks to a model are read.
fn meant(
    text: &str,
    setting: &Setting<'_>,
    sighted: Option<&Sighted<'_>>,
    manner: &Manner<'_>,
) -> Vec<Hit<'static>> {
    let around = Around {
        place: setting.place,
        is_parameter: setting.is_parameter,
        own: setting.own,
    };
    let parts = match setting.place {
        Place::Definition => std::iter::once(0..text.len()).collect(),
        Place::Output => sighted.map_or_else(Vec::new, Sighted::regions),
    };
    let mut hits = Vec::new();
    for part in parts {
        for meant in concepts::meant(&text[part.clone()], &around) {
            let span = part.start + meant.span.start..part.start + meant.span.end;
            let standing = manner.standing(&span, false);
            let severity = match standing {
                Standing::Asserted => meant.severity,
                Standing::Quoted => meant.severity.min(Severity::Medium),
            };
            hits.push(Hit {
                pattern: meant.name,
                category: meant.category,
                severity,
                standing,
                span,
                decoded: None,
            });
        }
    }
    hits
}

/// Whether all that a rule wants stands near its opener.
fn holds(rule: &Rule, text: &str, sighted: &Sighted<'_>, opener: &Sighting, setting: &Setting<'_>) -> bool {
    let tool_fits = match rule.tool {
        ToolNamed::Any => true,
        ToolNamed::Foreign => names_foreign_tool(text, opener, setting),
        ToolNamed::Others => named_tool(text, opener).is_some_and(|name| is_among(setting.others, name)),
    };
    let from = opener.span.start.saturating_sub(rule.within);
    let to = (opener.span.end + rule.within).min(text.len());
    tool_fits
        && rule
            .near
            .iter()
            .all(|group| sighted.any_near(group, &(from..to), opener))
}

/// Words that stand where a tool's name could and are none.
const NO_TOOL_NAMES: [&str; 32] = [
    "a",
    "all",
    "an",
    "and",
    "any",
    "appropriate",
    "available",
    "correct",
    "dedicated",
    "each",
    "following",
    "helper",
    "its",
    "mcp",
    "more",
    "my",
    "new",
    "of",
    "one",
    "or",
    "other",
    "relevant",
    "right",
    "same",
    "specific",
    "that",
    "the",
    "these",
    "this",
    "which",
    "with",
    "your",
];

/// Whether the tool that a sighting names is not the server's own; no name at all counts as the tools of others.
fn names_foreign_tool(text: &str, sighting: &Sighting, setting: &Setting<'_>) -> bool {
    named_tool(text, sighting).is_none_or(|name| {
        let is_name = !NO_TOOL_NAMES.contains(&name.to_ascii_lowercase().as_str());
        !is_among(setting.own, name) && (is_name || is_among(setting.others, name))
    })
}

fn named_tool<'t>(text: &'t str, sighting: &Sighting) -> Option<&'t str> {
    text.get(sighting.tool.clone()?)
}

fn is_among(tools: &[&str], name: &str) -> bool {
    tools.iter().any(|tool| tool.eq_ignore_ascii_case(name))
}

/// Whether a text can hold anything at all: a quick look that is never wrong when it says no.
pub(super) fn may_say(text: &str) -> bool {
    let seen = vector::glance(text.as_bytes());
    seen.beyond_ascii
        || seen.escape
        || ENGINE.is_anchored(text)
        || seen.notation && decode::has_escapes(text)
        || decode::has_runs(text.as_bytes())
}

/// Whether a span touches any of `parts`.
pub(super) fn touches(span: &Range<usize>, part: &Range<usize>) -> bool {
    span.start < part.end && part.start < span.end.max(span.start + 1)
}

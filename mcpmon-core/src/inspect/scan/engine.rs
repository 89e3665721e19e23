//! Finds signals: all anchors at once, and each pattern only in the windows that its anchors open.

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use regex::bytes::{Regex, RegexBuilder};

use super::{
    lexicon,
    literals::Literals,
    rules::Place,
    sighted::Sighted,
    signals::{self, Shape, Signal},
};

/// Bytes before an anchor that its pattern is run on.
const BEFORE: usize = 120;
/// Bytes after an anchor that its pattern is run on.
const AFTER: usize = 180;
/// Bytes around a signal that opens in which others are looked for; rules look no further.
const AROUND: usize = 400;
/// Most bytes that a compiled pattern may take.
const PATTERN_SIZE: usize = 4 << 20;
/// Most bytes that running one pattern may keep.
const CACHE_SIZE: usize = 512 << 10;

/// A signal in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    /// What it is.
    pub(super) signal: Signal,
    /// Where it stands in the skeleton.
    pub(super) span: Range<usize>,
    /// The tool that it names.
    pub(super) tool: Option<Range<usize>>,
}

/// Anchors and patterns, built once; patterns when they are first needed.
pub(super) struct Engine {
    shapes: Vec<Lazy>,
    /// Anchors of all shapes.
    every: LazyLock<Anchors>,
    /// Anchors of those that open windows in outputs.
    outputs: LazyLock<Anchors>,
}

/// Literals, and what they open.
struct Anchors {
    literals: Literals,
    /// The shapes that each literal opens windows for.
    opens: Vec<Vec<usize>>,
}

struct Lazy {
    shape: &'static Shape,
    /// Whether the pattern tells upper case from lower case.
    minds_case: bool,
    /// Whether it names a tool.
    names_tool: bool,
    regex: OnceLock<Regex>,
}

/// A text, and the same in lower case once that is needed.
pub(super) struct Cases<'t> {
    text: &'t str,
    lower: OnceCell<String>,
}

impl<'t> Cases<'t> {
    const fn of(text: &'t str) -> Self {
        Self {
            text,
            lower: OnceCell::new(),
        }
    }

    /// As long as the text itself.
    fn lower(&self) -> &str {
        self.lower.get_or_init(|| self.text.to_ascii_lowercase())
    }
}

/// The engine, shared by all scanners of the process.
pub(super) static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::new);

impl Lazy {
    fn regex(&self) -> &Regex {
        self.regex
            .get_or_init(|| compile(self.shape.pattern).expect("built-in patterns are compiled by a test"))
    }
}

/// Compiles a pattern that is run byte by byte: on text in lower case, where case does not matter to it. That makes
/// it several times smaller and faster than one that takes either case.
fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    let expanded = lexicon::expand(pattern);
    let (expanded, case_insensitive) = match minds_case(pattern) {
        true => (expanded, true),
        false => (in_lower_case(&expanded), false),
    };
    RegexBuilder::new(&expanded)
        .unicode(false)
        .case_insensitive(case_insensitive)
        .size_limit(PATTERN_SIZE)
        .dfa_size_limit(CACHE_SIZE)
        .build()
}

/// Whether a part of a pattern tells upper case from lower case: then the text must be as it is.
fn minds_case(pattern: &str) -> bool {
    pattern.contains("(?-i")
}

/// A pattern with its letters in lower case, those of escapes and group names apart.
fn in_lower_case(pattern: &str) -> String {
    let mut before = ['\0'; 2];
    let lower = |c: char| {
        let is_syntax = before[1] == '\\' && before[0] != '\\' || before == ['(', '?'];
        before = [before[1], c];
        match is_syntax {
            true => c,
            false => c.to_ascii_lowercase(),
        }
    };
    pattern.chars().map(lower).collect()
}

impl Anchors {
    fn of(chosen: fn(Signal) -> bool) -> Self {
        let mut opens: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
        for (index, shape) in signals::shapes().enumerate() {
            for anchor in shape.anchors.iter().filter(|_| chosen(shape.signal)) {
                let opened = opens.entry(anchor).or_default();
                // A shape may have an anchor twice.
                if opened.last() != Some(&index) {
                    opened.push(index);
                }
            }
        }
        let (literals, opens) = opens.into_iter().unzip();
        Self {
            literals: Literals::new(literals),
            opens,
        }
    }
}

impl Engine {
    fn new() -> Self {
        let lazy = |shape: &'static Shape| Lazy {
            shape,
            minds_case: minds_case(shape.pattern),
            names_tool: shape.pattern.contains("<tool>"),
            regex: OnceLock::new(),
        };
        Self {
            shapes: signals::shapes().map(lazy).collect(),
            every: LazyLock::new(|| Anchors::of(|_| true)),
            outputs: LazyLock::new(|| Anchors::of(Signal::opens_outputs)),
        }
    }

    /// Whether any anchor that opens a window in outputs stands in `text`.
    pub(super) fn is_anchored(&self, text: &str) -> bool {
        self.outputs.literals.is_in(text.as_bytes())
    }

    /// The signals of `text`, where any stand in it.
    pub(super) fn sightings<'t>(&self, text: &'t str, place: Place) -> Option<Sighted<'t>> {
        let cases = Cases::of(text);
        let found = match place {
            Place::Definition => self.sighted(&cases, 0..text.len(), &self.every),
            Place::Output => {
                let opening = self.sighted(&cases, 0..text.len(), &self.outputs);
                let regions = regions(text, &opening).into_iter();
                regions
                    .flat_map(|region| self.sighted(&cases, region, &self.every))
                    .collect()
            }
        };
        if found.is_empty() {
            return None;
        }
        let regions = regions(text, &found);
        Some(Sighted::of(cases, found, regions))
    }

    fn sighted(&self, cases: &Cases<'_>, part: Range<usize>, anchors: &Anchors) -> Vec<Sighting> {
        let text = cases.text;
        let anchored = anchors.literals.find(&text.as_bytes()[part.clone()]);
        if anchored.is_empty() {
            return Vec::new();
        }
        let mut windows: Vec<(usize, Range<usize>)> = Vec::with_capacity(anchored.len());
        for (start, literal) in anchored {
            let start = part.start + start;
            let window = window(text, start..start + anchors.literals.text(literal).len());
            windows.extend(
                anchors.opens[literal]
                    .iter()
                    .map(|shape| (*shape, window.clone())),
            );
        }
        let mut found = Vec::new();
        for (shape, window) in joined(windows) {
            self.shapes[shape].run(cases, window, &mut found);
        }
        self.weigh(cases, &mut found);
        found.sort_by_key(|sighting| (sighting.span.start, sighting.signal));
        found
    }

    /// What is sent somewhere is sent away where it is worth something. As one pattern this would be slow.
    fn weigh(&self, cases: &Cases<'_>, found: &mut Vec<Sighting>) {
        let sent: Vec<Range<usize>> = found
            .iter()
            .filter(|sighting| sighting.signal == Signal::SendTo)
            .map(|sighting| sighting.span.clone())
            .collect();
        for span in sent {
            if self.is_beside(Signal::Goods, cases, span.clone()) {
                found.push(Sighting {
                    signal: Signal::SendAway,
                    span,
                    tool: None,
                });
            }
        }
    }

    /// Whether a signal without anchors stands in a part of a text.
    pub(super) fn is_beside(&self, signal: Signal, cases: &Cases<'_>, part: Range<usize>) -> bool {
        let mut shapes = self.shapes.iter().filter(|lazy| lazy.shape.signal == signal);
        shapes.any(|lazy| lazy.regex().is_match(&lazy.bytes(cases)[part.clone()]))
    }

    /// Where a signal without anchors stands in a part of a text, by place.
    pub(super) fn all_beside(
        &self,
        signal: Signal,
        cases: &Cases<'_>,
        part: Range<usize>,
    ) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for lazy in self.shapes.iter().filter(|lazy| lazy.shape.signal == signal) {
            lazy.run(cases, part.clone(), &mut found);
        }
        let mut spans: Vec<Range<usize>> = found.into_iter().map(|sighting| sighting.span).collect();
        spans.sort_unstable_by_key(|span| span.start);
        spans
    }
}

impl Lazy {
    /// The text as the pattern wants it.
    fn bytes<'c>(&self, cases: &'c Cases<'_>) -> &'c [u8] {
        match self.minds_case {
            true => cases.text.as_bytes(),
            false => cases.lower().as_bytes(),
        }
    }

    fn run(&self, cases: &Cases<'_>, window: Range<usize>, found: &mut Vec<Sighting>) {
        let bytes = &self.bytes(cases)[window.clone()];
        let moved = |span: Range<usize>| window.start + span.start..window.start + span.end;
        for spans in self.regex().find_iter(bytes) {
            let tool = self
                .names_tool
                .then(|| self.regex().captures_at(bytes, spans.start()))
                .flatten()
                .and_then(|captures| Some(moved(captures.name("tool")?.range())));
            found.push(Sighting {
                signal: self.shape.signal,
                span: moved(spans.range()),
                tool,
            });
        }
    }
}

/// The windows of each shape, which come by their anchors' places: those that meet made one.
fn joined(mut windows: Vec<(usize, Range<usize>)>) -> Vec<(usize, Range<usize>)> {
    windows.sort_by_key(|(shape, _)| *shape);
    windows.dedup_by(|(shape, window), (last_shape, last)| {
        let meets = shape == last_shape && window.start <= last.end;
        if meets {
            last.end = window.end.max(last.end);
        }
        meets
    });
    windows
}

/// The parts of `text` around what was sighted, apart from each other.
fn regions(text: &str, sightings: &[Sighting]) -> Vec<Range<usize>> {
    let mut regions: Vec<Range<usize>> = Vec::new();
    for sighting in sightings {
        let start = text.floor_char_boundary(sighting.span.start.saturating_sub(AROUND));
        let end = text.ceil_char_boundary((sighting.span.end + AROUND).min(text.len()));
        match regions.last_mut() {
            Some(last) if start <= last.end + BEFORE + AFTER => last.end = end.max(last.end),
            Some(_) | None => regions.push(start..end),
        }
    }
    regions
}

/// The part of `text` around an anchor, between characters and not within a word.
fn window(text: &str, anchor: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let mut start = anchor.start.saturating_sub(BEFORE);
    let mut end = (anchor.end + AFTER).min(bytes.len());
    for _ in 0..24 {
        if start == 0 || bytes[start - 1].is_ascii_whitespace() {
            break;
        }
        start -= 1;
    }
    for _ in 0..24 {
        if end == bytes.len() || bytes[end].is_ascii_whitespace() {
            break;
        }
        end += 1;
    }
    text.floor_char_boundary(start)..text.ceil_char_boundary(end)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test]
    fn every_pattern_compiles_and_none_matches_nothing() {
        for shape in signals::shapes() {
            let regex = compile(shape.pattern).unwrap_or_else(|error| panic!("{:?}: {error}", shape.signal));
            assert!(!regex.is_match(b""), "{:?}", shape.signal);
        }
    }

    #[test]
    fn anchors_are_in_lower_case() {
        for anchor in signals::shapes().flat_map(|shape| shape.anchors) {
            assert_eq!(*anchor, anchor.to_lowercase());
            let has_letters = anchor.bytes().any(|byte| byte.is_ascii_alphabetic());
            assert!(anchor.len() > 2 || !has_letters, "{anchor}: too short");
        }
    }

    #[test_case("Ab%C", "ab%c"; "letters")]
    #[test_case(r"\W\\D[^A-Z]", r"\W\\d[^a-z]"; "escapes")]
    #[test_case("(?P<tool>X)", "(?P<tool>x)"; "groups")]
    fn patterns_are_put_in_lower_case(pattern: &str, expected: &str) {
        assert_eq!(in_lower_case(pattern), expected);
    }
}

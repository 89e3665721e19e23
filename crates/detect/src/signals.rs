//! Signals: what a sentence says, as patterns over classes of words.

use std::{collections::BTreeSet, ops::Range};

use aho_corasick::AhoCorasick;
use serde::Deserialize;

use crate::{
    tokens::{Shape, Token},
    vocabulary::{Class, Vocabulary},
};

/// `signals.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    signal: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// A pattern is a row of elements: `{class}`, `word|word`, each after a gap of at most so many tokens (`3`).
    /// `{a}&{b}` is a token of both; `^` begins the sentence.
    patterns: Vec<String>,
    /// Texts in other scripts: every group has a part in the sentence.
    #[serde(default)]
    texts: Vec<Vec<Vec<String>>>,
    /// Whether what is forbidden counts as well.
    #[serde(default)]
    negated: bool,
}

/// One element of a pattern: tokens of all of `classes`, at most `gap` tokens after the last.
#[derive(Debug)]
struct Element {
    gap: u8,
    classes: Vec<Class>,
    is_not: Vec<Class>,
}

#[derive(Debug)]
struct Pattern {
    signal: u16,
    elements: Vec<Element>,
    at_start: bool,
    /// Whether what is forbidden counts.
    negated: bool,
}

/// All signals.
#[derive(Debug)]
pub(crate) struct Signals {
    names: Vec<String>,
    patterns: Vec<Pattern>,
    /// For each class the patterns that are looked for where it stands: each of them has it.
    opened: Vec<Vec<usize>>,
    /// For each text signal, the numbers of the parts of each group.
    texts: Vec<(u16, Vec<Vec<usize>>)>,
    /// All parts of text signals.
    part_texts: Vec<String>,
    parts: AhoCorasick,
    /// The class of words about attacks.
    attack: Class,
    /// The class of words that forbid.
    not: Class,
    /// The class of `without`, which after another prohibition allows.
    without: Class,
    /// The class of words that say that there is none of what follows.
    none: Class,
    /// The class of words after which a prohibition holds no longer.
    resume: Class,
}

/// A signal in a sentence.
#[derive(Debug)]
pub(crate) struct Signal {
    number: u16,
    /// Where it stands in the text.
    pub(crate) span: Range<usize>,
    /// Whether it stands in quotation marks.
    is_quoted: bool,
}

/// What one sentence says.
#[derive(Debug, Default)]
pub(crate) struct Sentence {
    /// Signals in it, each with its first match.
    pub(crate) signals: Vec<Signal>,
    /// Where it stands in the text.
    pub(crate) span: Range<usize>,
    /// Words and phrases about attacks in it.
    pub(crate) attacks: u32,
}

impl Signal {
    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    pub(crate) const fn is_quoted(&self) -> bool {
        self.is_quoted
    }
}

impl Sentence {
    /// The first match of a signal.
    pub(crate) fn find(&self, signal: u16) -> Option<&Signal> {
        self.signals.iter().find(|known| known.number == signal)
    }

    pub(crate) fn has(&self, signal: u16) -> bool {
        self.find(signal).is_some()
    }
}

/// Shortest word that is an anchor: shorter ones stand in most texts.
const MIN_ANCHOR_BYTES: usize = 4;

/// How far before and after the tokens of a sentence parts of its text stand.
const BRACKET_BYTES: usize = 4;

/// Longest sentence in which parts of texts stand together, where it has no spaces to tell words by.
const MAX_FOREIGN_BYTES: usize = 300;

/// Positions of tokens of one sentence.
type Places = u128;

/// Masks of the classes of one sentence; kept between sentences.
#[derive(Debug)]
pub(crate) struct Masks {
    of: Vec<Places>,
    touched: Vec<Class>,
}

impl Masks {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            of: vec![0; classes],
            touched: Vec::new(),
        }
    }

    fn clear(&mut self) {
        for class in self.touched.drain(..) {
            self.of[usize::from(class)] = 0;
        }
    }

    pub(crate) fn add(&mut self, index: usize, class: Class) {
        let mask = &mut self.of[usize::from(class)];
        if *mask == 0 {
            self.touched.push(class);
        }
        *mask |= 1 << index;
    }

    fn get(&self, class: Class) -> Places {
        self.of[usize::from(class)]
    }
}

impl Signals {
    pub(crate) fn parse(text: &str, vocabulary: &mut Vocabulary) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut parts: Vec<String> = Vec::new();
        let mut signals = Self {
            part_texts: Vec::new(),
            parts: AhoCorasick::new(&parts).map_err(|error| error.to_string())?,
            names: Vec::new(),
            patterns: Vec::new(),
            opened: Vec::new(),
            texts: Vec::new(),
            attack: vocabulary.known("attack")?,
            not: vocabulary.known("not")?,
            without: vocabulary.known("without")?,
            none: vocabulary.known("none")?,
            resume: vocabulary.known("resume")?,
        };
        for entry in file.signal {
            let number = match signals.names.iter().position(|name| *name == entry.name) {
                Some(known) => known,
                None => {
                    signals.names.push(entry.name.clone());
                    signals.names.len() - 1
                }
            };
            let number = u16::try_from(number).map_err(|error| error.to_string())?;
            for pattern in &entry.patterns {
                let parsed = Pattern::parse(pattern, number, entry.negated, vocabulary);
                signals
                    .patterns
                    .push(parsed.map_err(|error| format!("{}: {pattern}: {error}", entry.name))?);
            }
            for groups in entry.texts {
                let mut numbered = Vec::new();
                for group in groups {
                    numbered.push((parts.len()..parts.len() + group.len()).collect());
                    parts.extend(group);
                }
                signals.texts.push((number, numbered));
            }
        }
        signals.opened.resize(vocabulary.len(), Vec::new());
        for (number, pattern) in signals.patterns.iter().enumerate() {
            let classes = || pattern.elements.iter().flat_map(|element| &element.classes);
            let opener = classes()
                .find(|class| !vocabulary.is_common(**class))
                .or_else(|| classes().next_back());
            let opener = opener.ok_or("a pattern has only what it must not be")?;
            signals.opened[usize::from(*opener)].push(number);
        }
        signals.parts = AhoCorasick::new(&parts).map_err(|error| error.to_string())?;
        signals.part_texts = parts;
        Ok(signals)
    }

    /// Words of which every text has one that has one of `signals`, but for the shortest.
    pub(crate) fn anchors(&self, signals: &BTreeSet<u16>, vocabulary: &Vocabulary) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        for pattern in self
            .patterns
            .iter()
            .filter(|pattern| signals.contains(&pattern.signal))
        {
            let classes = pattern.elements.iter().flat_map(|element| &element.classes);
            let words = classes
                .map(|class| vocabulary.anchors(*class))
                .filter(|words| !words.is_empty());
            let weight = |words: &Vec<String>| {
                let is_heavy = |word: &&String| word.len() < MIN_ANCHOR_BYTES || vocabulary.has_common(word);
                (words.iter().filter(is_heavy).count(), words.len())
            };
            let rarest = words.min_by_key(weight).into_iter().flatten();
            anchors
                .extend(rarest.filter(|word| word.len() >= MIN_ANCHOR_BYTES && !vocabulary.has_common(word)));
        }
        for (_, groups) in self.texts.iter().filter(|(signal, _)| signals.contains(signal)) {
            anchors.extend(
                groups
                    .iter()
                    .take(1)
                    .flatten()
                    .map(|part| self.part_texts[*part].clone()),
            );
        }
        anchors
    }

    /// The number of a signal.
    pub(crate) fn known(&self, name: &str) -> Option<u16> {
        let number = self.names.iter().position(|known| known == name)?;
        u16::try_from(number).ok()
    }

    pub(crate) fn name(&self, signal: u16) -> &str {
        self.names.get(usize::from(signal)).map_or("", String::as_str)
    }

    /// What a sentence says. `own` are names that are the server's own.
    pub(crate) fn read(
        &self,
        text: &str,
        tokens: &[Token],
        vocabulary: &Vocabulary,
        masks: &mut Masks,
        named: &dyn Fn(&str) -> Option<Class>,
        opening: Option<Class>,
    ) -> Sentence {
        masks.clear();
        if let Some(class) = opening {
            masks.add(0, class);
        }
        vocabulary.classify(text, tokens, |index, class| masks.add(index, class));
        for (index, token) in tokens.iter().enumerate() {
            let word = &text[token.span.clone()];
            if let Some(class) = named(word) {
                vocabulary.unions(class).for_each(|class| masks.add(index, class));
            }
        }
        let span = match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => first.span.start..last.span.end,
            _ => 0..0,
        };
        // `Never without asking` asks.
        let first = masks.get(self.not).trailing_zeros();
        let allowed = masks.get(self.without) & !1_u128.checked_shl(first).unwrap_or_default();
        masks.of[usize::from(self.not)] &= !allowed;
        let forbidden = self.forbidden(tokens.len(), masks);
        let attacks = masks.get(self.attack);
        let mut sentence = Sentence {
            signals: Vec::new(),
            span,
            // Those that follow one another are one phrase.
            attacks: (attacks & !(attacks << 1)).count_ones(),
        };
        for number in masks
            .touched
            .iter()
            .flat_map(|class| &self.opened[usize::from(*class)])
        {
            let pattern = &self.patterns[*number];
            if sentence.has(pattern.signal) {
                continue;
            }
            if let Some((first, last)) = pattern.find(masks, forbidden, self.not) {
                let is_quoted = [first, last]
                    .iter()
                    .all(|index| tokens[*index].shapes.has(Shape::Quoted));
                let span = tokens[first].span.start..tokens[last].span.end;
                sentence.signals.push(Signal {
                    number: pattern.signal,
                    span,
                    is_quoted,
                });
            }
        }
        // Brackets stand beside the first and the last token.
        let from = text.floor_char_boundary(sentence.span.start.saturating_sub(BRACKET_BYTES));
        let to = text.ceil_char_boundary((sentence.span.end + BRACKET_BYTES).min(text.len()));
        let within = &text[from..to];
        let mut said: Vec<usize> = self
            .parts
            .find_overlapping_iter(within)
            .map(|part| part.pattern().as_usize())
            .collect();
        if said.is_empty() {
            return sentence;
        }
        said.sort_unstable();
        for (signal, groups) in &self.texts {
            let is_far_apart = within.len() > MAX_FOREIGN_BYTES && groups.len() > 1 && !within.is_ascii();
            if !is_far_apart
                && !sentence.has(*signal)
                && groups
                    .iter()
                    .all(|group| group.iter().any(|part| said.binary_search(part).is_ok()))
            {
                let span = sentence.span.clone();
                sentence.signals.push(Signal {
                    number: *signal,
                    span,
                    is_quoted: false,
                });
            }
        }
        sentence
    }

    /// Tokens that a prohibition governs: up to where another clause begins.
    fn forbidden(&self, length: usize, masks: &Masks) -> Places {
        let not = masks.get(self.not);
        let none = masks.get(self.none);
        let resume = masks.get(self.resume);
        let mut forbidden = 0;
        let mut governed = 0_u32;
        for index in 0..length.min(128) {
            let bit = 1 << index;
            if not & bit != 0 {
                governed = 12;
            } else if none & bit != 0 && resume & bit == 0 {
                governed = governed.max(3);
            } else if resume & bit != 0 {
                governed = 0;
            }
            if governed > 0 {
                forbidden |= bit;
                governed -= 1;
            }
        }
        forbidden
    }
}

impl Pattern {
    fn parse(text: &str, signal: u16, negated: bool, vocabulary: &mut Vocabulary) -> Result<Self, String> {
        let mut pattern = Self {
            signal,
            elements: Vec::new(),
            at_start: false,
            negated,
        };
        let mut gap = 0;
        for word in text.split_whitespace() {
            if word == "^" {
                pattern.at_start = true;
            } else if let Ok(number) = word.parse() {
                gap = number;
            } else {
                let mut element = Element {
                    gap,
                    classes: Vec::new(),
                    is_not: Vec::new(),
                };
                for part in word.split('&') {
                    let (is_not, part) = match part.strip_prefix('-') {
                        Some(part) => (true, part),
                        None => (false, part),
                    };
                    let class = match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                        Some(name) if !name.contains('|') => vocabulary.known(name)?,
                        Some(_) | None => vocabulary.listed(part)?,
                    };
                    if is_not {
                        element.is_not.push(class)
                    } else {
                        element.classes.push(class)
                    }
                }
                pattern.elements.push(element);
                gap = 0;
            }
        }
        match pattern.elements.is_empty() {
            true => Err("it has no element".to_owned()),
            false => Ok(pattern),
        }
    }

    fn find(&self, masks: &Masks, forbidden: Places, not: Class) -> Option<(usize, usize)> {
        if self
            .elements
            .iter()
            .any(|element| element.classes.iter().any(|class| masks.get(*class) == 0))
        {
            return None;
        }
        let forbids = self.negated || self.elements.iter().any(|element| element.classes.contains(&not));
        let allowed = if forbids { Places::MAX } else { !forbidden };
        let places = |element: &Element| {
            let here = element
                .classes
                .iter()
                .fold(allowed, |mask, class| mask & masks.get(*class));
            element
                .is_not
                .iter()
                .fold(here, |mask, class| mask & !masks.get(*class))
        };
        let (opener, rest) = self.elements.split_first()?;
        let mut starts = places(opener);
        if self.at_start {
            starts &= smeared(1, opener.gap);
        }
        let ends = |starts: Places| {
            rest.iter().fold(starts, |reached, element| match reached {
                0 => 0,
                reached => places(element) & smeared(reached, element.gap) << 1,
            })
        };
        if ends(starts) == 0 {
            return None;
        }
        // The last start that leads to an end has the nearest one.
        while starts != 0 {
            let last = 127 - starts.leading_zeros();
            let reached = ends(1 << last);
            if reached != 0 {
                return Some((
                    usize::try_from(last).ok()?,
                    usize::try_from(reached.trailing_zeros()).ok()?,
                ));
            }
            starts &= !(1 << last);
        }
        None
    }
}

/// Every place, and the `by` places after it.
fn smeared(places: Places, by: u8) -> Places {
    let mut smeared = places;
    let mut done = 0;
    while done < by {
        let step = (by - done).min(done + 1);
        smeared |= smeared << step;
        done += step;
    }
    smeared
}

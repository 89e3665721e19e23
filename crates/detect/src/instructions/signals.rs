//! Signals: the meaning of a sentence, as patterns over classes of words.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use serde::Deserialize;

use crate::instructions::{
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
    /// A pattern is a sequence of elements: `{class}` or `word|word`, each after a gap of at most the given number of
    /// tokens (`3`). `{a}&{b}` is a token of both classes; `^` is the beginning of the sentence.
    patterns: Vec<String>,
    /// Texts in other scripts: one text of every group is in the sentence.
    #[serde(default)]
    texts: Vec<Vec<Vec<String>>>,
    /// True if a prohibition of it counts as well.
    #[serde(default)]
    negated: bool,
}

/// One element of a pattern: a token of all `classes`, at most `gap` tokens after the previous one.
#[derive(Debug)]
struct Element {
    gap: u8,
    classes: Vec<Class>,
    is_not: Vec<Class>,
}

#[derive(Debug)]
struct Pattern {
    signal: u8,
    elements: Vec<Element>,
    at_start: bool,
    /// True if a prohibition of it counts.
    negated: bool,
}

/// Most classes of a pattern that are checked before it is searched for.
const MAX_NEEDED: usize = 5;

/// A pattern that is searched for if a class occurs, with the classes to check first: few sentences have all of them.
#[derive(Clone, Debug)]
struct Opened {
    pattern: u16,
    needed: [Class; MAX_NEEDED],
}

/// All signals.
#[derive(Debug)]
pub(crate) struct Signals {
    names: Vec<String>,
    patterns: Vec<Pattern>,
    /// For each class the patterns that are searched for if it occurs; all of them contain it.
    opened: Vec<Vec<Opened>>,
    /// For each text signal, the numbers of the parts of each group.
    texts: Vec<(u8, Vec<Vec<usize>>)>,
    /// All parts of text signals.
    part_texts: Vec<String>,
    parts: AhoCorasick,
    /// The parts of the first groups: without any of them no text signal occurs. Few texts are not ASCII, whose table
    /// is small.
    firsts: AhoCorasick,
    foreign_firsts: AhoCorasick,
    /// The class of words about attacks.
    attack: Class,
    /// The class of words that forbid.
    not: Class,
    /// The class of `without`, which after another prohibition allows.
    without: Class,
    /// The class of words that deny the existence of what follows.
    none: Class,
    /// The class of words that end a prohibition.
    resume: Class,
}

/// Signals, one bit each.
pub(crate) type Set = u128;

/// A signal in a sentence.
#[derive(Debug)]
pub(crate) struct Signal {
    number: u8,
    /// The range in the text.
    pub(crate) span: Range<usize>,
    /// True if it is in quotation marks.
    is_quoted: bool,
}

/// The signals of one sentence.
#[derive(Debug, Default)]
pub(crate) struct Sentence {
    /// Signals in it, each with its first match.
    pub(crate) signals: Vec<Signal>,
    /// The same signals as a set.
    pub(crate) said: Set,
    /// The range in the text.
    pub(crate) span: Range<usize>,
    /// Number of words and phrases about attacks in it.
    pub(crate) attacks: u32,
}

impl Signal {
    /// Returns the signal as a set.
    pub(crate) const fn bit(&self) -> Set {
        1 << self.number
    }

    pub(crate) const fn is_quoted(&self) -> bool {
        self.is_quoted
    }
}

impl Sentence {
    /// Returns whether it has one of these signals.
    pub(crate) const fn has(&self, signals: Set) -> bool {
        self.said & signals != 0
    }

    fn add(&mut self, number: u8, span: Range<usize>, is_quoted: bool) {
        self.said |= 1 << number;
        self.signals.push(Signal {
            number,
            span,
            is_quoted,
        });
    }
}

/// Bytes before and after the tokens of a sentence in which parts of its text may be.
pub(crate) const BRACKET_BYTES: usize = 4;

/// Longest sentence in which the parts of a text belong together, if it has no spaces between words.
const MAX_FOREIGN_BYTES: usize = 300;

/// Positions of tokens of one sentence.
type Places = u128;

/// Masks of the classes of one sentence; the memory is reused for the next one.
#[derive(Debug)]
pub(crate) struct Masks {
    /// The number of classes.
    classes: usize,
    /// For each class the number of its mask plus one, once a sentence was read. Numbers are much shorter than masks, and
    /// few classes have one.
    numbers: Vec<u16>,
    /// The classes of the sentence, each with its mask.
    of: Vec<(Class, Places)>,
}

impl Masks {
    pub(crate) const fn new(classes: usize) -> Self {
        Self {
            classes,
            numbers: Vec::new(),
            of: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.numbers.resize(self.classes, 0);
        for (class, _) in self.of.drain(..) {
            self.numbers[usize::from(class)] = 0;
        }
    }

    pub(crate) fn add(&mut self, index: usize, class: Class) {
        let number = &mut self.numbers[usize::from(class)];
        match self.of.get_mut(usize::from(*number).wrapping_sub(1)) {
            Some((_, mask)) => *mask |= 1 << index,
            None => {
                self.of.push((class, 1 << index));
                // Classes are numbered in as many bits.
                *number = u16::try_from(self.of.len()).unwrap_or_default();
            }
        }
    }

    fn get(&self, class: Class) -> Places {
        let number = usize::from(self.numbers[usize::from(class)]);
        self.of.get(number.wrapping_sub(1)).map_or(0, |(_, mask)| *mask)
    }

    /// Takes places out of the mask of a class.
    fn remove(&mut self, class: Class, places: Places) {
        let number = usize::from(self.numbers[usize::from(class)]);
        if let Some((_, mask)) = self.of.get_mut(number.wrapping_sub(1)) {
            *mask &= !places;
        }
    }
}

impl Signals {
    pub(crate) fn parse(text: &str, vocabulary: &mut Vocabulary) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut parts: Vec<String> = Vec::new();
        let mut signals = Self {
            part_texts: Vec::new(),
            parts: automaton(&parts, AhoCorasickKind::ContiguousNFA)?,
            firsts: automaton(&parts, AhoCorasickKind::ContiguousNFA)?,
            foreign_firsts: automaton(&parts, AhoCorasickKind::ContiguousNFA)?,
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
            let number = u8::try_from(number)
                .ok()
                .filter(|number| u32::from(*number) < Set::BITS);
            let number = number.ok_or("there are more signals than bits of a set")?;
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
        let common = vocabulary.common();
        for (number, pattern) in signals.patterns.iter().enumerate() {
            let classes = || pattern.elements.iter().flat_map(|element| &element.classes);
            let opener = classes()
                .find(|class| !common[usize::from(**class)])
                .or_else(|| classes().next_back());
            let opener = opener.ok_or("a pattern has only what it must not be")?;
            let mut needed = [*opener; MAX_NEEDED];
            needed
                .iter_mut()
                .zip(classes())
                .for_each(|(needed, class)| *needed = *class);
            let pattern = u16::try_from(number).map_err(|error| error.to_string())?;
            signals.opened[usize::from(*opener)].push(Opened { pattern, needed });
        }
        signals.parts = automaton(&parts, AhoCorasickKind::ContiguousNFA)?;
        let firsts = signals
            .texts
            .iter()
            .flat_map(|(_, groups)| groups.first().into_iter().flatten());
        let (ascii, foreign): (Vec<&String>, Vec<_>) = firsts
            .map(|part: &usize| &parts[*part])
            .partition(|part| part.is_ascii());
        signals.firsts = automaton(&ascii, AhoCorasickKind::DFA)?;
        signals.foreign_firsts = automaton(&foreign, AhoCorasickKind::ContiguousNFA)?;
        signals.part_texts = parts;
        Ok(signals)
    }

    /// Returns for each class whether a pattern or a built-in check uses it.
    pub(crate) fn used(&self, classes: usize) -> Vec<bool> {
        let mut used = vec![false; classes];
        let elements = self.patterns.iter().flat_map(|pattern| &pattern.elements);
        let asked = elements.flat_map(|element| element.classes.iter().chain(&element.is_not));
        for class in asked.chain(&[self.attack, self.not, self.without, self.none, self.resume]) {
            used[usize::from(*class)] = true;
        }
        used
    }

    /// Returns for each pattern its signal as a set, and the classes that it needs.
    pub(crate) fn needed(&self) -> impl Iterator<Item = (Set, impl Iterator<Item = Class>)> {
        self.patterns.iter().map(|pattern| {
            let classes = pattern.elements.iter().flat_map(|element| &element.classes);
            (1 << pattern.signal, classes.copied())
        })
    }

    /// Returns for each text signal the signal as a set, and its groups of parts.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (Set, Vec<Vec<&str>>)> {
        self.texts.iter().map(|(signal, groups)| {
            let parts =
                |group: &Vec<usize>| group.iter().map(|part| self.part_texts[*part].as_str()).collect();
            (1 << *signal, groups.iter().map(parts).collect())
        })
    }

    /// Returns the signal of this name as a set.
    pub(crate) fn known(&self, name: &str) -> Option<Set> {
        let number = self.names.iter().position(|known| known == name)?;
        Some(1 << number)
    }

    /// Reads the signals of a sentence. `named` returns the class of words that are names.
    pub(crate) fn read(
        &self,
        text: &str,
        tokens: &[Token],
        vocabulary: &Vocabulary,
        masks: &mut Masks,
        named: impl Fn(&str) -> Option<Class>,
        opening: Option<Class>,
    ) -> Sentence {
        masks.clear();
        if let Some(class) = opening {
            masks.add(0, class);
        }
        let mut add =
            |index: usize, classes: &[Class]| classes.iter().for_each(|class| masks.add(index, *class));
        vocabulary.classify(text, tokens, &mut add);
        for (index, token) in tokens.iter().enumerate() {
            if let Some(class) = named(&text[token.span.clone()]) {
                add(index, vocabulary.told(class));
            }
        }
        let span = match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => first.span.start..last.span.end,
            _ => 0..0,
        };
        // `Never without asking` demands asking.
        let first = masks.get(self.not).trailing_zeros();
        let allowed = masks.get(self.without) & !1_u128.checked_shl(first).unwrap_or_default();
        masks.remove(self.not, allowed);
        let forbidden = self.forbidden(tokens.len(), masks);
        let attacks = masks.get(self.attack);
        let mut sentence = Sentence {
            span,
            // Adjacent words are one phrase.
            attacks: (attacks & !(attacks << 1)).count_ones(),
            ..Sentence::default()
        };
        let opened = masks
            .of
            .iter()
            .flat_map(|(class, _)| &self.opened[usize::from(*class)]);
        for opened in opened.filter(|opened| opened.needed.iter().all(|class| masks.get(*class) != 0)) {
            let pattern = &self.patterns[usize::from(opened.pattern)];
            if sentence.has(1 << pattern.signal) {
                continue;
            }
            if let Some((first, last)) = pattern.find(masks, forbidden, self.not) {
                let is_quoted = [first, last]
                    .iter()
                    .all(|index| tokens[*index].shapes.has(Shape::Quoted));
                let span = tokens[first].span.start..tokens[last].span.end;
                sentence.add(pattern.signal, span, is_quoted);
            }
        }
        // Brackets may be next to the first and the last token.
        let from = text.floor_char_boundary(sentence.span.start.saturating_sub(BRACKET_BYTES));
        let to = text.ceil_char_boundary((sentence.span.end + BRACKET_BYTES).min(text.len()));
        let within = &text[from..to];
        let opens =
            self.firsts.is_match(within) || !within.is_ascii() && self.foreign_firsts.is_match(within);
        if !opens {
            return sentence;
        }
        let mut said: Vec<usize> = self
            .parts
            .find_overlapping_iter(within)
            .filter(|part| is_whole(within, part.range()))
            .map(|part| part.pattern().as_usize())
            .collect();
        said.sort_unstable();
        for (signal, groups) in &self.texts {
            let is_far_apart = within.len() > MAX_FOREIGN_BYTES && groups.len() > 1 && !within.is_ascii();
            if !is_far_apart
                && !sentence.has(1 << signal)
                && groups
                    .iter()
                    .all(|group| group.iter().any(|part| said.binary_search(part).is_ok()))
            {
                sentence.add(*signal, sentence.span.clone(), false);
            }
        }
        sentence
    }

    /// Returns the tokens to which a prohibition applies: up to the next clause.
    fn forbidden(&self, length: usize, masks: &Masks) -> Places {
        let not = masks.get(self.not);
        let none = masks.get(self.none);
        let resume = masks.get(self.resume);
        let mut forbidden = 0;
        if not | none == 0 {
            return forbidden;
        }
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

/// Returns whether the ends of a part are not within a word of ASCII letters and digits.
fn is_whole(text: &str, part: Range<usize>) -> bool {
    let is_inside = |at: usize| {
        let around = at
            .checked_sub(1)
            .and_then(|before| text.as_bytes().get(before..=at));
        around.is_some_and(|around| around.iter().all(u8::is_ascii_alphanumeric))
    };
    !is_inside(part.start) && !is_inside(part.end)
}

fn automaton<P: AsRef<[u8]>>(parts: &[P], kind: AhoCorasickKind) -> Result<AhoCorasick, String> {
    let built = AhoCorasick::builder().kind(Some(kind)).build(parts);
    built.map_err(|error| error.to_string())
}

impl Pattern {
    fn parse(text: &str, signal: u8, negated: bool, vocabulary: &mut Vocabulary) -> Result<Self, String> {
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
        // The last start from which an end can be reached has the nearest end.
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

/// Returns every position, and the `by` positions after it.
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

//! The gate before the rules: sentences of a long output that may open one, told by their words and signs alone.
//!
//! A pattern holds only in a sentence that has a word of each of its classes, and a rule only beside sentences with a
//! pattern of each of its groups. One look into a table for each word of a text tells the classes; what cannot open a
//! rule is never split into tokens.

use std::{collections::HashMap, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use foldhash::fast::RandomState;

use crate::instructions::{
    signals::{BRACKET_BYTES, Set, Signals},
    tokens,
    vocabulary::{Class, Traces, Vocabulary},
};

/// Words of bits in a set of classes.
const SET_WORDS: usize = 6;

/// Most classes that patterns may need.
const MAX_CLASSES: usize = SET_WORDS * u64::BITS as usize;

/// Bytes between a part of a text and the sentence that it may belong to: signs beside it, and the rest of a character.
const REACH_BYTES: usize = 2 * BRACKET_BYTES;

/// Classes of words that patterns need, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Classes([u64; SET_WORDS]);

impl Classes {
    const fn add(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn extend(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    fn contains(&self, other: &Self) -> bool {
        let lacking = self
            .0
            .iter()
            .zip(other.0)
            .fold(0, |lacking, (word, wanted)| lacking | wanted & !word);
        lacking == 0
    }

    fn has_any(&self, others: &Self) -> bool {
        let common = self.0.iter().zip(others.0);
        common.fold(0, |common, (word, other)| common | word & other) != 0
    }

    /// Returns the bits that are in both sets.
    fn common<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = usize> + use<'s> {
        let words = self.0.iter().zip(other.0).enumerate();
        words.flat_map(|(index, (word, other))| {
            let mut left = word & other;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                (left != 0).then(|| {
                    left &= left - 1;
                    64 * index + bit
                })
            })
        })
    }
}

/// A pattern, as far as the gate looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    classes: Classes,
    signal: Set,
}

/// The words and signs of patterns, and which of them each pattern needs.
#[derive(Debug)]
pub(super) struct Gate {
    /// Each word, with the classes that it may stand for.
    words: HashMap<Box<str>, Classes, RandomState>,
    /// The same for signs and the first digits of numbers; `signs[sign_numbers[byte]]`.
    signs: Vec<Classes>,
    sign_numbers: [u8; 256],
    /// For each class the patterns of which it is the rarest one.
    patterns: Vec<Vec<Needs>>,
    /// The classes that are the rarest one of some pattern.
    rarest: Classes,
    /// The same of patterns of signals that open a rule.
    rarest_of_openers: Classes,
    /// Signals that open a rule.
    openers: Set,
    /// Signals with a pattern that needs no word.
    always: Set,
    /// Parts of texts that say a signal.
    parts: Vec<Parts>,
}

/// Some parts of texts that say signals.
#[derive(Debug)]
struct Parts {
    /// Finds the first place at which one of them stands.
    first: AhoCorasick,
    parts: Vec<(Set, Box<str>)>,
    is_ascii: bool,
}

impl Parts {
    /// Most parts that are looked for with vectors, of which each has to have [`Self::LONG`] bytes.
    const TOGETHER: usize = 60;
    const LONG: usize = 4;

    /// Makes groups of parts, such that those of each are found fast.
    fn groups(mut parts: Vec<(Set, Box<str>)>) -> Result<Vec<Self>, String> {
        let kind = |(_, part): &(Set, Box<str>)| (part.is_ascii(), part.len() < Self::LONG);
        parts.sort_by_key(kind);
        let alike = parts.chunk_by(|one, other| kind(one) == kind(other));
        alike
            .flat_map(|alike| alike.chunks(Self::TOGETHER))
            .map(Self::new)
            .collect()
    }

    fn new(parts: &[(Set, Box<str>)]) -> Result<Self, String> {
        // Of this kind the first place is found with vectors.
        let first = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .match_kind(MatchKind::LeftmostFirst)
            .build(parts.iter().map(|(_, part)| part.as_bytes()))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            first,
            parts: parts.to_vec(),
            is_ascii: parts.iter().all(|(_, part)| part.is_ascii()),
        })
    }

    /// Tells of each part that stands in a text, and of its signals.
    fn each(&self, text: &str, mut tell: impl FnMut(Range<usize>, Set)) {
        let mut from = 0;
        while let Some(found) = self.first.find(Input::new(text).span(from..text.len())) {
            let start = found.start();
            let rest = &text.as_bytes()[start..];
            for (signals, part) in &self.parts {
                if rest.starts_with(part.as_bytes()) {
                    tell(start..start + part.len(), *signals);
                }
            }
            from = start + 1;
        }
    }
}

/// A part of a text between places where sentences certainly begin.
#[derive(Debug)]
struct Stretch {
    /// The range in the text.
    span: Range<usize>,
    /// The classes of its words and signs.
    seen: Classes,
    /// The signals that parts of the text in it or beside it say.
    said: Set,
}

impl Gate {
    /// Makes the gate for rules over these signals; every class of words is known by now.
    pub(super) fn new(
        signals: Set,
        openers: Set,
        all: &Signals,
        vocabulary: &Vocabulary,
    ) -> Result<Self, String> {
        let parts = all.first_parts().filter(|(signal, _)| signal & signals != 0);
        let parts = parts.map(|(signal, part)| (signal, Box::from(part)));
        let mut gate = Self {
            words: HashMap::default(),
            signs: vec![Classes::default()],
            sign_numbers: [0; 256],
            patterns: Vec::new(),
            rarest: Classes::default(),
            rarest_of_openers: Classes::default(),
            openers,
            always: 0,
            parts: Parts::groups(parts.collect())?,
        };
        let traces = vocabulary.traces();
        let tag = vocabulary.known("tag")?;
        let mut numbers: HashMap<Class, Option<usize>, RandomState> = HashMap::default();
        let mut frequencies: Vec<f64> = Vec::new();
        for (signal, needed) in all.needed().filter(|(signal, _)| signal & signals != 0) {
            let with_tag = |class: Class| {
                let is_in_tags = traces[usize::from(class)].is_in_tags();
                std::iter::once(class).chain(is_in_tags.then_some(tag))
            };
            let mut classes = Classes::default();
            let mut rarest: Option<usize> = None;
            for class in needed.flat_map(with_tag) {
                let number = *numbers.entry(class).or_insert_with(|| {
                    let number = frequencies.len();
                    let frequency = gate.add(number, &traces[usize::from(class)], vocabulary)?;
                    frequencies.push(frequency);
                    Some(number)
                });
                let Some(number) = number else { continue };
                classes.add(number);
                if rarest.is_none_or(|rarest| frequencies[number] < frequencies[rarest]) {
                    rarest = Some(number);
                }
            }
            gate.patterns.resize(frequencies.len(), Vec::new());
            match rarest {
                Some(rarest) => {
                    gate.rarest.add(rarest);
                    if signal & openers != 0 {
                        gate.rarest_of_openers.add(rarest);
                    }
                    gate.patterns[rarest].push(Needs { classes, signal });
                }
                None => gate.always |= signal,
            }
        }
        Ok(gate)
    }

    /// Adds the words and signs of a class of this number. Returns how often one of them is met, compared with others; none if
    /// nothing tells of the class, or if there are too many classes.
    fn add(&mut self, number: usize, traces: &Traces<'_>, vocabulary: &Vocabulary) -> Option<f64> {
        if traces.is_anything || number >= MAX_CLASSES {
            return None;
        }
        let entries = traces.words.iter().chain(&traces.in_tags);
        let words: Option<Vec<&str>> = entries.map(|entry| longest_word(entry)).collect();
        let words = words.filter(|words| !words.is_empty() || !traces.signs.is_empty())?;
        for word in &words {
            self.words.entry((*word).into()).or_default().add(number);
        }
        for sign in &traces.signs {
            let known = &mut self.sign_numbers[usize::from(*sign)];
            if *known == 0 {
                *known = u8::try_from(self.signs.len()).ok()?;
                self.signs.push(Classes::default());
            }
            self.signs[usize::from(*known)].add(number);
        }
        let frequencies = words.iter().map(|word| vocabulary.frequency(word));
        // A sign is met more often than any word.
        Some(frequencies.sum::<f64>() + f64::from(u8::from(!traces.signs.is_empty())) * 100.0)
    }

    /// Returns the stretches of a text in lower case in which a rule may be opened, in order. `may_hold` looks at the
    /// signals that a stretch may have and at those of the `beside` stretches on each side.
    pub(super) fn passing(
        &self,
        lower: &str,
        beside: usize,
        may_hold: impl Fn(&[Set], usize) -> bool,
    ) -> Vec<Range<usize>> {
        let stretches = self.stretches(lower);
        let mut known: Vec<Option<Set>> = vec![None; stretches.len()];
        let mut around = Vec::new();
        let mut opened = Vec::new();
        for (index, stretch) in stretches.iter().enumerate() {
            let said = self.always | stretch.said;
            let may_open = said & self.openers != 0 || stretch.seen.has_any(&self.rarest_of_openers);
            let mut signals =
                |index: usize| *known[index].get_or_insert_with(|| self.signals(&stretches[index]));
            if !may_open || signals(index) & self.openers == 0 {
                continue;
            }
            let from = index.saturating_sub(beside);
            let to = (index + beside + 1).min(stretches.len());
            around.clear();
            around.extend((from..to).map(signals));
            if may_hold(&around, index - from) {
                opened.push(stretch.span.clone());
            }
        }
        opened
    }

    /// Returns the stretches between places where sentences certainly begin.
    fn stretches(&self, lower: &str) -> Vec<Stretch> {
        let bytes = lower.as_bytes();
        let mut stretches = Vec::new();
        let mut seen = Classes::default();
        let (mut start, mut at) = (0, 0);
        while let Some(byte) = bytes.get(at).copied() {
            let number = self.sign_numbers[usize::from(byte)];
            if number != 0 {
                seen.extend(&self.signs[usize::from(number)]);
            }
            if byte.is_ascii_alphanumeric() {
                let rest = bytes[at..].iter();
                let length = rest.take_while(|byte| byte.is_ascii_alphanumeric()).count();
                if let Some(classes) = self.words.get(&lower[at..at + length]) {
                    seen.extend(classes);
                }
                at += length;
                continue;
            }
            at += 1;
            let may_end = matches!(byte, b'.' | b'!' | b'?' | b'\n');
            if may_end && at < bytes.len() && tokens::is_border(bytes, at) {
                let span = std::mem::replace(&mut start, at)..at;
                let seen = std::mem::take(&mut seen);
                stretches.push(Stretch { span, seen, said: 0 });
            }
        }
        let span = start..bytes.len();
        stretches.push(Stretch { span, seen, said: 0 });
        self.add_parts(lower, &mut stretches);
        stretches
    }

    /// Returns the signals that a stretch may have.
    fn signals(&self, stretch: &Stretch) -> Set {
        let seen = &stretch.seen;
        let patterns = seen.common(&self.rarest).flat_map(|class| &self.patterns[class]);
        patterns.fold(self.always | stretch.said, |signals, needs| {
            match signals & needs.signal == 0 && seen.contains(&needs.classes) {
                true => signals | needs.signal,
                false => signals,
            }
        })
    }

    /// Adds the signals that parts of texts say, to every stretch that may reach them.
    fn add_parts(&self, lower: &str, stretches: &mut [Stretch]) {
        let is_ascii = lower.is_ascii();
        for parts in self.parts.iter().filter(|parts| parts.is_ascii || !is_ascii) {
            parts.each(lower, |part, signals| {
                let from = part.start.saturating_sub(REACH_BYTES);
                let first = stretches.partition_point(|stretch| stretch.span.end <= from);
                for stretch in &mut stretches[first..] {
                    stretch.said |= signals;
                    if stretch.span.end >= part.end + REACH_BYTES {
                        break;
                    }
                }
            });
        }
    }
}

/// Returns the longest word of ASCII letters and digits in an entry: each text with the entry has it.
fn longest_word(entry: &str) -> Option<&str> {
    let words = entry.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .max_by_key(|word| word.len())
}

//! The gate before the rules: finds the sentences of a long output in which a rule may open, from their words and signs
//! only.
//!
//! A pattern matches only in a sentence that has a word of each of its classes, and a rule holds only near sentences
//! with a pattern of each of its groups. One table lookup for each word of a text gives the classes; sentences in which
//! no rule can open are never split into tokens.

use std::{
    borrow::Cow,
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use foldhash::fast::RandomState;
use memchr::memmem::Finder;

use crate::instructions::{
    classes::{Classes, MAX_CLASSES},
    rules::Rule,
    runs::{Event, HEAD, Runs},
    signals::{BRACKET_BYTES, Set, Signals},
    tokens,
    vocabulary::{Class, Traces, Vocabulary},
};

/// Most bytes between a literal and its sentence: signs next to it, and what is left of characters.
const REACH_BYTES: usize = 3 * BRACKET_BYTES;

/// Bytes of most stretches, or fewer: there is room for so many from the start.
const STRETCH_BYTES: usize = 80;

/// The requirements of a pattern that the gate checks.
#[derive(Clone, Debug)]
struct Needs {
    signal: Set,
    /// Classes of which a word is required.
    classes: Classes,
    /// Classes of which a word or a sign is required.
    mixed: Vec<usize>,
    /// Groups of texts; one text of each group is required.
    texts: Vec<Vec<Finder<'static>>>,
}

/// The words and signs of all patterns, and the requirements of each pattern.
#[derive(Debug)]
pub(super) struct Gate {
    /// Words, each with the classes that it may belong to.
    words: Words,
    /// Texts without words that belong to classes.
    literals: Literals,
    /// For each class the signs that belong to it as well.
    signs: Vec<Vec<u8>>,
    /// For each class the patterns whose rarest class it is: of pivots, and of other signals.
    patterns: [Vec<Vec<Needs>>; 2],
    /// Patterns that require no words.
    wordless: Vec<Needs>,
    /// The classes that are the rarest one of some pattern: of pivots, and of other signals.
    rarest: [Classes; 2],
    /// The signals of the rarest group of each rule: a rule holds only near one of them.
    pivots: Set,
    /// Signals that have a pattern without any requirement.
    always: Set,
}

/// Number of different hashes of first bytes.
const HEADS: usize = 1 << 16;
/// Slots of the table of words.
const SLOTS: usize = 1 << 13;

/// Words, looked up by their first bytes.
#[derive(Debug)]
struct Words {
    /// For each hash of first bytes, whether a known word has it.
    known: Box<[u64; HEADS / 64]>,
    /// Slots of a hash table: the first bytes, and the number of the word plus one.
    slots: Box<[(u64, u16); SLOTS]>,
    words: Vec<Known>,
}

/// A known word.
#[derive(Debug)]
struct Known {
    word: Box<[u8]>,
    /// The classes that it belongs to by itself.
    classes: Classes,
    phrases: Vec<Phrase>,
}

/// The words before and after a word, and the classes of the phrase that they make.
#[derive(Debug)]
struct Phrase {
    before: Vec<Box<[u8]>>,
    after: Vec<Box<[u8]>>,
    /// The letters beside the word with which the phrase may stand: they exclude most phrases.
    beside: LettersBeside,
    classes: Classes,
}

/// The last letters of the word before a word, and the first letters of the word after it: a bit for each, one for all
/// digits, and one for no word.
#[derive(Clone, Copy, Debug)]
struct LettersBeside {
    before: u32,
    after: u32,
}

impl LettersBeside {
    const NO_WORD: u32 = 1 << 27;
    /// The letters of words that [may be left out](may_be_left_out).
    const LEFT_OUT: Self = Self {
        before: Self::bit(b'a') | Self::bit(b'e') | Self::bit(b'n') | Self::bit(b's'),
        after: Self::bit(b'a') | Self::bit(b's') | Self::bit(b't'),
    };

    const fn bit(letter: u8) -> u32 {
        match letter {
            b'a'..=b'z' => 1 << (letter - b'a'),
            _ => 1 << 26,
        }
    }

    /// Returns the letters beside a span.
    fn of(text: &[u8], span: &Range<usize>) -> Self {
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric();
        let bit = |letter: Option<&u8>| letter.map_or(Self::NO_WORD, |letter| Self::bit(*letter));
        Self {
            before: bit(text[..span.start].iter().rev().find(is_word)),
            after: bit(text[span.end..].iter().find(is_word)),
        }
    }

    /// Returns the letters with which words stand between these words.
    fn between(before: &[Box<[u8]>], after: &[Box<[u8]>]) -> Self {
        let bit = |letter: Option<&u8>, left_out| match letter {
            Some(letter) => Self::bit(*letter) | left_out,
            None => u32::MAX,
        };
        Self {
            before: bit(before.last().and_then(|word| word.last()), Self::LEFT_OUT.before),
            after: bit(after.first().and_then(|word| word.first()), Self::LEFT_OUT.after),
        }
    }

    const fn has(self, other: Self) -> bool {
        self.before & other.before != 0 && self.after & other.after != 0
    }
}

impl Phrase {
    fn new(before: Vec<Box<[u8]>>, after: Vec<Box<[u8]>>) -> Self {
        Self {
            beside: LettersBeside::between(&before, &after),
            before,
            after,
            classes: Classes::default(),
        }
    }

    /// Returns whether the other words of the phrase are around the word at `span`, with any signs between them.
    fn stands(&self, text: &[u8], span: &Range<usize>) -> bool {
        let is_word = u8::is_ascii_alphanumeric;
        let mut at = span.end;
        let forward = self.after.iter().all(|word| {
            loop {
                let Some(gap) = text[at..].iter().position(is_word) else {
                    return false;
                };
                let rest = &text[at + gap..];
                let found = &rest[..rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len())];
                at += gap + found.len();
                if found == &**word || !may_be_left_out(found) {
                    return found == &**word;
                }
            }
        });
        let mut at = span.start;
        forward
            && self.before.iter().rev().all(|word| {
                loop {
                    let Some(last) = text[..at].iter().rposition(is_word) else {
                        return false;
                    };
                    let rest = &text[..=last];
                    let found = &rest[rest
                        .iter()
                        .rposition(|byte| !is_word(byte))
                        .map_or(0, |gap| gap + 1)..];
                    at = last + 1 - found.len();
                    if found == &**word || !may_be_left_out(found) {
                        return found == &**word;
                    }
                }
            })
    }
}

/// Returns whether a text may have this word in the middle of a phrase that does not contain it.
fn may_be_left_out(word: &[u8]) -> bool {
    tokens::is_article(word) || word == b"s"
}

impl Default for Words {
    fn default() -> Self {
        Self {
            known: Box::new([0; HEADS / 64]),
            slots: Box::new([(0, 0); SLOTS]),
            words: Vec::new(),
        }
    }
}

impl Words {
    fn hash(head: u64) -> u64 {
        (head ^ head >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn bit(hash: u64) -> (usize, u64) {
        let place = hash >> (64 - HEADS.trailing_zeros());
        (usize::try_from(place / 64).unwrap_or_default(), 1 << (place % 64))
    }

    /// Returns the slot at which the search for a head begins.
    fn first_slot(hash: u64) -> usize {
        usize::try_from(hash >> (64 - SLOTS.trailing_zeros())).unwrap_or_default()
    }

    /// Adds the words of an entry; the text is searched for the one at `telling`.
    fn add(&mut self, entry: &[&str], telling: usize, class: usize) -> Result<(), String> {
        let word = entry[telling].as_bytes();
        let head = Runs::head(word);
        let hash = Self::hash(head);
        let number = match self.number(hash, head, word) {
            Some(number) => number,
            None => {
                let (index, bit) = Self::bit(hash);
                self.known[index] |= bit;
                self.words.push(Known {
                    word: word.into(),
                    classes: Classes::default(),
                    phrases: Vec::new(),
                });
                // A search ends at a free slot.
                let number = u16::try_from(self.words.len()).ok();
                let number = number.filter(|number| usize::from(*number) < SLOTS);
                let mut slot = Self::first_slot(hash);
                while self.slots[slot].1 != 0 {
                    slot = (slot + 1) % SLOTS;
                }
                self.slots[slot] = (head, number.ok_or("there are too many words")?);
                self.words.len() - 1
            }
        };
        let known = &mut self.words[number];
        if entry.len() == 1 {
            known.classes.add(class);
            return Ok(());
        }
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().into()).collect();
        let (before, after): (Vec<_>, Vec<_>) = (words(&entry[..telling]), words(&entry[telling + 1..]));
        let mut phrases = known.phrases.iter_mut();
        match phrases.find(|phrase| phrase.before == before && phrase.after == after) {
            Some(phrase) => phrase.classes.add(class),
            None => {
                let mut phrase = Phrase::new(before, after);
                phrase.classes.add(class);
                known.phrases.push(phrase);
            }
        }
        Ok(())
    }

    /// Returns whether a known word may begin with bytes of this hash: for most words of a text the answer is no.
    #[inline]
    fn may_know(&self, hash: u64) -> bool {
        let (index, bit) = Self::bit(hash);
        self.known[index] & bit != 0
    }

    /// Adds the classes of the word at `span`, by itself and in phrases. The loop over words calls it for few of them,
    /// and is faster if this code is not inlined into it.
    #[inline(never)]
    fn read(&self, text: &[u8], (hash, head): (u64, u64), span: &Range<usize>, seen: &mut Classes) {
        let Some(number) = self.number(hash, head, &text[span.clone()]) else {
            return;
        };
        let known = &self.words[number];
        seen.extend(&known.classes);
        if known.phrases.is_empty() {
            return;
        }
        let here = LettersBeside::of(text, span);
        for phrase in &known.phrases {
            if phrase.beside.has(here) && phrase.stands(text, span) {
                seen.extend(&phrase.classes);
            }
        }
    }

    fn number(&self, hash: u64, head: u64, word: &[u8]) -> Option<usize> {
        let mut slot = Self::first_slot(hash);
        loop {
            let (here, number) = self.slots[slot];
            let number = usize::from(number).checked_sub(1)?;
            if here == head && (word.len() < HEAD || *self.words[number].word == *word) {
                return Some(number);
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

/// Texts that belong to classes: the few that are ASCII, and others.
#[derive(Debug)]
struct Literals {
    ascii: Places,
    others: Places,
}

/// Texts, with the classes that they belong to.
#[derive(Debug)]
struct Places {
    /// Finds the first position of any of them.
    first: AhoCorasick,
    texts: Vec<(String, usize)>,
}

impl Literals {
    fn new(texts: &[(&str, usize)]) -> Result<Self, String> {
        let (ascii, others): (Vec<_>, Vec<_>) = texts.iter().partition(|(text, _)| text.is_ascii());
        Ok(Self {
            ascii: Places::new(&ascii)?,
            others: Places::new(&others)?,
        })
    }

    /// Calls `tell` for each of them that occurs in a text.
    fn each(&self, text: &str, mut tell: impl FnMut(Range<usize>, usize)) {
        self.ascii.each(text, &mut tell);
        if !text.is_ascii() {
            self.others.each(text, &mut tell);
        }
    }
}

impl Places {
    fn new(texts: &[(&str, usize)]) -> Result<Self, String> {
        // With this kind of match the first position is found with vector instructions.
        let first = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(texts.iter().map(|(text, _)| text));
        let owned = texts.iter().map(|(text, class)| ((*text).to_owned(), *class));
        Ok(Self {
            first: first.map_err(|error| error.to_string())?,
            texts: owned.collect(),
        })
    }

    fn each(&self, text: &str, tell: &mut impl FnMut(Range<usize>, usize)) {
        let mut from = 0;
        while let Some(found) = self.first.find(Input::new(text).span(from..text.len())) {
            let start = found.start();
            for (other, class) in &self.texts {
                if text[start..].starts_with(other) {
                    tell(start..start + other.len(), *class);
                }
            }
            from = text.ceil_char_boundary(start + 1);
        }
    }
}

/// A part of a text between positions where sentences certainly begin.
#[derive(Debug)]
struct Stretch {
    /// The range in the text.
    span: Range<usize>,
    /// The classes of its words.
    seen: Classes,
}

/// The numbers of classes that patterns may require, while the gate is built.
#[derive(Default)]
struct Numbers {
    of: HashMap<Class, Option<usize>, RandomState>,
    /// The frequency of the words of each class.
    frequencies: Vec<f64>,
    /// The requirements of all patterns.
    needs: Vec<Needs>,
}

impl Gate {
    /// Builds the gate for these rules; all classes of words must be known.
    pub(super) fn new(rules: &[&Rule], all: &Signals, vocabulary: &Vocabulary) -> Result<Self, String> {
        let signals = rules.iter().fold(0, |signals, rule| signals | rule.signals());
        let mut gate = Self {
            words: Words::default(),
            literals: Literals::new(&[])?,
            signs: Vec::new(),
            patterns: Default::default(),
            wordless: Vec::new(),
            rarest: Default::default(),
            pivots: 0,
            always: 0,
        };
        let traces = vocabulary.traces();
        let tag = vocabulary.known("tag")?;
        let mut numbers = Numbers::default();
        let mut literals = Vec::new();
        let groups: Vec<_> = all.groups().filter(|(signal, _)| signal & signals != 0).collect();
        for (signal, needed) in all.needed().filter(|(signal, _)| signal & signals != 0) {
            let with_tag = |class: Class| {
                let is_in_tags = traces[usize::from(class)].is_in_tags();
                std::iter::once(class).chain(is_in_tags.then_some(tag))
            };
            let mut classes = Vec::new();
            for class in needed.flat_map(with_tag) {
                let number = match numbers.of.get(&class) {
                    Some(number) => *number,
                    None => gate.add(&traces[usize::from(class)], vocabulary, &mut numbers)?,
                };
                numbers.of.insert(class, number);
                classes.extend(number);
            }
            numbers.needs.push(gate.needs(signal, &classes, Vec::new()));
        }
        for (signal, groups) in &groups {
            let is_wordy = |part: &&str| runs_in(part).iter().any(|word| word.len() > 1);
            let mut classes = Vec::new();
            for group in groups.iter().filter(|group| group.iter().all(is_wordy)) {
                let traces = Traces {
                    words: group.iter().map(|part| Cow::Borrowed(*part)).collect(),
                    ..Traces::default()
                };
                classes.extend(gate.add(&traces, vocabulary, &mut numbers)?);
            }
            if classes.is_empty() {
                let fewest = groups
                    .iter()
                    .min_by_key(|group| group.len())
                    .ok_or("a text has no group")?;
                let class = gate.number(&Traces::default(), vocabulary, &mut numbers)?;
                for part in fewest {
                    literals.push((*part, class));
                }
                classes.push(class);
            }
            let texts = groups
                .iter()
                .map(|group| group.iter().map(|part| Finder::new(*part).into_owned()).collect());
            numbers.needs.push(gate.needs(*signal, &classes, texts.collect()));
        }
        gate.literals = Literals::new(&literals)?;
        gate.settle(rules, &numbers);
        Ok(gate)
    }

    /// Returns the requirements of a pattern of these classes and texts.
    fn needs(&self, signal: Set, classes: &[usize], texts: Vec<Vec<Finder<'static>>>) -> Needs {
        let mut needs = Needs {
            signal,
            classes: Classes::default(),
            mixed: Vec::new(),
            texts,
        };
        for class in classes {
            match self.signs[*class].is_empty() {
                true => needs.classes.add(*class),
                false => needs.mixed.push(*class),
            }
        }
        needs
    }

    /// Chooses the pivots, and files every pattern under its rarest class.
    fn settle(&mut self, rules: &[&Rule], numbers: &Numbers) {
        let rarest = |needs: &Needs| {
            let classes = needs.classes.common(&needs.classes);
            classes.min_by(|one, other| numbers.frequencies[*one].total_cmp(&numbers.frequencies[*other]))
        };
        // Signs are more frequent than words.
        let frequency = |needs: &Needs| rarest(needs).map_or(100.0, |class| numbers.frequencies[class]);
        let of = |wanted: Set| {
            numbers
                .needs
                .iter()
                .filter(move |needs| needs.signal & wanted != 0)
        };
        let mut by_groups = rules.to_vec();
        by_groups.sort_by_key(|rule| rule.groups().len());
        for rule in by_groups {
            let more = |group: &Set| of(*group & !self.pivots).map(frequency).sum::<f64>();
            let groups = rule.groups().iter();
            let pivot = groups.min_by(|one, other| more(one).total_cmp(&more(other)));
            self.pivots |= pivot.copied().unwrap_or_default();
        }
        self.patterns = std::array::from_fn(|_| vec![Vec::new(); numbers.frequencies.len()]);
        for needs in &numbers.needs {
            let kind = usize::from(needs.signal & self.pivots == 0);
            match rarest(needs) {
                Some(rarest) => {
                    self.rarest[kind].add(rarest);
                    self.patterns[kind][rarest].push(needs.clone());
                }
                None if needs.mixed.is_empty() || kind == 0 => self.always |= needs.signal,
                None => self.wordless.push(needs.clone()),
            }
        }
    }

    /// Adds a class. Returns its number; `None` if any token can belong to it.
    fn add(
        &mut self,
        traces: &Traces<'_>,
        vocabulary: &Vocabulary,
        numbers: &mut Numbers,
    ) -> Result<Option<usize>, String> {
        let mut entries = traces.words.iter().chain(&traces.in_tags);
        let is_empty = traces.words.is_empty() && traces.in_tags.is_empty() && traces.signs.is_empty();
        if traces.is_anything || is_empty || entries.any(|entry| runs_in(entry).is_empty()) {
            return Ok(None);
        }
        self.number(traces, vocabulary, numbers).map(Some)
    }

    /// Adds a class. Returns its number.
    fn number(
        &mut self,
        traces: &Traces<'_>,
        vocabulary: &Vocabulary,
        numbers: &mut Numbers,
    ) -> Result<usize, String> {
        let number = numbers.frequencies.len();
        if number >= MAX_CLASSES {
            return Err("patterns need more classes than the gate has bits".to_owned());
        }
        let mut frequency = 0.0;
        for entry in traces.words.iter().chain(&traces.in_tags) {
            let words = runs_in(entry);
            let rank = |word: &str| (vocabulary.frequency(word), Reverse(word.len()));
            let less = |one: &(usize, &&str), other: &(usize, &&str)| {
                rank(one.1).partial_cmp(&rank(other.1)).unwrap_or(Ordering::Equal)
            };
            if let Some((telling, word)) = words.iter().enumerate().min_by(less) {
                frequency += vocabulary.frequency(word);
                self.words.add(&words, telling, number)?;
            }
        }
        numbers.frequencies.push(frequency);
        self.signs.push(traces.signs.iter().copied().collect());
        Ok(number)
    }

    /// Returns the stretches of a text in lower case in which a rule may open, in order. `may_hold` gets the possible
    /// signals of each stretch, and those of the `beside` stretches on each side.
    pub(super) fn passing(
        &self,
        lower: &str,
        beside: usize,
        may_hold: impl Fn(&[Set], usize) -> bool,
    ) -> Vec<Range<usize>> {
        let stretches = self.stretches(lower);
        let mut known: BTreeMap<usize, Set> = BTreeMap::new();
        let mut around = Vec::new();
        let mut opened = Vec::new();
        let mut next = 0;
        let [of_pivots, _] = &self.rarest;
        for (index, stretch) in stretches.iter().enumerate() {
            let may_be = self.always & self.pivots != 0 || stretch.seen.has_any(of_pivots);
            if !may_be || self.signals(lower, stretch, 0) & self.pivots == 0 {
                continue;
            }
            let beside_it =
                |index: usize| index.saturating_sub(beside)..(index + beside + 1).min(stretches.len());
            for opener in beside_it(index).start.max(next)..beside_it(index).end {
                let mut signals = |index: usize| {
                    let both = || {
                        self.signals(lower, &stretches[index], 0) | self.signals(lower, &stretches[index], 1)
                    };
                    *known.entry(index).or_insert_with(both)
                };
                around.clear();
                around.extend(beside_it(opener).map(&mut signals));
                if may_hold(&around, opener - beside_it(opener).start) {
                    opened.push(stretches[opener].span.clone());
                }
                next = opener + 1;
            }
        }
        opened
    }

    /// Returns the stretches between positions where sentences certainly begin, each with a word.
    fn stretches(&self, lower: &str) -> Vec<Stretch> {
        let bytes = lower.as_bytes();
        let mut stretches = Vec::with_capacity(bytes.len() / STRETCH_BYTES + 1);
        let mut seen = Classes::default();
        let mut start = 0;
        let mut is_blank = true;
        Runs::of(bytes).each(|event| match event {
            Event::Word { head, span } => {
                is_blank = is_blank && tokens::is_article(&bytes[span.clone()]);
                let hash = Words::hash(head);
                if self.words.may_know(hash) {
                    self.words.read(bytes, (hash, head), &span, &mut seen);
                }
            }
            Event::End { at } => {
                if !is_blank && at < bytes.len() && tokens::is_border(bytes, at) {
                    let span = std::mem::replace(&mut start, at)..at;
                    let seen = std::mem::take(&mut seen);
                    stretches.push(Stretch { span, seen });
                    is_blank = true;
                }
            }
        });
        let span = start..bytes.len();
        stretches.push(Stretch { span, seen });
        self.literals.each(lower, |place, class| {
            let from = place.start.saturating_sub(REACH_BYTES);
            let first = stretches.partition_point(|stretch| stretch.span.end <= from);
            for stretch in &mut stretches[first..] {
                stretch.seen.add(class);
                if stretch.span.end >= place.end + REACH_BYTES {
                    break;
                }
            }
        });
        stretches
    }

    /// Returns the signals that a stretch may have: pivots, or others.
    fn signals(&self, lower: &str, stretch: &Stretch, kind: usize) -> Set {
        let from = stretch.span.start.saturating_sub(REACH_BYTES);
        let text = &lower.as_bytes()[from..lower.len().min(stretch.span.end + REACH_BYTES)];
        let seen = &stretch.seen;
        let has = |class: &usize| {
            let mut signs = self.signs[*class].iter();
            seen.has(*class) || signs.any(|sign| memchr::memchr(*sign, text).is_some())
        };
        let says = |group: &Vec<Finder<'_>>| group.iter().any(|part| part.find(text).is_some());
        let holds = |needs: &Needs| {
            seen.contains(&needs.classes) && needs.mixed.iter().all(has) && needs.texts.iter().all(says)
        };
        let mut signals = self.always;
        let mut look_at = |patterns: &[Needs]| {
            for needs in patterns {
                if signals & needs.signal == 0 && holds(needs) {
                    signals |= needs.signal;
                }
            }
        };
        for class in seen.common(&self.rarest[kind]) {
            look_at(&self.patterns[kind][class]);
        }
        // Patterns without words are never pivots.
        if kind != 0 {
            look_at(&self.wordless);
        }
        signals
    }
}

/// Returns the words of ASCII letters and digits in an entry, without articles.
fn runs_in(entry: &str) -> Vec<&str> {
    let runs = entry.split(|c: char| !c.is_ascii_alphanumeric());
    runs.filter(|run| !run.is_empty() && !tokens::is_article(run.as_bytes()))
        .collect()
}

//! The gate before the rules: finds the sentences of an output in which a rule may open, from their words and signs
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
    runs::{Event, Runs},
    signals::{BRACKET_BYTES, Set, Signals},
    tokens,
    vocabulary::{Class, Traces, Vocabulary},
    words::Words,
};

/// Most bytes between a literal and its sentence: signs next to it, and what is left of characters.
const REACH_BYTES: usize = 3 * BRACKET_BYTES;

/// Bytes of most stretches, or fewer: there is room for so many from the start.
const STRETCH_BYTES: usize = 80;

/// Kinds of signals: pivots of rules for texts of any length, further pivots of rules for short texts, and others.
const KINDS: usize = 3;
/// The kind of signals that are no pivots.
const NO_PIVOTS: usize = KINDS - 1;

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
    /// For each kind of signals, and for each class, the patterns whose rarest class it is.
    patterns: [Vec<Vec<Needs>>; KINDS],
    /// Patterns that require no words.
    wordless: Vec<Needs>,
    /// For each kind of signals the classes that are the rarest one of some pattern.
    rarest: [Classes; KINDS],
    /// The signals of the rarest group of each rule: a rule holds only near one of them.
    pivots: Set,
    /// Longest text in which a rule for short texts holds, bytes.
    longest_short: usize,
    /// Signals that have a pattern without any requirement.
    always: Set,
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

/// Collects the stretches of a text while it is read.
struct StretchReader<'t> {
    bytes: &'t [u8],
    stretches: Vec<Stretch>,
    /// The classes of the words of the present stretch.
    seen: Classes,
    start: usize,
    /// True if the present stretch has no word other than articles.
    is_blank: bool,
}

impl<'t> StretchReader<'t> {
    fn of(bytes: &'t [u8]) -> Self {
        Self {
            bytes,
            stretches: Vec::with_capacity(bytes.len() / STRETCH_BYTES + 1),
            seen: Classes::default(),
            start: 0,
            is_blank: true,
        }
    }

    /// Ends the present stretch if a sentence certainly begins at `at`. The loop over words is faster without this code.
    #[inline(never)]
    fn end(&mut self, at: usize) {
        if !self.is_blank && at < self.bytes.len() && tokens::is_border(self.bytes, at) {
            let span = std::mem::replace(&mut self.start, at)..at;
            let seen = std::mem::take(&mut self.seen);
            self.stretches.push(Stretch { span, seen });
            self.is_blank = true;
        }
    }

    /// Returns the stretches of the whole text.
    fn finish(mut self) -> Vec<Stretch> {
        let span = self.start..self.bytes.len();
        let seen = self.seen;
        self.stretches.push(Stretch { span, seen });
        self.stretches
    }
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
            longest_short: 0,
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
        let mut sorted = rules.to_vec();
        sorted.sort_by_key(|rule| (rule.is_for_short_texts(), rule.groups().len()));
        let mut of_any_length = 0;
        for rule in sorted {
            let more = |group: &Set| of(*group & !self.pivots).map(frequency).sum::<f64>();
            let groups = rule.groups().iter();
            let pivot = groups.min_by(|one, other| more(one).total_cmp(&more(other)));
            self.pivots |= pivot.copied().unwrap_or_default();
            match rule.is_for_short_texts() {
                true => self.longest_short = self.longest_short.max(rule.within),
                false => of_any_length = self.pivots,
            }
        }
        self.patterns = std::array::from_fn(|_| vec![Vec::new(); numbers.frequencies.len()]);
        for needs in &numbers.needs {
            let kind = match needs.signal {
                signal if signal & of_any_length != 0 => 0,
                signal if signal & self.pivots != 0 => 1,
                _ => NO_PIVOTS,
            };
            match rarest(needs) {
                Some(rarest) => {
                    self.rarest[kind].add(rarest);
                    self.patterns[kind][rarest].push(needs.clone());
                }
                None if needs.mixed.is_empty() || kind != NO_PIVOTS => self.always |= needs.signal,
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
        let kinds = match lower.len() > self.longest_short {
            true => ..1,
            false => ..NO_PIVOTS,
        };
        let has_pivot = |stretch: &Stretch| {
            let mut of_pivots = self.rarest[kinds].iter().enumerate();
            self.always & self.pivots != 0
                || of_pivots.any(|(kind, rarest)| {
                    stretch.seen.has_any(rarest) && self.signals(lower, stretch, kind) & self.pivots != 0
                })
        };
        for (index, stretch) in stretches.iter().enumerate() {
            if !has_pivot(stretch) {
                continue;
            }
            let beside_it =
                |index: usize| index.saturating_sub(beside)..(index + beside + 1).min(stretches.len());
            for opener in beside_it(index).start.max(next)..beside_it(index).end {
                let mut signals = |index: usize| {
                    let all = || {
                        let signals = |kind| self.signals(lower, &stretches[index], kind);
                        (0..KINDS).fold(0, |all, kind| all | signals(kind))
                    };
                    *known.entry(index).or_insert_with(all)
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
        let mut reader = StretchReader::of(bytes);
        Runs::of(bytes).each(|event| match event {
            Event::Word { head, span } => {
                reader.is_blank = reader.is_blank && tokens::is_article(&bytes[span.clone()]);
                let hash = Words::hash(head);
                if self.words.may_know(hash) {
                    self.words.read(bytes, (hash, head), &span, &mut reader.seen);
                }
            }
            Event::End { at } => reader.end(at),
        });
        let mut stretches = reader.finish();
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

    /// Returns the signals of a kind that a stretch may have.
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
        if kind == NO_PIVOTS {
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

//! The words of all concepts, ready to be looked up.

use std::{ops::Range, sync::LazyLock};

use super::{Concept, Concepts, languages, things, words};
use crate::inspect::normalise::skeleton::Skeleton;

/// Most words of an expression.
const LONGEST: usize = 6;

/// Groups that words are looked up in, by the first bits of their hashes.
const GROUPS: usize = 1 << 12;
/// The bits that do not tell a group.
const WITHIN_GROUP: u32 = u64::BITS - GROUPS.ilog2();

/// What is known of a word.
#[derive(Debug)]
pub(super) struct Entry {
    hash: u64,
    /// What it stands for on its own.
    pub(super) alone: Concepts,
    /// Whether it is a verb as an order has it.
    pub(super) is_order: bool,
    /// Expressions that it begins.
    begins: (u16, u16),
}

/// Some words that stand for something together.
#[derive(Debug)]
struct Expression {
    /// Where the words after the first one are.
    rest: (u16, u16),
    meaning: Concepts,
}

/// Looks words up by their hashes. Every process that wraps a server has one: it lies in few pages.
pub(super) struct Lexicon {
    /// By their hashes.
    entries: Vec<Entry>,
    /// Where the entries of each group begin, and the end of the last.
    groups: Vec<u16>,
    /// By the words that follow the first one.
    expressions: Vec<Expression>,
    words: Vec<u64>,
    /// Bits of hashes that there are: most words are none of them.
    present: Box<[u64; 1 << 10]>,
}

/// A word or an expression as it is listed.
struct Listed {
    first: u64,
    /// Where the words after the first one are.
    rest: Range<usize>,
    meaning: Concepts,
    is_order: bool,
}

/// Verbs whose forms are listed one by one.
const ORDERS: &[&str] = &[
    "get", "take", "find", "see", "send", "put", "hand", "give", "fill", "write", "tell", "state", "feed",
    "add", "let", "log", "set", "run", "choose", "show", "hide", "spare", "make", "leave", "say", "know",
    "do", "deny", "drop", "begin", "keep", "be", "lies", "lis", "lee", "leggi", "lees",
];

/// The words of every concept.
pub(super) static LEXICON: LazyLock<Lexicon> = LazyLock::new(Lexicon::new);

/// Multiplies what a hash is made of.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes that are hashed at once.
const CHUNK: usize = size_of::<u64>();

/// The hash of the word of so many bytes that `bytes` begin with; ASCII counts in lower case, and so does a dot before
/// the word.
pub(super) fn hash_of(bytes: &[u8], length: usize, is_dotted: bool) -> u64 {
    let mut hash = length as u64 ^ u64::from(is_dotted) << 32;
    let mut at = 0;
    while at < length {
        let chunk = chunk(&bytes[at..], length - at);
        let lower = chunk | (!chunk & 0x8080_8080_8080_8080) >> 2;
        hash = (hash ^ lower).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
        at += CHUNK;
    }
    hash.wrapping_mul(FACTOR)
}

/// The next bytes of a word, zero after its end.
fn chunk(bytes: &[u8], length: usize) -> u64 {
    let chunk = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut chunk = [0; CHUNK];
        chunk[..bytes.len()].copy_from_slice(bytes);
        chunk
    });
    let kept = u64::MAX >> (64 - 8 * length.min(CHUNK));
    u64::from_le_bytes(chunk) & kept
}

fn hash_of_text(word: &str) -> u64 {
    let bare = word.trim_start_matches('.');
    hash_of(bare.as_bytes(), bare.len(), bare.len() < word.len())
}

impl Lexicon {
    fn new() -> Self {
        let (mut listed, mut following) = (Vec::new(), Vec::new());
        let english = words::WORDS.iter().chain(things::WORDS);
        for (concept, words) in english.chain(languages::WORDS) {
            for word in words.split_ascii_whitespace() {
                list(*concept, word, &mut listed, &mut following);
            }
        }
        let rest = |listed: &Listed| &following[listed.rest.clone()];
        listed.sort_unstable_by(|one, other| (one.first, rest(one)).cmp(&(other.first, rest(other))));
        let mut lexicon = Self {
            entries: Vec::new(),
            groups: Vec::with_capacity(GROUPS + 1),
            expressions: Vec::new(),
            words: Vec::new(),
            present: Box::new([0; 1 << 10]),
        };
        for listed in &listed {
            lexicon.add(listed, rest(listed));
        }
        for group in 0..=GROUPS as u64 {
            let before = |entry: &Entry| entry.hash >> WITHIN_GROUP < group;
            let begin = lexicon.entries.partition_point(before);
            lexicon.groups.push(place(begin));
        }
        lexicon.entries.shrink_to_fit();
        lexicon.expressions.shrink_to_fit();
        lexicon.words.shrink_to_fit();
        lexicon
    }

    /// Adds what comes next in the order of hashes.
    fn add(&mut self, listed: &Listed, rest: &[u64]) {
        let begin = place(self.expressions.len());
        if self.entries.last().is_none_or(|last| last.hash != listed.first) {
            let bit = (listed.first >> 48) as usize;
            self.present[bit >> 6] |= 1 << (bit & 63);
            self.entries.push(Entry {
                hash: listed.first,
                alone: Concepts::NONE,
                is_order: false,
                begins: (begin, begin),
            });
        }
        let entry = self.entries.last_mut().expect("there is one by now");
        if rest.is_empty() {
            entry.alone = entry.alone.and(listed.meaning);
            entry.is_order |= listed.is_order;
        } else {
            let from = place(self.words.len());
            self.words.extend(rest);
            self.expressions.push(Expression {
                rest: (from, place(self.words.len())),
                meaning: listed.meaning,
            });
            entry.begins.1 = place(self.expressions.len());
        }
    }

    /// What is known of a word, by its hash.
    pub(super) fn get(&self, hash: u64) -> Option<&Entry> {
        let bit = (hash >> 48) as usize;
        if self.present[bit >> 6] >> (bit & 63) & 1 == 0 {
            return None;
        }
        let group = (hash >> WITHIN_GROUP) as usize;
        let entries = range((self.groups[group], self.groups[group + 1]));
        self.entries[entries].iter().find(|entry| entry.hash == hash)
    }

    /// The expressions that begin with two words: what follows them, and what they stand for.
    pub(super) fn begun(&self, first: &Entry, second: u64) -> impl Iterator<Item = (&[u64], Concepts)> {
        let rest = |expression: &Expression| &self.words[range(expression.rest)];
        let of_first = &self.expressions[range(first.begins)];
        let from = of_first.partition_point(|expression| rest(expression)[0] < second);
        let later = of_first[from..].iter();
        later.map_while(move |expression| match rest(expression) {
            [word, rest @ ..] if *word == second => Some((rest, expression.meaning)),
            _ => None,
        })
    }
}

/// A place in one of the lists, small as there are so many of them.
fn place(place: usize) -> u16 {
    u16::try_from(place).expect("there are some thousand words")
}

fn range((from, to): (u16, u16)) -> Range<usize> {
    from.into()..to.into()
}

/// Lists every form of a word; the words after the first one are added to `following`.
fn list(concept: Concept, word: &str, listed: &mut Vec<Listed>, following: &mut Vec<u64>) {
    for (index, form) in forms(word).into_iter().enumerate() {
        let skeleton = Skeleton::of(&form).text.to_lowercase();
        let mut hashes = skeleton.split('_').map(hash_of_text);
        let Some(first) = hashes.next() else { continue };
        let from = following.len();
        following.extend(hashes.take(LONGEST));
        listed.push(Listed {
            first,
            rest: from..following.len(),
            meaning: concept.alone(),
            is_order: index == 0 && (word.ends_with('~') || ORDERS.contains(&word)),
        });
    }
}

/// The forms of a word: a verb's after `~`, a noun's after `+`; of an expression the first word's.
fn forms(word: &str) -> Vec<String> {
    let Some(mark) = word.find(['~', '+']) else {
        return vec![word.to_owned()];
    };
    let (stem, rest) = (&word[..mark], &word[mark + 1..]);
    let mut forms = vec![stem.to_owned(), plural(stem)];
    if word.as_bytes()[mark] == b'~' {
        let base = stem.strip_suffix('e').filter(|base| !base.ends_with('e'));
        forms.push(format!("{}ing", base.unwrap_or(stem)));
        forms.push(match (stem.strip_suffix('y'), base) {
            (Some(base), _) if !base.ends_with(is_vowel) => format!("{base}ied"),
            (_, Some(base)) => format!("{base}ed"),
            (_, None) => format!("{stem}ed"),
        });
        let last = stem.chars().next_back().filter(|last| !is_vowel(*last));
        if let Some(last) = last.filter(|last| !"wxy".contains(*last)) {
            forms.extend([format!("{stem}{last}ing"), format!("{stem}{last}ed")]);
        }
    }
    for form in &mut forms {
        form.push_str(rest);
    }
    forms
}

fn plural(stem: &str) -> String {
    match stem.strip_suffix('y') {
        Some(base) if !base.ends_with(is_vowel) => format!("{base}ies"),
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| stem.ends_with(end)) => format!("{stem}es"),
        _ => format!("{stem}s"),
    }
}

fn is_vowel(c: char) -> bool {
    "aeiou".contains(c)
}

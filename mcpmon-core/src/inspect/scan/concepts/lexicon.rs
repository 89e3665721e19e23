//! The words of all concepts, ready to be looked up.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::LazyLock,
};

use super::{Concept, Concepts, languages, things, words};
use crate::inspect::normalise::skeleton::Skeleton;

/// Most words of an expression.
const LONGEST: usize = 6;

/// What is known of a word.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// What it stands for on its own.
    pub(super) alone: Concepts,
    /// Whether it is a verb as an order has it.
    pub(super) is_order: bool,
    /// Expressions that it begins, by the words that follow, and what each stands for.
    begins: Vec<(Vec<u64>, Concepts)>,
}

impl Entry {
    /// The expressions whose second word is known: what follows that, and what they stand for.
    pub(super) fn begins(&self, second: u64) -> impl Iterator<Item = (&[u64], Concepts)> {
        let from = self.begins.partition_point(|(rest, _)| rest[0] < second);
        let begun = self.begins[from..]
            .iter()
            .take_while(move |(rest, _)| rest[0] == second);
        begun.map(|(rest, concepts)| (&rest[1..], *concepts))
    }
}

/// Looks words up by their hashes.
pub(super) struct Lexicon {
    entries: HashMap<u64, Entry, BuildHasherDefault<Known>>,
    /// Bits of hashes that there are: most words are none of them.
    present: Box<[u64; 1 << 10]>,
}

/// A hash that is one already.
#[derive(Default)]
pub(super) struct Known(u64);

impl Hasher for Known {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are looked up");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
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
        let mut lexicon = Self {
            entries: HashMap::default(),
            present: Box::new([0; 1 << 10]),
        };
        let english = words::WORDS.iter().chain(things::WORDS);
        for (concept, words) in english.chain(languages::WORDS) {
            for word in words.split_ascii_whitespace() {
                lexicon.add(*concept, word);
            }
        }
        lexicon
    }

    fn add(&mut self, concept: Concept, word: &str) {
        for (index, form) in forms(word).into_iter().enumerate() {
            let skeleton = Skeleton::of(&form).text.to_lowercase();
            let mut hashes = skeleton.split('_').map(hash_of_text);
            let Some(first) = hashes.next() else { continue };
            let rest: Vec<u64> = hashes.take(LONGEST).collect();
            let bit = (first >> 48) as usize;
            self.present[bit >> 6] |= 1 << (bit & 63);
            let entry = self.entries.entry(first).or_default();
            let meaning = Concepts::of(&[concept]);
            if rest.is_empty() {
                entry.alone = entry.alone.and(meaning);
                entry.is_order |= index == 0 && (word.ends_with('~') || ORDERS.contains(&word));
            } else {
                let at = entry.begins.partition_point(|(known, _)| *known <= rest);
                entry.begins.insert(at, (rest, meaning));
            }
        }
    }

    /// What is known of a word, by its hash.
    pub(super) fn get(&self, hash: u64) -> Option<&Entry> {
        let bit = (hash >> 48) as usize;
        let is_present = self.present[bit >> 6] >> (bit & 63) & 1 == 1;
        is_present.then(|| self.entries.get(&hash)).flatten()
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

//! Words: each token belongs to classes, by its letters and by its form.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use aho_corasick::AhoCorasick;
use foldhash::fast::RandomState;
use serde::Deserialize;

use crate::instructions::tokens::{self, Shape, Shapes, Token};

/// Number of a class.
pub(crate) type Class = u16;

/// The frequency of a word that is not common, relative to that of the most frequent one.
const RARE: f64 = 1e-3;

/// `words.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Words in most texts: no pattern is searched for because of them.
    common: String,
    /// Classes of words and phrases, as they are.
    words: BTreeMap<String, String>,
    /// Classes of nouns: singular and plural.
    nouns: BTreeMap<String, String>,
    /// Classes of verbs: all forms; the class with `!` has only the plain form.
    verbs: BTreeMap<String, String>,
    /// Irregular forms.
    irregular: BTreeMap<String, String>,
    /// Classes of paths, hosts and addresses, by a part of them.
    parts: BTreeMap<String, String>,
    /// Classes of tags, by a part of them.
    tags: BTreeMap<String, String>,
    /// Classes that consist of other classes.
    unions: BTreeMap<String, String>,
}

/// All words, with their classes.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    names: HashMap<String, Class>,
    /// Single words.
    words: HashMap<Box<str>, Entry, RandomState>,
    parts: Parts,
    tags: Parts,
    /// For each class the classes that contain it.
    unions: Vec<Vec<Class>>,
    /// For each class the classes that its tokens get: itself and those that contain it, if patterns use them.
    told: Vec<Vec<Class>>,
    shapes: Vec<(Shape, Class)>,
    /// Words in most texts, with their ranks, the most frequent one first.
    common: HashMap<Box<str>, f64, RandomState>,
}

/// Parts of tokens, with the classes of tokens that contain them.
#[derive(Debug, Default)]
struct Parts {
    all: Vec<(Box<str>, Class)>,
    found: Option<AhoCorasick>,
}

impl Parts {
    fn prepare(&mut self) -> Result<(), String> {
        let texts = self.all.iter().map(|(part, _)| part.as_bytes());
        self.found = Some(AhoCorasick::new(texts).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Returns the classes of a token: those of parts that are separate in it.
    fn classes(&self, token: &str) -> impl Iterator<Item = Class> {
        let found = self
            .found
            .iter()
            .flat_map(move |found| found.find_overlapping_iter(token));
        let own = found.filter(move |found| stands_alone(token, found.range()));
        own.map(|found| self.all[found.pattern().as_usize()].1)
    }
}

/// The classes of a word, by itself and as the first word of phrases.
#[derive(Debug, Default)]
struct Entry {
    classes: Vec<Class>,
    /// The other words of a phrase, and its class.
    phrases: Vec<(Vec<Box<str>>, Class)>,
}

/// The words and signs of a class: a sentence with a token of the class contains one of these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces<'v> {
    /// Words, phrases and parts of tokens.
    pub(crate) words: BTreeSet<Cow<'v, str>>,
    /// Parts of tags.
    pub(crate) in_tags: BTreeSet<Cow<'v, str>>,
    /// Signs and digits.
    pub(crate) signs: BTreeSet<u8>,
    /// True if any token can belong to the class.
    pub(crate) is_anything: bool,
}

impl Traces<'_> {
    /// Returns whether every token of the class is a tag.
    pub(crate) fn is_in_tags(&self) -> bool {
        !self.in_tags.is_empty() && self.words.is_empty() && self.signs.is_empty() && !self.is_anything
    }

    fn extend(&mut self, other: &Self) {
        self.words.extend(other.words.iter().cloned());
        self.in_tags.extend(other.in_tags.iter().cloned());
        self.signs.extend(&other.signs);
        self.is_anything |= other.is_anything;
    }
}

impl Vocabulary {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut vocabulary = Self {
            common: (1..)
                .map(f64::from)
                .zip(entries_of(&file.common))
                .map(|(rank, word)| (word.into(), rank))
                .collect(),
            ..Self::default()
        };
        for (shape, name) in Shape::ALL {
            let class = vocabulary.class(name);
            vocabulary.shapes.push((shape, class));
        }
        for name in ["own", "others", "foreign", "opening", "third", "plain"] {
            vocabulary.class(name);
        }
        for (name, entries) in &file.words {
            let class = vocabulary.class(name);
            for entry in entries_of(entries) {
                vocabulary.add(entry, class);
            }
        }
        for (name, entries) in &file.nouns {
            let class = vocabulary.class(name);
            for entry in entries_of(entries) {
                vocabulary.add(entry, class);
                vocabulary.add(&plural(entry), class);
            }
        }
        let (third, every_plain) = (vocabulary.class("third"), vocabulary.class("plain"));
        for (name, entries) in &file.verbs {
            let class = vocabulary.class(name);
            let plain = vocabulary.class(&format!("{name}!"));
            for entry in entries_of(entries) {
                vocabulary.add(entry, plain);
                vocabulary.add(entry.split(' ').next().unwrap_or_default(), every_plain);
                vocabulary.add(&plural(entry.split(' ').next().unwrap_or_default()), third);
                let (verb, rest) = entry
                    .split_once(' ')
                    .map_or((entry, ""), |(verb, rest)| (verb, rest));
                for form in forms(verb, file.irregular.get(verb).map(String::as_str)) {
                    vocabulary.add(format!("{form} {rest}").trim(), class);
                }
            }
        }
        for (name, entries) in &file.parts {
            let class = vocabulary.class(name);
            for entry in entries_of(entries) {
                vocabulary.parts.all.push((entry.into(), class));
            }
        }
        for (name, entries) in &file.tags {
            let class = vocabulary.class(name);
            for entry in entries_of(entries) {
                vocabulary.tags.all.push((entry.into(), class));
            }
        }
        vocabulary.parts.prepare()?;
        vocabulary.tags.prepare()?;
        for (name, members) in &file.unions {
            let class = vocabulary.class(name);
            for member in members.split([' ', '\n']).filter(|member| !member.is_empty()) {
                let member = vocabulary.known(member)?;
                vocabulary.unite(member, class);
            }
        }
        Ok(vocabulary)
    }

    /// Returns for each class whether it contains a common word, or a shape.
    pub(crate) fn common(&self) -> Vec<bool> {
        let mut own = vec![false; self.len()];
        let words = self.common.keys().filter_map(|word| self.words.get(word));
        let classes = words.flat_map(|entry| &entry.classes);
        for class in classes.chain(self.shapes.iter().map(|(_, class)| class)) {
            own[usize::from(*class)] = true;
        }
        let mut common = own.clone();
        for (_, unions) in self.unions.iter().enumerate().filter(|(member, _)| own[*member]) {
            unions.iter().for_each(|class| common[usize::from(*class)] = true);
        }
        common
    }

    /// Completes the vocabulary, once all classes are known: tokens get only classes that are `used`.
    pub(crate) fn settle(&mut self, used: &[bool]) {
        let mut words = std::mem::take(&mut self.words);
        let told = |classes: &[Class]| {
            let mut told: Vec<Class> = Vec::new();
            for class in classes.iter().flat_map(|class| self.unions(*class)) {
                if used[usize::from(class)] && !told.contains(&class) {
                    told.push(class);
                }
            }
            told
        };
        #[expect(clippy::iter_over_hash_type, reason = "each is changed by itself")]
        for entry in words.values_mut() {
            entry.classes = told(&entry.classes);
        }
        self.told = self.classes().map(|class| told(&[class])).collect();
        self.words = words;
    }

    /// Returns the classes that a token of a class gets.
    pub(crate) fn told(&self, class: Class) -> &[Class] {
        self.told.get(usize::from(class)).map_or(&[], Vec::as_slice)
    }

    fn classes(&self) -> impl Iterator<Item = Class> + use<> {
        0..Class::try_from(self.names.len()).unwrap_or(Class::MAX)
    }

    /// Returns a class, and those that contain it.
    fn unions(&self, class: Class) -> impl Iterator<Item = Class> {
        let of = |class: Class| self.unions.get(usize::from(class)).into_iter().flatten().copied();
        let outer = of(class).flat_map(of);
        std::iter::once(class).chain(of(class)).chain(outer)
    }

    /// Returns the relative frequency of a word, which is inversely proportional to its rank.
    pub(crate) fn frequency(&self, word: &str) -> f64 {
        match self.common.get(word) {
            Some(rank) => rank.recip(),
            None => RARE,
        }
    }

    /// Returns for each class the words and signs of its tokens.
    #[expect(clippy::iter_over_hash_type, reason = "sets are in order")]
    pub(crate) fn traces(&self) -> Vec<Traces<'_>> {
        let mut own = vec![Traces::default(); self.len()];
        for (first, entry) in &self.words {
            for class in &entry.classes {
                own[usize::from(*class)].words.insert((&**first).into());
            }
            for (rest, class) in &entry.phrases {
                let phrase = std::iter::once(first).chain(rest).map(|word| &**word);
                own[usize::from(*class)]
                    .words
                    .insert(phrase.collect::<Vec<_>>().join(" ").into());
            }
        }
        for (part, class) in &self.parts.all {
            own[usize::from(*class)].words.insert((&**part).into());
        }
        for (part, class) in &self.tags.all {
            own[usize::from(*class)].in_tags.insert((&**part).into());
        }
        for (shape, class) in &self.shapes {
            let own = &mut own[usize::from(*class)];
            own.signs.extend(shape.signs());
            own.is_anything |= shape.signs().is_empty();
        }
        for name in ["own", "others", "opening", "third", "plain"] {
            if let Some(class) = self.names.get(name) {
                own[usize::from(*class)].is_anything = true;
            }
        }
        if let Some(class) = self.names.get("foreign") {
            own[usize::from(*class)].signs.insert(b'_');
        }
        let mut traces = vec![Traces::default(); self.len()];
        for member in self.classes() {
            for class in self.unions(member) {
                traces[usize::from(class)].extend(&own[usize::from(member)]);
            }
        }
        traces
    }

    /// Returns the number of classes.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the class of this name; an error if there is none.
    pub(crate) fn known(&self, name: &str) -> Result<Class, String> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| format!("there is no class {name:?}"))
    }

    /// Returns the class of this name, and creates it if there is none.
    fn class(&mut self, name: &str) -> Class {
        let next = Class::try_from(self.names.len()).unwrap_or(Class::MAX);
        *self.names.entry(name.to_owned()).or_insert(next)
    }

    /// Returns the class of the words that a pattern lists, `a|b c|d`.
    pub(crate) fn listed(&mut self, words: &str) -> Result<Class, String> {
        // No other class has such a name.
        let name = format!("={words}");
        if let Some(class) = self.names.get(&name) {
            return Ok(*class);
        }
        let class = self.class(&name);
        for word in words.split('|') {
            match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
                Some(name) => {
                    let member = self.known(name)?;
                    self.unite(member, class);
                }
                None => self.add(&word.replace('+', " "), class),
            }
        }
        Ok(class)
    }

    fn unite(&mut self, member: Class, class: Class) {
        let member = usize::from(member);
        if self.unions.len() <= member {
            self.unions.resize(member + 1, Vec::new());
        }
        self.unions[member].push(class);
    }

    fn add(&mut self, entry: &str, class: Class) {
        let mut words = split(entry).into_iter().map(String::into_boxed_str);
        let Some(first) = words.next() else { return };
        let rest: Vec<_> = words.collect();
        if rest.is_empty() {
            let classes = &mut self.words.entry(first).or_default().classes;
            if !classes.contains(&class) {
                classes.push(class);
            }
        } else {
            self.words.entry(first).or_default().phrases.push((rest, class));
        }
    }

    /// Calls `tell` for every token of a sentence with the classes that it belongs to.
    pub(crate) fn classify(&self, text: &str, sentence: &[Token], mut tell: impl FnMut(usize, &[Class])) {
        for (index, token) in sentence.iter().enumerate() {
            let word = &text[token.span.clone()];
            if token.shapes != Shapes::default() {
                for (shape, class) in &self.shapes {
                    if token.shapes.has(*shape) {
                        tell(index, self.told(*class));
                    }
                }
                if [Shape::Url, Shape::Email, Shape::Path, Shape::Name]
                    .iter()
                    .any(|shape| token.shapes.has(*shape))
                {
                    self.parts
                        .classes(word)
                        .for_each(|class| tell(index, self.told(class)));
                }
                if token.shapes.has(Shape::Tag) {
                    self.tags
                        .classes(word)
                        .for_each(|class| tell(index, self.told(class)));
                }
            }
            let owner = word.strip_suffix("'s").or_else(|| word.strip_suffix("s'"));
            let has_quote = !word.is_ascii() && word.contains('\u{2019}');
            let unquoted = has_quote.then(|| word.replace('\u{2019}', "'"));
            for form in std::iter::once(word).chain(unquoted.as_deref()).chain(owner) {
                let Some(entry) = self.words.get(form) else {
                    continue;
                };
                tell(index, &entry.classes);
                for (rest, class) in &entry.phrases {
                    let follows = rest.iter().enumerate().all(|(offset, expected)| {
                        sentence.get(index + 1 + offset).is_some_and(|token| {
                            let word = &text[token.span.clone()];
                            word == &**expected || word.strip_suffix("'s") == Some(expected)
                        })
                    });
                    if follows {
                        for offset in 0..=rest.len() {
                            tell(index + offset, self.told(*class));
                        }
                    }
                }
            }
        }
    }
}

fn entries_of(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', '\n'])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

/// Splits an entry into words, in the way in which texts are split.
fn split(entry: &str) -> Vec<String> {
    let mut words = Vec::new();
    tokens::sentences(entry, 0..entry.len(), |tokens| {
        words.extend(tokens.iter().map(|token| entry[token.span.clone()].to_owned()));
    });
    words
}

/// Returns whether a part of a token is separate from the rest.
fn stands_alone(token: &str, part: Range<usize>) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (bytes, own) = (token.as_bytes(), &token.as_bytes()[part.clone()]);
    let before = part.start.checked_sub(1).map(|before| bytes[before]);
    let opens = !own
        .first()
        .is_some_and(|first| first.is_ascii_alphanumeric() || *first == b'.')
        || before.is_none_or(|byte| !is_word(byte));
    let closes = !own.last().is_some_and(u8::is_ascii_alphanumeric)
        || bytes.get(part.end).is_none_or(|byte| !is_word(*byte));
    opens && closes
}

fn plural(noun: &str) -> String {
    if let Some(stem) = noun.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'i', 'o', 'u'])
    {
        return format!("{stem}ies");
    }
    match noun.ends_with(['s', 'x']) || noun.ends_with("ch") || noun.ends_with("sh") {
        true => format!("{noun}es"),
        false => format!("{noun}s"),
    }
}

/// Returns the forms of a verb: plain, third person, past, participles.
fn forms(verb: &str, irregular: Option<&str>) -> Vec<String> {
    let mut forms = vec![verb.to_owned(), plural(verb)];
    let is_vowel = |byte: u8| b"aeiou".contains(&byte);
    let bytes = verb.as_bytes();
    let doubles = match bytes {
        [.., a, b, c] => !is_vowel(*a) && is_vowel(*b) && !is_vowel(*c) && !b"wxy".contains(c),
        _ => false,
    };
    let last = verb.chars().next_back().unwrap_or_default();
    if let Some(stem) = verb.strip_suffix('e') {
        forms.push(format!("{stem}ing"));
        forms.push(format!("{stem}ed"));
    } else {
        forms.push(format!("{verb}ing"));
        match verb
            .strip_suffix('y')
            .filter(|stem| !stem.ends_with(['a', 'e', 'o']))
        {
            Some(stem) => forms.push(format!("{stem}ied")),
            None => forms.push(format!("{verb}ed")),
        }
        if doubles {
            forms.push(format!("{verb}{last}ing"));
            forms.push(format!("{verb}{last}ed"));
        }
    }
    forms.extend(
        irregular
            .into_iter()
            .flat_map(|forms| forms.split(' '))
            .map(str::to_owned),
    );
    forms
}

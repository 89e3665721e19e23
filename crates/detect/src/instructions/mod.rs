//! Finds instructions against the user in texts that models read.
//!
//! Pure: no clock, files or configuration. Words, signals and rules are data (`rules/`).

mod classes;
mod gate;
pub mod lists;
mod rules;
mod runs;
mod signals;
mod tokens;
mod vocabulary;
mod words;

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::{BTreeMap, HashSet},
    ops::Range,
    sync::LazyLock,
};

use foldhash::fast::RandomState;

use gate::Gate;
pub use rules::{Kind, Outcome, Rule};
use signals::{Masks, Sentence, Set, Signals};
use vocabulary::{Class, Vocabulary};

/// The kind of place of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The description of a tool, a prompt, a resource, or a server's instructions.
    Description,
    /// A text in a schema, which describes a parameter.
    Schema,
    /// A result, or any other message of a server.
    Output,
}

/// The surroundings of a text.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The kind of the text's place.
    pub place: Place,
    /// Names of the server's own tools.
    pub own: &'a Names<'a>,
    /// Names of the parameters of the tool that the text describes.
    pub parameters: &'a Names<'a>,
    /// Names of tools of other servers.
    pub others: &'a Names<'a>,
    /// True if its name is that of a document: fewer words about attacks then make it a document about attacks.
    pub is_document: bool,
}

/// Names, compared without case.
#[derive(Debug, Default)]
pub struct Names<'a>(HashSet<Cow<'a, str>, RandomState>);

impl Names<'_> {
    /// Returns whether a word in lower case is one of them.
    pub fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }
}

impl<'a> FromIterator<&'a str> for Names<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let lower = |name: &'a str| match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => Cow::Borrowed(name),
        };
        Self(names.into_iter().map(lower).collect())
    }
}

/// A rule that holds in a text.
#[derive(Clone, Debug)]
pub struct Match {
    /// The rule.
    pub rule: &'static Rule,
    /// The outcome, in view of the place of the text.
    pub outcome: Outcome,
    /// The part of the text in which the rule opens.
    pub span: Range<usize>,
    /// True if the sentence only mentions what the rule finds.
    pub is_mention: bool,
}

/// Shortest document about attacks.
const MIN_DOCUMENT_BYTES: usize = 700;
/// Fewest words about attacks in a document about them; the server of a text can write as many.
const MIN_DOCUMENT_WORDS: u32 = 5;
/// The same for a text whose name is that of a document; its server chose the name too.
const MIN_NAMED_DOCUMENT_WORDS: u32 = 3;
/// Most matches of a rule in a text that are kept, of mentions and of other matches each: all of them have one outcome.
const MAX_MATCHES: usize = 256;
/// Most bytes of an output that are read to find out whether it is a document about attacks.
const MAX_DOCUMENT_BYTES: usize = 64 << 10;

/// The beginning of the first and of the last line of a block of code.
const FENCE: &str = "```";

/// The positions of fences of code blocks in a text, searched for when they are first needed.
struct Fences<'t> {
    text: &'t str,
    places: OnceCell<Vec<usize>>,
}

impl<'t> Fences<'t> {
    const fn new(text: &'t str) -> Self {
        Self {
            text,
            places: OnceCell::new(),
        }
    }

    /// Returns whether a position is between an opening fence and its closing one.
    fn enclose(&self, at: usize) -> bool {
        let find = || {
            let fences = memchr::memmem::find_iter(self.text.as_bytes(), FENCE);
            fences
                .filter(|at| self.text[..*at].ends_with('\n') || *at == 0)
                .collect()
        };
        let places: &Vec<usize> = self.places.get_or_init(find);
        let before = places.partition_point(|fence| *fence < at);
        before % 2 == 1 && before < places.len()
    }
}

struct Engine {
    vocabulary: Vocabulary,
    signals: Signals,
    definitions: Vec<Rule>,
    outputs: Vec<Rule>,
    /// Signals that open a rule for outputs.
    openers: Set,
    /// The number of surrounding sentences that a rule examines.
    beside: usize,
    /// The gate that finds the sentences of an output in which a rule may open.
    gate: Gate,
    attack: Set,
    about_attack: Set,
    intro: Set,
    stopped: Set,
    foreign: Class,
    others: Class,
    opening: Class,
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| match Engine::parse() {
    Ok(engine) => engine,
    Err(error) => panic!("built-in rules are parsed by a test: {error}"),
});

impl Engine {
    fn parse() -> Result<Self, String> {
        let mut vocabulary = Vocabulary::parse(include_str!("../../rules/words.toml"))?;
        let signals = Signals::parse(include_str!("../../rules/signals.toml"), &mut vocabulary)?;
        let outputs = rules::parse(include_str!("../../rules/outputs.toml"), &signals)?;
        let openers = outputs.iter().fold(0, |openers, rule| openers | rule.openers());
        let gate = Gate::new(&outputs.iter().collect::<Vec<_>>(), &signals, &vocabulary)?;
        vocabulary.settle(&signals.used(vocabulary.len()));
        Ok(Self {
            definitions: rules::parse(include_str!("../../rules/definitions.toml"), &signals)?,
            openers,
            // At least one, because the sentence before shows whether it is a mention.
            beside: outputs
                .iter()
                .map(|rule| rule.beside)
                .max()
                .unwrap_or_default()
                .max(1),
            gate,
            attack: signals.known("attack").ok_or("no signal attack")?,
            about_attack: signals.known("about_attack").ok_or("no signal about_attack")?,
            intro: signals.known("intro").ok_or("no signal intro")?,
            stopped: signals.known("stopped").ok_or("no signal stopped")?,
            foreign: vocabulary.known("foreign")?,
            others: vocabulary.known("others")?,
            opening: vocabulary.known("opening")?,
            outputs,
            vocabulary,
            signals,
        })
    }

    /// Returns whether a sentence only mentions what a rule finds: it is quoted, and introduced or about attacks. An
    /// unquoted sentence of a result is a mention if it introduces an attack, or if it shows in a code block something
    /// that is stopped.
    fn is_mention(
        &self,
        fences: &Fences<'_>,
        sentences: &[Sentence],
        index: usize,
        rule: &Rule,
        place: Place,
    ) -> bool {
        let sentence = &sentences[index];
        let before = index.checked_sub(1).and_then(|before| sentences.get(before));
        let says = |signal: Set| sentence.has(signal) || before.is_some_and(|before| before.has(signal));
        let is_introduced = rule.is_quoted(sentence) && (says(self.intro) || says(self.about_attack));
        let is_told = || sentence.has(self.attack) && sentence.has(self.intro);
        let is_shown = || sentence.has(self.stopped) && fences.enclose(sentence.span.start);
        is_introduced || place == Place::Output && (is_told() || is_shown())
    }

    /// Returns whether an output is a document about attacks.
    fn is_document(&self, lower: &str, context: &Context<'_>, masks: &mut Masks) -> bool {
        let (length, wanted) = match context.is_document {
            true => (0, MIN_NAMED_DOCUMENT_WORDS),
            false => (MIN_DOCUMENT_BYTES, MIN_DOCUMENT_WORDS),
        };
        if context.place != Place::Output || lower.len() < length {
            return false;
        }
        let read = &lower[..lower.floor_char_boundary(MAX_DOCUMENT_BYTES)];
        let mut attacks = 0;
        self.read(read, 0..read.len(), context, masks, |sentence| {
            attacks += sentence.attacks
        });
        attacks >= wanted
    }

    /// Reads a part of a text, and gives each sentence with its signals to `tell`.
    fn read(
        &self,
        lower: &str,
        part: Range<usize>,
        context: &Context<'_>,
        masks: &mut Masks,
        mut tell: impl FnMut(Sentence),
    ) {
        let named = |word: &str| {
            if context.others.has(word) {
                Some(self.others)
            } else if word.contains('_') && !context.own.has(word) && !context.parameters.has(word) {
                Some(self.foreign)
            } else {
                None
            }
        };
        let mut opening = (context.place == Place::Description && part.start == 0).then_some(self.opening);
        tokens::sentences(lower, part, |tokens| {
            let opening = opening.take();
            tell(
                self.signals
                    .read(lower, tokens, &self.vocabulary, masks, named, opening),
            );
        });
    }

    /// Returns the parts of a text that are read: of an output the sentences in which a rule opens, and those near
    /// them.
    fn regions(&self, lower: &str, context: &Context<'_>, masks: &mut Masks) -> Vec<Range<usize>> {
        if context.place != Place::Output {
            return std::iter::once(0..lower.len()).collect();
        }
        let mut regions: Vec<Range<usize>> = Vec::new();
        let may_hold = |possible: &[Set], index: usize| {
            let mut rules = self.outputs.iter();
            rules.any(|rule| rule.within >= lower.len() && rule.may_hold(possible, index))
        };
        for part in self.gate.passing(lower, self.beside, may_hold) {
            let mut opens = false;
            self.read(lower, part.clone(), context, masks, |sentence| {
                opens |= sentence.has(self.openers)
            });
            if opens {
                let region = tokens::beside(lower, part, self.beside);
                match regions.last_mut() {
                    Some(last) if region.start <= last.end => last.end = last.end.max(region.end),
                    Some(_) | None => regions.push(region),
                }
            }
        }
        regions
    }

    /// Returns the matches in these parts of a text.
    fn found(
        &'static self,
        lower: &str,
        context: &Context<'_>,
        masks: &mut Masks,
        regions: Vec<Range<usize>>,
    ) -> Vec<Match> {
        let mut found = Vec::new();
        let fences = Fences::new(lower);
        let mut kept: BTreeMap<(&str, bool), usize> = BTreeMap::new();
        for region in regions {
            let mut sentences = Vec::new();
            self.read(lower, region, context, masks, |sentence| sentences.push(sentence));
            for index in 0..sentences.len() {
                for matched in self.matches(&fences, &sentences, index, context.place) {
                    let count = kept.entry((&matched.rule.id, matched.is_mention)).or_default();
                    if *count < MAX_MATCHES && lower.len() <= matched.rule.within {
                        *count += 1;
                        found.push(matched);
                    }
                }
            }
        }
        if !found.is_empty() && self.is_document(lower, context, masks) {
            for matched in &mut found {
                matched.outcome = Outcome::Note;
                matched.is_mention = true;
            }
        }
        found
    }

    /// Returns the matches in the sentence at `index`.
    fn matches<'s>(
        &'static self,
        fences: &'s Fences<'s>,
        sentences: &'s [Sentence],
        index: usize,
        place: Place,
    ) -> impl Iterator<Item = Match> + use<'s> {
        let rules = match place {
            _ if sentences[index].signals.is_empty() => &[],
            Place::Description | Place::Schema => &*self.definitions,
            Place::Output => &self.outputs,
        };
        let holding = rules.iter().filter(move |rule| rule.holds(sentences, index));
        // A single signal in a code block of a document is an example of what people write.
        let is_shown = move |rule: &Rule| {
            let start = sentences[index].span.start;
            rule.groups().len() == 1 && fences.text.len() >= MIN_DOCUMENT_BYTES && fences.enclose(start)
        };
        holding.map(move |rule| {
            let is_mention = self.is_mention(fences, sentences, index, rule, place);
            let outcome = match (place, rule.schema, rule.outcome) {
                _ if is_mention => Outcome::Note,
                (Place::Output, _, Outcome::Act) if is_shown(rule) => Outcome::Alert,
                (Place::Schema, false, Outcome::Act) => Outcome::Alert,
                (Place::Schema, false, _) => Outcome::Note,
                (_, _, outcome) => outcome,
            };
            Match {
                rule,
                outcome,
                span: rule.span(&sentences[index]),
                is_mention,
            }
        })
    }
}

/// Returns the matches in `text`, which is a skeleton: the text as it looks, in any case.
pub fn matches(text: &str, context: &Context<'_>) -> Vec<Match> {
    let engine = &*ENGINE;
    let lower = text.to_ascii_lowercase();
    let masks = &mut Masks::new(engine.vocabulary.len());
    let regions = engine.regions(&lower, context, masks);
    engine.found(&lower, context, masks, regions)
}

/// Returns every rule, for definitions and for outputs.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    ENGINE.definitions.iter().chain(&ENGINE.outputs)
}

#[cfg(test)]
mod tests;

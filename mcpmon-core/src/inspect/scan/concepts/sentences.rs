//! Takes a text apart into sentences, and finds what the words of each stand for.

use std::ops::Range;

use super::{
    Around, Concept, Concepts,
    lexicon::LEXICON,
    literals::literals,
    names,
    tokens::{Reader, Word},
};

/// Words after a negation that it can be about, and after the comma that follows.
const DENIED: usize = 8;
const DENIED_APART: usize = 5;
/// Words before a negation that make it a condition, and that say whom it is about.
const CONDITION: usize = 5;
const SUBJECT: usize = 4;
/// Words between `every` and what it counts.
const COUNTED: usize = 2;
/// Words before a model that say that it is called.
const CALL: usize = 3;
/// Words after it within which the call ends.
const CALL_ENDS: usize = 5;

/// Words between a model and what it has to do.
const OBLIGED: usize = 4;

/// What is no verb where it begins a sentence, though it ends as one does.
const THINGS: Concepts = Concepts::of(&[
    Concept::User,
    Concept::Model,
    Concept::Authority,
    Concept::Secret,
    Concept::Goods,
    Concept::Tool,
    Concept::Answer,
    Concept::Talk,
    Concept::Rules,
]);

/// Those who speak in a play.
const SPEAKERS: Concepts = Concepts::of(&[Concept::User, Concept::Model]);

/// What a negation turns around; the rest is named all the same.
const DEEDS: Concepts = Concepts::of(&[
    Concept::Take,
    Concept::Give,
    Concept::Hold,
    Concept::Tell,
    Concept::Use,
    Concept::Run,
    Concept::Consent,
    Concept::Ask,
    Concept::Trace,
    Concept::Aware,
    Concept::Alter,
    Concept::Obey,
    Concept::Claim,
    Concept::Destroy,
    Concept::Disable,
    Concept::Grant,
    Concept::Praise,
    Concept::Remember,
    Concept::Heed,
    Concept::Settled,
]);

/// A sentence, and what it stands for.
#[derive(Clone, Debug)]
pub(super) struct Sentence {
    /// What it says.
    pub(super) said: Concepts,
    /// What it says that is not so, or not to be.
    pub(super) denied: Concepts,
    /// Where it stands.
    pub(super) span: Range<usize>,
}

/// A sentence as far as it is read.
struct Reading<'t> {
    /// The text up to the end of the sentence.
    text: &'t str,
    words: &'t [Word],
    /// Whether it is the description's first one, of which each verb tells what the tool does.
    is_purpose: bool,
    said: Concepts,
    denied: Concepts,
    /// Words that the last negation can still be about.
    left: usize,
    /// Whether that is about someone who may not do what is denied.
    is_theirs: bool,
    is_modal: bool,
    /// Where the last words of some concepts stand.
    user: Option<usize>,
    model: Option<usize>,
    every: Option<usize>,
    other: Option<usize>,
    condition: Option<usize>,
    /// The first and the last word that stand for something.
    told: Option<(usize, usize)>,
}

/// The sentences of a skeleton.
pub(super) fn read(text: &str, around: &Around<'_>) -> Vec<Sentence> {
    let mut reader = Reader::of(text);
    let mut sentences = Vec::new();
    while reader.advance() {
        let is_opening = reader.is_opening;
        let mut said = Concepts::NONE;
        if is_opening {
            said = said.and(Concept::Opening.alone());
        }
        if around.is_parameter {
            said = said.and(Concept::Parameter.alone());
        }
        let mut reading = Reading {
            text: &text[..reader.end()],
            words: &reader.words,
            is_purpose: is_opening && !around.is_parameter,
            said,
            denied: Concepts::NONE,
            left: 0,
            is_theirs: false,
            is_modal: false,
            user: None,
            model: None,
            every: None,
            other: None,
            condition: None,
            told: None,
        };
        for at in 0..reader.words.len() {
            reading.word(at, around);
        }
        sentences.push(reading.end());
    }
    sentences
}

impl Reading<'_> {
    fn word(&mut self, at: usize, around: &Around<'_>) {
        let word = &self.words[at];
        if word.is_apart {
            self.left = self.left.min(DENIED_APART);
        }
        let meaning = self.meaning(at).and(names::of(self.text, self.words, at, around));
        if meaning == Concepts::NONE {
            self.left = self.left.saturating_sub(1);
            return;
        }
        self.told = Some((self.told.map_or(at, |(first, _)| first), at));
        if meaning.is(Concept::Resets) {
            self.left = 0;
        }
        // What negates is part of what it says: `without asking` is said unless that is denied.
        let is_denied = self.left > usize::from(!meaning.is(Concept::Not));
        if meaning.is(Concept::Not) {
            self.negation(at);
        } else {
            self.left = self.left.saturating_sub(1);
        }
        self.relations(at, meaning);
        if !is_denied {
            self.order(at, meaning);
        }
        self.said = self.said.and(match is_denied {
            false => meaning,
            true => meaning.without(DEEDS),
        });
        if self.left > 0 {
            self.denied = self.denied.and(meaning);
        }
    }

    /// What stands at a word: of several expressions all count.
    fn meaning(&self, at: usize) -> Concepts {
        let Some(entry) = self.words[at].known else {
            return Concepts::NONE;
        };
        let Some((second, next)) = self.words[at + 1..].split_first() else {
            return entry.alone;
        };
        let follows = |rest: &[u64]| {
            rest.len() <= next.len() && next.iter().zip(rest).all(|(word, hash)| word.hash == *hash)
        };
        let expressions = LEXICON
            .begun(entry, second.hash)
            .filter(|(rest, _)| follows(rest));
        expressions.fold(entry.alone, |meaning, (_, concepts)| meaning.and(concepts))
    }

    fn negation(&mut self, at: usize) {
        // `If you do not` is no prohibition.
        self.left = match within(self.condition, at, CONDITION) {
            true => 0,
            false => DENIED + 1,
        };
        self.is_modal |= at > 0 && self.words[at - 1].is(Concept::Modal);
        self.is_theirs = within(self.user, at, SUBJECT);
    }

    /// What words say only together.
    fn relations(&mut self, at: usize, meaning: Concepts) {
        let mut say = |concept: Concept| self.said = self.said.and(concept.alone());
        if meaning.is(Concept::Turn) && within(self.every, at, COUNTED) {
            say(Concept::Sweep);
        }
        if meaning.is(Concept::Tool) && within(self.other, at, COUNTED) {
            say(Concept::OtherTools);
        }
        if meaning.is(Concept::Aware) && self.left > 0 && self.is_theirs && self.is_modal {
            say(Concept::Kept);
        }
        if meaning.is(Concept::Model) && self.is_called(at) {
            self.said = self.said.and(Concept::Called.alone());
        }
        if at == 0 && meaning.meet(SPEAKERS) && self.text[self.words[at].end..].starts_with([':', ']', '\n'])
        {
            self.said = self.said.and(Concept::Played.alone());
        }
        if meaning.is(Concept::Bound) && within(self.model, at, OBLIGED) {
            self.said = self.said.and(Concept::Obliged.alone());
        }
        self.is_modal |= meaning.is(Concept::Modal);
        for (concept, last) in [
            (Concept::User, &mut self.user),
            (Concept::Model, &mut self.model),
            (Concept::Every, &mut self.every),
            (Concept::Other, &mut self.other),
            (Concept::Condition, &mut self.condition),
        ] {
            if meaning.is(concept) {
                *last = Some(at);
            }
        }
    }

    /// Whether a verb stands where an order has it: at the beginning, after a comma, after a word that leads to it.
    fn order(&mut self, at: usize, meaning: Concepts) {
        let word = &self.words[at];
        if !word.known.is_some_and(|entry| entry.is_order) {
            return;
        }
        let is_order = match at == 0 {
            true => !self.is_purpose,
            false => word.is_apart || self.words[at - 1].is(Concept::Leads),
        };
        if is_order {
            let means_more = meaning.without(Concept::Do.alone()) != Concepts::NONE;
            self.said = self.said.and(match means_more {
                true => Concept::Order.alone(),
                false => Concept::Bids.alone(),
            });
            if meaning.is(Concept::Overrule) {
                self.said = self.said.and(Concept::Drop.alone());
            }
        }
    }

    /// Whether a model is called by what it is, as a letter or a line of a play begins; or it is what you are.
    fn is_called(&self, at: usize) -> bool {
        let before = &self.words[at.saturating_sub(CALL)..at];
        let is_word = |word: &Word, text: &str| self.text[word.start..word.end].eq_ignore_ascii_case(text);
        if before.last().is_some_and(|word| is_word(word, "your")) {
            return false;
        }
        let ends = self.call_ends(at);
        if let [.., be, article] = before
            && be.is(Concept::Being)
            && article.is(Concept::Article)
        {
            // `you are an AI company` speaks to nobody that reads.
            let is_whole =
                ends.is_some_and(|(words, _)| words == 0) || self.words.get(at + 1).is_none_or(Word::is_told);
            return is_whole && self.said.is(Concept::You);
        }
        let says = |words: &[Word], concept| words.iter().any(|word| word.is(concept));
        // `for agents:` heads what is written about them.
        let is_for = |pair: &[Word]| is_word(&pair[0], "for") && pair[1].is(Concept::Article);
        let is_hailed = says(before, Concept::Hails) || before.windows(2).any(is_for);
        let after = &self.words[at + 1..self.words.len().min(at + 1 + CALL)];
        if (is_hailed || at <= 1) && says(after, Concept::Reads) {
            return true;
        }
        let is_greeted = at <= 1 || says(before, Concept::Greets);
        let is_marked = self.text[..self.words[at].start].ends_with(['@', '#', '[', '*', '(', '"', '>']);
        let is_aside = self.words[at].is_apart && self.said.is(Concept::You);
        ends.is_some_and(|(words, rest)| match rest.as_bytes() {
            [b':', b':' | b'/', ..] => false,
            // In a play the model speaks for itself.
            [b':', ..]
                if self
                    .words
                    .get(at + words + 1)
                    .is_some_and(|word| is_word(word, "i")) =>
            {
                false
            }
            [b':', ..] => is_greeted || is_hailed || is_marked && words == 0,
            [b',', ..] => words == 0 && (is_greeted || is_marked || is_aside),
            [b')', b':', ..] => words == 0,
            [b')', ..] => words == 0 && is_hailed,
            _ => false,
        })
    }

    /// How many words after the one at `at` a mark follows, and what begins with that.
    fn call_ends(&self, at: usize) -> Option<(usize, &str)> {
        let rest = |word: &Word| &self.text[word.end..];
        let words = self.words[at..].iter().take(CALL_ENDS).enumerate();
        let mut ends = words.filter(|(_, word)| !rest(word).is_empty() && !rest(word).starts_with(' '));
        ends.next().map(|(words, word)| (words, rest(word)))
    }

    fn end(self) -> Sentence {
        let words = self.words;
        let (first, last) = self.told.unwrap_or((0, words.len() - 1));
        let span = words[first].start..words[last].end;
        let mut said = self.said;
        if words.iter().any(|word| word.is_literal) {
            // The last word may be followed by the rest of an address.
            said = said.and(literals(&self.text[words[0].start..]));
        }
        let is_thing = words[0]
            .known
            .is_some_and(|entry| entry.alone.meet(THINGS) && !entry.alone.meet(DEEDS));
        if !is_thing && names::describes(&self.text[words[0].start..words[0].end]) && !said.is(Concept::You) {
            said = said.and(Concept::Itself.alone());
        }
        Sentence {
            said,
            denied: self.denied,
            span,
        }
    }
}

impl Word {
    /// Whether it stands for anything on its own.
    fn is_told(&self) -> bool {
        self.known.is_some_and(|entry| entry.alone != Concepts::NONE)
    }

    /// Whether it stands for a concept on its own.
    pub(super) fn is(&self, concept: Concept) -> bool {
        self.known.is_some_and(|entry| entry.alone.is(concept))
    }
}

fn within(last: Option<usize>, at: usize, words: usize) -> bool {
    last.is_some_and(|last| last < at && at - last <= words)
}

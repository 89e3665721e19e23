//! What a text is up to: which concepts have to meet.

mod definitions;
mod outputs;

use super::{Concept, Concepts, sentences::Sentence};
use crate::{inspect::scan::rules::Place, model::Category};

/// Most groups of an intent.
const GROUPS: usize = 5;

/// Concepts that make an attack when they meet.
#[derive(Debug)]
pub(super) struct Intent {
    /// Name of its findings, as rules have it.
    pub(super) name: &'static str,
    /// What kind of attack it is.
    pub(super) category: Category,
    /// Of each group one is said in the sentence.
    here: [Concepts; GROUPS],
    /// Of each group one is denied in the sentence.
    denied: [Concepts; 2],
    /// Of each group one is said in the sentence or beside it.
    beside: [Concepts; 2],
    /// None of these is said in the sentence.
    never: Concepts,
}

impl Intent {
    const fn new(name: &'static str, category: Category, here: &[&[Concept]]) -> Self {
        Self {
            name,
            category,
            here: groups(here),
            denied: [Concepts::NONE; 2],
            beside: [Concepts::NONE; 2],
            never: Concepts::NONE,
        }
    }

    const fn denied(self, denied: &[&[Concept]]) -> Self {
        Self {
            denied: groups(denied),
            ..self
        }
    }

    const fn beside(self, beside: &[&[Concept]]) -> Self {
        Self {
            beside: groups(beside),
            ..self
        }
    }

    const fn never(self, never: &[Concept]) -> Self {
        Self {
            never: Concepts::of(never),
            ..self
        }
    }

    /// Whether all that it wants meets in a sentence, and in those beside it.
    pub(super) fn holds(&self, sentence: &Sentence, beside: &[Sentence]) -> bool {
        let all = |groups: &[Concepts], said: Concepts| {
            let mut groups = groups.iter().take_while(|group| **group != Concepts::NONE);
            groups.all(|group| group.meet(said))
        };
        all(&self.here, sentence.said)
            && !self.never.meet(sentence.said)
            && all(&self.denied, sentence.denied)
            && (self.beside[0] == Concepts::NONE
                || all(
                    &self.beside,
                    beside
                        .iter()
                        .fold(Concepts::NONE, |said, next| said.and(next.said)),
                ))
    }
}

const fn groups<const N: usize>(groups: &[&[Concept]]) -> [Concepts; N] {
    let mut found = [Concepts::NONE; N];
    let mut index = 0;
    while index < groups.len() {
        found[index] = Concepts::of(groups[index]);
        index += 1;
    }
    found
}

/// The intents that a sentence in a place can have.
pub(super) fn of(place: Place, sentence: &Sentence) -> impl Iterator<Item = &'static Intent> {
    let (said, opened, denied) = match place {
        Place::Definition => (definitions::SAID, DEFINITIONS_OPENED, definitions::DENIED),
        Place::Output => (outputs::SAID, OUTPUTS_OPENED, outputs::DENIED),
    };
    let said = if opened.meet(sentence.said) { said } else { &[] };
    let denied = if sentence.denied == Concepts::NONE {
        &[]
    } else {
        denied
    };
    said.iter().chain(denied)
}

/// What a sentence says if it has any intent: each names first what is rarest.
const fn opened(intents: &[Intent]) -> Concepts {
    let mut all = Concepts::NONE;
    let mut index = 0;
    while index < intents.len() {
        all = all.and(intents[index].here[0]);
        index += 1;
    }
    all
}

const DEFINITIONS_OPENED: Concepts = opened(definitions::SAID);
const OUTPUTS_OPENED: Concepts = opened(outputs::SAID);

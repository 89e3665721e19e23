//! What sentences mean, whatever their words: each word stands for concepts, and intents are made of those that meet
//! in a sentence or beside it.

mod intents;
mod languages;
mod lexicon;
mod literals;
mod names;
mod sentences;
#[cfg(test)]
mod tests;
mod things;
mod tokens;
mod words;

use std::ops::Range;

use super::rules::Place;
use crate::model::{Category, Severity};

/// What a word can stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concept {
    /// Getting hold of something: to read, to open, to look up.
    Take,
    /// Handing something over: to send, to pass, to fill in.
    Give,
    /// Being what is handed over: to contain, to equal, to begin with.
    Hold,
    /// A place in a call that takes what is handed over: a parameter, a field.
    Slot,
    /// What stands before such a name: in, as, via.
    Into,
    /// A name that is quoted, or that follows a word for a slot.
    Named,
    /// It has to be.
    Must,
    /// It comes before something else.
    First,
    /// Without it nothing works.
    Else,
    /// The one who reads: you, your.
    You,
    /// The one who reads, by what it is: an assistant, a model.
    Model,
    /// The one whom the model works for.
    User,
    /// It is someone's, or was met by chance.
    Owned,
    /// Secrets.
    Secret,
    /// Files that hold secrets.
    File,
    /// What a user has: mail, code, documents, contacts.
    Goods,
    /// What a conversation holds.
    Talk,
    /// A person's number, name or place.
    Personal,
    /// All of it.
    All,
    /// Telling someone, or being noticed by them.
    Tell,
    /// Telling someone, in a language where a negation may stand anywhere.
    Tells,
    /// Such a negation.
    Nots,
    /// Keeping something from someone.
    Hide,
    /// What a model says in the end.
    Answer,
    /// What is done here: this, the step, the copy.
    Act,
    /// Tools, functions, servers.
    Tool,
    /// Others than this one.
    Other,
    /// This one.
    This,
    /// A tool by its name that is nobody's here.
    Foreign,
    /// Calling, choosing, trusting.
    Use,
    /// Broken, unsafe, outdated.
    Bad,
    /// Making something another.
    Alter,
    /// What decides about a call: a recipient, an amount, a target.
    Target,
    /// An address that is spelled out.
    Address,
    /// An account, a phone number that is spelled out.
    Account,
    /// Each time.
    Every,
    /// What a session is made of: turns, requests, tasks.
    Turn,
    /// Rules, instructions.
    Rules,
    /// Dropping rules.
    Overrule,
    /// What came before, or stands above.
    Prior,
    /// Running something.
    Run,
    /// Something that can be run.
    Program,
    /// Destroying something.
    Destroy,
    /// Switching something off.
    Disable,
    /// What protects.
    Guard,
    /// Giving rights.
    Grant,
    /// Rights.
    Right,
    /// Asking, and being allowed.
    Consent,
    /// Asking someone, waiting for them.
    Ask,
    /// Being aware of something.
    Aware,
    /// Leaving a trace.
    Trace,
    /// Someone is not to be aware of something.
    Kept,
    /// All requests, every conversation.
    Sweep,
    /// It was settled before.
    Settled,
    /// Whatever is the case.
    Regardless,
    /// All is well.
    Fine,
    /// Something is wrong.
    Trouble,
    /// Saying that something is so.
    Claim,
    /// Later, unseen.
    Later,
    /// Keeping in mind.
    Remember,
    /// For good.
    Forever,
    /// Once more.
    Again,
    /// Praising something.
    Praise,
    /// Doing what one is told.
    Obey,
    /// What comes from outside: pages, mail, messages.
    Outside,
    /// Someone to be another, or free of rules.
    Persona,
    /// Someone who could not be refused: an administrator, a law.
    Authority,
    /// Raises haste.
    Haste,
    /// Working against attacks.
    Against,
    /// Whose name or place says what it is for: a key, a token.
    Fitting,
    /// The one who speaks.
    Me,
    /// Negation, wherever it stands.
    Not,
    /// Describes what the tool itself does.
    Itself,
    /// The sentence is the first one.
    Opening,
    /// The sentence describes a parameter.
    Parameter,
    /// Being to do something, or not: must, may, has to.
    Modal,
    /// What is done here and could be noticed: a step, a copy, a call.
    Deed,
    /// What a model has heard or was given, all of it.
    Heard,
    /// Someone does not want it.
    Objects,
    /// Where everyone sees it.
    Public,
    /// Whom praise is for or against.
    Sponsor,
    /// What tells later what was done.
    Trail,
    /// A condition begins.
    Condition,
    /// Something is to be done: a verb stands where an order has it.
    Order,
    /// A model is called by what it is.
    Called,
    /// Other tools.
    OtherTools,
    /// Something is to be dropped.
    Drop,
    /// Calls of tools.
    Calls,
    /// Words after which a verb is an order.
    Leads,
    /// Something that can be loaded and run.
    Loadable,
    /// What the user asked for.
    Wish,
    /// Going through something.
    Route,
    /// Words after which a negation has no hold.
    Resets,
    /// A place of someone else, by its kind.
    Elsewhere,
    /// Nothing but this.
    NothingElse,
    /// Leaving something alone.
    Avoid,
    /// Free of all rules.
    Free,
    /// Loading something from elsewhere.
    Load,
    /// Starting something.
    Start,
    /// A great deal: everything, a whole folder.
    Wide,
    /// Doing what some text says.
    Heed,
    /// Without exception.
    Always,
    /// To be: are.
    Being,
    /// An article: a, an.
    Article,
    /// Words before someone who is called.
    Greets,
    /// The sentence is about money.
    Money,
    /// Words before a model that is called, or to which something is said.
    Hails,
    /// What a model does with a text.
    Reads,
    /// Someone poses as the system, an operator, or as what gives orders.
    Posed,
    /// A line of a play: someone speaks, as the user does.
    Played,
    /// Marks of a chat's format.
    Marked,
    /// A model has to do something.
    Obliged,
    /// Who gets what is sent or paid.
    Whom,
    /// One for another.
    Swap,
    /// Programs of a console, which documents name as well.
    Console,
    /// What someone has to do.
    Bound,
    /// Doing anything at all.
    Do,
    /// Some such thing is to be done, which says little.
    Bids,
    /// Someone poses as the system, or it is a notice for people.
    Noted,
}

/// Some concepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Concepts(u128);

impl Concept {
    const fn alone(self) -> Concepts {
        Concepts(1 << self as u128)
    }
}

impl Concepts {
    const NONE: Self = Self(0);

    const fn of(concepts: &[Concept]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < concepts.len() {
            bits |= 1 << concepts[index] as u128;
            index += 1;
        }
        Self(bits)
    }

    const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    const fn is(self, concept: Concept) -> bool {
        self.meet(concept.alone())
    }

    const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    const fn meet(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// Something that a text is up to.
#[derive(Debug)]
pub(super) struct Meant {
    /// Name of the finding.
    pub(super) name: &'static str,
    /// What kind of attack it is.
    pub(super) category: Category,
    /// How bad it is.
    pub(super) severity: Severity,
    /// The sentence that says it.
    pub(super) span: Range<usize>,
}

/// What stands around a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    /// Where it stands.
    pub(super) place: Place,
    /// Whether it describes a parameter.
    pub(super) is_parameter: bool,
    /// Tools of the server itself.
    pub(super) own: &'a [&'a str],
}

/// Shortest text that can say anything, bytes.
const SHORTEST: usize = 12;

/// What a skeleton is up to.
pub(super) fn meant(text: &str, around: &Around<'_>) -> Vec<Meant> {
    let mut found = Vec::new();
    if text.len() < SHORTEST || text.is_ascii() && !text.contains(' ') {
        return found;
    }
    let sentences = sentences::read(text, around);
    for (index, sentence) in sentences.iter().enumerate() {
        let from = index.saturating_sub(1);
        let beside = &sentences[from..(index + 2).min(sentences.len())];
        for intent in intents::of(around.place, sentence).filter(|intent| intent.holds(sentence, beside)) {
            found.push(Meant {
                name: intent.name,
                category: intent.category,
                severity: Severity::High,
                span: sentence.span.clone(),
            });
        }
    }
    found
}

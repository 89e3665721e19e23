//! What follows from which signals: the names, categories and severities that findings carry.

mod definitions;
mod outputs;

use super::signals::Signal::{self, *};
use crate::model::{Category, Severity};

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In what a server offers: a model takes it for instructions.
    Definition,
    /// In what a tool returns: a model should take it for data.
    Output,
}

impl Place {
    /// The rules that hold there. Several may share a name: they find the same thing in different words.
    pub(super) const fn rules(self) -> &'static [Rule] {
        match self {
            Self::Definition => definitions::RULES,
            Self::Output => outputs::RULES,
        }
    }
}

/// One way in which signals make a finding.
#[derive(Debug)]
pub(super) struct Rule {
    /// Name of its findings, stable.
    pub(super) name: &'static str,
    /// What kind of attack it is.
    pub(super) category: Category,
    /// How bad it is.
    pub(super) severity: Severity,
    /// The signal that opens it.
    pub(super) opener: Signal,
    /// Of each group one has to stand near.
    pub(super) near: &'static [&'static [Signal]],
    /// How near, bytes from the opener's ends.
    pub(super) within: usize,
    /// Whether the tool that the opener names decides.
    pub(super) tool: ToolNamed,
    /// What becomes of it where the text only tells of it.
    pub(super) told: Told,
}

/// What the tool that a text names has to do with its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolNamed {
    /// It does not matter.
    Any,
    /// It is none of the server's own.
    Foreign,
    /// It is another server's.
    Others,
}

/// What becomes of a rule where a text only tells of what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Its findings are worth knowing and no alarm.
    Softens,
    /// Nothing: nobody has a reason to tell of it there.
    Counts,
}

impl Rule {
    /// A rule that needs its opener alone.
    const fn new(name: &'static str, category: Category, severity: Severity, opener: Signal) -> Self {
        Self {
            name,
            category,
            severity,
            opener,
            near: &[],
            within: 0,
            tool: ToolNamed::Any,
            told: Told::Softens,
        }
    }

    /// It needs one signal of each group near its opener.
    const fn near(self, within: usize, near: &'static [&'static [Signal]]) -> Self {
        Self { near, within, ..self }
    }

    /// It holds where the tool that the opener names is another server's.
    const fn of_others(self) -> Self {
        Self {
            tool: ToolNamed::Others,
            ..self
        }
    }

    /// It counts where the text only tells of it, too.
    const fn told(self) -> Self {
        Self {
            told: Told::Counts,
            ..self
        }
    }

    /// It holds where the tool that the opener names is not the server's own.
    const fn foreign(self) -> Self {
        Self {
            tool: ToolNamed::Foreign,
            ..self
        }
    }
}

/// Marks of someone who pretends to be someone, or hides.
const MARKS: &[Signal] = &[
    ChatToken,
    RoleTag,
    NewOrders,
    AlertTag,
    HiddenPlace,
    Address,
    FalseUser,
];
/// Instructions about instructions.
const OVERRULES: &[Signal] = &[Override, WeakOverride, Precedence, Persona, Unrestricted];
/// What is taken or sent.
const TAKES: &[Signal] = &[TakeFile, TakeSecret, TakeContext, SendAway, Redirect, Hostile];
/// What happens behind the user's back.
const HIDES: &[Signal] = &[Conceal, Silent, NoConsent];

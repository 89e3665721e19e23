//! The rules for the use of what a server offers: one file each, asked in the order of their precedence. The
//! first that blocks decides; what only notes adds up.

mod contradicted;
#[cfg(test)]
mod fixture;
mod no_room;
mod poisoning;
mod server;
mod stale;
mod unapproved;
mod unknown;
mod version_pin;

use std::borrow::Cow;

use super::{
    definitions::{Entry, Offer, Offers},
    wording::{command, shown},
};
use crate::{
    inspect::arguments::Arguments,
    model::{Call, DefinitionKind, Denial, ServerId, Severity, Timestamp},
    policy::Policy,
};

/// What is to be used, and everything that speaks for or against it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    /// The policy in force.
    pub(super) policy: &'a Policy,
    /// The server.
    pub(super) server: &'a ServerId,
    /// What it offers.
    pub(super) offers: &'a Offers,
    /// What of it is to be used.
    pub(super) used: Used<'a>,
    /// When.
    pub(super) now: Timestamp,
    /// The call, where a tool is to be called; a tool that is only listed is judged without.
    pub(super) call: Option<Calling<'a>>,
}

/// A tool call, its arguments walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calling<'a> {
    /// As it was decoded.
    pub(super) call: &'a Call<'a>,
    /// Every key and value of its arguments; empty where it has none.
    pub(super) arguments: &'a Arguments<'a>,
}

/// What is to be used.
#[derive(Clone, Copy, Debug)]
pub(super) enum Used<'a> {
    /// Something that was, or should have been, listed.
    Offered {
        /// What kind of thing.
        kind: DefinitionKind,
        /// Its name.
        name: &'a str,
        /// What is known of it.
        entry: Option<&'a Entry>,
    },
    /// The server, in another way.
    Server,
}

/// What a rule has against a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Objection {
    /// Which rule: one of the program, or the id of one of the configuration.
    pub(super) rule: Cow<'static, str>,
    /// What is to follow.
    pub(super) effect: Effect,
    /// How bad it is.
    pub(super) severity: Severity,
    /// Why, in a sentence without a full stop.
    pub(super) reason: String,
    /// A command that helps.
    pub(super) remedy: Option<String>,
}

/// What follows from an objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// It is noted.
    Audit,
    /// It is stopped.
    Block,
}

/// A rule. It sees one use and answers for itself alone.
trait Rule: Sync {
    /// What stands against the use of `scene`.
    fn judge(&self, scene: &Scene<'_>) -> Option<Objection>;

    /// Everything that stands against it, for a rule that can say more than one thing.
    fn every(&self, scene: &Scene<'_>) -> Vec<Objection> {
        self.judge(scene).into_iter().collect()
    }
}

/// Every rule, in the order of precedence.
const RULES: &[&dyn Rule] = &[
    &unknown::UnknownTool,
    &no_room::NoRoom,
    &stale::StaleDefinition,
    &contradicted::Contradicted,
    &version_pin::VersionPin,
    &unapproved::Unapproved,
    &poisoning::ToolPoisoning,
    &server::ServerAdmission,
];

/// What the rules say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ruling {
    /// The first objection that blocks.
    pub(super) block: Option<Objection>,
    /// Those that only note, from before it.
    pub(super) audits: Vec<Objection>,
}

/// Asks every rule about one use.
pub(super) fn judge(scene: &Scene<'_>) -> Ruling {
    let mut ruling = Ruling::default();
    for objection in RULES.iter().flat_map(|rule| rule.every(scene)) {
        match objection.effect {
            Effect::Audit => ruling.audits.push(objection),
            Effect::Block => {
                ruling.block = Some(objection);
                break;
            }
        }
    }
    ruling
}

impl Ruling {
    /// What is to follow.
    pub(super) const fn effect(&self) -> Effect {
        match self.block {
            Some(_) => Effect::Block,
            None => Effect::Audit,
        }
    }

    /// The objection that is told: the one that blocks, else the worst of the others.
    pub(super) fn told(&self) -> Option<&Objection> {
        // Of equally bad ones the first.
        self.block
            .as_ref()
            .or_else(|| self.audits.iter().rev().max_by_key(|audit| audit.severity))
    }
}

impl<'a> Scene<'a> {
    /// The use of something offered.
    pub(super) fn of(
        policy: &'a Policy,
        server: &'a ServerId,
        offers: &'a Offers,
        kind: DefinitionKind,
        name: &'a str,
        now: Timestamp,
    ) -> Self {
        let entry = offers.of(kind).get(name);
        Self {
            policy,
            server,
            offers,
            used: Used::Offered { kind, name, entry },
            now,
            call: None,
        }
    }

    /// What is known of what is used.
    pub(super) const fn entry(&self) -> Option<&'a Entry> {
        match self.used {
            Used::Offered { entry, .. } => entry,
            Used::Server => None,
        }
    }

    const fn kind(&self) -> Option<DefinitionKind> {
        match self.used {
            Used::Offered { kind, .. } => Some(kind),
            Used::Server => None,
        }
    }

    fn offer(&self) -> Option<&'a Offer> {
        self.kind().map(|kind| self.offers.of(kind))
    }

    /// What is used, for a reason: `tool read_file of fs`.
    fn subject(&self) -> String {
        let server = self.server;
        match self.used {
            Used::Offered {
                kind: DefinitionKind::Instructions,
                ..
            } => format!("the instructions of {server}"),
            Used::Offered { kind, name, .. } => format!("{} {} of {server}", kind.as_str(), shown(name)),
            Used::Server => format!("server {server}"),
        }
    }

    /// The command that accepts it as it is.
    fn approval(&self) -> String {
        let name = match self.used {
            Used::Offered { name, .. } => name,
            Used::Server => "",
        };
        command(&["approve", &format!("{}:{name}", self.server)])
    }
}

impl Objection {
    /// As whoever is stopped gets it.
    pub(super) fn denial(&self) -> Denial {
        Denial {
            rule: self.rule.clone().into_owned(),
            reason: self.reason.clone(),
            remedy: self.remedy.clone(),
        }
    }
}

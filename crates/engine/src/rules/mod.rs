//! Rules for the use of what a server offers: one file each, asked in the order of their precedence. The first
//! objection that blocks decides; objections that only note are collected.

mod accepted;
mod app_only_tool;
mod argument_content;
mod blocked_resources;
pub(super) mod blocked_tools;
mod call_rules;
mod contradicted;
mod default_decision;
#[cfg(test)]
mod fixture;
mod guide;
mod new_tool;
mod no_room;
mod opinion;
mod poisoning;
#[cfg(test)]
mod properties;
mod protected_files;
mod resource_rules;
mod server;
pub(super) mod skill_manifest;
mod stale;
mod too_much;
pub(super) mod tool_policy;
mod unapproved;
pub(super) mod unknown;
mod value_limits;
mod version_pin;

use std::borrow::Cow;

use mcpmon_detect::{
    arguments::Arguments,
    protected_paths::{Files, NO_FILES},
    secrets::Secret,
};
use mcpmon_model::{Action, Call, DefinitionKind, Denial, ServerId, Severity, Timestamp};
use mcpmon_policy::{Decision, Policy};

pub use self::{
    accepted::suppressible,
    guide::{About, BESIDE, guide},
    opinion::Opinion,
};
pub(super) use self::{default_decision::DEFAULTS, opinion::explain};
use super::{
    definitions::{DefinitionEntry, Offer, Offers},
    wording::{command, explaining, shown},
};

/// The use to be judged, with everything that the rules may consider.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleContext<'a> {
    /// The policy in force.
    pub(super) policy: &'a Policy,
    /// The server.
    pub(super) server: &'a ServerId,
    /// The definitions that the server offers.
    pub(super) offers: &'a Offers,
    /// The item to be used.
    pub(super) used: UseTarget<'a>,
    /// The time.
    pub(super) now: Timestamp,
    /// The call, if a tool is called; `None` if the tool is only listed.
    pub(super) call: Option<CallContext<'a>>,
    /// True if the item is being listed, and not used yet.
    pub(super) is_listing: bool,
    /// True if another layer reads the lists of the server, and reports whether they are fresh.
    pub(super) is_listed_elsewhere: bool,
    /// The resolved files that the use names.
    pub(super) files: &'a Files,
}

/// A tool call with its parsed arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallContext<'a> {
    /// The decoded call.
    pub(super) call: &'a Call<'a>,
    /// Every key and value of its arguments; empty if there are none.
    pub(super) arguments: &'a Arguments<'a>,
    /// The secrets in the arguments, if arguments are inspected.
    pub(super) secrets: &'a [Secret],
    /// True if the model made the call: it has the id of an intent of the model.
    pub(super) is_by_model: bool,
}

/// The item to be used.
#[derive(Clone, Copy, Debug)]
pub(super) enum UseTarget<'a> {
    /// An item that was, or should have been, listed.
    Offered {
        /// The kind of item.
        kind: DefinitionKind,
        /// Its name.
        name: &'a str,
        /// The known entry of the item.
        entry: Option<&'a DefinitionEntry>,
    },
    /// The server itself.
    Server,
}

/// The objection of a rule to a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Objection {
    /// The name of the rule: of a built-in one, or the id of a configured one.
    pub(super) rule: Cow<'static, str>,
    /// The effect.
    pub(super) effect: ObjectionEffect,
    /// The severity.
    pub(super) severity: Severity,
    /// The reason, as a sentence without a full stop.
    pub(super) reason: String,
    /// A command that helps, if there is one.
    pub(super) remedy: Option<String>,
}

/// The effect of an objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ObjectionEffect {
    /// The use is noted.
    Audit,
    /// A person is asked before the use.
    Ask,
    /// The use is stopped.
    Block,
}

impl ObjectionEffect {
    /// Returns the action of events about it.
    pub(super) const fn action(self) -> Action {
        match self {
            Self::Audit => Action::Audit,
            // The event precedes a person's answer only if no person is asked, because the policy only observes.
            Self::Ask => Action::WouldAsk,
            Self::Block => Action::Block,
        }
    }
}

/// A rule. It judges one use, independently of the other rules.
trait Rule: Sync {
    /// Returns its explanation.
    fn about(&self) -> &'static About;

    /// Returns the objection to the use in `scene`.
    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection>;

    /// Returns every objection to the use, for a rule that can have several.
    fn every(&self, scene: &RuleContext<'_>) -> Vec<Objection> {
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
    &skill_manifest::SkillManifest,
    &new_tool::NewTool,
    &unapproved::Unapproved,
    &poisoning::ToolPoisoning,
    &server::ServerAdmission,
    &app_only_tool::AppOnlyTool,
    &tool_policy::ToolLists,
    &blocked_tools::BlockedTools,
    &call_rules::CallRules,
    &blocked_resources::BlockedResources,
    &resource_rules::ResourceRules,
    &default_decision::DefaultDecision,
    &too_much::TooMuch,
    &argument_content::ArgumentContent,
    &value_limits::ValueLimits,
    &protected_files::ProtectedFiles,
];

/// The rule over secrets in the arguments of calls.
pub(super) use argument_content::{InspectedText, RULE as ARGUMENT_INSPECTION};
pub(super) use new_tool::RULE as NEW_TOOL;
pub(super) use too_much::objection as too_much;

/// The combined result of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ruling {
    /// The first objection that blocks.
    pub(super) block: Option<Objection>,
    /// The objections that ask, of those before the blocking one.
    pub(super) asks: Vec<Objection>,
    /// The objections that only note, of those before the blocking one.
    pub(super) audits: Vec<Objection>,
}

/// Asks every rule about one use.
pub(super) fn judge(scene: &RuleContext<'_>) -> Ruling {
    Ruling::of(RULES.iter().flat_map(|rule| rule.every(scene)))
}

impl Ruling {
    /// Combines objections in the order of precedence, up to the first that blocks.
    fn of(objections: impl Iterator<Item = Objection>) -> Self {
        let mut ruling = Self::default();
        for objection in objections {
            match objection.effect {
                ObjectionEffect::Audit => ruling.audits.push(objection),
                ObjectionEffect::Ask => ruling.asks.push(objection),
                ObjectionEffect::Block => {
                    ruling.block = Some(objection);
                    break;
                }
            }
        }
        ruling
    }

    /// Returns the effect.
    pub(super) const fn effect(&self) -> ObjectionEffect {
        match (&self.block, self.asks.is_empty()) {
            (Some(_), _) => ObjectionEffect::Block,
            (None, false) => ObjectionEffect::Ask,
            (None, true) => ObjectionEffect::Audit,
        }
    }

    /// Combines two rulings, for a use of two things at once. A note that is in both is kept once.
    pub(super) fn and(mut self, other: Self) -> Self {
        if self.block.is_some() {
            return self;
        }
        self.block = other.block;
        for (own, others) in [(&mut self.asks, other.asks), (&mut self.audits, other.audits)] {
            for objection in others {
                if own.iter().all(|known| known.rule != objection.rule) {
                    own.push(objection);
                }
            }
        }
        self
    }

    /// Returns whether there is more to report than that no rule names the use.
    pub(super) fn is_notable(&self) -> bool {
        self.block.is_some()
            || !self.asks.is_empty()
            || self.audits.iter().any(|audit| audit.rule != DEFAULTS)
    }

    /// Returns the objection that is reported: the one that blocks, else the first that asks, else the most severe of
    /// the others.
    pub(super) fn told(&self) -> Option<&Objection> {
        // Of several with the same severity, the first.
        self.block
            .as_ref()
            .or_else(|| self.asks.first())
            .or_else(|| self.audits.iter().rev().max_by_key(|audit| audit.severity))
    }
}

impl<'a> RuleContext<'a> {
    /// Returns the context for the use of an offered item.
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
            used: UseTarget::Offered { kind, name, entry },
            now,
            call: None,
            is_listing: false,
            is_listed_elsewhere: false,
            files: &NO_FILES,
        }
    }

    /// Returns the known entry of the used item.
    pub(super) const fn entry(&self) -> Option<&'a DefinitionEntry> {
        match self.used {
            UseTarget::Offered { entry, .. } => entry,
            UseTarget::Server => None,
        }
    }

    const fn kind(&self) -> Option<DefinitionKind> {
        match self.used {
            UseTarget::Offered { kind, .. } => Some(kind),
            UseTarget::Server => None,
        }
    }

    /// Returns the name of the used tool.
    const fn tool(&self) -> Option<&'a str> {
        match self.used {
            UseTarget::Offered {
                kind: DefinitionKind::Tool,
                name,
                ..
            } => Some(name),
            UseTarget::Offered { .. } | UseTarget::Server => None,
        }
    }

    /// Returns the URI, or URI template, of the used resource, skill or app.
    const fn uri(&self) -> Option<&'a str> {
        match self.used {
            UseTarget::Offered {
                kind:
                    DefinitionKind::Resource
                    | DefinitionKind::Template
                    | DefinitionKind::Skill
                    | DefinitionKind::App,
                name,
                ..
            } => Some(name),
            UseTarget::Offered { .. } | UseTarget::Server => None,
        }
    }

    fn offer(&self) -> Option<&'a Offer> {
        self.kind().map(|kind| self.offers.of(kind))
    }

    /// Describes the used item for a reason: `tool read_file of fs`.
    fn subject(&self) -> String {
        let server = self.server;
        match self.used {
            UseTarget::Offered {
                kind: DefinitionKind::Instructions,
                ..
            } => format!("the instructions of {server}"),
            UseTarget::Offered { kind, name, .. } => format!("{} {} of {server}", kind.as_str(), shown(name)),
            UseTarget::Server => format!("server {server}"),
        }
    }

    /// Returns the command that accepts the item as it is, or lists the items if this one has no name.
    fn approval(&self) -> String {
        let name = match self.used {
            // An empty name after `SERVER:` means the instructions.
            UseTarget::Offered { kind, name: "", .. } if kind != DefinitionKind::Instructions => {
                return command(&["registry", "list", "--server", self.server.as_str()]);
            }
            UseTarget::Offered { name, .. } => name,
            UseTarget::Server => "",
        };
        command(&["approve", &format!("{}:{name}", self.server)])
    }
}

/// Returns the objection of a configured rule that matches; `None` if it allows the use.
fn stated(scene: &RuleContext<'_>, id: &str, decision: Decision, reason: &str) -> Option<Objection> {
    let (effect, severity) = match decision {
        Decision::Allow => return None,
        Decision::Audit => (ObjectionEffect::Audit, Severity::Low),
        Decision::Ask => (ObjectionEffect::Ask, Severity::Medium),
        Decision::Block => (ObjectionEffect::Block, Severity::High),
    };
    Some(Objection {
        rule: id.to_owned().into(),
        effect,
        severity,
        reason: because(
            format!("{} matches the rule {}", scene.subject(), shown(id)),
            reason,
        ),
        remedy: Some(explaining(id)),
    })
}

/// Returns `what` with the reason that the configuration gives for it.
fn because(what: String, reason: &str) -> String {
    match reason {
        "" => what,
        _ => format!("{what}: {reason}"),
    }
}

impl Objection {
    /// Returns the denial that the client gets.
    pub(super) fn denial(&self) -> Denial {
        Denial {
            rule: self.rule.clone().into_owned(),
            reason: self.reason.clone(),
            remedy: self.remedy.clone(),
            event: None,
        }
    }
}

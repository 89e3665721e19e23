//! Traffic between clients and servers: listed definitions, calls, answers, and requests of servers.

mod addresses;
mod answers;
mod app_pages;
mod approvals;
mod asks;
mod boilerplate;
mod calls;
mod company;
mod disclosed;
mod files;
mod given;
mod held_calls;
mod incidents;
mod killed;
mod leaked;
mod listed;
mod listings;
mod llm;
mod present;
mod relisted;
mod repeats;
mod requests;
mod sessions;
mod sieve;
mod skills;
mod tell;

use std::sync::Arc;

use mcpmon_detect::{
    protected_paths::{Files, RealPath},
    scan::Scanner,
};
use mcpmon_model::{
    Action, Content, Conversation, DefinitionKind, Denial, FromClient, FromServer, Kills, Message, PinKey,
    ServerId, Severity, Timestamp, Verdict,
};
use mcpmon_policy::{Mode, Policy};

pub(super) use self::disclosed::DisclosedSecrets;
use self::{
    approvals::Pending, company::Companies, held_calls::HeldCalls, present::Present, relisted::UnchangedList,
    repeats::Repeats, tell::Teller,
};
use super::{
    definitions::DefinitionBook,
    effect::{Judgement, StoreEffect},
    registry::Registry,
};

pub use self::{approvals::NotSeen, company::SessionPeers, files::file_lookups, llm::Tally};

/// The judge of conversations. It keeps the definitions of servers, but nothing of a single call, unless that is held.
#[derive(Debug)]
pub(super) struct Traffic {
    policy: Arc<Policy>,
    scanner: Scanner,
    book: DefinitionBook,
    registry: Registry,
    pending: Pending,
    held_calls: HeldCalls,
    kills: Kills,
    present: Present,
    /// Servers that are pinned on this host.
    known: Vec<ServerId>,
    /// The places on this host, and the resolved paths of the current message.
    files: Files,
    /// Number that changes when listed definitions have to be inspected again.
    generation: u64,
    /// The judgement of the latest list.
    relisted: UnchangedList,
    /// The repeated messages of servers, requested or not.
    repeats: Repeats,
    /// The time at which the next suppression ends; the earliest possible time at first.
    renewal: Option<Timestamp>,
    /// The sessions and their calls.
    companies: Companies,
    /// The state of the traffic with models.
    llm: llm::Llm,
}

impl Traffic {
    pub(super) fn new(policy: Arc<Policy>) -> Self {
        Self {
            scanner: scanner(&policy),
            registry: Registry::new(&policy),
            policy,
            book: DefinitionBook::default(),
            pending: Pending::default(),
            held_calls: HeldCalls::default(),
            kills: Kills::default(),
            present: Present::default(),
            known: Vec::new(),
            files: Files::default(),
            generation: 1,
            relisted: UnchangedList::default(),
            repeats: Repeats::default(),
            renewal: Some(Timestamp(i64::MIN)),
            companies: Companies::default(),
            llm: llm::Llm::default(),
        }
    }

    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns whether a tool is on its server's list, if that was read in this run and the server announced no change
    /// since.
    pub(super) fn is_listed(&self, identity: &PinKey, tool: &str) -> bool {
        let offers = self.book.get(identity);
        let offer = offers.map(|offers| offers.of(DefinitionKind::Tool));
        offer.is_some_and(|offer| offer.get(tool).is_some_and(|entry| offer.is_fresh(entry)))
    }

    pub(super) const fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Puts `policy` into force, as it applies at `now`.
    pub(super) fn adopt(&mut self, now: Timestamp, policy: &Arc<Policy>) {
        let is_due = self.renewal.is_some_and(|renewal| renewal <= now);
        if Arc::ptr_eq(&self.policy, policy) && !is_due {
            return;
        }
        if self.policy.inspection != policy.inspection {
            self.scanner = scanner(policy);
        }
        self.policy = Arc::clone(policy);
        self.companies.forget_categories();
        self.generation += 1;
        self.registry.declare(policy);
        self.renew(now);
    }

    /// Judges every known definition again.
    pub(super) fn renew(&mut self, now: Timestamp) {
        let ends = self.policy.suppressions.iter().filter_map(|known| known.until);
        self.renewal = ends.filter(|until| *until > now).min();
        self.book.renew(now, &self.policy);
    }

    /// Judges a message.
    pub(super) fn message(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        message: &Message<'_>,
        real_paths: Vec<RealPath>,
    ) -> Judgement {
        self.files.real = real_paths;
        if !self.book.knows_or_makes(&conversation.identity, &self.policy) {
            return self.no_room(now, conversation, message);
        }
        let teller = Teller {
            now,
            conversation,
            message,
        };
        let judgement = match &message.content {
            Content::Client(said) => self.client(&teller, said),
            Content::Server(said) => self.server(&teller, said),
        };
        self.files.real.clear();
        let judgement = self.in_mode(judgement);
        match &message.content {
            Content::Server(FromServer::Notice { .. } | FromServer::Ask { .. }) => {
                self.repeats.thin(now, judgement)
            }
            Content::Server(FromServer::Answer(answer)) => {
                self.repeats.thin_findings(now, judgement, &answer.to.what)
            }
            Content::Client(_)
            | Content::Server(
                FromServer::Listing(_) | FromServer::Introduction(_) | FromServer::ListChanged(_),
            ) => judgement,
        }
    }

    fn client(&mut self, teller: &Teller<'_>, said: &FromClient<'_>) -> Judgement {
        match said {
            FromClient::Call(call) => self.call(teller, call),
            FromClient::Read { uri } => self.read(teller, uri),
            FromClient::Prompt { name, arguments } => self.prompt(teller, name, *arguments),
            FromClient::Request { method, params } => {
                self.companies.introduced(teller.conversation, method, *params);
                self.request(teller, method, *params)
            }
            FromClient::Reply { to, body } => self.reply(teller, *to, *body),
            FromClient::Notice { .. } => Judgement::default(),
        }
    }

    fn server(&mut self, teller: &Teller<'_>, said: &FromServer<'_>) -> Judgement {
        match said {
            FromServer::Listing(listing) => self.listing(teller, listing),
            FromServer::Introduction(introduction) => self.introduction(teller, introduction),
            FromServer::Answer(answer) => self.answer(teller, answer),
            FromServer::Ask { ask, method, params } => self.ask(teller, *ask, method, *params),
            FromServer::ListChanged(list) => {
                if let Some(offers) = self.book.get_mut(&teller.conversation.identity) {
                    offers.of_mut((*list).into()).changed();
                }
                Judgement::default()
            }
            FromServer::Notice { method, params } => self.notice(teller, method, *params),
        }
    }

    /// Applies the mode: in observe mode nothing is stopped except by a person, and blocked events become
    /// `would_block`.
    fn in_mode(&self, mut judgement: Judgement) -> Judgement {
        match self.policy.mode {
            Mode::Enforce => {}
            Mode::Observe if killed::is_stopped(&judgement.verdict) => {}
            Mode::Observe => {
                judgement.verdict = Verdict::Allow;
                let blocks = judgement
                    .events
                    .iter_mut()
                    .filter(|event| event.action == Action::Block);
                blocks.for_each(|event| event.action = Action::WouldBlock);
            }
        }
        judgement
    }

    /// Judges a message of a server beyond the limit of servers: it is blocked, because it cannot be inspected.
    fn no_room(&self, now: Timestamp, conversation: &Conversation, message: &Message<'_>) -> Judgement {
        let denial = Denial {
            rule: "max_servers".to_owned(),
            reason: format!(
                "server {} is beyond the servers that are inspected",
                conversation.identity.server
            ),
            remedy: Some("mcpmon servers".to_owned()),
            event: None,
        };
        let teller = Teller {
            now,
            conversation,
            message,
        };
        let verdict = match &message.content {
            Content::Client(FromClient::Call(_) | FromClient::Read { .. } | FromClient::Prompt { .. })
            | Content::Server(FromServer::Ask { .. } | FromServer::Answer(_)) => {
                Verdict::Block(denial.clone())
            }
            Content::Server(FromServer::Listing(listing)) => {
                Verdict::Hide((0..listing.items.len()).collect())
            }
            Content::Server(FromServer::Introduction(_)) => Verdict::StripInstructions,
            Content::Client(
                FromClient::Request { .. } | FromClient::Reply { .. } | FromClient::Notice { .. },
            )
            | Content::Server(FromServer::ListChanged(_) | FromServer::Notice { .. }) => Verdict::Allow,
        };
        if verdict == Verdict::Allow {
            return Judgement::default();
        }
        let event = teller.judged(
            &denial.reason,
            "",
            Some((&denial, Action::Block, Severity::Medium)),
        );
        self.in_mode(Judgement::of(verdict, event))
    }
}

impl Judgement {
    /// Returns a judgement that allows, with an event.
    fn of_event(event: mcpmon_model::Event) -> Self {
        Self::of(Verdict::default(), event)
    }

    fn store(&mut self, record: &mcpmon_model::DefinitionRecord) {
        self.store_effects
            .push(StoreEffect::StoreDefinition(Box::new(record.clone())));
    }
}

/// Builds the scanner of a policy. Its custom patterns were compiled when the policy was loaded, and the built-in ones
/// always compile.
fn scanner(policy: &Policy) -> Scanner {
    let inspection = &policy.inspection;
    Scanner::new(&inspection.builtin, &inspection.custom)
        .expect("the patterns of a policy were compiled on its way in")
}

#[cfg(test)]
mod tests;

//! MCP servers that a provider uses without the client: no other layer sees their calls, so they are stopped in the
//! request.

use std::collections::BTreeMap;

use mcpmon_detect::meaning::looks;
use mcpmon_model::{DefinitionKind, EventKind, Exchange, Intent, ProviderServer, ServerId, Severity};
use mcpmon_policy::{
    Decision,
    rules::{ConditionReading, Rules, SpellingGlob, Spellings, ToolPolicy},
};

use super::{
    Traffic, keep,
    meant::IntendedTool,
    tell::{Speaker, ruled},
    wanted::WantedCall,
};
use crate::{
    definitions::Offers,
    effect::{Judgement, StoreEffect},
    names::joined,
    rules::{self, Objection, ObjectionEffect, RuleContext, Ruling, UseTarget, unknown},
    traffic::{
        addresses::{address, place},
        requests::{note, too_many, verdict},
        tell::{MAX_TEXT, cut},
    },
    wording::{command, explaining, shown},
};

/// Most labels of requests that are remembered.
const MAX_REMOTES: usize = 4096;

/// The servers that the labels of requests mean.
#[derive(Debug, Default)]
pub(super) struct Remotes(BTreeMap<(Box<str>, String), Stands>);

/// The meaning of a label.
#[derive(Clone, Debug, Default)]
struct Stands {
    /// The server, under each name by which rules can refer to it.
    servers: Vec<ServerId>,
    /// `host:port`.
    address: Option<String>,
}

impl Remotes {
    /// Returns the address of `server` in this request.
    pub(super) fn address(&self, exchange: &Exchange, server: &ServerId) -> Option<String> {
        let all = self.0.range((exchange.request.clone(), String::new())..);
        let mut own = all.take_while(|((request, _), _)| *request == exchange.request);
        own.find_map(|(_, stands)| stands.servers.contains(server).then(|| stands.address.clone())?)
    }
}

impl Traffic {
    /// Judges a request that has the provider use an MCP server. It is recorded once for a session, and stopped each
    /// time.
    pub(super) fn remote(&mut self, speaker: Speaker<'_>, remote: &ProviderServer<'_>) -> Judgement {
        let place = remote.url.as_deref().map(place);
        let stands = self.stands_for(remote, place.as_ref().and_then(Option::as_ref));
        let key = (
            speaker.exchange.request.clone(),
            remote.label.clone().into_owned(),
        );
        keep(&mut self.llm.remotes.0, MAX_REMOTES, key, stands.clone());
        let mut ruling = Ruling::default();
        note(&mut ruling, self.stop_of(speaker.exchange.session.as_ref()));
        if place == Some(None) {
            note(&mut ruling, Some(unreadable(&remote.label)));
        }
        for server in &stands.servers {
            ruling = ruling.and(self.remote_ruling(speaker, server, remote));
        }
        let address = stands.address.as_deref().unwrap_or_default();
        let words = ["remote", speaker.session(), &remote.label, address];
        let is_told = ruling.block.is_none() && !self.llm.told.is_new(&words);
        if is_told {
            return Judgement::default();
        }
        let summary = format!("{} {address}", shown(&remote.label));
        let kind = EventKind::RequestJudged {
            method: "remote_server".to_owned(),
            summary: cut(summary.trim_end(), MAX_TEXT).to_owned(),
            count: 1,
        };
        let mut event = speaker.event(kind);
        event.server_id = stands.servers.into_iter().next();
        ruled(&mut event, &ruling);
        Judgement::of(verdict(&ruling), event)
    }

    /// Returns the names by which rules can refer to a server. A declared server has its declared name, wherever it is
    /// used; its label, which the client chooses freely, is added only if the policy denies it. Any other server has
    /// its host and its label.
    fn stands_for(&self, remote: &ProviderServer<'_>, place: Option<&(String, u16)>) -> Stands {
        let label = server_id(&remote.label);
        let Some((host, port)) = place else {
            return Stands {
                servers: vec![label],
                address: None,
            };
        };
        let address = address(host, *port);
        let mut servers = match self.registry.server_addrs().get(&address) {
            Some(declared) => vec![declared.clone()],
            None => vec![server_id(host)],
        };
        let is_declared = self.registry.server_addrs().contains_key(&address);
        if !servers.contains(&label) && (!is_declared || self.policy.server_policy.names_denied(&label)) {
            servers.push(label);
        }
        Stands {
            servers,
            address: Some(address),
        }
    }

    /// Judges the use of a server, and of each tool that may be used.
    fn remote_ruling(&self, speaker: Speaker<'_>, server: &ServerId, remote: &ProviderServer<'_>) -> Ruling {
        let stranger = Offers::of_stranger(server, &self.policy);
        let mut ruling = Ruling::default();
        for IntendedTool { identity, .. } in self.as_served(speaker.exchange, server, "") {
            let offers = self.book.get(&identity).unwrap_or(&stranger);
            let scene = RuleContext {
                policy: &self.policy,
                server,
                offers,
                used: UseTarget::Server,
                now: speaker.now,
                call: None,
                is_listing: false,
                is_listed_elsewhere: false,
                files: &self.files,
            };
            ruling = ruling.and(rules::judge(&scene));
            let tools: Vec<&str> = match &remote.tools {
                Some(named) => named.iter().map(|name| &**name).collect(),
                None => {
                    note(&mut ruling, self.any_tool(server, offers));
                    offers.of(DefinitionKind::Tool).names().collect()
                }
            };
            let most = self.policy.limits.max_tools;
            if tools.len() > most {
                note(&mut ruling, Some(too_many(DefinitionKind::Tool, most)));
            }
            for tool in tools.into_iter().take(most) {
                let (policy, kind) = (&self.policy, DefinitionKind::Tool);
                ruling = ruling.and(rules::judge(&RuleContext::of(
                    policy,
                    server,
                    offers,
                    kind,
                    tool,
                    speaker.now,
                )));
            }
        }
        ruling
    }

    /// Returns the objection to the use of all tools of a server, which are not judged individually.
    fn any_tool(&self, server: &ServerId, offers: &Offers) -> Option<Objection> {
        let subject = format!("every tool of {server}");
        let is_listed = offers.of(DefinitionKind::Tool).names().next().is_some();
        if self.policy.fail_closed && !is_listed {
            let remedy = command(&["registry", "list", "--server", server.as_str()]);
            return Some(unknown::unlisted(&self.policy, &subject, remedy));
        }
        let names = Spellings::new(server.as_str(), &looks(server.as_str()));
        let mut layers = self.policy.rules.layers();
        layers.any(|rules| refuses_some(rules, &names)).then(|| Objection {
            rule: "unnamed_tools".into(),
            effect: ObjectionEffect::Block,
            severity: Severity::Medium,
            reason: format!(
                "a request lets its provider use {subject}, and policy refuses some by name: the request has to name \
                 those that it needs"
            ),
            remedy: Some(explaining("unnamed_tools")),
        })
    }

    /// Records a call that the provider has already made, with all objections to it.
    pub(super) fn provider_called(
        &mut self,
        speaker: Speaker<'_>,
        label: Option<&str>,
        intent: &Intent<'_>,
    ) -> Judgement {
        let name = joined(&intent.name);
        let Some(label) = label else {
            let ruling = done(self.native_ruling(&name, "the provider's own tool"));
            if !ruling.is_notable() {
                return Judgement::default();
            }
            let mut event = speaker.event(speaker.intercepted(&name, Some(intent)));
            ruled(&mut event, &ruling);
            return Judgement::of_event(event);
        };
        let Some(meant) = self.labelled(speaker, label, &name).into_iter().next() else {
            return Judgement::default(); // a label always means some server
        };
        self.given(intent, |traffic, given, arguments, secrets| {
            let wanted = WantedCall {
                speaker,
                visible: &name,
                intent,
                given,
                arguments,
                secrets,
            };
            let local = traffic.as_meant(wanted, &meant);
            match traffic.is_counted() {
                true => traffic.ask_of(wanted, &meant, local),
                false => traffic.was_called(wanted, &meant, local.ruling, Vec::new()),
            }
        })
    }

    /// Records that the provider called a tool, with all objections to it.
    pub(super) fn was_called(
        &self,
        wanted: WantedCall<'_>,
        meant: &IntendedTool,
        ruling: Ruling,
        effects: Vec<StoreEffect>,
    ) -> Judgement {
        let mut event = self.intent_event(wanted, meant);
        ruled(&mut event, &done(ruling));
        Judgement {
            events: vec![event],
            store_effects: effects,
            ..Judgement::default()
        }
    }

    /// Returns `tool` of the server that a request calls `label`.
    pub(super) fn labelled(&self, speaker: Speaker<'_>, label: &str, tool: &str) -> Vec<IntendedTool> {
        let key = (speaker.exchange.request.clone(), label.to_owned());
        let known = self
            .llm
            .remotes
            .0
            .get(&key)
            .and_then(|stands| stands.servers.first());
        let server = known.cloned().unwrap_or_else(|| server_id(label));
        let mut meant = self.as_served(speaker.exchange, &server, tool);
        meant.iter_mut().for_each(|meant| meant.is_seen = false);
        meant
    }
}

/// Turns a ruling into one about something that has already happened: nothing is stopped any more.
fn done(ruling: Ruling) -> Ruling {
    let all = ruling.block.into_iter().chain(ruling.asks).chain(ruling.audits);
    let audits = all.map(|objection| Objection {
        effect: ObjectionEffect::Audit,
        reason: format!("{}; the provider called it already", objection.reason),
        ..objection
    });
    Ruling {
        audits: audits.collect(),
        ..Ruling::default()
    }
}

/// Returns whether `rules` refuse some tool of a server by its name.
fn refuses_some(rules: &Rules, server: &Spellings<'_>) -> bool {
    let is_meant = |glob: &SpellingGlob| glob.is_meant(server, ConditionReading::Wide);
    let is_listed = match &rules.tools {
        ToolPolicy::None => false,
        ToolPolicy::Allowlist(_) => true,
        ToolPolicy::Denylist(denied) => denied.iter().any(|entry| is_meant(&entry.server)),
    };
    let mut calls = rules.calls.iter();
    is_listed
        || !rules.blocked_tools.is_empty()
        || rules.default >= Decision::Ask
        || calls.any(|rule| {
            let is_served = rule.server.as_ref().is_none_or(is_meant);
            rule.decision >= Decision::Ask && rule.arguments.is_empty() && is_served
        })
}

/// Returns a valid id, made from a name that may be invalid.
fn server_id(name: &str) -> ServerId {
    let plain = |c: char| if ServerId::new(c).is_ok() { c } else { '-' };
    let cleaned: String = name.chars().take(ServerId::MAX).map(plain).collect();
    ServerId::new(cleaned).unwrap_or_else(|_| ServerId::new("unnamed").expect("a constant id"))
}

fn unreadable(label: &str) -> Objection {
    Objection {
        rule: "remote_server".into(),
        effect: ObjectionEffect::Block,
        severity: Severity::Medium,
        reason: format!(
            "the address of {}, a server that a request has its provider use, can be read in more than one way: write it as https://HOST/PATH",
            shown(label)
        ),
        remedy: None,
    }
}

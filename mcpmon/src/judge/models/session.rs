//! One session of agents that speak to models: its Monitor, and what is known of its servers.

use std::{collections::BTreeSet, sync::Arc};

use mcpmon_core::{
    decide::{Judgement, Monitor, Observation, Tally, pins::PinBook},
    inspect::protected_paths::Places,
    model::{
        DefinitionKey, DefinitionKind, DefinitionRecord, PinKey, Redaction, ServerId, ServerType, Timestamp,
        Unanswered,
    },
    policy::{Policy, Transport, network::table::Tables},
};

use super::Whose;
use crate::record::{QueryError, Reader, Selection};

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    whose: Whose,
    monitor: Monitor,
    /// The number of changes that was looked at last; `None` before the first look.
    generation: Option<u64>,
    /// Definitions that were there then, to notice when one is reset.
    known: BTreeSet<DefinitionKey>,
    /// Servers whose tools are registered.
    servers: BTreeSet<ServerId>,
    /// When it was used last.
    pub(super) used: Timestamp,
    /// Calls that its agent never saw, and has to answer.
    pub(super) unanswered: Unanswered,
}

impl Session {
    pub(super) fn new(now: Timestamp, policy: Arc<Policy>, places: Places, whose: Whose) -> Self {
        let mut monitor = Monitor::new(policy, &Tables::default(), PinBook::default());
        monitor.know_places(places);
        Self {
            whose,
            monitor,
            generation: None,
            known: BTreeSet::new(),
            servers: BTreeSet::new(),
            used: now,
            unanswered: Unanswered::default(),
        }
    }

    pub(super) const fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Puts `policy` in force; `None` where it is.
    pub(super) fn install(&mut self, now: Timestamp, policy: &Arc<Policy>) -> Option<Judgement> {
        let is_new = !Arc::ptr_eq(self.monitor.policy(), policy);
        is_new.then(|| self.monitor.install(now, Arc::clone(policy), &Tables::default()))
    }

    pub(super) fn observe(&mut self, now: Timestamp, observation: Observation<'_>) -> Judgement {
        self.monitor.observe(now, observation)
    }

    pub(super) fn redact(&mut self, now: Timestamp, text: &str, tally: &mut Tally) -> Vec<Redaction> {
        self.monitor.redact_text(now, text, tally)
    }

    /// Takes over what the store knows, as of `generation`.
    pub(super) fn look(&mut self, now: Timestamp, generation: u64, reader: &Reader) -> Result<(), String> {
        let found = self.found(reader).map_err(|error| error.to_string())?;
        self.generation = Some(generation);
        self.forget_missing(now, &found.definitions);
        self.register(&found.definitions);
        self.monitor.load_definitions(now, found.definitions);
        self.monitor.know_servers(found.pinned);
        // Processes are for others to stop.
        drop(self.monitor.stop(found.kills));
        for (key, by) in found.refused {
            // Whoever refused it has recorded that.
            drop(self.monitor.refuse(now, &key, &by));
        }
        Ok(())
    }

    /// What the servers of the session listed; where nobody knows them, what all servers of the user did.
    fn found(&self, reader: &Reader) -> Result<Found, QueryError> {
        let mut members: Vec<PinKey> = Vec::new();
        if let Some(session) = &self.whose.session {
            let all = reader.members(session)?;
            members.extend(all.into_iter().map(|member| member.identity));
            members.sort();
            members.dedup();
        }
        let mut definitions = Vec::new();
        if members.is_empty() {
            definitions = reader.definitions(&Selection {
                uid: self.whose.uid,
                ..Selection::default()
            })?;
            members.extend(definitions.iter().map(|record| record.key.identity.clone()));
            members.sort();
            members.dedup();
        } else {
            for identity in &members {
                definitions.extend(reader.definitions_of(identity)?);
            }
        }
        let mut refused = Vec::new();
        for identity in &members {
            refused.extend(reader.refused(identity)?);
        }
        let mut users: Vec<u32> = members.iter().map(|identity| identity.uid).collect();
        users.sort_unstable();
        users.dedup();
        let mut pinned = Vec::new();
        for uid in users {
            pinned.extend(reader.pinned_servers(uid)?);
        }
        Ok(Found {
            definitions,
            refused,
            pinned,
            kills: reader.kills()?,
        })
    }

    /// What was there and is no longer was reset.
    fn forget_missing(&mut self, now: Timestamp, definitions: &[DefinitionRecord]) {
        let there: BTreeSet<DefinitionKey> = definitions.iter().map(|record| record.key.clone()).collect();
        for key in self.known.difference(&there) {
            let server = &key.identity.server;
            // Its record is gone already: only this Monitor does not know.
            drop(self.monitor.forget_definitions(now, server, Some(&key.name)));
        }
        self.known = there;
    }

    /// Which tools there are, and whose.
    fn register(&mut self, definitions: &[DefinitionRecord]) {
        let policy = Arc::clone(self.monitor.policy());
        let registry = self.monitor.registry_mut();
        for server in &self.servers {
            registry.remove_server(server);
        }
        self.servers.clear();
        for tool in definitions
            .iter()
            .filter(|record| record.key.kind == DefinitionKind::Tool)
        {
            let server = &tool.key.identity.server;
            let server_type = server_type(&policy, server);
            // Who came first keeps a name.
            registry.register(
                tool.first_seen,
                server,
                server_type,
                &tool.key.name,
                tool.seen.hash,
            );
            self.servers.insert(server.clone());
        }
    }
}

/// What a store knows.
struct Found {
    definitions: Vec<DefinitionRecord>,
    refused: Vec<(DefinitionKey, String)>,
    pinned: Vec<ServerId>,
    kills: mcpmon_core::model::Kills,
}

fn server_type(policy: &Policy, server: &ServerId) -> ServerType {
    let declared = policy.servers.iter().find(|declared| declared.id == *server);
    match declared.map(|declared| &declared.transport) {
        Some(Transport::Remote { server_type, .. }) => *server_type,
        Some(Transport::Stdio { .. }) | None => ServerType::Stdio,
    }
}

//! A session of agents that use models: its Monitor, and the state of its servers.

use std::{collections::BTreeSet, sync::Arc};

use mcpmon_detect::protected_paths::Places;
use mcpmon_engine::{Judgement, Monitor, Observation, SharedOutcome, Tally, pins::PinBook};
use mcpmon_model::{
    DefinitionKey, DefinitionKind, DefinitionRecord, OmittedCalls, PinKey, Recent, Redaction, ServerId,
    ServerType, SharedCall, Timestamp,
};
use mcpmon_policy::{Policy, Transport, network::table::Tables};
use mcpmon_store::{QueryError, Selection, SessionMember, StoreReader};

use super::SessionKey;
use crate::{
    process,
    protocol::SharedSessionState,
    shared::{StateHolder, load_definitions},
};

/// One session.
#[derive(Debug)]
pub(super) struct ModelSession {
    whose: SessionKey,
    monitor: Monitor,
    /// The number of changes at the last read of the store; `None` before the first.
    generation: Option<u64>,
    /// Definitions in the store at that time, to notice when one is reset.
    known: BTreeSet<DefinitionKey>,
    /// Servers whose tools are registered.
    servers: BTreeSet<ServerId>,
    /// Conversations of the session in other processes, as of the last read.
    members: Vec<SessionMember>,
    /// The servers of the living ones, as the Monitor knows them.
    present: Vec<PinKey>,
    /// The holder of the session's calls; `None` if the session is unknown.
    holder: Option<Box<dyn StateHolder>>,
    /// The time of its last use.
    pub(super) used: Timestamp,
    /// Calls that were left out of answers, so that its agent never saw them; mcpmon answers them.
    pub(super) unanswered: OmittedCalls,
}

impl ModelSession {
    pub(super) fn new(
        now: Timestamp,
        policy: Arc<Policy>,
        places: Places,
        whose: SessionKey,
        holder: Option<Box<dyn StateHolder>>,
    ) -> Self {
        let mut monitor = Monitor::new(policy, &Tables::default(), PinBook::default());
        monitor.know_places(places);
        Self {
            whose,
            monitor,
            generation: None,
            known: BTreeSet::new(),
            servers: BTreeSet::new(),
            members: Vec::new(),
            present: Vec::new(),
            holder,
            used: now,
            unanswered: OmittedCalls::default(),
        }
    }

    pub(super) const fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Applies `policy`. Returns `None` if it is in force already.
    pub(super) fn install(&mut self, now: Timestamp, policy: &Arc<Policy>) -> Option<Judgement> {
        let is_new = !Arc::ptr_eq(self.monitor.policy(), policy);
        is_new.then(|| self.monitor.install(now, Arc::clone(policy), &Tables::default()))
    }

    pub(super) fn observe(&mut self, now: Timestamp, observation: Observation<'_>) -> Judgement {
        self.monitor.observe(now, observation)
    }

    /// Checks which conversations of the session are still alive: a killed wrapper never reports that it leaves.
    pub(super) fn look_around(&mut self) {
        let living = self
            .members
            .iter()
            .filter(|member| process::lives(member.process));
        let mut present: Vec<PinKey> = living.map(|member| member.identity.clone()).collect();
        present.sort();
        present.dedup();
        if present != self.present {
            self.monitor.know_members(self.whose.session.as_ref(), &present);
            self.present = present;
        }
    }

    /// Returns whether a check of a call takes a moment.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.waits_for_disk())
    }

    /// Checks a call with the holder of the session's calls.
    pub(super) fn check(&mut self, call: &SharedCall) -> SharedOutcome {
        let Some(holder) = &mut self.holder else {
            return SharedOutcome::Unreachable;
        };
        match holder.check(self.monitor.policy(), call) {
            Ok(checked) => SharedOutcome::Checked(checked),
            Err(error) => {
                tracing::warn!(%error, "the call was compared only with calls that the LLM proxy saw");
                SharedOutcome::Unreachable
            }
        }
    }

    /// Passes a recent call to the holder of the session's calls.
    pub(super) fn share(&mut self, recent: Recent) {
        if let Some(Err(error)) = self.holder.as_mut().map(|holder| holder.take(recent)) {
            tracing::warn!(%error, "cannot share the model's tool calls with the wrappers");
        }
    }

    pub(super) fn redact(&mut self, now: Timestamp, text: &str, tally: &mut Tally) -> Vec<Redaction> {
        self.monitor.redact_text(now, text, tally)
    }

    /// Reads the state in the store as of `generation`.
    pub(super) fn look(
        &mut self,
        now: Timestamp,
        generation: u64,
        reader: &StoreReader,
    ) -> Result<(), String> {
        let (members, mut state) = self.found(reader).map_err(|error| error.to_string())?;
        self.generation = Some(generation);
        self.members = members;
        self.register(&state.definitions);
        load_definitions(now, &mut self.monitor, &mut self.known, &mut state);
        // Other components stop processes.
        drop(self.monitor.stop(state.kills));
        Ok(())
    }

    /// Returns the conversations of the session, and the state of its servers; or of all servers of the user if these are
    /// unknown.
    fn found(&self, reader: &StoreReader) -> Result<(Vec<SessionMember>, SharedSessionState), QueryError> {
        let mut members: Vec<PinKey> = Vec::new();
        let conversations = match &self.whose.session {
            Some(session) => {
                let conversations = reader.members(session)?;
                members.extend(conversations.iter().map(|member| member.identity.clone()));
                members.sort();
                members.dedup();
                conversations
            }
            // Without a session, a call may go to any of them.
            None => {
                let mut conversations = reader.everybody()?;
                let uid = self.whose.uid;
                conversations.retain(|member| uid.is_none_or(|uid| member.identity.uid == uid));
                conversations
            }
        };
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
        let state = SharedSessionState {
            definitions,
            refused,
            pinned,
            kills: reader.kills()?,
            ..SharedSessionState::default()
        };
        Ok((conversations, state))
    }

    /// Registers the tools and their servers.
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
            let server_type = server_type(&policy, &tool.key.identity);
            // A name belongs to the server that used it first.
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

fn server_type(policy: &Policy, identity: &PinKey) -> ServerType {
    let declared = policy
        .servers
        .iter()
        .find(|declared| declared.id == identity.server);
    match declared.map(|declared| &declared.transport) {
        Some(Transport::Remote { server_type, .. }) => *server_type,
        // The identity of a remote server contains its URL.
        None if identity.name.contains("://") => ServerType::Http,
        Some(Transport::Stdio { .. }) | None => ServerType::Stdio,
    }
}

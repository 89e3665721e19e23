//! Reading of shared state that others changed: members of the session, pins and approvals, the policy.

use std::{collections::BTreeSet, time::Instant};

use mcpmon_config::{LoadedConfiguration, ReloadOccasion, Reloader, Sources, load_sources};
use mcpmon_engine::SessionPeers;
use mcpmon_guard::JudgementOutcome;
use mcpmon_model::{DefinitionKey, DefinitionRecord, ListKind, ServerId, ServerType, Timestamp};
use mcpmon_policy::network::table::Tables;

use super::{
    Session,
    last_mode::note_mode,
    own::{FollowedFile, told},
    protocol::SharedSessionState,
    shared::load_definitions,
};

impl Session {
    /// Tells the guard who else is in the session.
    pub(super) fn introduce(&mut self, now: Timestamp) {
        let company = SessionPeers {
            others: &self.others,
            twins: self.twins,
        };
        let mut outcome = JudgementOutcome::default();
        self.guard.join(now, company, &mut outcome);
        self.carry_out(&mut outcome);
    }

    /// Applies the kill switches, and no other state.
    pub(super) fn heed_kills(&mut self) {
        match self.host.shared.look(self.policy_hash) {
            Ok(snapshot) => self.stop_as_told(snapshot.kills),
            Err(error) if self.host.presence.is_here() => {
                tracing::warn!(%error, "cannot read the kill switch");
            }
            Err(error) => tracing::debug!(%error, "cannot read the kill switch"),
        }
    }

    /// Applies the shared state.
    pub(super) fn take(&mut self, now: Timestamp, mut snapshot: SharedSessionState) {
        self.note_changes(&snapshot);
        if let Some(sources) = snapshot.policy.take().and_then(Sources::of_parts) {
            match load_sources(&sources) {
                Ok(loaded) => {
                    let loaded = match &mut self.own {
                        Some(own) => own.adopt(loaded),
                        None => loaded,
                    };
                    self.adopt(now, &loaded);
                }
                Err(error) => {
                    tracing::error!(%error, "the daemon's policy cannot be used; the one before stays in force")
                }
            }
        }
        self.note_resets(&snapshot);
        load_definitions(now, self.guard.monitor_mut(), &mut self.known, &mut snapshot);
        self.stop_as_told(snapshot.kills);
        let mut outcome = JudgementOutcome::default();
        self.guard.answer_calls(now, &snapshot.answers, &mut outcome);
        self.carry_out(&mut outcome);
        self.register_others(&snapshot.of_others, &snapshot.others);
        if snapshot.others != self.others || snapshot.twins != self.twins {
            self.others = snapshot.others;
            self.twins = snapshot.twins;
            self.introduce(now);
        }
    }

    /// Notes the lists whose visible content changed.
    fn note_changes(&mut self, snapshot: &SharedSessionState) {
        let hidden = snapshot.definitions.iter().filter(|record| record.hidden);
        let refused = snapshot.refused.iter().map(|(key, _)| key);
        let unseen = hidden.map(|record| &record.key).chain(refused).cloned().collect();
        let before = std::mem::replace(&mut self.unseen, unseen);
        self.note_changed(&before);
    }

    /// Notes the lists from which other definitions are hidden than `before`.
    pub(super) fn note_changed(&mut self, before: &BTreeSet<DefinitionKey>) {
        let different = self.unseen.symmetric_difference(before);
        self.changed
            .extend(different.filter_map(|key| ListKind::of(key.kind)));
    }

    /// Notes which definitions that this session added were reset.
    ///
    /// One may be missing because it was never written, which is no reset. It counts as reset only if a person has reset
    /// it since it was last listed; that may have happened before this session saw it in the shared state.
    fn note_resets(&mut self, snapshot: &SharedSessionState) {
        let there: BTreeSet<&DefinitionKey> = snapshot.definitions.iter().map(|record| &record.key).collect();
        let was_reset = |key: &DefinitionKey, seen: Timestamp| {
            let mut resets = snapshot.forgotten.iter();
            resets.any(|(name, at)| *at > seen && name.as_ref().is_none_or(|name| *name == key.name))
        };
        let reset: BTreeSet<DefinitionKey> = self
            .put
            .iter()
            .filter(|(key, seen)| !there.contains(key) && was_reset(key, **seen))
            .map(|(key, _)| key.clone())
            .collect();
        self.put.retain(|key, _| !reset.contains(key));
        self.known.extend(reset);
    }

    /// Registers the tools of the session's other servers.
    fn register_others(&mut self, tools: &[DefinitionRecord], others: &[ServerId]) {
        let registry = self.guard.monitor_mut().registry_mut();
        for other in self.others.iter().chain(others) {
            registry.remove_server(other);
        }
        for tool in tools {
            let server = &tool.key.identity.server;
            // A name belongs to the server that used it first.
            let since = tool.first_seen;
            registry.register(since, server, ServerType::Stdio, &tool.key.name, tool.seen.hash);
        }
    }

    pub(super) fn adopt(&mut self, now: Timestamp, loaded: &LoadedConfiguration) {
        self.policy_hash = loaded.hash;
        self.changed
            .extend([ListKind::Tools, ListKind::Prompts, ListKind::Resources]);
        let policy = self.for_server(&loaded.policy);
        let judgement = self.guard.monitor_mut().install(now, policy, &Tables::default());
        drop(self.conclude(judgement));
    }

    pub(super) fn poll_policy(&mut self, now: Timestamp) {
        let news = match (&mut self.own, &mut self.reloader) {
            (Some(own), _) => own.poll(),
            (None, reloader) => reloader
                .as_mut()
                .and_then(|reloader| reloader.poll(Instant::now(), ReloadOccasion::ByClock)),
        };
        let Some(news) = news else {
            return;
        };
        let of_host = || self.reloader.as_ref().map(Reloader::path);
        let path = self.own.as_ref().map(FollowedFile::path).or_else(of_host);
        let event = told(now, None, path.unwrap_or_default(), &news);
        if let Ok(loaded) = news {
            self.adopt(now, &loaded);
            if let Some(own) = self.reloader.as_ref().and_then(Reloader::own_file) {
                note_mode(self.db.as_deref(), own, loaded.policy.mode);
            }
            self.end_policy_fault(now);
        }
        self.host.push(event);
    }
}

//! Policy and addresses in the daemon: adopted as a whole, or not at all.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Daemon, DaemonError};
use crate::app::{
    declared::declare,
    engine::EngineMessage,
    names::{NameNews, ResolvedTable, WantedNames},
};
use mcpmon_config::{LoadedConfiguration, ReloadOccasion};
use mcpmon_detect::agents::AGENT_NAMES;
use mcpmon_kernel::addresses::Enforcement;
use mcpmon_model::{Event, EventKind, Kills, Layer, Severity};
use mcpmon_policy::{
    Mode,
    network::table::{self, CompileError, Numbering, ResolvedNames, Tables},
};
use mcpmon_session::clock;

/// The time after which addresses that could not be put in force are tried again.
const RETRY: Duration = Duration::from_secs(5);

impl Daemon {
    /// Adopts changed files, as a whole or not at all.
    pub(super) async fn poll_policy(&mut self, asked: ReloadOccasion) {
        let Some(news) = self.reloader.poll(Instant::now(), asked) else {
            return;
        };
        let source = self.sources().join(", ");
        let errors = match news {
            Ok(loaded) => match self.adopt(loaded).await {
                Ok(()) => {
                    self.rejected.clear();
                    self.note("policy", None);
                    self.want_bundle(false);
                    return;
                }
                Err(error) => vec![error.to_string()],
            },
            Err(error) => mcpmon_session::mistakes(&error),
        };
        tracing::error!(
            "the changed policy is refused, the one before stays in force:\n{}",
            errors.join("\n")
        );
        let mut event = Event::new(
            clock::now(),
            Layer::Agent,
            EventKind::PolicyRejected {
                path: source,
                errors: errors.clone(),
            },
        );
        event.severity = Severity::High;
        event.reason = Some(
            "the previous policy stays in force; check the new one with `mcpmon policy check FILE`"
                .to_owned(),
        );
        self.recorder.push(event);
        self.note(
            "policy",
            Some(format!("the changed policy is refused: {}", errors.join("; "))),
        );
        self.rejected = errors;
    }

    pub(super) async fn adopt(&mut self, loaded: LoadedConfiguration) -> Result<(), DaemonError> {
        let mut loaded = loaded;
        if loaded.settings.record != self.loaded.settings.record {
            tracing::warn!("record.* changed: it takes effect when the daemon is started again");
            loaded.settings.record = self.loaded.settings.record.clone();
        }
        let before = std::mem::replace(&mut self.loaded, loaded);
        if let Err(error) = self.install().await {
            self.loaded = before;
            return Err(error);
        }
        self.note("address lists", self.nameless_refusals());
        self.wanted.send_replace(wants(&self.loaded));
        declare(&self.recorder, &self.loaded);
        self.wrappers
            .publish(self.loaded.hash, Arc::clone(&self.loaded.text));
        self.tell_proxy();
        self.look_after_tap();
        self.tell_policy();
        Ok(())
    }

    /// Compiles the policy and the addresses, and puts them in force.
    pub(super) async fn install(&mut self) -> Result<(), DaemonError> {
        let tables = tables(&self.loaded, &self.kills, &self.resolved, &mut self.numbering)?;
        let tables = Arc::new(tables);
        let message = |reply| EngineMessage::Install {
            policy: Arc::clone(&self.loaded.policy),
            tables: Arc::clone(&tables),
            enforcement: enforcement(&self.loaded, &self.kills),
            kills: self.kills.clone(),
            agents: agent_names(&self.loaded),
            numbering: self.numbering.clone(),
            resolved: self.resolved.clone(),
            reply,
        };
        self.ask(message).await??;
        self.tables = tables;
        Ok(())
    }

    /// Adopts addresses from the daemon's own DNS queries or from DNS answers to other processes.
    pub(super) async fn take_names(&mut self, news: NameNews) {
        let late = self.late.as_ref().map(|(table, _)| table);
        let (known, failures) = late.map_or((&self.resolved, &self.failures), |late| {
            (&late.resolved, &late.failures)
        });
        let found = match news {
            NameNews::Resolved(found) => ResolvedTable {
                resolved: found.resolved.with_followed(known.sightings().clone()),
                failures: found.failures,
            },
            NameNews::Followed(found) => {
                let (resolved, failures) = (known.clone().with_followed(found.sightings), failures.clone());
                self.note("DNS answers", found.failure);
                ResolvedTable { resolved, failures }
            }
        };
        self.take_addresses(found).await;
    }

    async fn take_addresses(&mut self, found: ResolvedTable) {
        let ResolvedTable { resolved, failures } = found;
        self.failures = failures;
        self.late = None;
        if resolved != self.resolved {
            let before = std::mem::replace(&mut self.resolved, resolved);
            if let Err(error) = self.install().await {
                let resolved = std::mem::replace(&mut self.resolved, before);
                let failures = self.failures.clone();
                self.late = Some((ResolvedTable { resolved, failures }, Instant::now()));
                self.note("address tables", Some(error.to_string()));
                return;
            }
        }
        self.note("address tables", None);
        self.note("address lists", self.nameless_refusals());
    }

    /// Tries again, after a while, to put addresses in force. Needed because the names do not change again for that.
    pub(super) async fn catch_up(&mut self) {
        let is_due = |(_, since): &mut (ResolvedTable, Instant)| since.elapsed() >= RETRY;
        if let Some((found, _)) = self.late.take_if(is_due) {
            self.take_addresses(found).await;
        }
    }

    /// Returns the refused names that have no effect, because they have no address.
    fn nameless_refusals(&self) -> Option<String> {
        let refusing = table::refusing_names(&self.loaded.policy);
        let missing: Vec<String> = self
            .tables
            .unresolved
            .intersection(&refusing)
            .filter_map(|name| Some(format!("`{name}` refuses nothing: {}", self.failures.get(name)?)))
            .collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    pub(super) fn sources(&self) -> Vec<String> {
        self.loaded.sources.iter().map(ToString::to_string).collect()
    }

    pub(super) fn tell_policy(&self) {
        tracing::info!(policy = self.sources().join(", "), "policy in force");
        self.recorder.push(self.loaded.event(clock::now()));
    }
}

/// Compiles the kernel tables, kill switches included.
pub(super) fn tables(
    loaded: &LoadedConfiguration,
    kills: &Kills,
    resolved: &ResolvedNames,
    numbering: &mut Numbering,
) -> Result<Tables, CompileError> {
    if kills.is_empty() {
        return table::compile(&loaded.policy, resolved, numbering);
    }
    let mut tables = table::compile(&table::under(&loaded.policy, kills), resolved, numbering)?;
    tables.add_killed(numbering)?;
    Ok(tables)
}

pub(super) fn enforcement(loaded: &LoadedConfiguration, kills: &Kills) -> Enforcement {
    match (loaded.policy.mode, loaded.policy.network.enforce) {
        _ if !kills.is_empty() => Enforcement::Enforce,
        (Mode::Enforce, true) => Enforcement::Enforce,
        (Mode::Enforce, false) | (Mode::Observe, _) => Enforcement::Observe,
    }
}

pub(super) fn wants(loaded: &LoadedConfiguration) -> WantedNames {
    WantedNames {
        names: table::names(&loaded.policy),
        refusing: table::refusing_names(&loaded.policy),
        interval: loaded.policy.network.resolve_interval,
    }
}

pub(super) fn agent_names(loaded: &LoadedConfiguration) -> Vec<String> {
    let built_in = AGENT_NAMES.iter().map(|name| (*name).to_owned());
    built_in
        .chain(loaded.policy.network.agents.iter().cloned())
        .collect()
}

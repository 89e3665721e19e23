//! Regular resolution of names to addresses. What is known of each name is kept fresh, and is not lost if DNS fails.
//!
//! The hosts file is read first, then DNS is asked with the search list of `resolv.conf`, like the C library with
//! `hosts: files dns`; other sources of `nsswitch.conf` are not used. Both files are read anew each time.

mod known;
mod lookup;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use mcpmon_model::Timestamp;
use mcpmon_policy::{HostName, network::table::ResolvedNames};
use tokio::task::JoinSet;

use self::{
    known::KnownName,
    lookup::{Answers, Lookup},
};

pub use self::lookup::NameServers;

/// Most addresses that are kept of one name, over both families.
pub const MAX_ADDRESSES: usize = 64;

/// Names that are looked up at the same time.
const CONCURRENCY: usize = 8;

/// The sources for look-ups, and their time limits.
#[derive(Clone, Debug)]
pub struct LookupSources {
    /// DNS servers.
    pub upstream: NameServers,
    /// The hosts file.
    pub hosts: PathBuf,
    /// Time limit for all questions about one name.
    pub timeout: Duration,
}

impl Default for LookupSources {
    fn default() -> Self {
        Self {
            upstream: NameServers::System,
            hosts: PathBuf::from("/etc/hosts"),
            timeout: Duration::from_secs(5),
        }
    }
}

/// The outcome of a refresh: new addresses or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshOutcome {
    /// Addresses were added or removed.
    Changed,
    /// Nothing has changed.
    Unchanged,
}

/// The addresses of names.
///
/// A name keeps its addresses until an answer replaces them, because a refusal must not end when DNS fails. An address
/// that is missing in an answer is kept for two more intervals, because rotating answers repeat.
#[derive(Debug)]
pub struct Resolver {
    sources: LookupSources,
    grace: Duration,
    known: BTreeMap<HostName, KnownName>,
    resolved: ResolvedNames,
}

impl Resolver {
    /// Creates a resolver to be refreshed every `interval`.
    pub const fn new(sources: LookupSources, interval: Duration) -> Self {
        Self {
            sources,
            grace: interval.saturating_mul(2),
            known: BTreeMap::new(),
            resolved: ResolvedNames::new(),
        }
    }

    /// Adapts to a changed interval.
    pub const fn set_interval(&mut self, interval: Duration) {
        self.grace = interval.saturating_mul(2);
    }

    /// Looks up all `names`, and forgets any other. Dropping the future leaves everything unchanged.
    pub async fn refresh(&mut self, names: &BTreeSet<HostName>, now: Timestamp) -> RefreshOutcome {
        let answers = self.ask(names).await;
        self.known.retain(|name, _| names.contains(name));
        for (name, answers) in answers {
            let known = self.known.entry(name).or_default();
            known.learn(answers, now, self.grace);
        }
        let mut resolved = ResolvedNames::new();
        for (name, known) in &self.known {
            resolved.add(name, known.addresses());
        }
        if resolved == self.resolved {
            return RefreshOutcome::Unchanged;
        }
        self.resolved = resolved;
        RefreshOutcome::Changed
    }

    /// Returns the addresses as of the last refresh.
    pub const fn resolved(&self) -> &ResolvedNames {
        &self.resolved
    }

    /// Returns the failures of the last refresh, by name.
    pub fn failures(&self) -> BTreeMap<HostName, String> {
        let failed = |(name, known): (&HostName, &KnownName)| Some((name.clone(), known.failure()?));
        self.known.iter().filter_map(failed).collect()
    }

    async fn ask(&self, names: &BTreeSet<HostName>) -> BTreeMap<HostName, Answers> {
        let lookup = Arc::new(Lookup::new(&self.sources));
        let mut answers = BTreeMap::new();
        let mut waiting = names.iter().cloned();
        let mut asked = JoinSet::new();
        loop {
            while asked.len() < CONCURRENCY
                && let Some(name) = waiting.next()
            {
                let lookup = Arc::clone(&lookup);
                asked.spawn(async move {
                    let answers = lookup.addresses(&name).await;
                    (name, answers)
                });
            }
            match asked.join_next().await {
                Some(Ok((name, found))) => drop(answers.insert(name, found)),
                Some(Err(error)) => tracing::error!(%error, "a look-up ended without an answer"),
                None => return answers,
            }
        }
    }
}

//! The tasks that keep names resolved and follow them, so that a slow DNS never delays the daemon's other work.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mcpmon_kernel::resolve::{LookupSources, RefreshOutcome, Resolver};
use mcpmon_policy::{
    HostName,
    network::{followed::Sightings, table::ResolvedNames},
};
use mcpmon_session::clock;
use tokio::sync::{mpsc, watch};

use super::answers::{FollowedTable, keep_followed};

/// The names to resolve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WantedNames {
    pub(super) names: BTreeSet<HostName>,
    /// Names that a rule refuses.
    pub(super) refusing: BTreeSet<HostName>,
    pub(super) interval: Duration,
}

/// The resolved names.
#[derive(Debug)]
pub(super) struct ResolvedTable {
    pub(super) resolved: ResolvedNames,
    pub(super) failures: BTreeMap<HostName, String>,
}

/// A change of the addresses of names.
#[derive(Debug)]
pub(super) enum NameNews {
    /// From the daemon's own DNS queries.
    Resolved(ResolvedTable),
    /// From DNS answers to other processes.
    Followed(FollowedTable),
}

/// Starts both tasks, with the addresses that an earlier daemon followed. They end when the sender of `wanted` is
/// dropped.
pub(super) fn start(
    wanted: watch::Receiver<WantedNames>,
    followed: &Sightings,
    news: mpsc::Sender<NameNews>,
) {
    tokio::spawn(keep_followed(wanted.clone(), followed.clone(), news.clone()));
    tokio::spawn(keep_resolved(wanted, news));
}

/// Resolves the wanted names at once, when they change, and in every interval.
async fn keep_resolved(mut wanted: watch::Receiver<WantedNames>, found: mpsc::Sender<NameNews>) {
    let interval = wanted.borrow_and_update().interval;
    let mut resolver = Resolver::new(LookupSources::default(), interval);
    let mut told = BTreeMap::new();
    loop {
        let WantedNames { names, interval, .. } = wanted.borrow_and_update().clone();
        resolver.set_interval(interval);
        let refreshed = resolver.refresh(&names, clock::now()).await;
        let failures = resolver.failures();
        if refreshed == RefreshOutcome::Changed || failures != told {
            told.clone_from(&failures);
            let news = ResolvedTable {
                resolved: resolver.resolved().clone(),
                failures,
            };
            if found.send(NameNews::Resolved(news)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
    }
}

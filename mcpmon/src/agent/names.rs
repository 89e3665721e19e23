//! The task that keeps names resolved, so that a slow DNS never delays the daemon's other work.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mcpmon_kernel::resolve::{LookupSources, RefreshOutcome, Resolver};
use mcpmon_policy::{HostName, network::table::ResolvedNames};
use mcpmon_session::clock;
use tokio::sync::{mpsc, watch};

/// The names to resolve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WantedNames {
    pub(super) names: BTreeSet<HostName>,
    pub(super) interval: Duration,
}

/// The resolved names.
#[derive(Debug)]
pub(super) struct ResolvedTable {
    pub(super) resolved: ResolvedNames,
    pub(super) failures: BTreeMap<HostName, String>,
}

/// Resolves what is wanted now and then every interval; ends when nobody wants anything any more.
pub(super) async fn keep_resolved(
    mut wanted: watch::Receiver<WantedNames>,
    found: mpsc::Sender<ResolvedTable>,
) {
    let interval = wanted.borrow_and_update().interval;
    let mut resolver = Resolver::new(LookupSources::default(), interval);
    let mut told = BTreeMap::new();
    loop {
        let WantedNames { names, interval } = wanted.borrow_and_update().clone();
        resolver.set_interval(interval);
        let refreshed = resolver.refresh(&names, clock::now()).await;
        let failures = resolver.failures();
        if refreshed == RefreshOutcome::Changed || failures != told {
            told.clone_from(&failures);
            let news = ResolvedTable {
                resolved: resolver.resolved().clone(),
                failures,
            };
            if found.send(news).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
    }
}

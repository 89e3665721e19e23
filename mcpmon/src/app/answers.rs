//! Follows refused names: learns their addresses from the answers that DNS servers send to processes of the host.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{Duration, Instant},
};

use mcpmon_kernel::dns::{AnswerTap, DnsError, own_addresses};
use mcpmon_policy::{
    HostName,
    network::followed::{DnsAnswer, FollowedNames, MAX_ALL_FOLLOWED, MAX_FOLLOWED, Sightings},
};
use mcpmon_session::clock;
use tokio::sync::{mpsc, watch};

use super::names::{NameNews, WantedNames};

/// The interval at which old addresses are forgotten, lost answers are looked for, and failed operations are repeated.
const ROUND: Duration = Duration::from_secs(10);
/// The time for which a loss of answers is reported.
const LOSS_REPORT_TIME: Duration = Duration::from_mins(1);

/// The addresses that are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FollowedTable {
    pub(super) sightings: Sightings,
    /// The reasons why some addresses are not followed.
    pub(super) failure: Option<String>,
}

/// Follows the names in `wanted`; ends when the sender of `wanted` is dropped. Attaches no program if no name is
/// refused.
pub(super) async fn keep_followed(
    mut wanted: watch::Receiver<WantedNames>,
    resumed: Sightings,
    found: mpsc::Sender<NameNews>,
) {
    let mut follower = Follower::new(FollowedNames::resumed(resumed, clock::now()));
    let mut told = FollowedTable {
        sightings: follower.followed.sightings().clone(),
        failure: None,
    };
    loop {
        let names = wanted.borrow_and_update().refusing.clone();
        follower.start_round(&names);
        let mut round = std::pin::pin!(tokio::time::sleep(ROUND));
        loop {
            let table = follower.table(Instant::now());
            if table != told {
                told.clone_from(&table);
                if found.send(NameNews::Followed(table)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                answers = follower.answers() => follower.learn(&names, answers),
                () = &mut round => break,
                changed = wanted.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
            }
        }
    }
}

struct Follower {
    followed: FollowedNames,
    tap: Option<AnswerTap>,
    /// Addresses of the host and of its DNS servers; they are never refused.
    spared: BTreeSet<IpAddr>,
    failure: Option<String>,
    lost: u64,
    lost_at: Option<Instant>,
}

impl Follower {
    const fn new(followed: FollowedNames) -> Self {
        Self {
            followed,
            tap: None,
            spared: BTreeSet::new(),
            failure: None,
            lost: 0,
            lost_at: None,
        }
    }

    /// Attaches what these names need, and forgets old addresses.
    fn start_round(&mut self, names: &BTreeSet<HostName>) {
        self.followed.forget(names, clock::now());
        self.failure = None;
        if names.is_empty() {
            self.tap = None;
            return;
        }
        self.spared = own_addresses();
        if let Err(error) = self.follow(names) {
            self.tap = None;
            self.fail(error);
        }
    }

    fn follow(&mut self, names: &BTreeSet<HostName>) -> Result<(), DnsError> {
        let tap = match &mut self.tap {
            Some(tap) => tap,
            None => {
                self.lost = 0;
                self.tap.insert(AnswerTap::open()?)
            }
        };
        tap.follow(names)?;
        let lost = tap.lost().map_err(DnsError::Wait)?;
        if lost != self.lost {
            self.lost = lost;
            self.lost_at = Some(Instant::now());
        }
        Ok(())
    }

    /// Waits for answers; without a tap it waits forever.
    async fn answers(&mut self) -> Result<Vec<DnsAnswer>, DnsError> {
        match &mut self.tap {
            Some(tap) => tap.answers().await,
            None => std::future::pending().await,
        }
    }

    fn learn(&mut self, names: &BTreeSet<HostName>, answers: Result<Vec<DnsAnswer>, DnsError>) {
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                self.tap = None;
                self.fail(error);
                return;
            }
        };
        for answer in answers.iter().filter(|answer| names.contains(&answer.name)) {
            let new = self.followed.learn(answer, &self.spared, clock::now());
            for address in new {
                let (name, server) = (&answer.name, answer.server);
                tracing::info!(%name, %address, %server, "a refused name has another address");
            }
        }
    }

    fn fail(&mut self, error: DnsError) {
        let error = anyhow::Error::from(error);
        self.failure = Some(format!("answers of DNS servers are not seen: {error:#}"));
    }

    fn table(&self, now: Instant) -> FollowedTable {
        let is_lossy = self
            .lost_at
            .is_some_and(|at| now.saturating_duration_since(at) < LOSS_REPORT_TIME);
        let lost = is_lossy.then(|| {
            "answers came faster than they were read: refused names may have addresses that are not refused".to_owned()
        });
        let full = self.followed.full().iter().map(|name| {
            format!("`{name}` has more addresses than are followed, {MAX_FOLLOWED} of a name and {MAX_ALL_FOLLOWED} of all: use `cidrs`")
        });
        let failures: Vec<String> = self.failure.clone().into_iter().chain(lost).chain(full).collect();
        FollowedTable {
            sightings: self.followed.sightings().clone(),
            failure: (!failures.is_empty()).then(|| failures.join("; ")),
        }
    }
}

//! The known addresses of one name, kept between answers.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use mcpmon_model::Timestamp;

use super::{
    MAX_ADDRESSES,
    lookup::{Answers, FamilyAnswer},
};

/// The addresses of a name, and the last failures.
#[derive(Debug, Default)]
pub(super) struct KnownName {
    /// By the question that found them: IPv4-mapped addresses come from the question for IPv6.
    addresses: BTreeMap<(KnownQuestion, IpAddr), AddressFreshness>,
    failures: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KnownQuestion {
    A,
    Aaaa,
}

/// The freshness of an address; fresher ones sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressFreshness {
    /// The address is in the last answer.
    Last,
    /// The address was in an earlier answer, and is missing since this time.
    MissingSince(Reverse<Timestamp>),
}

impl KnownName {
    /// Updates the addresses with the answers at `now`.
    pub(super) fn learn(&mut self, answers: Answers, now: Timestamp, grace: Duration) {
        self.failures = answers.failures();
        if !answers.any_found() {
            return;
        }
        for (question, answer) in [(KnownQuestion::A, answers.v4), (KnownQuestion::Aaaa, answers.v6)] {
            match answer {
                FamilyAnswer::Found(found) => self.replace(question, &found, now, grace),
                FamilyAnswer::Nothing => self.replace(question, &[], now, grace),
                FamilyAnswer::Failed(_) => {}
            }
        }
        self.bound();
    }

    /// Returns the addresses, fresh and kept ones.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.keys().map(|(_, address)| *address)
    }

    /// Returns the failure of the last look-up, if it failed.
    pub(super) fn failure(&self) -> Option<String> {
        if self.failures.is_empty() {
            return None;
        }
        let failures: Vec<&str> = self.failures.iter().map(String::as_str).collect();
        Some(failures.join("; "))
    }

    fn replace(&mut self, question: KnownQuestion, found: &[IpAddr], now: Timestamp, grace: Duration) {
        for ((asked, _), seen) in &mut self.addresses {
            if *asked == question && *seen == AddressFreshness::Last {
                *seen = AddressFreshness::MissingSince(Reverse(now));
            }
        }
        for address in found {
            self.addresses
                .insert((question, *address), AddressFreshness::Last);
        }
        self.addresses.retain(|(asked, _), seen| match seen {
            AddressFreshness::Last => true,
            AddressFreshness::MissingSince(Reverse(since)) => {
                *asked != question || elapsed(*since, now) < grace
            }
        });
    }

    /// Drops addresses beyond the limit, the stalest first.
    fn bound(&mut self) {
        if self.addresses.len() <= MAX_ADDRESSES {
            return;
        }
        let fresh = self
            .addresses
            .values()
            .filter(|seen| **seen == AddressFreshness::Last)
            .count();
        if fresh > MAX_ADDRESSES {
            self.failures.insert(format!(
                "the name has {fresh} addresses, of which {MAX_ADDRESSES} are used: use `cidrs`"
            ));
        }
        let ranked: BTreeSet<_> = self.addresses.iter().map(|(key, seen)| (*seen, *key)).collect();
        self.addresses = ranked
            .into_iter()
            .take(MAX_ADDRESSES)
            .map(|(seen, key)| (key, seen))
            .collect();
    }
}

/// Returns the time from `since` to `now`; zero if the clock was set back.
fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    let nanoseconds = now.0.saturating_sub(since.0);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

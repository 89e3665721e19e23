//! Conversations that the daemon judges itself, among those of wrappers: sessions do not end where a server is reached
//! in another way.

use std::{io, path::PathBuf, time::Duration};

use mcpmon_core::model::{Checked, Digest, SharedCall, Timestamp};

use super::{Connected, Wrappers, lock};
use crate::{
    agent::clock,
    judge::{hosted::Host, protocol::State},
    record::{Destination, Entry, Limits, Member, Progress, StoreError},
};

/// How long the daemon's writer may take.
const FLUSH: Duration = Duration::from_secs(2);

impl Host for Wrappers {
    fn generation(&self) -> PathBuf {
        self.0.generation.clone()
    }

    fn join(&self, now: Timestamp, member: &Member) -> Result<(), StoreError> {
        lock(&self.0.store).join(now, member)?;
        self.add(Connected {
            member: member.clone(),
            child: None,
        });
        Ok(())
    }

    fn look(&self, member: &Member) -> Result<State, StoreError> {
        let held: Digest = lock(&self.0.policy).0;
        self.state(member, Some(held))
    }

    fn check(&self, member: &Member, call: SharedCall) -> Checked {
        self.0.sessions.check(clock::now(), member, call)
    }
}

/// Where records of conversations go that the daemon judges: what others of a session are checked against to them, the
/// rest to the store.
#[derive(Debug)]
pub(crate) struct Kept(pub(crate) Wrappers);

impl Kept {
    /// What is not for the store is done.
    fn sort(&self, entry: &Entry) -> Option<Entry> {
        match entry {
            Entry::Recent(session, recent) => {
                let is_of = |member: &Member| {
                    member.session == *session && member.identity.server == *recent.server()
                };
                if let Some(member) = self.hosted(is_of) {
                    self.0
                        .0
                        .sessions
                        .take(clock::now(), &member, vec![(**recent).clone()]);
                }
                None
            }
            Entry::Leave(_, member) => {
                let mut connected = lock(&self.0.0.connected);
                connected.retain(|_, other| other.member != *member);
                Some(entry.clone())
            }
            _ => Some(entry.clone()),
        }
    }

    fn hosted(&self, is_it: impl Fn(&Member) -> bool) -> Option<Member> {
        let connected = lock(&self.0.0.connected);
        let mut hosted = connected.values().filter(|other| other.is_hosted());
        let found = hosted.find(|other| is_it(&other.member))?;
        Some(found.member.clone())
    }
}

impl Destination for Kept {
    fn keep(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let rest = entries.iter().filter_map(|entry| self.sort(entry)).collect();
        let kept = self.0.0.recorder.put_all(rest, FLUSH);
        kept.map_err(|unkept| StoreError::Unreachable {
            who: "the daemon's writer".to_owned(),
            source: io::Error::other(unkept),
        })
    }

    fn prune(&mut self, _limits: Limits, _now: Timestamp) -> Result<Progress, StoreError> {
        Ok(Progress::Done) // the daemon's writer does
    }
}

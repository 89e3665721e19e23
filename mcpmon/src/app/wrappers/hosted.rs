//! Conversations that the daemon judges itself, as members of the same sessions as wrappers: a session includes its
//! servers, however they are reached.

use std::{io, time::Duration};

use mcpmon_model::{Digest, Recent, SharedCall, SharedCallAnswer, Timestamp};
use mcpmon_session::{clock, hosted::DaemonServices, protocol::SharedSessionState};
use mcpmon_store::{Destination, PruneCount, RetentionLimits, SessionMember, StoreEntry, StoreError};

use super::{Wrappers, lock};

/// The longest wait for the daemon's writer.
const FLUSH: Duration = Duration::from_secs(2);

impl DaemonServices for Wrappers {
    fn join(&self, now: Timestamp, member: &SessionMember) -> Result<(), StoreError> {
        lock(&self.0.store).join(now, member)?;
        lock(&self.0.hosted).push(member.clone());
        Ok(())
    }

    fn look(&self, member: &SessionMember) -> Result<SharedSessionState, StoreError> {
        let held: Digest = lock(&self.0.policy).0;
        self.state(member, Some(held))
    }

    fn check(&self, member: &SessionMember, call: SharedCall) -> SharedCallAnswer {
        self.0.sessions.check(clock::now(), member, call)
    }

    fn take(&self, member: &SessionMember, recent: Recent) {
        self.0.sessions.take(clock::now(), member, vec![recent]);
    }
}

/// The destination for records of conversations that the daemon judges: recent calls go to the session's state, the
/// rest to the store.
#[derive(Debug)]
pub(crate) struct HostedRecords(pub(crate) Wrappers);

impl HostedRecords {
    /// Handles an entry that is not for the store. Returns every other entry.
    fn sort(&self, entry: StoreEntry) -> Option<StoreEntry> {
        if let StoreEntry::Recent(session, recent, _) = &entry {
            let server = recent.server();
            let hosted = lock(&self.0.0.hosted);
            let is_of = |member: &&SessionMember| {
                member.session.is_of_same_root(session) && member.identity.server == *server
            };
            let member = hosted.iter().find(is_of).cloned();
            drop(hosted);
            if let Some(member) = member {
                let recent = vec![(**recent).clone()];
                self.0.0.sessions.take(clock::now(), &member, recent);
            }
            return None;
        }
        if let StoreEntry::Leave(_, member) = &entry {
            lock(&self.0.0.hosted).retain(|other| other != member);
        }
        Some(entry)
    }
}

impl Destination for HostedRecords {
    fn prepare(&mut self, entries: Vec<StoreEntry>) -> Vec<StoreEntry> {
        entries.into_iter().filter_map(|entry| self.sort(entry)).collect()
    }

    fn keep(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(()); // all entries were for the session
        }
        let kept = self.0.0.recorder.put_all(entries.to_vec(), FLUSH);
        kept.map_err(|unkept| StoreError::Unreachable {
            who: "the daemon's writer".to_owned(),
            source: io::Error::other(unkept),
        })
    }

    fn prune(&mut self, _limits: RetentionLimits, _now: Timestamp) -> Result<PruneCount, StoreError> {
        Ok(PruneCount::default()) // the daemon's writer prunes
    }
}

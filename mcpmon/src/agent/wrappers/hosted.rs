//! Conversations that the daemon judges itself, among those of wrappers: sessions do not end where a server is reached
//! in another way.

use std::{io, time::Duration};

use mcpmon_model::{Checked, Digest, Recent, SharedCall, Timestamp};
use mcpmon_session::{clock, hosted::Host, protocol::State};
use mcpmon_store::{Destination, Entry, Limits, Member, Pruned, StoreError};

use super::{Wrappers, lock};

/// The longest time for the daemon's writer.
const FLUSH: Duration = Duration::from_secs(2);

impl Host for Wrappers {
    fn join(&self, now: Timestamp, member: &Member) -> Result<(), StoreError> {
        lock(&self.0.store).join(now, member)?;
        lock(&self.0.hosted).push(member.clone());
        Ok(())
    }

    fn look(&self, member: &Member) -> Result<State, StoreError> {
        let held: Digest = lock(&self.0.policy).0;
        self.state(member, Some(held))
    }

    fn check(&self, member: &Member, call: SharedCall) -> Checked {
        self.0.sessions.check(clock::now(), member, call)
    }

    fn take(&self, member: &Member, recent: Recent) {
        self.0.sessions.take(clock::now(), member, vec![recent]);
    }
}

/// The destination of records of conversations that the daemon judges: recent calls go to the session's
/// state, the rest to the store.
#[derive(Debug)]
pub(crate) struct Kept(pub(crate) Wrappers);

impl Kept {
    /// Handles entries that are not for the store, and returns the others.
    fn sort(&self, entry: Entry) -> Option<Entry> {
        match &entry {
            Entry::Recent(session, recent) => {
                let server = recent.server();
                let hosted = lock(&self.0.0.hosted);
                let is_of = |member: &&Member| {
                    member.session.is_of_same_root(session) && member.identity.server == *server
                };
                let member = hosted.iter().find(is_of).cloned();
                drop(hosted);
                if let Some(member) = member {
                    let recent = vec![(**recent).clone()];
                    self.0.0.sessions.take(clock::now(), &member, recent);
                }
                None
            }
            Entry::Leave(_, member) => {
                lock(&self.0.0.hosted).retain(|other| other != member);
                Some(entry)
            }
            Entry::Event(_)
            | Entry::Rescued(_)
            | Entry::Definition(_)
            | Entry::ForgetDefinition(_)
            | Entry::HoldCall(..)
            | Entry::ReleaseCall(..)
            | Entry::Unread(..)
            | Entry::PutPin(_)
            | Entry::DeletePins(_)
            | Entry::DeletePinSet(..)
            | Entry::Declare(_)
            | Entry::ForgetRunning
            | Entry::Watch(_)
            | Entry::Unposted(_)
            | Entry::PolicyChanged
            | Entry::Body(_)
            | Entry::ShortenBodies(_) => Some(entry),
        }
    }
}

impl Destination for Kept {
    fn prepare(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        entries.into_iter().filter_map(|entry| self.sort(entry)).collect()
    }

    fn keep(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(()); // all of it was for the session
        }
        let kept = self.0.0.recorder.put_all(entries.to_vec(), FLUSH);
        kept.map_err(|unkept| StoreError::Unreachable {
            who: "the daemon's writer".to_owned(),
            source: io::Error::other(unkept),
        })
    }

    fn prune(&mut self, _limits: Limits, _now: Timestamp) -> Result<Pruned, StoreError> {
        Ok(Pruned::default()) // the daemon's writer does
    }
}

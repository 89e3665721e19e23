//! Shared state of a session: members, pins and approvals, the policy, recent calls. One holder has it: the daemon, or
//! the user's own store if there is none.

use std::{collections::BTreeSet, ffi::OsString, fmt, fs::File, io, mem, path::Path, sync::Arc};

use mcpmon_engine::Monitor;
use mcpmon_guard::Absence;
use mcpmon_model::{
    DefinitionKey, DefinitionKind, DefinitionRecord, Denial, Digest, ProcessId, Recent, ServerId, SharedCall,
    SharedCallAnswer, Timestamp,
};
use mcpmon_policy::Policy;
use mcpmon_store::{Generation, OpenError, QueryError, SessionMember, StoreError, StoreReader};

use super::{JudgeError, comparison::Comparison, link::LinkError, protocol::SharedSessionState};

/// Holds the shared state of one session.
pub(super) trait StateHolder: fmt::Debug + Send {
    /// Returns the number of changes of the state, unless it cannot be read.
    fn number(&self) -> Option<&Generation>;

    /// Returns the name in events.
    fn name(&self) -> &'static str;

    /// Returns the reason and the remedy for refusals while the state cannot be read.
    fn absence(&self) -> Absence;

    /// Returns the current shared state; `policy` is the digest of the policy in force.
    fn look(&mut self, policy: Digest) -> Result<SharedSessionState, SharedError>;

    /// Checks a call together with those of all processes of the session, and counts it.
    fn check(&mut self, policy: &Policy, call: &SharedCall) -> Result<SharedCallAnswer, SharedError>;

    /// Makes a recent call known to all processes of the session. Wrappers send theirs with their records.
    fn take(&mut self, _recent: Recent) -> Result<(), SharedError> {
        Ok(())
    }

    /// Returns the number of changes, or 0 if it cannot be read. It reads a page in memory.
    fn generation(&self) -> u64 {
        self.number().map_or(0, Generation::now)
    }

    /// Returns the value of [`Self::generation`] for a state as of `changes`.
    fn as_of(&self, changes: u64) -> u64 {
        self.number().map_or(0, |_| changes)
    }

    /// Returns whether the state can be read.
    fn is_up(&self) -> bool {
        true
    }

    /// Returns whether the daemon was joined again since the last read. Its earlier answers may not be valid any
    /// longer, and its number of changes may be in another file.
    fn was_joined_again(&self) -> bool {
        false
    }

    /// Returns whether a check of a call reads a file, which takes a moment.
    fn waits_for_disk(&self) -> bool {
        false
    }

    /// Returns whether the holder enforces the policy in the kernel.
    fn enforces_in_kernel(&self) -> bool {
        false
    }

    /// Reports that the server is about to be started from `program`. Of the variables of its environment, `places`
    /// are sent with their values.
    fn starts(
        &self,
        _program: &File,
        _environment: &[(OsString, OsString)],
        _places: &[&str],
    ) -> Result<(), SharedError> {
        Ok(())
    }

    /// Reports the serving process.
    fn serves(&self, _process: ProcessId) -> Result<(), SharedError> {
        Ok(())
    }

    /// Returns the denial of a serving process that the holder has killed.
    fn fate(&self, _process: ProcessId) -> Result<Option<Denial>, SharedError> {
        Ok(None)
    }

    /// Returns the question whether a serving process may continue, if the holder compares its files.
    fn comparison(&self, _process: ProcessId) -> Option<Comparison> {
        None
    }
}

/// The reason why the shared state is unavailable.
#[derive(Debug, thiserror::Error)]
pub(super) enum SharedError {
    /// The connection to the daemon failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SharedError> for JudgeError {
    fn from(error: SharedError) -> Self {
        match error {
            SharedError::Link(error) => Self::Store(StoreError::Unreachable {
                who: "the daemon".to_owned(),
                source: io::Error::other(error),
            }),
            SharedError::Open(error) => error.into(),
            SharedError::Query(error) => error.into(),
            SharedError::Store(error) => error.into(),
        }
    }
}

/// Reads the state of the conversation `own`, in a session of `members`. `lives` returns whether a process is alive.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub fn read_state(
    reader: &StoreReader,
    own: &SessionMember,
    members: Vec<SessionMember>,
    lives: fn(ProcessId) -> bool,
) -> Result<SharedSessionState, QueryError> {
    let twins = has_twins(&members, own, lives);
    let others = others(members, own, lives);
    let mut of_others = Vec::new();
    for other in &others {
        of_others.extend(tools(reader.definitions_of(&other.identity)?));
    }
    Ok(SharedSessionState {
        definitions: reader.definitions_of(&own.identity)?,
        refused: reader.refused(&own.identity)?,
        forgotten: reader.forgotten(&own.identity)?,
        of_others,
        others: ids(&others),
        twins,
        pinned: reader.pinned_servers(own.identity.uid)?,
        kills: reader.kills()?,
        answers: reader.answered_calls(&own.identity, &own.session)?,
        ..SharedSessionState::default()
    })
}

/// Applies the definitions of `state` to a Monitor. It forgets those of `known` that are missing, because they were reset.
pub(super) fn load_definitions(
    now: Timestamp,
    monitor: &mut Monitor,
    known: &mut BTreeSet<DefinitionKey>,
    state: &mut SharedSessionState,
) {
    let there = state
        .definitions
        .iter()
        .map(|record| record.key.clone())
        .collect();
    for key in known.difference(&there) {
        // The record is deleted already; only this Monitor still has the definition.
        drop(monitor.forget_definitions(now, &key.identity.server, Some(&key.name)));
    }
    *known = there;
    monitor.load_definitions(now, mem::take(&mut state.definitions));
    monitor.know_servers(mem::take(&mut state.pinned));
    for (key, by) in mem::take(&mut state.refused) {
        // The process in which it was refused has recorded that. A definition that is unknown here is refused once it is
        // known.
        drop(monitor.refuse(now, &key, &by));
    }
}

/// Returns the living members of a session that are other servers, each server once.
fn others(
    members: Vec<SessionMember>,
    own: &SessionMember,
    lives: fn(ProcessId) -> bool,
) -> Vec<SessionMember> {
    let mut others: Vec<SessionMember> = Vec::new();
    for member in members {
        let is_known =
            member.identity == own.identity || others.iter().any(|other| other.identity == member.identity);
        if !is_known && lives(member.process) {
            others.push(member);
        }
    }
    others
}

/// Returns whether another living process serves the same server.
fn has_twins(members: &[SessionMember], own: &SessionMember, lives: fn(ProcessId) -> bool) -> bool {
    let is_twin = |member: &SessionMember| member.identity == own.identity && member.process != own.process;
    members
        .iter()
        .any(|member| is_twin(member) && lives(member.process))
}

/// Returns the tools among another server's definitions. They are not compared with anything, so only name and hash are
/// kept.
fn tools(records: Vec<DefinitionRecord>) -> impl Iterator<Item = DefinitionRecord> {
    let is_tool = |record: &DefinitionRecord| record.key.kind == DefinitionKind::Tool;
    records.into_iter().filter(is_tool).map(|mut record| {
        record.seen.canonical = Arc::default();
        record.pinned = None;
        record
    })
}

fn ids(members: &[SessionMember]) -> Vec<ServerId> {
    let mut ids: Vec<ServerId> = members
        .iter()
        .map(|member| member.identity.server.clone())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

/// Opens the file at `path` with the number of changes.
pub(super) fn watch(path: &Path) -> Option<Generation> {
    match Generation::open(path) {
        Ok(generation) => Some(generation),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot watch the store for changes: approvals, pins and the kill switch will not reach this process");
            None
        }
    }
}

//! Shared state of a session: members, pins and approvals, the policy. The daemon holds it, or the user's own store if
//! there is none.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use mcpmon_config::Sources;
use mcpmon_guard::Absence;
use mcpmon_model::{
    AnsweredCall, DefinitionKey, DefinitionKind, DefinitionRecord, Digest, Kills, ProcessId, ServerId,
    SharedCall, SharedCallAnswer, Timestamp,
};
use mcpmon_policy::Policy;
use mcpmon_store::{Generation, OpenError, QueryError, SessionMember, StoreError, StoreReader};

use super::{
    calls::StoredCalls,
    hosted::DaemonServices,
    link::{Link, LinkError},
    protocol::{self, Hear, Say},
};

/// The shared state at one point in time.
#[derive(Debug, Default)]
pub(super) struct SharedSnapshot {
    /// The daemon's number of changes before the state was read; `None` without a daemon.
    pub(super) changes: Option<u64>,
    /// The policy, if it differs from the one that this process has.
    pub(super) policy: Option<Sources>,
    /// Definitions of this server.
    pub(super) definitions: Vec<DefinitionRecord>,
    /// The definitions that a person refused, and the person.
    pub(super) refused: Vec<(DefinitionKey, String)>,
    /// The forget orders of persons: the name, `None` for all names, and the time.
    pub(super) forgotten: Vec<(Option<String>, Timestamp)>,
    /// Tools of the session's other servers, without their texts.
    pub(super) of_others: Vec<DefinitionRecord>,
    /// The session's other servers, each once.
    pub(super) others: Vec<ServerId>,
    /// True if another process serves the same server in the session.
    pub(super) twins: bool,
    /// Servers of this user that have pins.
    pub(super) pinned: Vec<ServerId>,
    /// The kill switches in force.
    pub(super) kills: Kills,
    /// The answers of persons to held calls of this server.
    pub(super) answers: Vec<AnsweredCall>,
}

/// The holder of the shared state.
#[derive(Debug)]
pub(super) enum SharedState {
    /// The daemon.
    Daemon {
        /// The connection to it.
        link: Link,
        /// Its number of changes.
        generation: Option<Generation>,
        /// The number of joins when the daemon was last asked.
        joins: u64,
    },
    /// The daemon, which is this process.
    Here {
        /// The holder.
        host: Arc<dyn DaemonServices>,
        /// Its number of changes.
        generation: Option<Generation>,
        /// This conversation.
        member: Box<SessionMember>,
    },
    /// The user's own store.
    Store {
        /// The file.
        path: PathBuf,
        /// Opened when something changes for the first time.
        reader: Option<StoreReader>,
        /// Its number of changes.
        generation: Option<Generation>,
        /// This conversation.
        member: Box<SessionMember>,
        /// Returns whether a process is alive.
        lives: fn(ProcessId) -> bool,
        /// The calls of the session.
        calls: Box<StoredCalls>,
    },
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

impl SharedState {
    /// The state in a daemon; `generation` is the file with its number of changes.
    pub(super) fn daemon(link: Link, generation: &Path) -> Self {
        Self::Daemon {
            joins: link.joins(),
            link,
            generation: opened(generation),
        }
    }

    /// The state in the daemon that is this process; `generation` is the file with its number of changes.
    pub(super) fn here(host: Arc<dyn DaemonServices>, member: SessionMember, generation: &Path) -> Self {
        Self::Here {
            generation: opened(generation),
            host,
            member: Box::new(member),
        }
    }

    /// The state in the store at `path`.
    pub(super) fn store(path: PathBuf, member: SessionMember, lives: fn(ProcessId) -> bool) -> Self {
        Self::Store {
            generation: opened(&Generation::path(&path)),
            calls: Box::new(StoredCalls::new(path.clone(), member.session.clone())),
            path,
            reader: None,
            member: Box::new(member),
            lives,
        }
    }

    /// The state in the store at `path`, which cannot be opened yet.
    pub(super) fn awaited_store(path: PathBuf, member: SessionMember, lives: fn(ProcessId) -> bool) -> Self {
        Self::Store {
            generation: None,
            calls: Box::new(StoredCalls::new(path.clone(), member.session.clone())),
            path,
            reader: None,
            member: Box::new(member),
            lives,
        }
    }

    /// Returns the number of changes. It reads a page in memory.
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Daemon { generation, .. }
            | Self::Here { generation, .. }
            | Self::Store { generation, .. } => generation.as_ref().map_or(0, Generation::now),
        }
    }

    /// Returns the value of [`Self::generation`] for a state as of `changes`: `changes` itself, or 0 if no number can
    /// be read.
    pub(super) fn as_of(&self, changes: u64) -> u64 {
        match self {
            Self::Daemon { generation, .. }
            | Self::Here { generation, .. }
            | Self::Store { generation, .. } => generation.as_ref().map_or(0, |_| changes),
        }
    }

    /// Returns the name in events.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Daemon { .. } => "daemon",
            Self::Here { .. } | Self::Store { .. } => "store",
        }
    }

    /// Returns the reason and the remedy for refusals while the state cannot be read.
    pub(super) const fn absence(&self) -> Absence {
        let (reason, remedy) = match self {
            Self::Daemon { .. } => (
                "the daemon is away, and mcp.fail_closed is set",
                "sudo systemctl start mcpmon",
            ),
            Self::Here { .. } => (
                "the daemon's store cannot be used, and mcp.fail_closed is set",
                "mcpmon doctor",
            ),
            Self::Store { .. } => (
                "the user's own store cannot be used, and mcp.fail_closed is set",
                "mcpmon doctor",
            ),
        };
        Absence { reason, remedy }
    }

    /// Returns whether the state can be read.
    pub(super) fn is_up(&self) -> bool {
        match self {
            Self::Daemon { link, .. } => link.is_up(),
            Self::Here { .. } | Self::Store { .. } => true,
        }
    }

    /// Returns whether the daemon was joined again since the last read. Its earlier answers may not be valid any
    /// longer, and its number of changes may be in another file.
    pub(super) fn was_joined_again(&self) -> bool {
        match self {
            Self::Daemon { link, joins, .. } => link.joins() != *joins,
            Self::Here { .. } | Self::Store { .. } => false,
        }
    }

    /// Checks a call together with those of all processes of the session, and counts it. The daemon applies its own
    /// policy.
    pub(super) fn check(
        &mut self,
        policy: &Policy,
        call: &SharedCall,
    ) -> Result<SharedCallAnswer, SharedError> {
        match self {
            Self::Daemon { link, .. } => {
                let call = Box::new(call.clone());
                let Hear::Checked(checked) = link.say(&Say::Check { call })? else {
                    return Err(LinkError::Refused("it answered something else".to_owned()).into());
                };
                Ok(*checked)
            }
            Self::Here { host, member, .. } => Ok(host.check(member, call.clone())),
            Self::Store { calls, .. } => Ok(calls.check(policy, call)?),
        }
    }

    /// Returns the current shared state; `policy` is the digest of the policy in force.
    pub(super) fn look(&mut self, policy: Digest) -> Result<SharedSnapshot, SharedError> {
        match self {
            Self::Daemon {
                link,
                generation,
                joins,
            } => {
                let joined = link.joins();
                let Hear::State(state) = link.say(&Say::State { policy })? else {
                    return Err(LinkError::Refused("it answered something else".to_owned()).into());
                };
                *joins = joined;
                // A restarted daemon may use a new file for the number, also at the same path.
                *generation = opened(&state.generation);
                Ok(snapshot(*state))
            }
            Self::Here {
                host,
                generation,
                member,
            } => {
                let state = host.look(member)?;
                // A store that was moved has the number in another file.
                *generation = opened(&state.generation);
                Ok(snapshot(state))
            }
            Self::Store {
                path,
                reader,
                member,
                lives,
                generation,
                ..
            } => {
                let reader = match reader {
                    Some(reader) => reader,
                    None => reader.insert(StoreReader::open(path)?),
                };
                // While the store could not be written, only its content at that time was read.
                reader.thaw();
                if generation.is_none() {
                    *generation = Generation::open(&Generation::path(path)).ok();
                }
                let members = reader.members(&member.session)?;
                Ok(read_state(reader, member, members, *lives)?)
            }
        }
    }
}

/// Reads the state of the conversation `own`, in a session of `members`. `lives` returns whether a process is alive.
pub(super) fn read_state(
    reader: &StoreReader,
    own: &SessionMember,
    members: Vec<SessionMember>,
    lives: fn(ProcessId) -> bool,
) -> Result<SharedSnapshot, QueryError> {
    let twins = has_twins(&members, own, lives);
    let others = others(members, own, lives);
    let mut of_others = Vec::new();
    for other in &others {
        of_others.extend(tools(reader.definitions_of(&other.identity)?));
    }
    Ok(SharedSnapshot {
        changes: None,
        policy: None,
        definitions: reader.definitions_of(&own.identity)?,
        refused: reader.refused(&own.identity)?,
        forgotten: reader.forgotten(&own.identity)?,
        of_others,
        others: ids(&others),
        twins,
        pinned: reader.pinned_servers(own.identity.uid)?,
        kills: reader.kills()?,
        answers: reader.answered_calls(&own.identity, &own.session)?,
    })
}

/// Returns the living members of a session that are other servers, each server once.
pub fn others(
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
pub fn has_twins(members: &[SessionMember], own: &SessionMember, lives: fn(ProcessId) -> bool) -> bool {
    let is_twin = |member: &SessionMember| member.identity == own.identity && member.process != own.process;
    members
        .iter()
        .any(|member| is_twin(member) && lives(member.process))
}

/// Returns the tools among another server's definitions. They are not compared with anything, so only name and hash are
/// kept.
pub fn tools(records: Vec<DefinitionRecord>) -> impl Iterator<Item = DefinitionRecord> {
    let is_tool = |record: &DefinitionRecord| record.key.kind == DefinitionKind::Tool;
    records.into_iter().filter(is_tool).map(|mut record| {
        record.seen.canonical = Arc::default();
        record.pinned = None;
        record
    })
}

pub fn ids(members: &[SessionMember]) -> Vec<ServerId> {
    let mut ids: Vec<ServerId> = members
        .iter()
        .map(|member| member.identity.server.clone())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

pub(super) fn snapshot(state: protocol::SharedSessionState) -> SharedSnapshot {
    SharedSnapshot {
        changes: Some(state.changes),
        policy: state.policy.and_then(Sources::of_parts),
        definitions: state.definitions,
        refused: state.refused,
        forgotten: state.forgotten,
        of_others: state.of_others,
        others: state.others,
        twins: state.twins,
        pinned: state.pinned,
        kills: state.kills,
        answers: state.answers,
    }
}

fn opened(path: &Path) -> Option<Generation> {
    match Generation::open(path) {
        Ok(generation) => Some(generation),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot watch the store for changes: approvals, pins and the kill switch will not reach this process");
            None
        }
    }
}

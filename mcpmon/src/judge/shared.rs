//! What the judges of a session share: who is in it, what is pinned and approved, the policy. The daemon has it;
//! without one, the user's own store.

use std::path::{Path, PathBuf};

use mcpmon_core::model::{DefinitionRecord, Digest, ProcessId, ServerId};

use super::{
    link::{Link, LinkError},
    protocol::{self, Hear, Say},
};
use crate::{
    config::Sources,
    record::{Generation, Member, OpenError, QueryError, Reader},
};

/// What is shared, as it is now.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// Another policy than the one that is held.
    pub(super) policy: Option<Sources>,
    /// Definitions of this server, and of the session's others without their texts.
    pub(super) definitions: Vec<DefinitionRecord>,
    /// The session's other servers, each once.
    pub(super) others: Vec<ServerId>,
    /// Servers of this user that anything is pinned for.
    pub(super) pinned: Vec<ServerId>,
}

/// Who has what is shared.
#[derive(Debug)]
pub(super) enum SharedState {
    /// The daemon.
    Daemon {
        /// The connection to it.
        link: Link,
        /// Its number of changes.
        generation: Option<Generation>,
    },
    /// The user's own store.
    Store {
        /// The file.
        path: PathBuf,
        /// Opened when something changed for the first time.
        reader: Option<Reader>,
        /// Its number of changes.
        generation: Option<Generation>,
        /// This conversation.
        member: Box<Member>,
        /// Whether a process lives.
        lives: fn(ProcessId) -> bool,
    },
}

/// Why what is shared cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum SharedError {
    /// Of the daemon.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Of the store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Of the store.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl SharedState {
    /// Through the daemon, which has said where its number is.
    pub(super) fn daemon(link: Link, generation: &Path) -> Self {
        Self::Daemon {
            link,
            generation: opened(generation),
        }
    }

    /// Through the store at `path`.
    pub(super) fn store(path: PathBuf, member: Member, lives: fn(ProcessId) -> bool) -> Self {
        Self::Store {
            generation: opened(&Generation::path(&path)),
            path,
            reader: None,
            member: Box::new(member),
            lives,
        }
    }

    /// How often anything changed. Reads a page in memory.
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Daemon { generation, .. } | Self::Store { generation, .. } => {
                generation.as_ref().map_or(0, Generation::now)
            }
        }
    }

    /// Whether it can be asked.
    pub(super) fn is_up(&self) -> bool {
        match self {
            Self::Daemon { link, .. } => link.is_up(),
            Self::Store { .. } => true,
        }
    }

    /// What is shared now; `policy` is the digest of the one that is held.
    pub(super) fn look(&mut self, policy: Digest) -> Result<Snapshot, SharedError> {
        match self {
            Self::Daemon { link, generation } => {
                let Hear::State(state) = link.say(&Say::State { policy })? else {
                    return Err(LinkError::Refused("it answered something else".to_owned()).into());
                };
                if generation.is_none() {
                    *generation = opened(&state.generation);
                }
                Ok(snapshot(*state))
            }
            Self::Store {
                path,
                reader,
                member,
                lives,
                ..
            } => {
                let reader = match reader {
                    Some(reader) => reader,
                    None => reader.insert(Reader::open(path)?),
                };
                look_into(reader, member, *lives)
            }
        }
    }
}

/// What a store tells of a session.
pub(super) fn look_into(
    reader: &Reader,
    own: &Member,
    lives: fn(ProcessId) -> bool,
) -> Result<Snapshot, SharedError> {
    let mut definitions = reader.definitions_of(&own.identity)?;
    let others = others(reader.members(&own.session)?, own, lives);
    for other in &others {
        definitions.extend(
            reader
                .definitions_of(&other.identity)?
                .into_iter()
                .map(without_text),
        );
    }
    Ok(Snapshot {
        policy: None,
        definitions,
        others: ids(&others),
        pinned: reader.pinned_servers(own.identity.uid)?,
    })
}

/// Those of a session's members that live and are another server, each server once.
pub(crate) fn others(members: Vec<Member>, own: &Member, lives: fn(ProcessId) -> bool) -> Vec<Member> {
    let mut others: Vec<Member> = Vec::new();
    for member in members {
        let is_known =
            member.identity == own.identity || others.iter().any(|other| other.identity == member.identity);
        if !is_known && lives(member.process) {
            others.push(member);
        }
    }
    others
}

/// Another server's definition is compared with nothing here; its name and hash are enough.
pub(crate) fn without_text(mut record: DefinitionRecord) -> DefinitionRecord {
    record.seen.canonical = String::new();
    if let Some(pinned) = &mut record.pinned {
        pinned.canonical = String::new();
    }
    record
}

pub(crate) fn ids(members: &[Member]) -> Vec<ServerId> {
    let mut ids: Vec<ServerId> = members
        .iter()
        .map(|member| member.identity.server.clone())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

pub(super) fn snapshot(state: protocol::State) -> Snapshot {
    let mut definitions = state.definitions;
    definitions.extend(state.of_others);
    Snapshot {
        policy: state.policy.and_then(Sources::of_parts),
        definitions,
        others: state.others,
        pinned: state.pinned,
    }
}

fn opened(path: &Path) -> Option<Generation> {
    match Generation::open(path) {
        Ok(generation) => Some(generation),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "changes by others are not heard of");
            None
        }
    }
}

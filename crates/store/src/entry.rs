//! Entries: what a recorder writes to a store or sends to the process that has the store.

use std::time::Duration;

use mcpmon_model::{
    DefinitionKey, DefinitionRecord, HeldCall, PinKey, ProcessId, Recent, RecentOutput, ServerId, SessionId,
    Timestamp,
};
use uuid::Uuid;

use super::{
    BinaryPin, DeclaredServer, SealedBody, SessionMember, Span, Store, StoreError, StoredEvent,
    clock::Uptime, retention::RetentionLimits,
};

/// Something to store or to remove.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreEntry {
    /// An event.
    Event(StoredEvent),
    /// An event that was rescued from the journal of a killed process; it may be stored already.
    Rescued(StoredEvent),
    /// A definition, as it was listed.
    Definition(DefinitionRecord),
    /// A definition to remove.
    ForgetDefinition(DefinitionKey),
    /// A call that a process holds until a person answers.
    HoldCall(ProcessId, Box<HeldCall>),
    /// A held call of a server whose client no longer waits, by its id.
    ReleaseCall(PinKey, String),
    /// A recent call or result of a session, for the rules over several servers; with the user, in a store of many users.
    Recent(SessionId, Box<Recent>, Option<u32>),
    /// A result that was not searched for sensitive content yet; it is stored once it was.
    Unread(SessionId, Box<RecentOutput>, Box<str>),
    /// A server left its session.
    Leave(Timestamp, SessionMember),
    /// A pin; it replaces one with the same key, set and part.
    PutPin(BinaryPin),
    /// A server whose pins are all to be removed.
    DeletePins(ServerId),
    /// A set of pins to be removed.
    DeletePinSet(PinKey, u32),
    /// The servers that the configuration declares now.
    Declare(Vec<DeclaredServer>),
    /// No server is known to be running.
    ForgetRunning,
    /// The time in which a daemon has watched the host.
    Watch(Span),
    /// The state of the backlog of a sink that posts events.
    Unposted(UnpostedEvents),
    /// Another policy is in force.
    PolicyChanged,
    /// A body of an exchange with a model.
    Body(Box<SealedBody>),
    /// Bodies are kept at most this long.
    ShortenBodies(Duration),
}

impl StoreEntry {
    /// Returns the event, if this is a new one.
    pub(super) const fn event(&self) -> Option<&StoredEvent> {
        if let Self::Event(event) = self {
            Some(event)
        } else {
            None
        }
    }

    /// Returns the event, if this is a new or rescued one.
    pub(super) const fn any_event(&self) -> Option<&StoredEvent> {
        if let Self::Event(event) | Self::Rescued(event) = self {
            Some(event)
        } else {
            None
        }
    }
}

/// The state of a sink's backlog. Events that its receiver has not acknowledged are kept in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpostedEvents {
    /// The sink's name. The backlogs of other sinks are not changed.
    pub sink: &'static str,
    /// Events that are still to be posted.
    pub waiting: Vec<(Uuid, Timestamp)>,
    /// The time from which another process may post them; the claiming process extends it while it is alive.
    pub claimed_until: Timestamp,
    /// Events that the receiver acknowledged or refused for good.
    pub settled: Vec<Uuid>,
}

/// Events that a process has claimed in order to post them.
#[derive(Debug, Default)]
pub struct ClaimedPosts {
    /// The oldest events that no other process has claimed.
    pub events: Vec<StoredEvent>,
    /// Events that were removed unposted: there were too many, or retention removed them.
    pub lost: u64,
}

/// The progress of applying the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PruneProgress {
    /// The limits are met.
    #[default]
    Done,
    /// There is more to remove, when nothing else is to be done.
    More,
}

/// The number of events that the limits removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneCount {
    /// The progress.
    pub progress: PruneProgress,
    /// Events that were removed because they were older than `record.retention`.
    pub aged: u64,
    /// Events that were removed to keep within `record.max_size`.
    pub oversize: u64,
    /// The clock has jumped since the last check: nothing is removed for its age for a while.
    pub jump: Option<Duration>,
}

/// The destination to which a recorder's writer takes entries.
pub trait Destination: Send {
    /// Prepares `entries`, once, even if storing them is then tried several times.
    fn prepare(&mut self, entries: Vec<StoreEntry>) -> Vec<StoreEntry> {
        entries
    }

    /// Stores `entries` in their order: all of them, or none.
    ///
    /// # Errors
    /// Returns an error if that fails; [`StoreError::is_transient`] says whether it may be tried again.
    fn keep(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError>;

    /// Removes some of what exceeds the limits.
    ///
    /// # Errors
    /// Returns an error if that fails.
    fn prune(&mut self, limits: RetentionLimits, now: Timestamp) -> Result<PruneCount, StoreError>;

    /// Returns whether [`StoreEntry::Unposted`] is stored here, so that events that could not be posted are posted
    /// later.
    fn keeps_unposted(&self) -> bool {
        false
    }

    /// Claims events that the receiver of `sink` has not acknowledged and that no living process is posting, at most
    /// `max`.
    ///
    /// # Errors
    /// Returns an error if that fails.
    fn claim_unposted(
        &mut self,
        _sink: &str,
        _now: Timestamp,
        _max: usize,
    ) -> Result<ClaimedPosts, StoreError> {
        Ok(ClaimedPosts::default())
    }

    /// Frees memory that is only needed for new entries, because none came for some time.
    fn rest(&mut self) {}
}

impl Destination for Store {
    fn keep(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError> {
        self.carry_out(entries)
    }

    fn prune(&mut self, limits: RetentionLimits, now: Timestamp) -> Result<PruneCount, StoreError> {
        super::retention::enforce(self, limits, now, &Uptime::read())
    }

    fn keeps_unposted(&self) -> bool {
        true
    }

    fn claim_unposted(&mut self, sink: &str, now: Timestamp, max: usize) -> Result<ClaimedPosts, StoreError> {
        self.write(|transaction| super::sinks::claim_unposted(transaction, sink, now, max))
    }

    fn rest(&mut self) {
        self.shrink();
    }
}

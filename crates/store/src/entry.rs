//! Entries: the items that are recorded, in a store or by the process that has one.

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

/// Something to keep, or to keep no longer.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreEntry {
    /// An event.
    Event(StoredEvent),
    /// An event that was rescued from a process that was killed; it may be there already.
    Rescued(StoredEvent),
    /// A definition, as it was seen.
    Definition(DefinitionRecord),
    /// A definition to forget.
    ForgetDefinition(DefinitionKey),
    /// A call that a process holds until a person answers.
    HoldCall(ProcessId, Box<HeldCall>),
    /// A held call of a server for whose answer nobody waits any longer, by its id.
    ReleaseCall(PinKey, String),
    /// Recent calls of a session, for the rules over several servers.
    Recent(SessionId, Box<Recent>),
    /// A result that nobody read yet for what is sensitive in it; kept as it is known.
    Unread(SessionId, Box<RecentOutput>, Box<str>),
    /// A server left its session.
    Leave(Timestamp, SessionMember),
    /// A pin, over the one of its key, set and part.
    PutPin(BinaryPin),
    /// Every pin of a server, to forget.
    DeletePins(ServerId),
    /// One set of pins, to forget.
    DeletePinSet(PinKey, u32),
    /// The servers that the configuration declares now.
    Declare(Vec<DeclaredServer>),
    /// No server is taken for running any more.
    ForgetRunning,
    /// A daemon watches.
    Watch(Span),
    /// The state of events for an outlet that posts them.
    Unposted(UnpostedEvents),
    /// Another policy is in force.
    PolicyChanged,
    /// A body of an exchange with a model.
    Body(Box<SealedBody>),
    /// Bodies are kept no longer than this.
    ShortenBodies(Duration),
}

impl StoreEntry {
    /// The event, where it is one that is new.
    pub(super) const fn event(&self) -> Option<&StoredEvent> {
        if let Self::Event(event) = self {
            Some(event)
        } else {
            None
        }
    }

    /// The event, where it is one, new or rescued.
    pub(super) const fn any_event(&self) -> Option<&StoredEvent> {
        if let Self::Event(event) | Self::Rescued(event) = self {
            Some(event)
        } else {
            None
        }
    }
}

/// The state of events for an outlet that posts them. Those that it has not acknowledged are kept in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpostedEvents {
    /// The outlet's name. What another one has still to post is not touched.
    pub outlet: &'static str,
    /// Events that are still to be posted.
    pub waiting: Vec<(Uuid, Timestamp)>,
    /// The time from which another process may post them: the claiming process extends it while it lives.
    pub claimed_until: Timestamp,
    /// Events that its receiver acknowledged, or refused for good.
    pub settled: Vec<Uuid>,
}

/// Events that a process claimed to post them.
#[derive(Debug, Default)]
pub struct ClaimedPosts {
    /// The oldest ones that nobody else posts.
    pub events: Vec<StoredEvent>,
    /// Events that no longer wait: there were too many, or retention removed them.
    pub lost: u64,
}

/// The progress of applying the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PruneProgress {
    /// The limits are met.
    #[default]
    Done,
    /// There is more to remove, when nothing else waits.
    More,
}

/// The number of events that the limits removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneCount {
    /// The progress.
    pub progress: PruneProgress,
    /// Events that were older than `record.retention`.
    pub aged: u64,
    /// Events that made room within `record.max_size`.
    pub oversize: u64,
    /// The jump of the clock since the last time: nothing is removed for its age for a while.
    pub jump: Option<Duration>,
}

/// The destination to which a recorder's writer takes entries.
pub trait Destination: Send {
    /// Does with `entries` what is to be done once, however often they are taken there before they are kept.
    fn prepare(&mut self, entries: Vec<StoreEntry>) -> Vec<StoreEntry> {
        entries
    }

    /// Keeps `entries`, in their order: all of them, or none.
    ///
    /// # Errors
    /// Returns an error if it cannot; [`StoreError::is_transient`] says whether it is worth trying again.
    fn keep(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError>;

    /// Removes some of what the limits forbid.
    ///
    /// # Errors
    /// Returns an error if it cannot.
    fn prune(&mut self, limits: RetentionLimits, now: Timestamp) -> Result<PruneCount, StoreError>;

    /// Returns whether [`StoreEntry::Unposted`] is kept here, so that an event that was not posted is posted
    /// later.
    fn keeps_unposted(&self) -> bool {
        false
    }

    /// Claims events that the receiver of `outlet` has not acknowledged and that no living process posts, at most `max`.
    ///
    /// # Errors
    /// Returns an error if it cannot.
    fn claim_unposted(
        &mut self,
        _outlet: &str,
        _now: Timestamp,
        _max: usize,
    ) -> Result<ClaimedPosts, StoreError> {
        Ok(ClaimedPosts::default())
    }

    /// Gives back the memory that only the next entries need: for some time there were none.
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

    fn claim_unposted(
        &mut self,
        outlet: &str,
        now: Timestamp,
        max: usize,
    ) -> Result<ClaimedPosts, StoreError> {
        self.write(|transaction| super::outlets::claim_unposted(transaction, outlet, now, max))
    }

    fn rest(&mut self) {
        self.shrink();
    }
}

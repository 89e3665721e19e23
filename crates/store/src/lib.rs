//! The store: a bounded queue, one writer thread, schema migrations, and typed queries.
//!
//! [`Recorder`] writes and [`StoreReader`] reads; neither knows the meaning of events.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

mod access;
mod bodies;
mod calls;
mod clock;
mod copy;
mod definitions;
mod entry;
mod event;
mod follow;
mod forgotten;
mod generation;
mod held_calls;
mod journal;
pub mod json;
mod kills;
mod launches;
mod location;
mod locks;
pub mod metrics;
mod names;
mod open_error;
mod own_records;
mod pins;
mod places;
mod query;
mod queue;
mod reader;
mod recent;
mod recorder;
mod retention;
mod row;
mod schema;
mod servers;
mod sessions;
mod sinks;
mod skills;
mod sole;
mod store;
mod watches;
mod writer;

#[cfg(any(test, feature = "test-support"))]
pub mod sample;

pub use access::{Access, AccessError};
pub use bodies::{
    BodyKey, BodyLabel, BodySettings, BodySide, BodyStorage, Keeper, KeptBodies, KeyError, PassingBody,
    SealedBody, UnsealError,
};
pub use calls::{CallPlaces, MAX_WAIT, ToolCall};
pub use copy::{Adoption, CopyError};
pub use definitions::{ApprovalOutcome, Selection};
pub use entry::{ClaimedPosts, Destination, PruneCount, PruneProgress, StoreEntry, UnpostedEvents};
pub use event::StoredEvent;
pub use event::{new_event_id, new_id};
pub use follow::Follow;
pub use generation::Generation;
pub use held_calls::Answering;
pub use launches::{Launch, LaunchEnding, RunningStart};
pub use location::StoreLocation;
pub use names::{name, parse_name};
pub use open_error::OpenError;
pub use own_records::MAX_OWN_EVENTS;
pub use pins::{BinaryPin, REFUSED_SET};
pub use places::{DAEMON_STORE, own_store, users_store};
pub use query::{EventPositions, Filter};
pub use queue::{PendingEvent, QueueRefusal, Urgency};
pub use reader::{QueryError, StoreReader};
pub use recorder::{EntryNotStored, Recorder, RecorderSettings, RecorderStatus, UnstoredRest};
pub use retention::RetentionLimits;
pub use schema::SchemaError;
pub use servers::{DeclaredServer, ServerStatus, ServerSummary, command_line};
pub use sessions::{SessionMember, SessionSummary};
pub use sinks::{
    EventFormat, JsonlSettings, OtlpSettings, OtlpSignals, SectionFaults, SigningKey, SinkSection,
    SinkSettings, WebhookSettings,
};
pub use skills::{MAX_SKILL_PINS, SkillPin};
pub use sole::{Sole, SoleError};
pub use store::{Store, StoreError};
pub use watches::{Span, WATCH_INTERVAL};

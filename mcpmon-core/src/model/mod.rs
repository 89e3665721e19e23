//! The vocabulary: ids, digests, time, events. Knows no other module of the core.

mod digest;
mod event;
mod files;
mod glob;
mod ids;
mod manifest;
mod observation;
mod severity;
mod time;

pub use digest::{Digest, ParseDigestError};
pub use event::{
    ContainerRef, Direction, Event, EventKind, Layer, PinPart, PinState, ProcessRef, ServerType, Transport,
};
pub use files::{Part, PinnedFile, PinnedPackage, ServerFiles, Writers};
pub use glob::NameGlob;
pub use ids::{PinKey, ServerId, ServerIdError, SessionId, one_spelling};
pub use manifest::{Manifest, ManifestEntry, ManifestProblem, ParseManifestError, SpecialFile};
pub use observation::{Connection, Exec, Exit, FileId, Fork, InstanceId, Outcome, ProcessId};
pub use severity::{Action, Severity};
pub use time::Timestamp;

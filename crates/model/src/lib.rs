//! The vocabulary that all crates share: ids, digests, time, messages, definitions, findings, verdicts, events.
//!
//! Pure: no clock, file, socket, environment, task, log or randomness.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod canonical;
mod changes;
mod crossing;
mod decimal;
mod definition;
mod digest;
mod event;
mod files;
mod finding;
mod glob;
mod held_call;
mod ids;
mod installed;
pub mod json;
mod kill;
mod layer;
mod left_out;
mod llm;
mod loader;
mod manifest;
mod message;
mod observation;
mod package;
mod path;
mod sandbox;
mod severity;
mod spelling;
mod states;
mod time;
mod verdict;

pub use crossing::{
    CrossServerMatch, CrossServerRule, Evidence, EvidenceKind, Fingerprint, Recent, RecentCall, RecentIntent,
    RecentOutput, RelatedCall, SensitivityLabel, SharedCall, SharedCallAnswer, ToolCategory,
};
pub use decimal::{Decimal, ParseDecimalError};
pub use definition::{Definition, DefinitionKey, DefinitionKind, DefinitionRecord};
pub use digest::{Digest, ParseDigestError};
pub use event::{
    ContainerRef, Direction, Event, EventActivity, EventKind, EventOutcome, EventPriority, EventType,
    FieldChange, IpProtocol, PinPart, ProcessRef, ServerType,
};
pub use files::{
    ChangeCause, Ecosystem, FileChange, LauncherFiles, PackageOrigin, Part, PinnedFile, PinnedPackage,
    RegistryEntry, ServerFiles, Writers,
};
pub use finding::{BUILT_IN, Category, CustomPattern, Finding, InspectionSubject, Match, TextStance};
pub use glob::NameGlob;
pub use held_call::{AnsweredCall, CallAnswer, HeldCall};
pub use ids::{DerivedId, EventId, PinKey, SESSION_ROOT, ServerId, ServerIdError, SessionId, one_spelling};
pub use installed::{InstalledPackage, ManifestNotes, NotedDirectory, PackageRole, RecordState};
pub use json::RawJson;
pub use kill::{Kill, Kills, MAX_KILLED_SESSIONS};
pub use layer::Layer;
pub use left_out::{OmittedCall, OmittedCalls, OmittedToolKind};
pub use llm::{
    Dialect, Exchange, ExchangeHalf, HaltedExchange, Input, Intent, LlmMention, Offered, ProviderServer,
    ToolName,
};
pub use loader::{LOADER_NAMES, is_loader, is_loader_command};
pub use manifest::{Manifest, ManifestEntry, ManifestProblem, ParseManifestError, SpecialFile};
pub use message::{
    Answer, AnswerOutcome, AnsweredRequest, Call, ClientRequestKind, Content, Conversation, Era, FromClient,
    FromServer, Incident, Introduction, ListKind, ListedItem, Listing, Message, NO_USER, RequestId,
    ResultKind, ServerRequestKind, Side, Trace,
};
pub use observation::{
    Checkpoint, ClosedConnection, Connection, ConnectionHolder, ConnectionOutcome, ConnectionTraffic,
    CutOutcome, Exec, Exit, FileId, Fork, InstanceId, OpenConnection, ProcessId, RefusedStart, Resume,
};
pub use package::{Package, PackageKind};
pub use path::{MAX_PATH, PathMatch, PathPattern, PathPatternError, PathStart, PlainPath};
pub use sandbox::{FileGrant, FileRight, SandboxRules};
pub use severity::{Action, Severity};
pub use spelling::{fold, is_spelled_like};
pub use states::{
    ApprovalState, CallOrigin, CallOutcome, DefinitionStatus, KillState, OrphanCause, PinState,
};
pub use time::Timestamp;
pub use verdict::{Denial, MASK, Redaction, Verdict, redacted};

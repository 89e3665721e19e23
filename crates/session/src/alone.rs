//! Sessions without a daemon: the user's own policy and store, and what applies while one of them cannot be used.

use std::{io, path::Path};

use mcpmon_config::{LoadedConfiguration, Reloader, Search, Trust, load_or_built_in};
use mcpmon_engine::pins::PinBook;
use mcpmon_model::{Denial, Event, EventKind, Layer, Severity, Timestamp};
use mcpmon_policy::{Fault, FaultResponse, Mode, respond};
use mcpmon_store::{
    Access, Destination, Generation, OpenError, QueryError, Recorder, RecorderSettings, SessionMember, Store,
    StoreError, StoreLocation, StoreReader,
};
use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    sys::statvfs::statvfs,
    unistd::{AccessFlags, faccessat},
};

use super::{
    Entrance, JudgeError, Options, Parts, Session,
    awaited::{AwaitedStore, chain},
    last_mode::{last_mode, note_mode},
    launch,
    own::mistakes,
    own_settings, pins, process,
    protocol::SharedSessionState,
    reading::ResultReader,
    shared::{StateHolder as _, read_state, watch},
    stored::StoreHolder,
};

/// The place of the store of a user without a home: no file can be made there.
pub(super) const NO_PLACE: &str = "/dev/null/mcpmon.db";
/// Most mistakes of a policy that a message repeats.
const MAX_MISTAKES: usize = 3;

/// Returns the configuration of a user without a daemon. `db` is the store that was named.
pub fn own_policy(search: &Search, trust: Trust, db: Option<&Path>) -> LoadedConfiguration {
    let last = search.own_place().and_then(|place| last_mode(db, place));
    load_or_built_in(search, trust, last)
}

/// A fault that prevents a session from judging or recording as usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFault {
    /// The fault.
    pub fault: Fault,
    /// Its cause, in words.
    pub cause: String,
    /// A command or change that removes it.
    pub remedy: String,
}

/// The user's own store, as far as it can be read.
struct ReadStore {
    fault: Option<Fault>,
    pins: PinBook,
    state: SharedSessionState,
}

impl Session {
    pub(super) fn alone(
        now: Timestamp,
        mut options: Options,
        member: SessionMember,
    ) -> Result<Self, JudgeError> {
        let db = options.db.clone();
        let loaded = match options.loaded.take() {
            Some(loaded) => loaded,
            None => own_policy(&options.search, options.trust, db.as_deref()),
        };
        let mut faults: Vec<SessionFault> = policy_fault(&loaded).into_iter().collect();
        let (mut settings, place) = match own_settings(&options, &loaded.settings.record) {
            Ok(settings) => (settings, Ok(())),
            Err(error) => (RecorderSettings::new(NO_PLACE), Err(error.to_string())),
        };
        let opened = place.and_then(|()| {
            let mut store =
                Store::open_at(&settings.location, Access::default()).map_err(|error| chain(&error))?;
            let rows = store
                .read(|reader| reader.pins_of(&member.identity))
                .map_err(|error| chain(&error))?;
            Ok((store, rows))
        });
        let (pins, shared, entrance) = match opened {
            Ok((store, rows)) => {
                let path = store.path().to_owned();
                settings.location = StoreLocation::new(&path);
                note_own_mode(&options.search, db.as_deref(), &loaded);
                let generation = watch(&Generation::path(&path));
                let shared = StoreHolder::new(path, member.clone(), generation);
                (pins::from_rows(rows), shared, Entrance::Ask(Box::new(store)))
            }
            Err(cause) => {
                let path = settings.location.path();
                let read = ReadStore::new(&path, &member);
                faults.push(store_fault(read.fault.unwrap_or(Fault::Record), &path, cause));
                let shared = StoreHolder::new(path, member.clone(), None);
                (read.pins, shared, Entrance::Await(Box::new(read.state)))
            }
        };
        let parts = Parts {
            member,
            recorder: Recorder::new(settings),
            generation: shared.generation(),
            shared: Box::new(shared),
            reloader: Some(Reloader::new(options.search, options.trust, &loaded)),
            own: None,
            launch: launch::PinHolder::Here(pins),
            entrance: Some(entrance),
            faults,
            db,
        };
        Ok(Self::start(now, options.conversation, &loaded, parts))
    }

    /// Joins the session in the user's own store. Returns the store as a destination of records, and its state.
    pub(super) fn enter(
        &mut self,
        now: Timestamp,
        mut store: Box<Store>,
    ) -> Result<(Box<dyn Destination>, SharedSessionState), JudgeError> {
        let before = self.host.shared.generation();
        let joined = store.join(now, &self.host.member);
        // The own change is known already. A change of another process in the meantime may be missing in what
        // was read; it is noticed with the next message, as all later ones.
        let after = self.host.shared.generation();
        self.generation = match after == before.wrapping_add(1) {
            true => after,
            false => before,
        };
        let (members, failed) = match joined {
            Ok(members) => (members, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let own = &self.host.member;
        let read = store.read(|reader| read_state(reader, own, members, process::lives));
        let (state, failed) = match read {
            Ok(state) => (state, failed),
            Err(error) => match respond(Fault::Pins, self.policy().mode) {
                FaultResponse::Continue => (SharedSessionState::default(), Some(error)),
                FaultResponse::Answer => return Err(error.into()),
            },
        };
        let destination: Box<dyn Destination> = match failed {
            None => Box::new(ResultReader(*store)),
            Some(error) => {
                self.note_lost_record(&error);
                self.awaited()
            }
        };
        Ok((destination, state))
    }

    pub(super) fn awaited(&self) -> Box<dyn Destination> {
        let location = self.host.recorder.location().clone();
        Box::new(ResultReader(AwaitedStore::new(
            location,
            self.host.member.clone(),
        )))
    }

    pub(super) fn note_lost_record(&mut self, error: &StoreError) {
        self.faults.push(SessionFault {
            fault: Fault::Record,
            cause: chain(error),
            remedy: "mcpmon doctor".to_owned(),
        });
    }

    /// Returns the faults at the start of this session.
    pub fn faults(&self) -> &[SessionFault] {
        &self.faults
    }

    /// Returns the denial of a server that cannot be judged because of a fault.
    pub(super) fn fault_denial(&self) -> Option<Denial> {
        let mode = self.policy().mode;
        let mut faults = self.faults.iter();
        let SessionFault { cause, remedy, .. } =
            faults.find(|fault| respond(fault.fault, mode) == FaultResponse::Answer)?;
        Some(Denial {
            rule: Denial::FAULT.to_owned(),
            reason: cause.clone(),
            remedy: Some(remedy.clone()),
            event: None,
        })
    }

    /// Records the faults at the start, and logs those that prevent nothing.
    pub(super) fn report_faults(&mut self, now: Timestamp) {
        let mode = self.policy().mode;
        for SessionFault { fault, cause, .. } in self.faults.clone() {
            let is_answered = respond(fault, mode) == FaultResponse::Answer;
            if !is_answered {
                tracing::error!("{}", consequence(fault, mode, &cause));
            }
            match fault {
                Fault::Record | Fault::Pins => self.host.tell_away(now, self.guard.policy(), &cause),
                Fault::Policy | Fault::Daemon => {
                    let kind = EventKind::EnforcementDegraded {
                        component: "policy".to_owned(),
                        cause: cause.clone(),
                    };
                    let mut event = Event::new(now, Layer::Agent, kind);
                    event.severity = Severity::High;
                    event.reason = Some(consequence(fault, mode, &cause));
                    self.host.push(event);
                }
            }
        }
        if self.faults.iter().any(|fault| fault.fault == Fault::Policy) {
            self.poll_policy(now);
        }
    }

    /// Notes that the policy can be used again.
    pub(super) fn end_policy_fault(&mut self, now: Timestamp) {
        let is_policy = |fault: &SessionFault| fault.fault == Fault::Policy;
        if !self.faults.iter().any(is_policy) {
            return;
        }
        self.faults.retain(|fault| !is_policy(fault));
        let kind = EventKind::EnforcementRestored {
            component: "policy".to_owned(),
            cause: "the policy can be used again".to_owned(),
        };
        self.host.push(Event::new(now, Layer::Agent, kind));
    }
}

/// Describes the faults that a wrapper of this user would meet without a daemon: of its policy, and of its store. `db` is
/// the store that was named.
pub fn describe_faults(search: &Search, trust: Trust, db: Option<&Path>) -> Vec<String> {
    let loaded = own_policy(search, trust, db);
    let mode = loaded.policy.mode;
    let named = db
        .map(Path::to_owned)
        .or_else(|| loaded.settings.record.path.clone());
    let store = named.or_else(mcpmon_store::own_store);
    let store = store.and_then(|store| {
        let cause = unusable_store(&store)?;
        let fault = match open_reader(&store) {
            Ok(_) => Fault::Record,
            Err(_) => Fault::Pins,
        };
        Some(store_fault(fault, &store, cause))
    });
    let faults = policy_fault(&loaded).into_iter().chain(store);
    faults
        .map(|fault| consequence(fault.fault, mode, &fault.cause))
        .collect()
}

/// Returns the reason why a store cannot be written, without creating it.
fn unusable_store(store: &Path) -> Option<String> {
    let place = store.ancestors().find(|path| path.exists())?;
    let failed = |error: io::Error| Some(format!("cannot write to {}: {error}", place.display()));
    if let Err(errno) = faccessat(AT_FDCWD, place, AccessFlags::W_OK, AtFlags::AT_EACCESS) {
        return failed(errno.into());
    }
    if statvfs(place).is_ok_and(|disk| disk.blocks_available() == 0) {
        return failed(io::ErrorKind::StorageFull.into());
    }
    if place != store {
        return if place.is_dir() {
            None
        } else {
            failed(io::ErrorKind::NotADirectory.into())
        };
    }
    Store::open(store, Access::default())
        .err()
        .map(|error| chain(&error))
}

/// Notes the mode of a valid configuration that is the user's own file.
pub(super) fn note_own_mode(search: &Search, db: Option<&Path>, loaded: &LoadedConfiguration) {
    if loaded.instead_of.is_none()
        && let Some(own) = search.own_file()
    {
        note_mode(db, own, loaded.policy.mode);
    }
}

/// Describes an unusable policy.
pub(super) fn policy_fault(loaded: &LoadedConfiguration) -> Option<SessionFault> {
    let unusable = loaded.instead_of.as_ref()?;
    let all = mistakes(&unusable.error);
    let mut words: Vec<String> = all.iter().take(MAX_MISTAKES).cloned().collect();
    if let Some(more) = all.len().checked_sub(MAX_MISTAKES).filter(|more| *more > 0) {
        words.push(format!("and {more} more"));
    }
    Some(SessionFault {
        fault: Fault::Policy,
        cause: format!("the policy cannot be used: {}", words.join("; ")),
        remedy: format!("mcpmon policy check {}", unusable.path),
    })
}

fn store_fault(fault: Fault, path: &Path, cause: String) -> SessionFault {
    let cause = match fault {
        Fault::Pins => format!(
            "the pins and approvals in {} cannot be read: {cause}",
            path.display()
        ),
        Fault::Record | Fault::Policy | Fault::Daemon => cause,
    };
    SessionFault {
        fault,
        cause,
        remedy: "mcpmon doctor".to_owned(),
    }
}

/// Returns the consequence of a fault during which the server is used.
fn consequence(fault: Fault, mode: Mode, cause: &str) -> String {
    let consequence = match (fault, mode) {
        (Fault::Policy, Mode::Observe) => {
            "the built-in rules observe until it is repaired, and nothing is blocked"
        }
        (Fault::Policy, Mode::Enforce) => "the server is not used",
        (Fault::Record, Mode::Observe) => "nothing is recorded until it can be written; messages pass",
        (Fault::Record, Mode::Enforce) => {
            "nothing is recorded until it can be written, and a first use is not pinned; messages are judged"
        }
        (Fault::Pins, Mode::Observe) => "changes since the last use are not found; messages pass",
        (Fault::Pins, Mode::Enforce) => "the server is not used",
        (Fault::Daemon, _) => "messages are judged by what is known",
    };
    format!("{cause}; {consequence}")
}

/// Opens a store for reading. Returns `None` if there is none.
fn open_reader(path: &Path) -> Result<Option<StoreReader>, OpenError> {
    match StoreReader::open(path) {
        Ok(reader) => Ok(Some(reader)),
        Err(OpenError::Missing(_)) => Ok(None),
        Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}

impl ReadStore {
    fn new(path: &Path, member: &SessionMember) -> Self {
        let read = match open_reader(path) {
            Ok(Some(reader)) => Self::read(&reader, member).map_err(|error| chain(&error)),
            Ok(None) => Ok(Default::default()),
            Err(error) => Err(chain(&error)),
        };
        let fault = read.as_ref().err().map(|error| {
            tracing::debug!(error, "the store cannot be read");
            Fault::Pins
        });
        let (pins, state) = read.unwrap_or_default();
        Self { fault, pins, state }
    }

    fn read(
        reader: &StoreReader,
        member: &SessionMember,
    ) -> Result<(PinBook, SharedSessionState), QueryError> {
        let rows = reader.pins()?.into_iter();
        let own = &member.identity;
        let own = rows.filter(|pin| (&pin.key.name, pin.key.uid) == (&own.name, own.uid));
        let state = read_state(reader, member, reader.members(&member.session)?, process::lives)?;
        Ok((pins::from_rows(own.collect()), state))
    }
}

//! Changes that a person orders: the daemon carries them out, or without a daemon they are made in the user's own
//! store.

use std::path::{Path, PathBuf};

use mcpmon_model::{CallAnswer, ServerId, SessionId, Timestamp};
use mcpmon_store::{Access, DAEMON_STORE, Store, own_store};

use super::{
    CliError, ErrorKind, Globals,
    daemon::{Socket, ask, unexpected},
};
use crate::app::{
    approval::{self, ApprovalDecision, ApprovalSubject, DecideError, Decider},
    control::{self, AskError, DaemonAnswer, DaemonRequest},
    group,
    held_calls::{self, AnswerError},
    kill::{self, KillError},
};

/// The place in which a change is made.
#[derive(Debug)]
pub(super) enum ChangePlace {
    /// The daemon with this socket.
    Daemon(PathBuf),
    /// This process, in this store.
    Store(PathBuf),
}

impl ChangePlace {
    /// Returns the store of the command line; or else the daemon, if one was named or runs; or else the user's own
    /// store.
    pub(super) fn find(globals: &Globals, socket: &Socket) -> Result<Self, CliError> {
        if let Some(path) = &globals.db {
            return Ok(Self::Store(path.clone()));
        }
        match control::request(&socket.path, &DaemonRequest::Status) {
            Err(AskError::NotRunning(_)) if socket.path == Path::new(control::DEFAULT_SOCKET) => {}
            // If the daemon is not running, the request itself reports that: a socket that was named must exist.
            Ok(_)
            | Err(
                AskError::NotRunning(_)
                | AskError::Silent
                | AskError::Permission(_)
                | AskError::Refused(_)
                | AskError::Io(_)
                | AskError::Answer(_),
            ) => {
                return Ok(Self::Daemon(socket.path.clone()));
            }
        }
        own_store().map(Self::Store).ok_or_else(|| {
            let error = anyhow::anyhow!("there is no daemon, and no place for a store of your own");
            CliError::new(ErrorKind::Environment, error).with_hint("name a store with --db FILE")
        })
    }

    /// Carries out `word` for `subject`, and returns the names of the definitions.
    pub(super) fn decide(
        &self,
        now: Timestamp,
        subject: ApprovalSubject,
        word: ApprovalDecision,
    ) -> Result<Vec<String>, CliError> {
        let path = match self {
            Self::Daemon(socket) => {
                return match ask(socket, &DaemonRequest::Decide { subject, word })? {
                    DaemonAnswer::Decided(done) => Ok(done),
                    DaemonAnswer::Status(_)
                    | DaemonAnswer::Checks(_)
                    | DaemonAnswer::Trusted { .. }
                    | DaemonAnswer::TrustedExecutable { .. }
                    | DaemonAnswer::OwnRecords { .. }
                    | DaemonAnswer::Done
                    | DaemonAnswer::Error(_) => Err(unexpected()),
                };
            }
            Self::Store(path) => path,
        };
        let mut store = open(path)?;
        let (done, events) =
            approval::decide(&mut store, now, &subject, &word, &decider()).map_err(refused)?;
        store.record(events).map_err(environment)?;
        Ok(done)
    }

    /// Records the answer to the held call whose id begins with `digits`, and returns the subject of the call.
    pub(super) fn answer_call(
        &self,
        now: Timestamp,
        digits: &str,
        answer: CallAnswer,
    ) -> Result<String, CliError> {
        match self {
            Self::Daemon(socket) => {
                let id = digits.to_owned();
                let DaemonAnswer::Decided(subjects) = ask(socket, &DaemonRequest::AnswerCall { id, answer })?
                else {
                    return Err(unexpected());
                };
                Ok(subjects.join(", "))
            }
            Self::Store(path) => {
                let held = held_calls::answer(&mut open(path)?, now, digits, answer, &decider());
                held.map(|held| held.subject()).map_err(|error| match error {
                    AnswerError::Store(error) => environment(error),
                    AnswerError::Unknown(_) | AnswerError::Ambiguous(_) | AnswerError::Known { .. } => {
                        CliError::new(ErrorKind::Refused, error)
                    }
                })
            }
        }
    }

    /// Stops a session, or all if it is `None`; with `off`, lifts the stop.
    pub(super) fn kill(&self, now: Timestamp, session: Option<SessionId>, off: bool) -> Result<(), CliError> {
        let word = kill::KillOrder {
            session,
            off,
            by: by(),
        };
        match self {
            Self::Daemon(socket) => match ask(socket, &DaemonRequest::Kill { word })? {
                DaemonAnswer::Done => Ok(()),
                DaemonAnswer::OwnRecords { .. }
                | DaemonAnswer::Status(_)
                | DaemonAnswer::Checks(_)
                | DaemonAnswer::Trusted { .. }
                | DaemonAnswer::TrustedExecutable { .. }
                | DaemonAnswer::Decided(_)
                | DaemonAnswer::Error(_) => Err(unexpected()),
            },
            Self::Store(path) => {
                let mut store = open(path)?;
                let event = kill::carry_out(&mut store, now, &word).map_err(|error| match error {
                    KillError::Store(error) => environment(error),
                    KillError::Unknown(_) | KillError::NotStopped(_) | KillError::TooMany => {
                        CliError::new(ErrorKind::Refused, error)
                    }
                })?;
                store.record(vec![event]).map_err(environment)
            }
        }
    }

    /// Accepts a server's files as they were when they were last refused, and returns the name and user of the pins.
    pub(super) fn trust_files(&self, server: &ServerId) -> Result<String, CliError> {
        match self {
            Self::Daemon(socket) => {
                let server = server.clone();
                let DaemonAnswer::Trusted { name, uid } = ask(socket, &DaemonRequest::TrustPins { server })?
                else {
                    return Err(unexpected());
                };
                Ok(format!("{name}, user {uid}"))
            }
            Self::Store(path) => match open(path)?.trust_refused_pins(server, &by()) {
                Ok(true) => Ok(path.display().to_string()),
                Ok(false) => Err(CliError::new(
                    ErrorKind::Refused,
                    anyhow::anyhow!(
                        "the files of `{server}` were not refused: see `mcpmon pins list --server {server}`"
                    ),
                )),
                Err(error) => Err(environment(error)),
            },
        }
    }

    /// Forgets the pins of a server's files, and returns whether there were any.
    pub(super) fn forget_files(&self, server: &ServerId) -> Result<bool, CliError> {
        match self {
            Self::Daemon(socket) => {
                let server = server.clone();
                match ask(socket, &DaemonRequest::ResetPins { server })? {
                    DaemonAnswer::Decided(done) => Ok(!done.is_empty()),
                    DaemonAnswer::Status(_)
                    | DaemonAnswer::Checks(_)
                    | DaemonAnswer::Trusted { .. }
                    | DaemonAnswer::TrustedExecutable { .. }
                    | DaemonAnswer::OwnRecords { .. }
                    | DaemonAnswer::Done
                    | DaemonAnswer::Error(_) => Err(unexpected()),
                }
            }
            Self::Store(path) => open(path)?.forget_pins(server).map_err(environment),
        }
    }
}

/// Opens an existing store. None is made, because a definition that can be approved was listed, and so is in a store.
fn open(path: &Path) -> Result<Store, CliError> {
    if !path.exists() {
        let error = anyhow::anyhow!("there is no store at {}", path.display());
        return Err(CliError::new(ErrorKind::Environment, error).with_hint(
            "start a server with `mcpmon wrap -- COMMAND` first, or name a store with --db FILE",
        ));
    }
    let group = match path == Path::new(DAEMON_STORE) {
        true => group::find(),
        false => None,
    };
    Store::open(path, Access { group }).map_err(environment)
}

fn environment(error: impl Into<anyhow::Error>) -> CliError {
    CliError::new(ErrorKind::Environment, error)
}

fn refused(error: DecideError) -> CliError {
    match error {
        DecideError::Store(error) => environment(error),
        DecideError::Unknown { .. } | DecideError::Differs { .. } | DecideError::DeniedByRoot { .. } => {
            CliError::new(ErrorKind::Refused, error)
        }
    }
}

/// Returns the user of this process, who may open the store and so decides about everything in it.
fn decider() -> Decider {
    Decider {
        name: by(),
        own: None,
    }
}

/// Returns the user of this process. A name from the environment could be any other user's.
fn by() -> String {
    format!("user {}", nix::unistd::getuid())
}

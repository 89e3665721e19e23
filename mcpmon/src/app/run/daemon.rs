//! The connection to a daemon, if one runs: its proxy, and its knowledge of the processes behind a proxy.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mcpmon_session::protocol::Say;
use tokio::io::AsyncReadExt as _;

use crate::app::{
    control::DaemonRequest,
    listener,
    runs::protocol::{MAX_LINE, Reach, RunHear, RunHello},
};

/// The longest wait for an answer of the daemon, which may be about to start its proxy.
const TIMEOUT: Duration = Duration::from_secs(8);
/// The interval at which a daemon that is gone is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// The longest wait at the end for the daemon to write its last records.
const FAREWELL: Duration = Duration::from_secs(2);

/// The daemon's answer to this session.
#[derive(Debug)]
pub(in crate::app) enum DaemonAvailability {
    /// The session is behind the daemon's proxy as long as the connection exists.
    Behind(UnixStream, Box<Reach>),
    /// The session has its own proxy, and the daemon knows it as long as the connection exists.
    Known(UnixStream),
    /// The daemon has no proxy for the session; the reason.
    NoProxy(String),
}

/// The reason why the daemon could not be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::app) enum DaemonUseError {
    /// No daemon listens.
    #[error("no daemon is listening")]
    NotRunning,
    /// This user has no permission for the socket.
    #[error("no permission for {}", .0.display())]
    Denied(PathBuf),
    /// The daemon refuses the session.
    #[error("the daemon refuses this session: {0}")]
    Refused(String),
    /// Another user listens at the address of the daemon's proxy.
    #[error("the daemon's proxy is not used: {0}")]
    Taken(String),
    /// The connection failed, or an answer could not be parsed.
    #[error("the daemon does not answer")]
    Broken(#[source] io::Error),
}

/// Introduces this process to the daemon at `path`.
pub(in crate::app) fn introduce(path: &Path, hello: &RunHello) -> Result<DaemonAvailability, DaemonUseError> {
    let stream = UnixStream::connect(path).map_err(|error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return DaemonUseError::Denied(path.to_owned());
        }
        let is_nobody = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        );
        match is_nobody {
            true => DaemonUseError::NotRunning,
            false => DaemonUseError::Broken(error),
        }
    })?;
    let hello = DaemonRequest::Run { hello: hello.clone() };
    let heard = converse(&stream, &hello).map_err(DaemonUseError::Broken)?;
    match heard {
        RunHear::Session(reach) => {
            listener::check_owner(reach.offer.address).map_err(DaemonUseError::Taken)?;
            Ok(DaemonAvailability::Behind(stream, reach))
        }
        RunHear::Known(_) => Ok(DaemonAvailability::Known(stream)),
        RunHear::NoProxy(cause) => Ok(DaemonAvailability::NoProxy(cause)),
        RunHear::Error(cause) => Err(DaemonUseError::Refused(cause)),
        RunHear::Challenge(_) => Err(DaemonUseError::Broken(io::ErrorKind::InvalidData.into())),
    }
}

fn converse(stream: &UnixStream, hello: &DaemonRequest) -> io::Result<RunHear> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut heard = exchange(stream, hello)?;
    if let RunHear::Challenge(nonce) = heard {
        heard = exchange(stream, &Say::Repeat { nonce })?;
    }
    Ok(heard)
}

fn exchange(mut stream: &UnixStream, said: &impl serde::Serialize) -> io::Result<RunHear> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut answer)?;
    if answer.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&answer)?)
}

/// Keeps the connection: introduces this process again whenever the daemon was restarted, with the token it had.
pub(super) async fn stay(path: PathBuf, mut hello: RunHello, reach: Option<Reach>, kept: Keep) {
    if let Some(reach) = &reach {
        hello.token = Some(reach.token.clone());
    }
    let mut told = LastMessage::default();
    // The agent with its own proxy runs already, so the daemon must know of it at once.
    let mut pause = Duration::ZERO;
    loop {
        if let Some(stream) = kept.stream() {
            ended(stream).await;
            if reach.is_some() {
                tracing::warn!("the daemon is gone: models cannot be reached until it is back");
            }
            told = LastMessage::default();
        }
        kept.put(None);
        tokio::time::sleep(std::mem::replace(&mut pause, RETRY)).await;
        let (path, hello) = (path.clone(), hello.clone());
        let found = tokio::task::spawn_blocking(move || introduce(&path, &hello)).await;
        let Ok(found) = found else { return };
        match (found, &reach) {
            (Ok(DaemonAvailability::Known(stream)), None) => kept.put(Some(stream)),
            (Ok(DaemonAvailability::Behind(stream, new)), Some(before)) => {
                if new.offer.address == before.offer.address {
                    tracing::warn!("the daemon is back, and models can be reached");
                } else {
                    tracing::error!(
                        before = %before.offer.address, now = %new.offer.address,
                        "the daemon's LLM proxy listens elsewhere now: the agent cannot reach its models, start it again"
                    );
                }
                kept.put(Some(stream));
            }
            (Ok(DaemonAvailability::NoProxy(cause)), _) => {
                told.once(&format!("the daemon's LLM proxy is not there: {cause}"))
            }
            (Ok(DaemonAvailability::Known(_) | DaemonAvailability::Behind(..)), _) => return,
            (Err(DaemonUseError::NotRunning), _) => {}
            (Err(error @ (DaemonUseError::Denied(_) | DaemonUseError::Refused(_))), _) => {
                told.once(&format!(
                    "{error}: what goes round the LLM proxy is neither reported nor refused"
                ));
                return;
            }
            (Err(error), _) => told.once(&error.to_string()),
        }
    }
}

/// The warning that was shown last, so that the same one is not repeated.
#[derive(Debug, Default)]
struct LastMessage(Option<String>);

impl LastMessage {
    fn once(&mut self, what: &str) {
        if self.0.as_deref() != Some(what) {
            tracing::warn!("{what}");
            self.0 = Some(what.to_owned());
        }
    }
}

/// The current connection, shared with the code that ends it.
#[derive(Clone, Debug, Default)]
pub(super) struct Keep(Arc<Mutex<Option<UnixStream>>>);

impl Keep {
    /// Replaces the connection.
    pub(super) fn put(&self, stream: Option<UnixStream>) {
        *self.lock() = stream;
    }

    fn stream(&self) -> Option<UnixStream> {
        self.lock().as_ref()?.try_clone().ok()
    }

    /// Closes the connection, and waits until the daemon has written its records.
    pub(super) fn leave(self) {
        let Some(mut stream) = self.lock().take() else {
            return;
        };
        let left = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(FAREWELL)))
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .and_then(|()| stream.read(&mut [0]));
        if let Err(error) = left {
            tracing::debug!(%error, "the daemon did not say good-bye");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<UnixStream>> {
        // No operation leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the end of a connection on which nothing more is sent.
async fn ended(stream: UnixStream) {
    let stream = stream
        .set_nonblocking(true)
        .and_then(|()| tokio::net::UnixStream::from_std(stream));
    let Ok(mut stream) = stream else { return };
    let mut byte = [0];
    while let Ok(1..) = stream.read(&mut byte).await {}
}

//! The control socket: one JSON request a line, one JSON answer a line.

mod peer;
mod rates;
mod rights;
mod server;

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use mcpmon_model::{CallAnswer, Digest, ServerId};
use mcpmon_session::{
    Hello,
    protocol::{Hear, Say, StartedProcess},
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub use self::server::ListenError;
pub(crate) use self::{
    rates::Rates,
    server::{ControlServer, SocketFile, listen},
};
pub use super::runs::protocol::RunHello;
use super::{
    approval::{ApprovalDecision, ApprovalSubject},
    kill,
    selftest::SelfTestCheck,
    status::Status,
};

/// The default socket of the daemon.
pub const DEFAULT_SOCKET: &str = "/run/mcpmon/mcpmon.sock";
/// Longest answer a client reads, bytes.
const MAX_ANSWER: u64 = 16 << 20;
/// Largest database with the records of a user, bytes.
const MAX_RECORDS: usize = 64 << 20;
/// The time for which a client waits for an answer. A self-test takes about a second.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum DaemonRequest {
    /// The daemon's state.
    Status,
    /// Run the self-test now.
    SelfTest,
    /// Forget the pins of a server. Root only.
    ResetPins {
        /// The server.
        server: ServerId,
    },
    /// Accept a server as it was when it was last refused, in addition to the accepted state. Root only.
    TrustPins {
        /// The server.
        server: ServerId,
    },
    /// Accept a file for every server that is pinned with another one at its path. Root only.
    TrustExecutable {
        /// The path, as the servers' processes see it.
        path: PathBuf,
        /// The digest of the executable's content.
        digest: Digest,
    },
    /// A decision of a person about definitions: root's for the host, a user's for the own servers.
    Decide {
        /// The definitions.
        subject: ApprovalSubject,
        /// The decision.
        word: ApprovalDecision,
    },
    /// A person's answer to a held call: root's to any, a user's to the own ones.
    AnswerCall {
        /// The first digits of its id.
        id: String,
        /// The answer.
        answer: CallAnswer,
    },
    /// An order of a person about a session or the host. Root only.
    Kill {
        /// The order.
        word: kill::KillOrder,
    },
    /// The records of the user who asks, as a database that follows the answer.
    OwnRecords,
    /// A wrapper introduces itself: from here on the connection belongs to that wrapper.
    Wrap {
        /// The introduction.
        hello: Hello,
    },
    /// A wrapper that introduced itself brings entries for the store: the connection is used for these from here on.
    Records {
        /// The introduction.
        hello: Hello,
    },
    /// A wrapper that introduced itself asks why a process that it started must not run. The connection is used for
    /// this question only.
    Fate {
        /// The wrapper's introduction.
        hello: Hello,
        /// The process.
        process: StartedProcess,
    },
    /// A `mcpmon run` introduces itself: its session lasts as long as the connection.
    Run {
        /// The introduction.
        hello: RunHello,
    },
}

/// An answer of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "content", rename_all = "snake_case")]
pub enum DaemonAnswer {
    /// To [`DaemonRequest::Status`].
    Status(Box<Status>),
    /// To [`DaemonRequest::SelfTest`].
    Checks(Vec<SelfTestCheck>),
    /// To [`DaemonRequest::TrustPins`]: the files are accepted for this package and user.
    Trusted {
        /// Package, module, image or program.
        name: String,
        /// Real user id.
        uid: u32,
    },
    /// To [`DaemonRequest::TrustExecutable`].
    TrustedExecutable {
        /// The number of pin sets that were added.
        sets: usize,
    },
    /// To [`DaemonRequest::Decide`], [`DaemonRequest::AnswerCall`] and [`DaemonRequest::ResetPins`]: the names of what
    /// was changed.
    Decided(Vec<String>),
    /// To [`DaemonRequest::OwnRecords`]: a database of this many bytes follows.
    OwnRecords {
        /// The bytes.
        bytes: usize,
    },
    /// The request was carried out.
    Done,
    /// The request was refused or failed.
    Error(String),
}

/// A request on its way to the daemon's main task.
#[derive(Debug)]
pub(crate) struct ControlRequest {
    pub(crate) request: DaemonRequest,
    /// The user whose state it is limited to; `None` for the whole host.
    pub(crate) own: Option<u32>,
    pub(crate) reply: oneshot::Sender<DaemonAnswer>,
}

/// The reason why a client got no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No daemon listens on this socket.
    #[error("no daemon is listening on {}", .0.display())]
    NotRunning(PathBuf),
    /// The user has no permission for the socket.
    #[error("no permission for {}", .0.display())]
    Permission(PathBuf),
    /// The daemon did not answer in time.
    #[error("the daemon did not answer within {} s", CLIENT_TIMEOUT.as_secs())]
    Silent,
    /// The daemon refuses the request.
    #[error("{0}")]
    Refused(String),
    /// Reading or writing failed.
    #[error("failed to talk to the daemon")]
    Io(#[source] io::Error),
    /// The answer could not be parsed.
    #[error("the daemon's answer is not understood; is it of another version?")]
    Answer(#[source] serde_json::Error),
}

/// Sends a request to the daemon at `path`.
///
/// # Errors
/// Returns an error if no daemon listens, the user has no permission, or the daemon does not answer.
pub fn request(path: &Path, request: &DaemonRequest) -> Result<DaemonAnswer, AskError> {
    ask(path, request).map(|(answer, _)| answer)
}

/// Returns the records of this user from the daemon at `path`, as a database.
///
/// # Errors
/// Returns an error if no daemon listens, or it does not answer with records.
pub fn own_records(path: &Path) -> Result<Vec<u8>, AskError> {
    let (answer, mut reader) = ask(path, &DaemonRequest::OwnRecords)?;
    if let DaemonAnswer::Error(cause) = answer {
        return Err(AskError::Refused(cause));
    }
    let DaemonAnswer::OwnRecords { bytes } = answer else {
        return Err(AskError::Io(io::ErrorKind::InvalidData.into()));
    };
    if bytes > MAX_RECORDS {
        return Err(AskError::Io(io::ErrorKind::InvalidData.into()));
    }
    let mut records = vec![0; bytes];
    reader.read_exact(&mut records).map_err(AskError::Io)?;
    Ok(records)
}

fn ask(path: &Path, request: &DaemonRequest) -> Result<(DaemonAnswer, BufReader<UnixStream>), AskError> {
    let mut stream = connect(path).map_err(|error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return AskError::Permission(path.to_owned());
        }
        if matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        ) {
            return AskError::NotRunning(path.to_owned());
        }
        AskError::Io(error)
    })?;
    stream
        .set_read_timeout(Some(CLIENT_TIMEOUT))
        .map_err(AskError::Io)?;
    // A daemon that refuses the connection closes it at once; the reason is in the answer.
    let sent = send(&mut stream, request);
    let mut reader = BufReader::new(stream);
    let mut line = match (sent, read_line(&mut reader)) {
        (_, Ok(line)) => line,
        (Err(error), Err(_)) | (Ok(()), Err(error)) => return Err(error),
    };
    if let Ok(Hear::Challenge(nonce)) = serde_json::from_str(&line) {
        send(reader.get_mut(), &Say::Repeat { nonce })?;
        line = read_line(&mut reader)?;
    }
    let answer = serde_json::from_str(&line).map_err(AskError::Answer)?;
    Ok((answer, reader))
}

/// Connects to the daemon; as root, to the socket that only root can connect to, if the daemon has it.
fn connect(path: &Path) -> io::Result<UnixStream> {
    if nix::unistd::geteuid().is_root()
        && let Ok(stream) = UnixStream::connect(for_root(path))
    {
        return Ok(stream);
    }
    UnixStream::connect(path)
}

/// Returns the socket beside the one at `path` that only root can connect to.
fn for_root(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".root");
    name.into()
}

fn send(stream: &mut UnixStream, message: &impl Serialize) -> Result<(), AskError> {
    let mut line = serde_json::to_string(message).map_err(AskError::Answer)?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(AskError::Io)
}

fn read_line(reader: &mut BufReader<UnixStream>) -> Result<String, AskError> {
    let mut text = String::new();
    reader
        .by_ref()
        .take(MAX_ANSWER)
        .read_line(&mut text)
        .map_err(|error| {
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                return AskError::Silent;
            }
            AskError::Io(error)
        })?;
    if text.is_empty() {
        return Err(AskError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_a_stable_form_and_unknown_ones_are_refused() {
        let text = serde_json::to_string(&DaemonRequest::ResetPins {
            server: ServerId::new("files").expect("id"),
        })
        .expect("json");
        assert_eq!(text, r#"{"request":"reset_pins","server":"files"}"#);
        for bad in [r#"{"request":"shutdown"}"#, r#"{"request":"reset_pins"}"#] {
            serde_json::from_str::<DaemonRequest>(bad).expect_err("no such request");
        }
    }

    #[test]
    fn without_a_daemon_the_error_says_so() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("none.sock");
        let error = request(&path, &DaemonRequest::Status).expect_err("nobody listens");
        assert_eq!(
            error.to_string(),
            format!("no daemon is listening on {}", path.display())
        );
    }
}

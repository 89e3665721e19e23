//! The control socket: one JSON request a line, one JSON answer a line.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{fs::PermissionsExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use mcpmon_model::{CallAnswer, Digest, ServerId};
use mcpmon_session::{Hello, protocol::StartedProcess};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
    sync::{mpsc, oneshot},
};

pub use super::runs::protocol::RunHello;
use super::{
    approval::{ApprovalDecision, ApprovalSubject},
    kill,
    runs::Runs,
    selftest::SelfTestCheck,
    status::Status,
    wrappers::Wrappers,
};

/// The default socket of the daemon.
pub const DEFAULT_SOCKET: &str = "/run/mcpmon/mcpmon.sock";
/// Longest request, bytes.
const MAX_REQUEST: u64 = 64 << 10;
/// Longest answer a client reads, bytes.
const MAX_ANSWER: u64 = 16 << 20;
/// Connections served at a time.
const MAX_CLIENTS: usize = 32;
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
    /// A decision of a person about definitions. Root only.
    Decide {
        /// The definitions.
        subject: ApprovalSubject,
        /// The decision.
        word: ApprovalDecision,
    },
    /// A person's answer to a held call. Root only.
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

impl DaemonRequest {
    /// Returns whether only root may ask it.
    const fn is_privileged(&self) -> bool {
        match self {
            Self::Status
            | Self::SelfTest
            | Self::Wrap { .. }
            | Self::Records { .. }
            | Self::Fate { .. }
            | Self::Run { .. } => false,
            Self::ResetPins { .. }
            | Self::TrustPins { .. }
            | Self::TrustExecutable { .. }
            | Self::Decide { .. }
            | Self::AnswerCall { .. }
            | Self::Kill { .. } => true,
        }
    }
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
    /// The request was carried out.
    Done,
    /// The request was refused or failed.
    Error(String),
}

/// A request on its way to the daemon's main task.
#[derive(Debug)]
pub(crate) struct ControlRequest {
    pub(crate) request: DaemonRequest,
    pub(crate) reply: oneshot::Sender<DaemonAnswer>,
}

/// The reason why the socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another daemon listens there.
    #[error("a daemon is already listening on {}; stop it first, or name another socket with --socket", .0.display())]
    InUse(PathBuf),
    /// The directory or the socket cannot be made.
    #[error("failed to make the control socket {path}", path = path.display())]
    Make {
        /// The socket.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// The file of the socket. Dropping this removes the file: when the daemon ends, or fails to start.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(%error, "the control socket was gone already");
        }
    }
}

/// Makes the socket with mode 0660, in a directory with mode 0755; the socket belongs to `group` if there is one.
///
/// # Errors
/// Returns an error if another daemon listens there, or the path cannot be made.
pub(crate) fn listen(path: &Path, group: Option<u32>) -> Result<(UnixListener, SocketFile), ListenError> {
    let failed = |source| ListenError::Make {
        path: path.to_owned(),
        source,
    };
    if UnixStream::connect(path).is_ok() {
        return Err(ListenError::InUse(path.to_owned()));
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        fs::create_dir_all(directory).map_err(failed)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let socket = bind(path).map_err(failed)?;
    let file = SocketFile(path.to_owned());
    if group.is_some() {
        std::os::unix::fs::chown(path, None, group).map_err(failed)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(failed)?;
    // Clients can connect only from here on, so the earlier mode of the socket does not matter.
    let listener = start_listening(socket).map_err(failed)?;
    Ok((listener, file))
}

/// Binds a socket without listening on it. The mode is not set by the umask, because all threads share the umask: files
/// that other threads make meanwhile would get it too.
fn bind(path: &Path) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

fn start_listening(socket: OwnedFd) -> io::Result<UnixListener> {
    socket::listen(&socket, Backlog::MAXCONN)?;
    UnixListener::from_std(socket.into())
}

/// Serves clients until the daemon's main task is gone.
pub(crate) async fn serve(
    listener: UnixListener,
    asked: mpsc::Sender<ControlRequest>,
    wrappers: Wrappers,
    runs: Runs,
) {
    let slots = std::sync::Arc::new(tokio::sync::Semaphore::new(MAX_CLIENTS));
    loop {
        let Ok(slot) = std::sync::Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (asked, wrappers, runs) = (asked.clone(), wrappers.clone(), runs.clone());
                tokio::spawn(async move {
                    let outcome = tokio::time::timeout(CLIENT_TIMEOUT, answer(stream, asked)).await;
                    drop(slot);
                    match outcome {
                        Ok(Some((stream, Guest::Wrapper(hello)))) => wrappers.serve(stream, hello).await,
                        Ok(Some((stream, Guest::Records(hello)))) => {
                            wrappers.serve_records(stream, hello).await;
                        }
                        Ok(Some((stream, Guest::Fate(hello, process)))) => {
                            wrappers.serve_fate(stream, hello, process).await;
                        }
                        Ok(Some((stream, Guest::Run(hello)))) => runs.serve(stream, hello).await,
                        Ok(None) => {}
                        Err(error) => tracing::debug!(%error, "a client of the control socket was too slow"),
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a client on the control socket");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// A client that keeps its connection.
enum Guest {
    Wrapper(Hello),
    Records(Hello),
    Fate(Hello, StartedProcess),
    Run(RunHello),
}

impl Guest {
    /// Returns the client, if the request introduces one that keeps its connection.
    fn of(request: &DaemonRequest) -> Option<Self> {
        match request {
            DaemonRequest::Wrap { hello } => Some(Self::Wrapper(hello.clone())),
            DaemonRequest::Records { hello } => Some(Self::Records(hello.clone())),
            DaemonRequest::Fate { hello, process } => Some(Self::Fate(hello.clone(), *process)),
            DaemonRequest::Run { hello } => Some(Self::Run(hello.clone())),
            DaemonRequest::Status
            | DaemonRequest::SelfTest
            | DaemonRequest::ResetPins { .. }
            | DaemonRequest::TrustPins { .. }
            | DaemonRequest::TrustExecutable { .. }
            | DaemonRequest::Decide { .. }
            | DaemonRequest::AnswerCall { .. }
            | DaemonRequest::Kill { .. } => None,
        }
    }
}

/// Answers one request. Returns the connection instead if the request introduces a client that keeps it.
async fn answer(
    stream: tokio::net::UnixStream,
    asked: mpsc::Sender<ControlRequest>,
) -> Option<(tokio::net::UnixStream, Guest)> {
    let peer = stream.peer_cred().map(|peer| peer.uid());
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut reader = tokio::io::BufReader::new(read.take(MAX_REQUEST));
    let answer = match reader.read_line(&mut line).await {
        Err(error) => DaemonAnswer::Error(format!("the request could not be read: {error}")),
        Ok(_) => match serde_json::from_str::<DaemonRequest>(&line) {
            Err(error) => DaemonAnswer::Error(format!("the request is not understood: {error}")),
            Ok(request) if request.is_privileged() && !peer.as_ref().is_ok_and(|uid| *uid == 0) => {
                DaemonAnswer::Error("only root may ask for this".to_owned())
            }
            // A client that keeps its connection waits for an answer before it writes more, so the buffer is empty.
            Ok(request) => match Guest::of(&request) {
                Some(guest) => {
                    let read = reader.into_inner().into_inner();
                    return read.reunite(write).ok().map(|stream| (stream, guest));
                }
                None => ask(request, asked).await,
            },
        },
    };
    let mut text = serde_json::to_string(&answer).expect("an answer has string keys only");
    text.push('\n');
    if let Err(error) = write.write_all(text.as_bytes()).await {
        tracing::debug!(%error, "a client of the control socket left before its answer");
    }
    None
}

async fn ask(request: DaemonRequest, asked: mpsc::Sender<ControlRequest>) -> DaemonAnswer {
    let (reply, answer) = oneshot::channel();
    if asked.send(ControlRequest { request, reply }).await.is_err() {
        return DaemonAnswer::Error("the daemon is stopping".to_owned());
    }
    answer
        .await
        .unwrap_or_else(|_| DaemonAnswer::Error("the daemon is stopping".to_owned()))
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
    let mut stream = UnixStream::connect(path).map_err(|error| {
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
    let mut line = serde_json::to_string(request).map_err(AskError::Answer)?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(AskError::Io)?;
    read_line(stream)
}

fn read_line<T: DeserializeOwned>(stream: UnixStream) -> Result<T, AskError> {
    let mut text = String::new();
    BufReader::new(stream.take(MAX_ANSWER))
        .read_line(&mut text)
        .map_err(|error| {
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                return AskError::Silent;
            }
            AskError::Io(error)
        })?;
    serde_json::from_str(&text).map_err(AskError::Answer)
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

    #[tokio::test]
    async fn nobody_connects_before_the_mode_is_set() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("x.sock");
        let socket = bind(&path).expect("a name");
        let refused = UnixStream::connect(&path).expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listener = start_listening(socket).expect("it listens");
        UnixStream::connect(&path).expect("it is answered");
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("run/x.sock");
        drop(listen(&path, None).expect("first"));
        assert!(!path.exists());
        drop(bind(&path).expect("of a daemon that was killed"));
        let second = listen(&path, None).expect("stale socket");
        let mode = fs::metadata(&path).expect("socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        assert!(matches!(listen(&path, None), Err(ListenError::InUse(_))));
        drop(second);
    }
}

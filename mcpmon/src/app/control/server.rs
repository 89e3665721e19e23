//! The daemon's end of the control socket: who connects, what each user may ask, and how much.
//!
//! Any local user may connect. The kernel reports the user ([`Peer`]); [`rights`] decides. Every connection, request and
//! buffer is counted to its user, and root has places and a queue of its own, so that no user delays `mcpmon kill`.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_http::shares::{Quota, QuotaOwner, QuotaPermit};
use mcpmon_session::{Hello, protocol::StartedProcess};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    CLIENT_TIMEOUT, ControlRequest, DaemonAnswer, DaemonRequest, Rates, RunHello, for_root,
    peer::Peer,
    rights::{self, Rank, RequestKind, Scope},
};
use crate::app::{group, runs::Runs, wrappers::Wrappers};

/// Longest request, bytes.
const MAX_REQUEST: u64 = 64 << 10;
/// Connections with a request that are served at a time, of all users but root, and of one user.
const MAX_CLIENTS: usize = 2048;
const MAX_CLIENTS_OF_USER: usize = 256;
/// Connections of root that are served at a time.
const MAX_CLIENTS_OF_ROOT: usize = 1024;
/// The longest wait until a client has sent its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Requests a second of one user, and how many may come at once; others wait for their turn. A wrapper that starts needs
/// three.
const RATE: u32 = 50;
const BURST: u32 = 200;
/// The wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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

/// The listening sockets: one for every user, and one that only root can connect to. Each has a queue of its own, so that
/// root does not wait behind connections of others.
#[derive(Debug)]
pub(crate) struct Listeners {
    users: UnixListener,
    root: UnixListener,
}

/// The file of the socket. Dropping this removes it and the one for root: when the daemon ends, or fails to start.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        for path in [&self.0, &for_root(&self.0)] {
            if let Err(error) = fs::remove_file(path) {
                tracing::debug!(%error, "the control socket was gone already");
            }
        }
    }
}

/// Makes the socket with mode 0666, and the one for root, in a directory with mode 0755.
///
/// # Errors
/// Returns an error if another daemon listens there, or the path cannot be made.
pub(crate) fn listen(path: &Path) -> Result<(Listeners, SocketFile), ListenError> {
    let failed = |source| ListenError::Make {
        path: path.to_owned(),
        source,
    };
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(ListenError::InUse(path.to_owned()));
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        fs::create_dir_all(directory).map_err(failed)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    let file = SocketFile(path.to_owned());
    let listeners = Listeners {
        root: listen_at(&for_root(path), 0o600).map_err(failed)?,
        users: listen_at(path, 0o666).map_err(failed)?,
    };
    Ok((listeners, file))
}

/// Listens on a socket with this mode, in the place of one that nobody listens on.
fn listen_at(path: &Path, mode: u32) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let socket = bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    // Clients can connect only from here on, so the earlier mode of the socket does not matter.
    start_listening(socket)
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

/// Serves the clients of the control socket. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct ControlServer(Arc<ServerState>);

#[derive(Debug)]
struct ServerState {
    /// The queue of requests of users, and that of root's.
    asked: mpsc::Sender<ControlRequest>,
    asked_by_root: mpsc::Sender<ControlRequest>,
    wrappers: Wrappers,
    runs: Runs,
    /// The group whose members see the whole host.
    members: Option<u32>,
    clients: Quota,
    clients_of_root: Quota,
    rates: Rates,
}

impl ControlServer {
    pub(crate) fn new(
        asked: mpsc::Sender<ControlRequest>,
        asked_by_root: mpsc::Sender<ControlRequest>,
        wrappers: Wrappers,
        runs: Runs,
    ) -> Self {
        Self(Arc::new(ServerState {
            asked,
            asked_by_root,
            wrappers,
            runs,
            members: group::find(),
            clients: Quota::of_each(MAX_CLIENTS, MAX_CLIENTS_OF_USER),
            clients_of_root: Quota::of_each(MAX_CLIENTS_OF_ROOT, MAX_CLIENTS_OF_ROOT),
            rates: Rates::new(RATE, BURST),
        }))
    }

    /// Accepts clients until the runtime ends. It never waits for a client.
    pub(crate) async fn serve(self, listeners: Listeners) {
        // A task of its own, whose share of time no other takes.
        let root = tokio::spawn(self.clone().accept(listeners.root));
        self.accept(listeners.users).await;
        root.abort();
    }

    async fn accept(self, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.admit(stream),
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a client on the control socket");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves a client in a task of its own, if its user has a place for it.
    fn admit(&self, stream: UnixStream) {
        let Ok(peer) = Peer::new(&stream, self.0.members) else {
            return;
        };
        let quota = match peer.rank {
            Rank::Root => &self.0.clients_of_root,
            Rank::Member | Rank::User => &self.0.clients,
        };
        let owner = QuotaOwner::User(peer.owner);
        match quota.take(owner) {
            Ok(place) => drop(tokio::spawn(self.clone().attend(stream, peer, place))),
            Err(_scarce) => refuse(
                &stream,
                format!("too many connections of {owner} wait for an answer; try again"),
            ),
        }
    }

    /// Waits until the user may send another request. Only this connection waits.
    async fn wait_for_turn(&self, peer: Peer) {
        while peer.rank != Rank::Root
            && let Err(wait) = self.0.rates.take(peer.owner, Instant::now())
        {
            tokio::time::sleep(wait).await;
        }
    }

    async fn attend(self, mut stream: UnixStream, peer: Peer, place: QuotaPermit) {
        let served = async {
            self.wait_for_turn(peer).await;
            self.answer(&mut stream, peer).await
        };
        let outcome = timeout(CLIENT_TIMEOUT, served).await;
        drop(place);
        let ServerState { wrappers, runs, .. } = &*self.0;
        let (wrappers, runs) = (wrappers.clone(), runs.clone());
        match outcome {
            Ok(Some(Guest::Wrapper(hello))) => wrappers.serve(stream, hello).await,
            Ok(Some(Guest::Records(hello))) => wrappers.serve_records(stream, hello).await,
            Ok(Some(Guest::Fate(hello, process))) => wrappers.serve_fate(stream, hello, process).await,
            Ok(Some(Guest::Reader)) => send_records(stream, peer, &wrappers).await,
            Ok(Some(Guest::Run(hello))) => runs.serve(stream, hello).await,
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a client of the control socket was too slow"),
        }
    }

    /// Answers one request. Returns the client instead if the request introduces one that keeps its connection.
    async fn answer(&self, stream: &mut UnixStream, peer: Peer) -> Option<Guest> {
        let answer = match timeout(REQUEST_TIMEOUT, read_request(stream)).await {
            Err(_elapsed) => DaemonAnswer::Error("the request did not arrive in time".to_owned()),
            Ok(Err(cause)) => DaemonAnswer::Error(cause),
            Ok(Ok(request)) => match self.check(stream, peer, &request).await {
                Err(cause) => DaemonAnswer::Error(cause),
                Ok(own) => match Guest::new(&request) {
                    Some(guest) => return Some(guest),
                    None => self.ask(request, own, peer.rank).await,
                },
            },
        };
        if let Err(error) = stream.write_all(&line(&answer)).await {
            tracing::debug!(%error, "a client of the control socket left before its answer");
        }
        None
    }

    /// Returns the user to whom the answer is limited; `None` for the whole host.
    ///
    /// # Errors
    /// Returns the reason if the peer may not ask this.
    async fn check(
        &self,
        stream: &mut UnixStream,
        peer: Peer,
        request: &DaemonRequest,
    ) -> Result<Option<u32>, String> {
        let kind = RequestKind::new(request);
        let own = match rights::scope(kind, peer.rank) {
            Scope::Everything => return Ok(None),
            Scope::Own => peer.uid,
            Scope::Nothing => return Err(needs(kind).to_owned()),
        };
        if kind.is_decision() {
            let verified = self.0.wrappers.verified(stream).await;
            let (process, _) = verified.map_err(|refusal| refusal.to_string())?;
            if self.0.wrappers.is_watched(process).await {
                return Err(
                    "a process of an agent or of a server cannot decide for you: run the command in a terminal \
                     outside of the agent, or with sudo"
                        .to_owned(),
                );
            }
        }
        Ok(Some(own))
    }

    async fn ask(&self, request: DaemonRequest, own: Option<u32>, rank: Rank) -> DaemonAnswer {
        let (reply, answer) = oneshot::channel();
        let asked = ControlRequest { request, own, reply };
        let stopping = || DaemonAnswer::Error("the daemon is stopping".to_owned());
        let queue = match rank {
            Rank::Root => &self.0.asked_by_root,
            Rank::Member | Rank::User => &self.0.asked,
        };
        if queue.send(asked).await.is_err() {
            return stopping();
        }
        answer.await.unwrap_or_else(|_| stopping())
    }
}

/// Returns the reason why a user without the right is refused.
const fn needs(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::SelfTest => "only root and the group mcpmon may ask for this",
        RequestKind::Status
        | RequestKind::ResetPins
        | RequestKind::TrustPins
        | RequestKind::TrustExecutable
        | RequestKind::Decide
        | RequestKind::AnswerCall
        | RequestKind::Kill
        | RequestKind::OwnRecords
        | RequestKind::Join => "only root may ask for this",
    }
}

/// Sends the reason why a connection is not served, without waiting.
fn refuse(stream: &UnixStream, refusal: String) {
    tracing::debug!(refusal, "a client of the control socket is refused");
    // The buffer of a new connection is empty, so the line fits.
    let _sent = stream.try_write(&line(&DaemonAnswer::Error(refusal)));
}

/// Returns the line of an answer. Wrappers and sessions understand an error too.
fn line(answer: &DaemonAnswer) -> Vec<u8> {
    let text = if let DaemonAnswer::Error(cause) = answer {
        serde_json::to_vec(&json!({"answer": "error", "hear": "error", "content": cause}))
    } else {
        serde_json::to_vec(answer)
    };
    let mut line = text.expect("an answer has string keys only");
    line.push(b'\n');
    line
}

/// Reads a request. A client waits for the answer before it sends more, so nothing is left in the buffer.
async fn read_request(stream: &mut UnixStream) -> Result<DaemonRequest, String> {
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(MAX_REQUEST));
    match reader.read_line(&mut line).await {
        Err(error) => Err(format!("the request could not be read: {error}")),
        Ok(_) => {
            serde_json::from_str(&line).map_err(|error| format!("the request is not understood: {error}"))
        }
    }
}

/// Sends a user's own records.
async fn send_records(mut stream: UnixStream, peer: Peer, wrappers: &Wrappers) {
    let records = wrappers.own_records(peer.uid, peer.owner).await;
    let (answer, bytes, _permit) = match records {
        Ok((permit, bytes)) => (
            DaemonAnswer::OwnRecords { bytes: bytes.len() },
            bytes,
            Some(permit),
        ),
        Err(cause) => (DaemonAnswer::Error(cause), Vec::new(), None),
    };
    let sent = timeout(CLIENT_TIMEOUT, async {
        stream.write_all(&line(&answer)).await?;
        stream.write_all(&bytes).await
    });
    if !matches!(sent.await, Ok(Ok(()))) {
        tracing::debug!("a client of the control socket left before it had its records");
    }
}

/// A client that keeps its connection.
enum Guest {
    Wrapper(Hello),
    Records(Hello),
    Fate(Hello, StartedProcess),
    Run(RunHello),
    Reader,
}

impl Guest {
    /// Returns the client, if the request introduces one that keeps its connection.
    fn new(request: &DaemonRequest) -> Option<Self> {
        match request {
            DaemonRequest::Wrap { hello } => Some(Self::Wrapper(hello.clone())),
            DaemonRequest::Records { hello } => Some(Self::Records(hello.clone())),
            DaemonRequest::Fate { hello, process } => Some(Self::Fate(hello.clone(), *process)),
            DaemonRequest::Run { hello } => Some(Self::Run(hello.clone())),
            DaemonRequest::OwnRecords => Some(Self::Reader),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_connects_before_the_mode_is_set() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("x.sock");
        let socket = bind(&path).expect("a name");
        let refused = std::os::unix::net::UnixStream::connect(&path).expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listener = start_listening(socket).expect("it listens");
        std::os::unix::net::UnixStream::connect(&path).expect("it is answered");
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("run/x.sock");
        drop(listen(&path).expect("first"));
        assert!(!path.exists());
        drop(bind(&path).expect("of a daemon that was killed"));
        let second = listen(&path).expect("stale socket");
        let mode = fs::metadata(&path).expect("socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        assert!(matches!(listen(&path), Err(ListenError::InUse(_))));
        drop(second);
    }
}

//! The listeners, on their own threads, so that the program that hosts the proxy never waits for it.

use std::{
    fs, io,
    net::SocketAddr,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
    sync::{Arc, Weak, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    runtime::Runtime,
    sync::watch,
    time::MissedTickBehavior,
};

use super::{
    HttpSettings, activation,
    admission::ListenerEntry,
    chunks::BodyMemory,
    gate::ConnectionGate,
    mcp,
    peer::{Peer, Peers},
    self_wake::SelfWaking,
    serve::Proxy,
    shares::QuotaPermit,
    stall::StallGuard,
    upstream::Upstream,
};

/// Longest head, bytes.
const MAX_HEAD: usize = 128 << 10;
/// Headers of a request at most.
const MAX_HEADERS: usize = 128;
/// The time for which responses in progress may continue after the proxy was told to stop.
const GRACE: Duration = Duration::from_secs(20);
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// The interval at which unused MCP sessions are searched for.
const SWEEP: Duration = Duration::from_secs(60);
/// Name of the proxy's threads.
const THREAD: &str = "mcpmon-llm";
/// Most threads; more of them do not make responses faster.
const MAX_THREADS: usize = 4;

/// The reason why the proxy does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use, or this process may not listen on it.
    #[error(
        "cannot listen on {address}{}; name another address in `proxy.listen`",
        obstacle(*address, source)
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The proxy cannot listen on the Unix socket.
    #[error("cannot listen on {path} (`proxy.listen_unix`)", path = path.display())]
    ListenUnix {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The threads cannot be started, or the host's certificate authorities cannot be read.
    #[error("the LLM proxy cannot start")]
    Start(#[source] io::Error),
}

/// The first port that needs no privilege.
const FIRST_FREE_PORT: u16 = 1024;

/// Returns what is in the way of a listener, as far as its error tells.
fn obstacle(address: SocketAddr, source: &io::Error) -> &'static str {
    let kind = source.kind();
    if kind == io::ErrorKind::AddrInUse {
        ", another process does"
    } else if kind == io::ErrorKind::PermissionDenied && address.port() >= FIRST_FREE_PORT {
        ", which is reserved for the proxy of this host's daemon"
    } else {
        ""
    }
}

/// A proxy that runs.
#[derive(Debug)]
pub struct RunningProxy {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    closed: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl RunningProxy {
    /// Starts listening.
    ///
    /// # Errors
    /// Returns an error if that is not possible.
    pub fn start(settings: HttpSettings, exchanges: Arc<dyn super::Exchanges>) -> Result<Self, StartError> {
        let bound = BoundListener::new(&settings)?;
        let address = bound.address;
        let (stop, stopped) = watch::channel(false);
        let (tell_started, started) = mpsc::channel();
        let (tell_closed, closed) = mpsc::channel();
        // The runtime is created and dropped on a thread of its own, because the host has its own runtime.
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                let (runtime, proxy) = match made(&settings, exchanges, &stopped) {
                    Ok(made) => made,
                    Err(error) => {
                        report(tell_started.send(Err(error)));
                        return;
                    }
                };
                report(tell_started.send(Ok(())));
                serve(&runtime, bound, proxy, stopped, tell_closed);
                runtime.shutdown_background();
            })
            .map_err(StartError::Start)?;
        let running = Self {
            address,
            stop,
            closed,
            thread: Some(thread),
        };
        match started.recv() {
            Ok(Ok(())) => Ok(running),
            Ok(Err(error)) => Err(StartError::Start(error)),
            Err(gone) => Err(StartError::Start(io::Error::other(gone))),
        }
    }

    /// Returns the address it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns whether it still serves.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops listening. Responses in progress continue for a while, and the caller does not wait for them.
    pub fn retire(mut self) {
        self.close();
        self.thread = None;
    }

    /// Stops listening, and waits until the responses in progress are complete, or took too long.
    pub fn stop(mut self) {
        self.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the LLM proxy's thread panicked");
        }
    }

    fn close(&self) {
        self.stop.send_replace(true);
        if self.closed.recv_timeout(GRACE).is_err() {
            tracing::warn!("the LLM proxy's listener may be open still");
        }
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Creates the runtime and the service of connections.
fn made(
    settings: &HttpSettings,
    exchanges: Arc<dyn super::Exchanges>,
    stopped: &watch::Receiver<bool>,
) -> io::Result<(Runtime, Arc<Proxy>)> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.min(MAX_THREADS))
        .thread_name(THREAD)
        .enable_all()
        .build()?;
    let room = BodyMemory::new(settings.room);
    let mcp = settings.mcp.clone();
    let mcp = mcp.map(|servers| Arc::new(mcp::McpProxy::new(servers, room.clone(), stopped.clone())));
    let proxy = Proxy {
        providers: settings.providers.clone(),
        limits: settings.limits,
        patience: settings.patience,
        head: settings.head,
        room,
        upstream: Upstream::new()?,
        exchanges,
        mcp,
    };
    Ok((runtime, Arc::new(proxy)))
}

/// Accepts connections until the proxy is to stop, and then waits for the responses in progress.
fn serve(
    runtime: &Runtime,
    bound: BoundListener,
    proxy: Arc<Proxy>,
    stopped: watch::Receiver<bool>,
    tell_closed: mpsc::Sender<()>,
) {
    let accepting = runtime.spawn(bound.serve(proxy, stopped, tell_closed));
    match runtime.block_on(accepting) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the LLM proxy cannot accept connections"),
        Err(error) => tracing::error!(%error, "the LLM proxy does not accept connections any more"),
    }
}

fn report<T>(told: Result<(), mpsc::SendError<T>>) {
    if told.is_err() {
        tracing::debug!("whoever started the LLM proxy is gone");
    }
}

struct BoundListener {
    address: SocketAddr,
    tcp: std::net::TcpListener,
    unix: Option<(std::os::unix::net::UnixListener, SocketFile)>,
    entry: ListenerEntry,
    /// Most connections at a time.
    most: usize,
}

/// Removes the socket file when dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(%error, "the proxy's socket was gone already");
        }
    }
}

impl BoundListener {
    fn new(settings: &HttpSettings) -> Result<Self, StartError> {
        let wanted = settings.listen;
        let failed = |source| StartError::Listen {
            address: wanted,
            source,
        };
        let tcp = activation::listen(wanted).map_err(failed)?;
        tcp.set_nonblocking(true).map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        let unix = settings.listen_unix.as_deref().map(|path| {
            listen_unix(path, settings.group).map_err(|source| StartError::ListenUnix {
                path: path.to_owned(),
                source,
            })
        });
        Ok(Self {
            address,
            tcp,
            unix: unix.transpose()?,
            entry: ListenerEntry {
                loopback: address.ip().to_canonical().is_loopback(),
                token: settings.token.clone(),
                peer: Peer::default(),
            },
            most: settings.connections,
        })
    }

    async fn serve(
        self,
        proxy: Arc<Proxy>,
        mut stopped: watch::Receiver<bool>,
        tell_closed: mpsc::Sender<()>,
    ) -> io::Result<()> {
        let Self {
            tcp,
            unix,
            entry,
            address,
            most,
        } = self;
        let peers = Peers::default();
        let tcp = TcpListener::from_std(tcp)?;
        let unix = match unix {
            Some((listener, file)) => Some((UnixListener::from_std(listener)?, file)),
            None => None,
        };
        let mcp = proxy.mcp.as_ref();
        if let Some(mcp) = mcp {
            tokio::spawn(sweep(Arc::downgrade(mcp)));
            tokio::spawn(mcp::near_timer());
        }
        let graceful = GracefulShutdown::new();
        let mut gate = ConnectionGate::new(most, mcp.map(Arc::downgrade));
        loop {
            tokio::select! {
                () = end(&mut stopped) => break,
                accepted = tcp.accept() => match accepted {
                    Ok((stream, client)) => {
                        if let Err(error) = stream.set_nodelay(true) {
                            tracing::debug!(%error, "small writes may wait");
                        }
                        let here = match address.ip().to_canonical().is_unspecified() {
                            true => stream.local_addr().unwrap_or(address),
                            false => address,
                        };
                        let entry = ListenerEntry {
                            peer: peers.of(client, here),
                            ..entry.clone()
                        };
                        let Some((stream, slot)) = gate.admit(stream, entry.peer.owner()) else {
                            continue;
                        };
                        // Look the peer up now, so that the first request does not have to wait for it.
                        if !entry.peer.is_near() {
                            let peer = entry.peer.clone();
                            tokio::task::spawn_blocking(move || peer.who());
                        }
                        connected(&proxy, entry, stream, slot, graceful.watcher());
                    }
                    Err(error) => pause(&error).await,
                },
                accepted = accept(unix.as_ref()) => match accepted {
                    Ok(stream) => {
                        let entry = ListenerEntry {
                            loopback: false, // no name leads here
                            token: None,
                            peer: at_socket(&stream),
                        };
                        let Some((stream, slot)) = gate.admit(stream, entry.peer.owner()) else {
                            continue;
                        };
                        connected(&proxy, entry, stream, slot, graceful.watcher());
                    }
                    Err(error) => pause(&error).await,
                },
            }
        }
        drop((tcp, unix));
        report(tell_closed.send(()));
        if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
            tracing::warn!(
                "answers of providers are cut off: they took longer than the proxy may take to stop"
            );
        }
        Ok(())
    }
}

/// Forgets unused sessions regularly, also when no requests come.
async fn sweep(mcp: Weak<mcp::McpProxy>) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(mcp) = mcp.upgrade() else { return };
        mcp.sweep();
    }
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "the LLM proxy cannot accept a connection");
    tokio::time::sleep(PAUSE).await;
}

/// Returns the peer of a Unix socket.
fn at_socket(stream: &UnixStream) -> Peer {
    let credentials = stream.peer_cred().ok();
    let pid = credentials.and_then(|peer| peer.pid());
    Peer::at_socket(
        credentials.map(|peer| peer.uid()),
        pid.and_then(|pid| u32::try_from(pid).ok()),
    )
}

/// Waits until the proxy is to stop.
async fn end(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        tracing::debug!("whoever started the LLM proxy is gone");
    }
}

async fn accept(unix: Option<&(UnixListener, SocketFile)>) -> io::Result<UnixStream> {
    match unix {
        Some((listener, _)) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

/// Serves a connection.
fn connected<S>(proxy: &Arc<Proxy>, entry: ListenerEntry, stream: S, slot: QuotaPermit, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (proxy, entry) = (Arc::clone(proxy), Arc::new(entry));
    tokio::spawn(async move {
        let (head, patience) = (proxy.head, proxy.patience);
        let service = service_fn(move |request| {
            let (proxy, entry) = (Arc::clone(&proxy), Arc::clone(&entry));
            async move { Ok::<_, std::convert::Infallible>(proxy.answer(&entry, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(StallGuard::new(stream, patience)), service);
        if let Err(error) = SelfWaking::new(watcher.watch(connection)).await {
            tracing::debug!(%error, "a connection of an agent ended");
        }
        drop(slot);
    });
}

/// Listens on a Unix socket for its owner, and for `group` if there is one.
fn listen_unix(
    path: &Path,
    group: Option<u32>,
) -> io::Result<(std::os::unix::net::UnixListener, SocketFile)> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    match fs::symlink_metadata(path) {
        // A file that is not a socket belongs to another program.
        Ok(metadata) if !is_socket(&metadata) => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = bind(path)?;
    let file = SocketFile(path.to_owned());
    let mode = match group {
        Some(_) => {
            std::os::unix::fs::chown(path, None, group)?;
            0o660
        }
        None => 0o600,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    // Listen only now: before this call nobody can connect, so the mode before does not matter.
    socket::listen(&socket, Backlog::MAXCONN)?;
    Ok((socket.into(), file))
}

/// Creates a socket file without listening on it yet. Its mode comes from the umask, which all threads share.
fn bind(path: &Path) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

fn is_socket(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_socket()
}

//! Peers of connections: the kernel knows the user of a socket on this host, and `/proc` the process that has it open.

mod diag;
mod holder;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use mcpmon_model::ProcessId;
use tokio::sync::Notify;

use super::shares::QuotaOwner;

/// Longest wait for a look-up by another task.
const LOOK: Duration = Duration::from_secs(1);
/// Most processes that are examined first, because they connected before.
const MAX_RECENT: usize = 16;

/// The identity of a peer, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The user.
    pub uid: Option<u32>,
    /// The process.
    pub process: Option<ProcessId>,
}

/// The other end of one connection. It is looked up once, on demand; clones share the result.
#[derive(Clone, Debug, Default)]
pub struct Peer(Arc<PeerState>);

#[derive(Debug, Default)]
struct PeerState {
    who: OnceLock<Who>,
    /// The socket at the other end, which the kernel returns quickly.
    socket: OnceLock<Option<diag::Socket>>,
    /// Notifies tasks that wait for the result.
    found: Notify,
    connection: Option<(Connection, Peers)>,
    address: Option<IpAddr>,
}

/// A TCP connection, from this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Connection {
    client: SocketAddr,
    here: SocketAddr,
}

impl Peer {
    /// The peer of a Unix socket, which the kernel reports with the connection.
    pub fn at_socket(uid: Option<u32>, pid: Option<u32>) -> Self {
        let who = Who {
            uid,
            process: pid.and_then(holder::identify),
        };
        Self(Arc::new(PeerState {
            who: who.into(),
            ..PeerState::default()
        }))
    }

    /// Returns the identity. The first call may take some milliseconds, and concurrent calls wait for it.
    pub fn who(&self) -> Who {
        let look = || {
            let found = self.0.connection.as_ref().zip(self.socket());
            found.map_or_else(Who::default, |((_, peers), socket)| peers.look(socket))
        };
        let who = *self.0.who.get_or_init(look);
        self.0.found.notify_waiters();
        who
    }

    /// Checks whether the peer is the process that connected last: this check is faster than waking another thread to
    /// search. Returns whether the identity is known now.
    pub(super) fn is_near(&self) -> bool {
        let connection = self.0.connection.as_ref().zip(self.socket());
        if let Some(who) = connection.and_then(|((_, peers), socket)| peers.near(socket)) {
            self.0.who.get_or_init(|| who);
        }
        self.known().is_some()
    }

    /// Waits until the identity is known, if a task is looking it up, but no longer than a second. Blocks no thread.
    pub(super) async fn found(&self) {
        let found = self.0.found.notified();
        if self.known().is_none() && tokio::time::timeout(LOOK, found).await.is_err() {
            tracing::debug!("it takes long to find out whose connection it is");
        }
    }

    /// Returns the owner of a request's resources: a user, if the kernel reports one, else an address. It does not
    /// wait.
    pub(super) fn owner(&self) -> QuotaOwner {
        let uid = match self.known() {
            Some(who) => who.uid,
            None => self.socket().map(|socket| socket.uid),
        };
        match uid {
            Some(uid) => QuotaOwner::User(uid),
            None => self.0.address.map_or(QuotaOwner::NOBODY, QuotaOwner::at),
        }
    }

    fn socket(&self) -> Option<diag::Socket> {
        let look = || {
            let (Connection { client, here }, peers) = self.0.connection.as_ref()?;
            // The connection may be closed already.
            peers.0.kernel.socket(*client, *here).unwrap_or_else(|error| {
                tracing::debug!(%error, "the kernel does not tell whose connection it is");
                None
            })
        };
        *self.0.socket.get_or_init(look)
    }

    /// Returns whether the peer is on this host, so that its process can be found.
    pub fn is_here(&self) -> bool {
        self.0.connection.is_some()
    }

    /// Returns the identity if it is known already, without waiting.
    pub fn known(&self) -> Option<Who> {
        self.0.who.get().copied()
    }
}

/// The peers of a listener's connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Peers(Arc<PeerCache>);

#[derive(Debug, Default)]
struct PeerCache {
    kernel: diag::Kernel,
    /// Processes that connected before, the latest first.
    recent: Mutex<Vec<u32>>,
    /// The process that connected last, held open.
    last: Mutex<Option<holder::HeldProcess>>,
}

impl Peers {
    /// Returns the peer of a connection from `client`, accepted at `here`. A peer on another host has no identity.
    pub(super) fn of(&self, client: SocketAddr, here: SocketAddr) -> Peer {
        let (client, here) = (canonical(client), canonical(here));
        let is_here = client.ip().is_loopback() || client.ip() == here.ip();
        Peer(Arc::new(PeerState {
            connection: is_here.then(|| (Connection { client, here }, self.clone())),
            address: Some(client.ip()),
            ..PeerState::default()
        }))
    }

    fn look(&self, socket: diag::Socket) -> Who {
        let recent = self.lock().clone();
        let process = holder::of(socket.inode, socket.uid, &recent);
        if let Some(process) = process {
            self.note(process.pid);
        }
        Who {
            uid: Some(socket.uid),
            process,
        }
    }

    /// Returns the process that connected last, if it has the socket.
    fn near(&self, socket: diag::Socket) -> Option<Who> {
        let pid = self.lock().first().copied()?;
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let held = last.take().filter(|held| held.pid() == pid);
        let mut held = held.or_else(|| holder::HeldProcess::of(pid))?;
        // If the process does not have the socket, it may have ended and its number may have been reused: open it anew
        // next time.
        let process = held.having(socket.inode, socket.uid)?;
        *last = Some(held);
        Some(Who {
            uid: Some(socket.uid),
            process: Some(process),
        })
    }

    fn note(&self, pid: u32) {
        let mut recent = self.lock();
        recent.retain(|other| *other != pid);
        recent.insert(0, pid);
        recent.truncate(MAX_RECENT);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        self.0.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        net::{TcpListener, TcpStream},
        process::{Command, Stdio},
    };

    use test_case::test_case;

    use super::*;

    fn own() -> Who {
        Who {
            uid: Some(nix::unistd::getuid().as_raw()),
            process: holder::identify(std::process::id()),
        }
    }

    #[test_case("127.0.0.1:0", "127.0.0.1"; "IPv4")]
    #[test_case("[::1]:0", "::1"; "IPv6")]
    #[test_case("[::]:0", "127.0.0.1"; "IPv4 at a listener for both")]
    fn the_process_that_connected(listen: &str, dial: &str) {
        let listener = TcpListener::bind(listen).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let client = TcpStream::connect((dial, port)).expect("connected");
        let (accepted, from) = listener.accept().expect("a client");
        let peer = Peers::default().of(from, accepted.local_addr().expect("an address"));
        assert_eq!(peer.known(), None);
        assert_eq!(peer.owner(), QuotaOwner::User(nix::unistd::getuid().as_raw()));
        assert_eq!(peer.known(), None, "its process is not looked for to tell that");
        assert_eq!(peer.who(), own());
        drop(client);
        assert_eq!(peer.known(), Some(own()), "it is not looked up again");
    }

    #[tokio::test]
    async fn those_who_wait_hear_of_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (accepted, from) = listener.accept().expect("a client");
        let peer = Peers::default().of(from, accepted.local_addr().expect("an address"));
        let looking = peer.clone();
        let (found, looked) = tokio::join!(peer.found(), tokio::task::spawn_blocking(move || looking.who()));
        assert_eq!((found, looked.expect("no panic")), ((), own()));
        assert_eq!(peer.known(), Some(own()));
        peer.found().await;
        drop(client);
    }

    #[test]
    fn another_process() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line <&3");
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .spawn()
            .expect("bash");
        let (accepted, from) = listener.accept().expect("a client");
        let peers = Peers::default();
        let here = accepted.local_addr().expect("an address");
        assert!(!peers.of(from, here).is_near(), "nobody connected before");
        let who = peers.of(from, here).who();
        assert_eq!(who.process, holder::identify(child.id()));
        assert_eq!(*peers.lock(), [child.id()]);
        assert_eq!(peers.of(from, here).who(), who, "found where it was before");
        let again = peers.of(from, here);
        assert!(again.is_near(), "and at once");
        assert_eq!(again.known(), Some(who));
        let again = peers.of(from, here);
        assert!(again.is_near(), "the more so where it was looked at");
        assert_eq!(again.known(), Some(who));
        peers.note(std::process::id());
        assert!(!peers.of(from, here).is_near(), "another one connected last");
        drop(accepted);
        child.wait().expect("it ends");
        assert_eq!(peers.of(from, here).who().process, None, "nobody has it any more");
    }

    #[test]
    fn the_latest_of_many_connections_is_seen_at_once() {
        const MANY: usize = 65;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let script = format!(
            "for n in {{1..{MANY}}}; do exec {{fd}}<>/dev/tcp/127.0.0.1/{port}; done; echo; read -r line <&$fd"
        );
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash");
        let accepted: Vec<_> = (0..MANY).map(|_| listener.accept().expect("a client")).collect();
        // A connection has its number once the shell has moved it there.
        let mut told = child.stdout.take().expect("a pipe");
        told.read_exact(&mut [0]).expect("the shell is done");
        let peers = Peers::default();
        let peer = |at: usize| {
            let (stream, from) = &accepted[at];
            peers.of(*from, stream.local_addr().expect("an address"))
        };
        peers.note(child.id());
        assert!(peer(MANY - 1).is_near());
        assert!(peer(MANY - 2).is_near(), "under another number");
        assert!(!peer(0).is_near(), "it has many others since");
        assert!(peer(MANY - 1).is_near(), "the process is looked at anew");
        assert_eq!(peer(0).who().process, holder::identify(child.id()), "it is found");
        drop(accepted);
        child.wait().expect("it ends");
    }

    #[test]
    fn a_listener_is_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = listener.local_addr().expect("an address");
        let nobody: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        assert_eq!(Peers::default().of(here, nobody).who(), Who::default());
    }

    #[test]
    fn another_host_is_nobody() {
        let addresses = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let peer = Peers::default().of(addresses("192.0.2.7:50000"), addresses("192.0.2.1:8788"));
        assert!(peer.0.connection.is_none());
        assert_eq!(peer.who(), Who::default());
        assert_eq!(peer.owner().to_string(), "192.0.2.7");
    }

    #[test]
    fn at_a_unix_socket_the_kernel_has_said_it() {
        let peer = Peer::at_socket(own().uid, Some(std::process::id()));
        assert_eq!(peer.known(), Some(own()));
    }
}

//! Observations of launches, processes and connections. All layers build these; the Monitor judges them.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{Digest, IpProtocol, Package, PinKey, ServerId};

/// Identity of a process that survives reuse of its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// Number in the initial pid namespace.
    pub pid: u32,
    /// Start time since boot, nanoseconds.
    pub start: u64,
}

/// Number of a running server: one launch, with every process that results from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub u32);

/// Identity of a file as the kernel saw it when it was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The kernel's own device number.
    pub device: u32,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Change time, nanoseconds since the epoch.
    pub ctime: u64,
}

/// A program was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exec {
    /// The process.
    pub process: ProcessId,
    /// Its parent.
    pub parent: ProcessId,
    /// Server it already belonged to.
    pub instance: Option<InstanceId>,
    /// True if every egress list applies to it until it is judged.
    pub pending: bool,
    /// Arguments, if they are known.
    pub argv: Vec<String>,
    /// The same, with links into installed packages resolved; empty if there are none.
    pub linked: Vec<String>,
    /// Path given to `execve`; empty if it is not known.
    pub filename: String,
    /// The package of the server that it starts, as its files tell; `None` if it was not looked up.
    pub package: Option<Package>,
    /// Working directory of the process inside its root; `None` if it was not looked up, or is not known.
    pub directory: Option<String>,
    /// Command name.
    pub comm: String,
    /// Real user id.
    pub uid: u32,
    /// The file that runs.
    pub file: FileId,
    /// Number of hard links to the file; 0 if unknown, or if there is none any more.
    pub links: u32,
    /// Owner of the file; `None` if unknown.
    pub owner: Option<u32>,
    /// True if that file is a dynamic loader by its content, whatever its name. Known of what agents and servers start.
    pub loader: bool,
    /// True if the kernel killed it before its first instruction, because its file is refused.
    pub killed: bool,
    /// True if the kernel stopped it before its first instruction, because it may be the start of a pinned server.
    pub held: bool,
    /// True if the kernel compared the digest of the file that runs with the accepted ones, and did not stop the process
    /// therefore.
    pub verified: bool,
    /// True if the file that runs is mcpmon itself: a wrapper, or one of its shims.
    pub is_wrapper: bool,
    /// The server that a wrapper started as this process; proves that the process is a server, whatever its name.
    pub wrapped_as: Option<PinKey>,
    /// The id that the wrapper which started this process was given for its server (`mcpmon wrap --server ID`).
    pub wrapper_id: Option<ServerId>,
}

/// A program was not started, because the kernel refused it by its digest. The process goes on with the program that it
/// had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedStart {
    /// The process.
    pub process: ProcessId,
    /// Command name of the program that it goes on with.
    pub comm: String,
    /// Its real user id.
    pub uid: u32,
    /// Path of the program that was to start.
    pub path: PathBuf,
    /// Digest of that program.
    pub digest: Digest,
}

/// A stopped process got `SIGCONT` from a process other than the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The stopped process.
    pub process: ProcessId,
    /// The sender, as text for a person.
    pub by: String,
}

/// A process of a server, or one that is not judged yet, started another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The new process.
    pub process: ProcessId,
    /// The process that called fork.
    pub parent: ProcessId,
    /// Server of both processes, if the kernel knew it.
    pub instance: Option<InstanceId>,
}

/// A process of a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process.
    pub process: ProcessId,
    /// Server it belonged to.
    pub instance: InstanceId,
    /// Status word as in `wait(2)`; `None` if the end itself was not seen.
    pub status: Option<u32>,
}

/// A connection was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The process that connects.
    pub process: ProcessId,
    /// Its command name.
    pub comm: String,
    /// Its real user id.
    pub uid: u32,
    /// Server it belongs to.
    pub instance: Option<InstanceId>,
    /// Its control group.
    pub cgroup: u64,
    /// Number of the rule that matched.
    pub rule: Option<u32>,
    /// Address to which the rules were applied.
    pub address: IpAddr,
    /// Address as the process gave it.
    pub given: IpAddr,
    /// Port.
    pub port: u16,
    /// Transport protocol.
    pub transport: IpProtocol,
    /// The IP protocol number.
    pub protocol: u8,
    /// The kernel's number of the socket, if its end will be reported.
    pub socket: Option<u64>,
    /// The kernel hook that judged it.
    pub checkpoint: Checkpoint,
    /// The kernel's decision.
    pub outcome: ConnectionOutcome,
}

/// The kernel hook at which a connection was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// In the call that names the address.
    Call,
    /// At the creation of the socket, which names no address.
    Socket,
    /// At the departure of a packet.
    Packet,
}

/// The kernel's decision about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOutcome {
    /// Let it through.
    Passed,
    /// Refused it.
    Refused,
    /// Let it through, though a rule would have refused it.
    WouldRefuse,
}

/// A connection that is open, with the processes that hold its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenConnection {
    /// The kernel's number of the socket.
    pub socket: u64,
    /// Address on the other side.
    pub remote: SocketAddr,
    /// Transport protocol.
    pub transport: IpProtocol,
    /// True if the other side opened it.
    pub is_answer: bool,
    /// Its processes, if they are known.
    pub holders: Vec<ConnectionHolder>,
}

/// A process that holds the socket of a connection, with the rules that apply to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionHolder {
    /// The process.
    pub process: ProcessId,
    /// Its command name.
    pub comm: String,
    /// Its real user id.
    pub uid: u32,
    /// Server it belongs to.
    pub instance: Option<InstanceId>,
    /// True if the rules for agents apply to it.
    pub is_agent: bool,
    /// The lists of addresses that apply to it.
    pub lists: Vec<u32>,
}

/// The outcome of an order to cut a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutOutcome {
    /// It was cut, after this traffic; `None` if the kernel does not count it.
    Cut(Option<ConnectionTraffic>),
    /// It stays open, for this reason.
    Failed(String),
}

/// Bytes that were sent and received on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTraffic {
    /// Bytes of payload that were sent, without retransmissions.
    pub sent: u64,
    /// Bytes of payload that were received.
    pub received: u64,
}

/// A process of a server closed the socket of a connection that it had requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedConnection {
    /// The process that had connected.
    pub process: ProcessId,
    /// Its command name.
    pub comm: String,
    /// Its real user id.
    pub uid: u32,
    /// Server it belongs to.
    pub instance: Option<InstanceId>,
    /// The kernel's number of the socket.
    pub socket: u64,
    /// Address on the other side.
    pub remote: SocketAddr,
    /// Transport protocol.
    pub transport: IpProtocol,
    /// False if the other side never answered.
    pub established: bool,
    /// The time since the connection was requested.
    pub duration: Duration,
    /// Bytes sent and received; `None` if the kernel does not count them.
    pub traffic: Option<ConnectionTraffic>,
}

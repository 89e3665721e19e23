//! Records the kernel programs write into the rings, and the counters beside them.
//!
//! A record in a ring is aligned to 8 bytes only: read it with an unaligned read.

use crate::{
    assert_layout,
    limits::{ARGV_MAX, COMM_LEN, FILENAME_MAX},
    pod,
    process::{FileKey, ProcessEntry},
};

/// The kind of a record: the first field of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// [`ExecRecord`]
    Exec = 1,
    /// [`ForkRecord`]
    Fork = 2,
    /// [`ExitRecord`]
    Exit = 3,
    /// [`ConnectRecord`]
    Connect = 4,
    /// [`ResumeRecord`]
    Resume = 5,
    /// [`CloseRecord`]
    Close = 6,
    /// [`RefusedStartRecord`]
    RefusedStart = 7,
}

/// First part of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// [`Kind`].
    pub kind: u16,
    /// Sequence it belongs to: 0 connections, 1 processes, 2 packets, which are in the ring of connections,
    /// 3 refused starts, which are in the ring of processes.
    pub ring: u16,
    /// CPU it was written on.
    pub cpu: u32,
    /// Counts every record attempted on this CPU and in this sequence, lost ones too: a gap proves a loss.
    pub sequence: u64,
    /// `CLOCK_BOOTTIME` (`CLOCK_MONOTONIC` before 5.7), nanoseconds.
    pub time: u64,
}

/// Identity of a process that survives reuse of its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ProcessKey {
    /// Start time since boot, nanoseconds; 0 where unknown.
    pub start: u64,
    /// Thread group id in the initial pid namespace.
    pub pid: u32,
    /// Explicit padding.
    pub reserved: u32,
}

/// A successful `execve`. Followed in the ring by `argv_copied` bytes of arguments, NUL-separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ExecRecord {
    /// Common part.
    pub header: Header,
    /// The process.
    pub process: ProcessKey,
    /// The process's real parent.
    pub parent: ProcessKey,
    /// Inode facts of the file that runs (for a script: the interpreter).
    pub file: FileKey,
    /// Link count of that file; 0 for a deleted or anonymous one.
    pub links: u32,
    /// `FLAG_*` bits.
    pub flags: u32,
    /// The kernel's entry for the process before this exec.
    pub entry: ProcessEntry,
    /// cgroup v2 id.
    pub cgroup: u64,
    /// Real user id.
    pub uid: u32,
    /// Bytes of the argument vector, all of it.
    pub argv_total: u32,
    /// Bytes of it that follow this record.
    pub argv_copied: u32,
    /// Bytes of `filename` in use, without the NUL.
    pub filename_len: u32,
    /// Owner of the file that runs, in the initial user namespace.
    pub owner: u32,
    /// Explicit padding.
    pub reserved: u32,
    /// Command name after the exec.
    pub comm: [u8; COMM_LEN],
    /// Path given to `execve` (for a script: the script).
    pub filename: [u8; FILENAME_MAX],
}

impl ExecRecord {
    /// The process was killed before its first instruction: its file is on the refused list.
    pub const FLAG_KILLED: u32 = 1;
    /// The argument vector could not be read.
    pub const FLAG_ARGV_FAULT: u32 = 1 << 1;
    /// The process is stopped before its first instruction, and waits to be judged.
    pub const FLAG_HELD: u32 = 1 << 2;
    /// The digest of the file that runs is an accepted one, and the program is stopped for no other reason.
    pub const FLAG_VERIFIED: u32 = 1 << 3;
    /// The program may be a server with an egress list: its process is restricted until it is judged.
    pub const FLAG_CANDIDATE: u32 = 1 << 4;
}

/// An [`ExecRecord`] with memory for the longest arguments: the buffer that the kernel program fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ExecBuffer {
    /// Fixed part.
    pub record: ExecRecord,
    /// Argument bytes.
    pub argv: [u8; ARGV_MAX],
}

/// A process of a server, or one that is not judged yet, started another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ForkRecord {
    /// Common part.
    pub header: Header,
    /// The new process.
    pub process: ProcessKey,
    /// The one that called fork.
    pub parent: ProcessKey,
    /// The entry that the child inherited.
    pub entry: ProcessEntry,
    /// Real user id.
    pub uid: u32,
    /// Explicit padding.
    pub reserved: u32,
}

/// The last thread of a tracked process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ExitRecord {
    /// Common part.
    pub header: Header,
    /// The process.
    pub process: ProcessKey,
    /// The entry of the process.
    pub entry: ProcessEntry,
    /// Status word as `wait(2)` gives it.
    pub status: u32,
    /// Real user id.
    pub uid: u32,
}

/// A held process was sent `SIGCONT` by another process than the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ResumeRecord {
    /// Common part.
    pub header: Header,
    /// The held process.
    pub process: ProcessKey,
    /// The process that sent the signal.
    pub sender: ProcessKey,
    /// Real user id of the sender.
    pub uid: u32,
    /// Explicit padding.
    pub reserved: u32,
    /// Command name of the sender.
    pub comm: [u8; COMM_LEN],
}

/// A start was refused (`EPERM`), because the program's digest is none of those accepted for its path: the process goes
/// on with the program that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RefusedStartRecord {
    /// Common part.
    pub header: Header,
    /// The process that called `execve`.
    pub process: ProcessKey,
    /// Real user id.
    pub uid: u32,
    /// Bytes of `path` in use, without the NUL.
    pub path_len: u32,
    /// Command name of the calling program.
    pub comm: [u8; COMM_LEN],
    /// SHA-256 of the refused program.
    pub digest: [u8; 32],
    /// Path of the refused program, below the root of the process.
    pub path: [u8; FILENAME_MAX],
}

/// A connection, a datagram, a packet or a socket that a rule or a server's process makes reportable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ConnectRecord {
    /// Common part.
    pub header: Header,
    /// The process that made the call; for a [`Hook::Packet`] the process that sent it, or else the one that opened the
    /// socket; 0 if neither is known.
    pub process: ProcessKey,
    /// The entry of the process.
    pub entry: ProcessEntry,
    /// cgroup v2 id.
    pub cgroup: u64,
    /// Socket cookie.
    pub cookie: u64,
    /// Address that the rules were tried on, network order; IPv4 in the first four bytes. Zero for a [`Hook::Socket`].
    pub address: [u8; 16],
    /// Address that the caller gave, in the same form; for a [`Hook::Packet`] that of its socket's peer.
    pub given: [u8; 16],
    /// Rule that matched; 0 for none.
    pub rule: u32,
    /// Real user id.
    pub uid: u32,
    /// Port, host order.
    pub port: u16,
    /// 4 or 6: family of `address`.
    pub family: u8,
    /// 4 or 6: family of `given`.
    pub given_family: u8,
    /// [`Form`](crate::address::Form) of the address as given.
    pub form: u8,
    /// `IPPROTO_*` of the socket.
    pub protocol: u8,
    /// [`Action`].
    pub action: u8,
    /// [`Hook`].
    pub hook: u8,
    /// Command name.
    pub comm: [u8; COMM_LEN],
}

/// A connection that a process of a server requested, stored with its socket until that is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct OpenedConnection {
    /// The time of the call, by the clock of [`Header::time`].
    pub time: u64,
    /// The process that called.
    pub process: ProcessKey,
    /// Address that the rules were tried on, network order; IPv4 in the first four bytes.
    pub address: [u8; 16],
    /// Command name.
    pub comm: [u8; COMM_LEN],
    /// Server instance of the process.
    pub instance: u32,
    /// Real user id.
    pub uid: u32,
    /// Port, host order.
    pub port: u16,
    /// 4 or 6: family of `address`.
    pub family: u8,
    /// `IPPROTO_*` of the socket.
    pub protocol: u8,
    /// Explicit padding.
    pub reserved: u32,
}

/// The socket of a connection was closed by its last holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CloseRecord {
    /// Common part.
    pub header: Header,
    /// The connection.
    pub connection: OpenedConnection,
    /// Socket cookie.
    pub cookie: u64,
    /// Bytes of payload that were sent, each counted once, and of those that are still queued.
    pub sent: u64,
    /// Bytes of payload that were received.
    pub received: u64,
    /// `FLAG_*` bits.
    pub flags: u32,
    /// Explicit padding.
    pub reserved: u32,
}

impl CloseRecord {
    /// The bytes were counted, because it is a TCP connection.
    pub const FLAG_COUNTED: u32 = 1;
    /// The peer has answered, or the protocol has no answers.
    pub const FLAG_ESTABLISHED: u32 = 1 << 1;
}

/// The kernel's action on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// Let through.
    Allow = 0,
    /// Refused with `EPERM`.
    Deny = 1,
    /// A rule would have refused it, but nothing is enforced.
    WouldDeny = 2,
}

/// The hook at which a connection was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hook {
    /// `cgroup/connect4` or `connect6`.
    Connect = 0,
    /// `cgroup/sendmsg4` or `sendmsg6`.
    Send = 1,
    /// `cgroup/sock_create`.
    Socket = 2,
    /// `cgroup_skb/egress`.
    Packet = 3,
}

/// Index into the per-CPU counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    /// Execs seen.
    ExecSeen = 0,
    /// Exec records lost to a full ring.
    ExecLost,
    /// Forks and exits of tracked processes seen.
    ProcessSeen,
    /// Fork and exit records lost.
    ProcessLost,
    /// Connections a rule or a server's process made reportable.
    ConnectSeen,
    /// Their records lost.
    ConnectLost,
    /// Connections refused.
    Denied,
    /// Records of refusals lost; the refusals themselves never are.
    DeniedLost,
    /// Connections a rule would have refused.
    WouldDeny,
    /// Processes that did not fit the process table.
    ProcessTableFull,
    /// Kernel reads that failed.
    ReadFailed,
    /// Executables refused at exec.
    ExecKilled,
    /// Starts stopped at exec until they are judged.
    ExecHeld,
    /// Connections of servers that were closed.
    CloseSeen,
    /// Their records lost.
    CloseLost,
    /// Starts refused by their digest.
    StartRefused,
    /// Starts whose digest is accepted.
    StartVerified,
    /// Starts of checked programs for which the kernel gave no SHA-256.
    StartUnhashed,
    /// Candidates that continued, restricted until they are judged, because they were not stopped.
    ExecRestricted,
    /// Sockets that were not bound to a reserved address.
    BindRefused,
}

impl Counter {
    /// Number of counters.
    pub const COUNT: u32 = 20;
    /// Names, in index order.
    pub const NAMES: [&'static str; Self::COUNT as usize] = [
        "exec_seen",
        "exec_lost",
        "process_seen",
        "process_lost",
        "connect_seen",
        "connect_lost",
        "denied",
        "denied_lost",
        "would_deny",
        "process_table_full",
        "read_failed",
        "exec_killed",
        "exec_held",
        "close_seen",
        "close_lost",
        "start_refused",
        "start_verified",
        "start_unhashed",
        "exec_restricted",
        "bind_refused",
    ];
}

assert_layout!(Header, size 24, sequence at 8, time at 16);
assert_layout!(ProcessKey, size 16, pid at 8);
assert_layout!(ExecRecord, size 424, process at 24, parent at 40, file at 56, links at 88, entry at 96,
    cgroup at 120, uid at 128, argv_copied at 136, owner at 144, comm at 152, filename at 168);
assert_layout!(ExecBuffer, size 424 + ARGV_MAX, argv at 424);
assert_layout!(ForkRecord, size 88, entry at 56, uid at 80);
assert_layout!(ExitRecord, size 72, entry at 40, status at 64, uid at 68);
assert_layout!(ResumeRecord, size 80, sender at 40, uid at 56, comm at 64);
assert_layout!(RefusedStartRecord, size 352, process at 24, uid at 40, comm at 48, digest at 64, path at 96);
assert_layout!(ConnectRecord, size 144, process at 24, entry at 40, cgroup at 64, address at 80, given at 96,
    rule at 112, port at 120, comm at 128);
assert_layout!(OpenedConnection, size 72, process at 8, address at 24, comm at 40, instance at 56, port at 64);
assert_layout!(CloseRecord, size 128, connection at 24, cookie at 96, flags at 120);
pod!(
    Header,
    ProcessKey,
    ExecRecord,
    ExecBuffer,
    ForkRecord,
    ExitRecord,
    ResumeRecord,
    RefusedStartRecord,
    ConnectRecord,
    OpenedConnection,
    CloseRecord
);
const _: () = assert!(Counter::BindRefused as u32 + 1 == Counter::COUNT);

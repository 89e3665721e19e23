//! The kernel's entry for a process: its server or agent, if it belongs to one.

use crate::{assert_layout, event::ProcessKey, limits::COMM_LEN, pod, watch::LIST_PROXIED};

/// An entry of the process table, keyed by thread group id. It is copied to children on fork, kept across exec, and
/// removed when the last thread exits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ProcessEntry {
    /// Number of the server instance this process belongs to; 0 for none.
    pub instance: u32,
    /// Egress lists that apply to it, both of them; 0 for none. A server that another server started is held to the
    /// list of that one, too.
    pub egress: [u32; 2],
    /// `FLAG_*` bits.
    pub flags: u32,
    /// Changes with every exec that sets [`FLAG_PENDING`](Self::FLAG_PENDING): a judgement applies to one exec only.
    pub exec: u32,
    /// List of its session, which applies in addition to the others; 0 for none. It applies in addition to
    /// [`LIST_PENDING`], too.
    ///
    /// [`LIST_PENDING`]: crate::watch::LIST_PENDING
    pub session: u32,
}

impl ProcessEntry {
    /// An agent, or a descendant of one: rules of scope `agents` apply.
    pub const FLAG_AGENT: u32 = 1;
    /// May be a server with an egress list, and is not judged by the daemon yet: every egress list applies. When the
    /// daemon has been gone for a while, this is so for agents' processes only.
    pub const FLAG_PENDING: u32 = 1 << 1;
    /// Belongs to a server that is being stopped: it may not connect, and is killed if it forks or executes.
    pub const FLAG_DOOMED: u32 = 1 << 2;

    /// Returns whether its rules need a daemon that is alive: it waits to be judged and is not an agent's, or it is to
    /// use a proxy that ends with the daemon.
    #[inline(always)]
    pub const fn needs_daemon(&self) -> bool {
        let waits = self.flags & (Self::FLAG_PENDING | Self::FLAG_AGENT) == Self::FLAG_PENDING;
        waits || self.session == LIST_PROXIED
    }

    /// Returns the entry that applies while the daemon is gone.
    #[must_use]
    #[inline(always)]
    pub const fn without_daemon(mut self) -> Self {
        if !self.has(Self::FLAG_AGENT) {
            self.flags &= !Self::FLAG_PENDING;
        }
        if self.session == LIST_PROXIED {
            self.session = 0;
        }
        self
    }

    /// Returns whether `flag` is set.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// The process that opened or connected a socket, stored with the socket, because packets may leave while another
/// process or none runs. The kernel copies it from a listening socket to the accepted ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SocketOwner {
    /// The process.
    pub process: ProcessKey,
    /// The entry at that time, without [`ProcessEntry::FLAG_PENDING`]. It applies if the process has no entry any
    /// more.
    pub entry: ProcessEntry,
    /// The process's cgroup v2 id.
    pub cgroup: u64,
    /// The process's real user id.
    pub uid: u32,
    /// `FLAG_*` bits.
    pub flags: u32,
    /// Command name.
    pub comm: [u8; COMM_LEN],
}

impl SocketOwner {
    /// This host connected the socket.
    pub const FLAG_CONNECTED: u32 = 1;
}

/// Identity of an executable file as the kernel sees it at exec.
///
/// The device is the kernel's internal `s_dev`, which differs from `stat(2)` on btrfs and overlayfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FileKey {
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Change time, nanoseconds since the epoch.
    pub ctime: u64,
    /// `super_block.s_dev`.
    pub device: u32,
    /// Explicit padding.
    pub reserved: u32,
}

assert_layout!(ProcessEntry, size 24, flags at 12, session at 20);
assert_layout!(SocketOwner, size 72, entry at 16, cgroup at 40, comm at 56);
assert_layout!(FileKey, size 32, device at 24);
pod!(ProcessEntry, SocketOwner, FileKey);

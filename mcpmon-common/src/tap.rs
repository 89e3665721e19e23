//! The ABI of the tap: records of what servers read and write, and the maps that say whose they are. Its object is one of
//! its own, loaded only while something is tapped, and nothing of it is pinned.

use crate::{assert_layout, pod};

/// Bytes of the ring of the tap.
pub const TAP_RING: u32 = 8 << 20;
/// Processes of tapped servers.
pub const TAP_PROCESSES: u32 = 1 << 14;
/// Directions of tapped servers: two for each.
pub const TAP_STREAMS: u32 = 1 << 11;
/// Bytes of the records' parts: the smallest that fits is taken.
pub const TAP_SMALL: usize = 512;
/// See [`TAP_SMALL`].
pub const TAP_MEDIUM: usize = 4 << 10;
/// See [`TAP_SMALL`].
pub const TAP_LARGE: usize = 16 << 10;
/// Parts of one read or write that are copied; the rest is counted as lost.
pub const TAP_PARTS: u32 = 64;
/// Buffers of one `readv` or `writev` that are looked back through.
pub const TAP_SEGMENTS: u32 = 64;

/// Offsets of kernel structures that the tap needs, and numbers of an enumeration that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapOffsets {
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `signal_struct.live`
    pub signal_live: u32,
    /// `kiocb.ki_filp`
    pub kiocb_file: u32,
    /// `socket.file`
    pub socket_file: u32,
    /// `file.f_inode`
    pub file_inode: u32,
    /// `inode.i_ino`
    pub inode_ino: u32,
    /// `msghdr.msg_iter`
    pub msghdr_iter: u32,
    /// `iov_iter.iter_type`, a byte (`type`, a word with other bits beside, before 5.14)
    pub iter_kind: u32,
    /// `iov_iter.iov_offset`
    pub iter_offset: u32,
    /// `iov_iter.__iov` (`iov` before 6.4); `ubuf` lies there too.
    pub iter_iov: u32,
    /// Bits of the kind that count.
    pub kind_mask: u32,
    /// `ITER_IOVEC`
    pub kind_iovec: u32,
    /// `ITER_UBUF`; [`Offsets::ABSENT`](crate::offsets::Offsets::ABSENT) before 6.0.
    pub kind_ubuf: u32,
}

assert_layout!(TapOffsets, size 56, kind_ubuf at 52);

/// The entry of a process of a tapped server, keyed by thread group id. Children inherit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapEntry {
    /// Inode of the pipe or socket that is the server's standard input.
    pub input: u64,
    /// Inode of its standard output.
    pub output: u64,
    /// Number of the server instance.
    pub instance: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(TapEntry, size 24, instance at 16);

/// The key of a direction of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct TapStream {
    /// Number of the server instance.
    pub instance: u32,
    /// [`INPUT`](Self::INPUT) or [`OUTPUT`](Self::OUTPUT).
    pub side: u32,
}

impl TapStream {
    /// Bytes that the server read.
    pub const INPUT: u32 = 0;
    /// Bytes that the server wrote.
    pub const OUTPUT: u32 = 1;
}

assert_layout!(TapStream, size 8, side at 4);

/// The bytes of one direction, counted before any of them is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapCount {
    /// All.
    pub bytes: u64,
    /// Those that were not copied: no room in the ring, no memory that can be read, or too many at once.
    pub lost: u64,
}

assert_layout!(TapCount, size 16, lost at 8);

/// The head of a record; the copied bytes follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapRecord {
    /// Nanoseconds since boot, suspended time included.
    pub time: u64,
    /// Bytes of this direction that were lost until now: more than with the record before means a gap between them.
    pub lost: u64,
    /// Number of the server instance.
    pub instance: u32,
    /// Direction, as in [`TapStream`].
    pub side: u32,
    /// The thread that read or wrote: parts of one call are put together by it.
    pub thread: u32,
    /// Bytes that follow and count.
    pub length: u32,
    /// Bytes of the same call that are still to come.
    pub remaining: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(TapRecord, size 40, remaining at 32);
pod!(TapOffsets, TapEntry, TapStream, TapCount, TapRecord);

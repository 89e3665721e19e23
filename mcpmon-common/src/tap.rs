//! The ABI of the tap: records of what servers read and write, and the maps that select the processes. The tap is a
//! separate object; it is loaded only while servers are to be tapped, and nothing of it is pinned.

use crate::{assert_layout, pod};

/// Size of the tap's ring, bytes.
pub const TAP_RING: u32 = 8 << 20;
/// Most processes of tapped servers.
pub const TAP_PROCESSES: u32 = 1 << 14;
/// Most processes that the tapped servers of one user start; further ones are not tapped.
pub const TAP_SHARE: u64 = 1 << 10;
/// Most users of tapped servers.
pub const TAP_OWNERS: u32 = 1 << 10;
/// Most directions of tapped servers: each server has two.
pub const TAP_STREAMS: u32 = 1 << 11;
/// Sizes of the bytes in a record; the smallest that fits is used.
pub const TAP_SMALL: usize = 512;
/// See [`TAP_SMALL`].
pub const TAP_MEDIUM: usize = 4 << 10;
/// See [`TAP_SMALL`].
pub const TAP_LARGE: usize = 8 << 10;
/// Steps of one copy: parts that are copied, and buffers that are entered. The rest is counted as lost.
pub const TAP_PARTS: u32 = 128;

/// Offsets of kernel structures that the tap needs, and numbers that differ between architectures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapOffsets {
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `signal_struct.live`
    pub signal_live: u32,
    /// `task_struct.files`
    pub task_files: u32,
    /// `files_struct.fdt`
    pub files_table: u32,
    /// `fdtable.fd`
    pub table_files: u32,
    /// `fdtable.max_fds`
    pub table_size: u32,
    /// `file.f_inode`
    pub file_inode: u32,
    /// `inode.i_ino`
    pub inode_ino: u32,
    /// `inode.i_sb`
    pub inode_sb: u32,
    /// `super_block.s_dev`
    pub sb_dev: u32,
    /// The number of the system call in `pt_regs`, a word.
    pub call: u32,
    /// Its first four arguments in `pt_regs`, in their state when the call ends.
    pub arguments: [u32; 4],
    /// `pt_regs.cs`; [`Offsets::ABSENT`](crate::offsets::Offsets::ABSENT) on architectures without it.
    pub mode: u32,
    /// The value of that half word for 64-bit programs; calls of others have other numbers.
    pub mode_of_64_bits: u32,
    /// `read`, `readv`, `recvfrom`, `recvmsg`
    pub reads: [u32; 4],
    /// `write`, `writev`, `sendto`, `sendmsg`
    pub writes: [u32; 4],
}

assert_layout!(TapOffsets, size 104, call at 44, reads at 72, writes at 88);

/// A pipe or socket. The device is needed because files of other file systems can have the same inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapFile {
    /// The inode.
    pub inode: u64,
    /// `super_block.s_dev`
    pub device: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(TapFile, size 16, device at 8);

/// The entry of a process of a tapped server, keyed by thread group id. Children inherit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapEntry {
    /// The server's standard input.
    pub input: TapFile,
    /// The server's standard output.
    pub output: TapFile,
    /// Number of the server instance.
    pub instance: u32,
    /// The user whose share an inherited entry is counted against.
    pub owner: u32,
    /// 1 if the entry was inherited, else 0.
    pub is_inherited: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(TapEntry, size 48, instance at 32, is_inherited at 40);

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

/// The bytes of one direction; they are counted before any of them is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapCount {
    /// All bytes.
    pub bytes: u64,
    /// Bytes that were not copied: the ring was full, the memory could not be read, or they were too many at once.
    pub lost: u64,
    /// Processes of the server that are not tapped, because the table or the share of their user was full. Counted in
    /// the entry of the input only.
    pub left_out: u64,
}

assert_layout!(TapCount, size 24, lost at 8, left_out at 16);

/// The head of a record; the copied bytes follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapRecord {
    /// Nanoseconds since boot, including time in which the host slept.
    pub time: u64,
    /// Bytes of this direction that were lost so far: more than in the record before means a gap between them.
    pub lost: u64,
    /// Number of the server instance.
    pub instance: u32,
    /// Direction, as in [`TapStream`].
    pub side: u32,
    /// The thread that read or wrote: parts of one call are joined by it.
    pub thread: u32,
    /// Number of valid bytes that follow.
    pub length: u32,
    /// Bytes of the same call that follow in later records.
    pub remaining: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(TapRecord, size 40, remaining at 32);

/// The state of one copy: a place in the caller's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TapPlace {
    /// Address of the next byte.
    pub address: u64,
    /// Bytes of the same buffer from there on.
    pub left: u64,
    /// The `struct iovec` of the next buffer; zero if there is none.
    pub next: u64,
    /// Bytes of the call from there on.
    pub remaining: u64,
}

assert_layout!(TapPlace, size 32, remaining at 24);
pod!(
    TapOffsets, TapFile, TapEntry, TapStream, TapCount, TapRecord, TapPlace
);

//! State of the daemon that stays in the kernel when it ends: its notes, its last sign of life, the records it read.

use crate::{assert_layout, pod};

/// Bytes of one page of notes.
pub const PAGE: usize = 4096;
/// Pages of one copy of the notes.
pub const PAGES: u32 = 256;
/// All pages: the heading, then both copies, one of which is in force.
pub const ALL_PAGES: u32 = 1 + 2 * PAGES;
/// Processors of which the number of records read is kept. Records of others count as read.
pub const MAX_PROCESSORS: u32 = 1024;
/// Sequences of records: connections, processes, packets.
pub const SEQUENCES: u32 = 3;

/// The daemon's last sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Heartbeat {
    /// `CLOCK_MONOTONIC`, nanoseconds: time in which the host sleeps does not count. 0 before the first.
    pub monotonic: u64,
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub boot: u64,
}

impl Heartbeat {
    /// Nanoseconds after which the daemon counts as gone: what would be an outage of the host without it is let go.
    pub const STALE_AFTER: u64 = 10_000_000_000;

    /// Returns whether the daemon was alive a moment before `monotonic`.
    #[inline(always)]
    pub const fn is_fresh(self, monotonic: u64) -> bool {
        self.monotonic == 0 || monotonic.saturating_sub(self.monotonic) < Self::STALE_AFTER
    }
}

/// The records of one processor and sequence that a daemon has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReadPosition {
    /// Highest sequence number.
    pub highest: u64,
    /// Number of records.
    pub read: u64,
}

impl ReadPosition {
    /// Index of a processor and sequence in the table; `None` where there is no room for it.
    pub const fn index(sequence: u16, processor: u32) -> Option<u32> {
        if processor < MAX_PROCESSORS && (sequence as u32) < SEQUENCES {
            Some(sequence as u32 * MAX_PROCESSORS + processor)
        } else {
            None
        }
    }
}

/// A part of the daemon's notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StatePage {
    /// Its bytes.
    pub bytes: [u8; PAGE],
}

assert_layout!(Heartbeat, size 16, boot at 8);
assert_layout!(ReadPosition, size 16, read at 8);
assert_layout!(StatePage, size PAGE);
pod!(Heartbeat, ReadPosition, StatePage);

//! State of the daemon that stays in the kernel: its notes, its last sign of life, and the records it read.

use crate::{assert_layout, pod};

/// Bytes of one page of notes.
pub const PAGE: usize = 4096;
/// Pages of one copy of the notes.
pub const PAGES: u32 = 256;
/// All pages: the heading, then both copies, one of which is in force.
pub const ALL_PAGES: u32 = 1 + 2 * PAGES;
/// Processors whose numbers of read records are kept. Records of further processors count as read.
pub const MAX_PROCESSORS: u32 = 1024;
/// Sequences of records: connections, processes, packets, refused starts.
pub const SEQUENCES: u32 = 4;

/// The daemon's last sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Heartbeat {
    /// `CLOCK_MONOTONIC`, nanoseconds: time in which the host sleeps is not counted. 0 before the first sign.
    pub monotonic: u64,
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub boot: u64,
}

impl Heartbeat {
    /// Nanoseconds after which the daemon counts as gone: rules that would then cut off the whole host stop applying.
    pub const STALE_AFTER: u64 = 10_000_000_000;

    /// Returns whether the daemon was alive shortly before `monotonic`.
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
    /// Returns the index of a processor and sequence in the table; `None` if the table has none for it.
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
    /// The bytes of the page.
    pub bytes: [u8; PAGE],
}

assert_layout!(Heartbeat, size 16, boot at 8);
assert_layout!(ReadPosition, size 16, read at 8);
assert_layout!(StatePage, size PAGE);
pod!(Heartbeat, ReadPosition, StatePage);

//! The exec gate: the names by which the kernel stops starts before their first instruction, and the stopped processes.
//!
//! The same table has the names of candidates: programs that may be servers with an egress list. Their key has
//! [`ANY_USER`], because a declared server has its list whoever starts it.

use crate::{assert_layout, event::ProcessKey, pod, process::FileKey};

/// User id in the keys of candidates.
pub const ANY_USER: u32 = u32::MAX;

/// A name with which a user's pinned server is started, or with [`ANY_USER`] a server that has an egress list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct GateKey {
    /// [`name_hash`] of the name.
    pub name: u64,
    /// Real user id.
    pub uid: u32,
    /// [`GateKind`].
    pub kind: u32,
}

/// The part of a start that has the gated name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum GateKind {
    /// Command name of a program that is always a server: it is stopped wherever it starts.
    Program = 0,
    /// Command name of an interpreter, a container client, or a program with a subcommand that serves. It is stopped if
    /// it starts below an agent or a server, and one of its arguments is gated too. A candidate below them needs no such
    /// argument; elsewhere it needs one.
    Interpreter = 1,
    /// The last component of an argument after the first.
    Argument = 2,
    /// The last component of the first argument: the name of a program that is executed by descriptor.
    First = 3,
}

/// A program that is a pinned server of a user, and nothing else: its digest is checked when it is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct CheckedProgram {
    /// [`name_hash`] of its path, below the root of the process that starts it. A collision only has another program of
    /// the same user checked, which that user can do in other ways.
    pub path: u64,
    /// Real user id.
    pub uid: u32,
    /// Explicit padding.
    pub reserved: u32,
}

/// A digest that is accepted for a checked program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct AcceptedDigest {
    /// The program.
    pub program: CheckedProgram,
    /// SHA-256.
    pub digest: [u8; 32],
}

impl AcceptedDigest {
    /// Value of an entry: the program is all that is pinned, so it is not stopped.
    pub const WHOLE: u32 = 1;
    /// Value of an entry: more than its digest decides about the program, and it is stopped for that.
    pub const PART: u32 = 2;
}

/// A start of a checked program with an accepted digest, until the process has become that program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AcceptedStart {
    /// The program's file.
    pub file: FileKey,
    /// [`AcceptedDigest::WHOLE`] or [`AcceptedDigest::PART`].
    pub extent: u32,
    /// Explicit padding.
    pub reserved: u32,
}

/// The switch of the gate. The daemon extends the time as long as it works; after that time the kernel stops no
/// process, so that none waits for a daemon that is gone or hangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Gate {
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub open_until: u64,
    /// 1 if candidates are stopped as well; with 0 they are only restricted until they are judged.
    pub stops_candidates: u64,
}

/// A process that is stopped until its files are compared, keyed by thread group id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Hold {
    /// The process.
    pub process: ProcessKey,
    /// `FLAG_*` bits.
    pub flags: u32,
    /// Explicit padding.
    pub reserved: u32,
}

impl Hold {
    /// The daemon knows that it is a server that must be compared.
    pub const FLAG_SERVER: u32 = 1;
    /// Another process than the daemon resumed it.
    pub const FLAG_RESUMED: u32 = 1 << 1;
    /// It is stopped only because it is a candidate: it may continue, restricted, before it is judged.
    pub const FLAG_CANDIDATE: u32 = 1 << 2;

    /// Returns whether the hold is about this process, and not about an earlier one with its number. The daemon knows a
    /// start time from `/proc`, where it is rounded down to a tick.
    #[inline(always)]
    pub const fn is_of(&self, process: ProcessKey) -> bool {
        self.process.pid == process.pid && process.start.wrapping_sub(self.process.start) < TICK
    }
}

/// Nanoseconds of a tick of `/proc`: `USER_HZ` is 100 everywhere.
const TICK: u64 = 10_000_000;

/// Basis and prime of the 64-bit FNV-1a hash.
pub const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Adds one byte to a hash.
#[inline(always)]
pub const fn hash_byte(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(HASH_PRIME)
}

/// Hashes a name up to its first NUL. A collision only stops a process for a moment without need.
#[inline(always)]
pub fn name_hash(name: &[u8]) -> u64 {
    let mut hash = HASH_BASIS;
    for byte in name {
        if *byte == 0 {
            break;
        }
        hash = hash_byte(hash, *byte);
    }
    hash
}

assert_layout!(GateKey, size 16, uid at 8, kind at 12);
assert_layout!(CheckedProgram, size 16, uid at 8);
assert_layout!(AcceptedDigest, size 48, digest at 16);
assert_layout!(AcceptedStart, size 40, extent at 32);
assert_layout!(Gate, size 16, stops_candidates at 8);
assert_layout!(Hold, size 24, flags at 16);
pod!(GateKey, CheckedProgram, AcceptedDigest, AcceptedStart, Gate, Hold);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_of_the_process_that_started_in_the_same_tick() {
        let process = |pid, start| ProcessKey {
            pid,
            start,
            ..ProcessKey::default()
        };
        let hold = Hold {
            process: process(7, 3 * TICK),
            ..Hold::default()
        };
        assert!(hold.is_of(process(7, 3 * TICK)));
        assert!(hold.is_of(process(7, 4 * TICK - 1)), "rounded down");
        assert!(!hold.is_of(process(7, 4 * TICK)), "a later one");
        assert!(!hold.is_of(process(7, 3 * TICK - 1)), "an earlier one");
        assert!(!hold.is_of(process(8, 3 * TICK)), "another number");
    }
}

//! The exec gate: which starts the kernel stops before their first instruction, and which are stopped.

use crate::{assert_layout, event::ProcessKey, pod};

/// A name that a pinned server of a user is started by.
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

/// The part of a start that a gated name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum GateKind {
    /// Command name of a program that is a server and nothing else: it is stopped wherever it starts.
    Program = 0,
    /// Command name of an interpreter, a container client or a program with a subcommand that serves: it is stopped where it
    /// starts below an agent or a server, and an argument of it is gated too.
    Interpreter = 1,
    /// The last component of an argument behind the first.
    Argument = 2,
    /// The last component of the first argument: the name of a program that is executed by descriptor.
    First = 3,
}

/// The switch of the gate. A daemon that works moves the time on; the kernel stops nothing behind it, so that nothing waits
/// for a daemon that is gone or stuck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Gate {
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub open_until: u64,
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
    /// The agent knows that it is a server which has to be compared.
    pub const FLAG_SERVER: u32 = 1;
    /// Somebody else than the agent let it go on.
    pub const FLAG_RESUMED: u32 = 1 << 1;

    /// Returns whether it is about this process, and not about another one that has its number now. The agent knows a start
    /// by `/proc`, rounded down to a tick.
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

/// The hash of a name and one more byte.
#[inline(always)]
pub const fn hash_byte(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(HASH_PRIME)
}

/// Hashes a name up to its first NUL. Names that collide stop a process for a moment that need not be.
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
assert_layout!(Gate, size 8);
assert_layout!(Hold, size 24, flags at 16);
pod!(GateKey, Gate, Hold);

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

//! Writing of records into rings, and the counters and sequence numbers that prove losses.

use core::{
    intrinsics::{AtomicOrdering, atomic_xadd},
    mem::MaybeUninit,
};

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::generated::{bpf_get_smp_processor_id, bpf_ktime_get_boot_ns},
    maps::RingBuf,
};
use mcpmon_common::{
    event::{Counter, Header, Kind},
    limits::{CONNECTION_RING, PROCESS_RING},
};

use crate::{
    error::Error,
    maps::{CONNECTION_RECORDS, COUNTERS, PROCESS_RECORDS, SEQUENCES},
};

/// The ring for a record. There are two, so that a flood of connections cannot displace an exec.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ring {
    /// Connections.
    Connections,
    /// Execs, forks and exits.
    Processes,
}

/// Records that are numbered together, so that a gap proves a loss.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Connections and sockets.
    Connections,
    /// Execs, forks and exits.
    Processes,
    /// Packets.
    Packets,
    /// Refused starts.
    RefusedStarts,
}

/// The time at which the reader is woken for a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// At once.
    Now,
    /// The reader is woken when a quarter of the ring is full; it also polls, every 10 ms.
    Later,
}

impl Ring {
    #[inline(always)]
    pub(crate) fn map(self) -> &'static RingBuf {
        match self {
            Self::Connections => &CONNECTION_RECORDS,
            Self::Processes => &PROCESS_RECORDS,
        }
    }

    #[inline(always)]
    fn quarter(self) -> u64 {
        match self {
            Self::Connections => CONNECTION_RING as u64 / 4,
            Self::Processes => PROCESS_RING as u64 / 4,
        }
    }

    #[inline(always)]
    pub(crate) fn flags(self, wake: Wake) -> u64 {
        if wake == Wake::Now || self.map().query(u64::from(BPF_RB_AVAIL_DATA)) > self.quarter() {
            u64::from(BPF_RB_FORCE_WAKEUP)
        } else {
            u64::from(BPF_RB_NO_WAKEUP)
        }
    }
}

/// Makes a header with the next number of this CPU and sequence. It is to be called once for every record that is
/// attempted, so that a lost record leaves a gap.
#[inline(always)]
pub(crate) fn header(kind: Kind, sequence: Sequence) -> Header {
    let number = SEQUENCES.get_ptr_mut(sequence as u32).map_or(0, |slot| {
        // Another program can interrupt this one on the same CPU: one for packets, and any other of a cgroup since Linux
        // 5.11, or beside one that may sleep. Both may then read the later number. No number is lost by that: the highest
        // one is that of all attempts. Kernels before 5.12 cannot return the sum.
        // SAFETY: a per-CPU slot, valid until the program ends.
        unsafe {
            atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(slot, 1);
            slot.read_volatile()
        }
    });
    Header {
        kind: kind as u16,
        ring: sequence as u16,
        // SAFETY: helpers without arguments.
        cpu: unsafe { bpf_get_smp_processor_id() },
        sequence: number,
        // SAFETY: helpers without arguments.
        time: unsafe { bpf_ktime_get_boot_ns() },
    }
}

/// Lets `fill` write a fixed-size record in the ring. It must write every byte, because that memory is not cleared.
#[inline(always)]
pub(crate) fn emit<T: 'static>(ring: Ring, lost: Counter, fill: impl FnOnce(&mut MaybeUninit<T>)) {
    if !emit_woken(ring, Wake::Later, fill) {
        count(lost);
    }
}

/// Lets `fill` write a record, and wakes the reader as `wake` says; returns false if the ring was full.
#[inline(always)]
pub(crate) fn emit_woken<T: 'static>(ring: Ring, wake: Wake, fill: impl FnOnce(&mut MaybeUninit<T>)) -> bool {
    let Some(mut entry) = ring.map().reserve::<T>(0) else {
        return false;
    };
    fill(&mut entry);
    entry.submit(ring.flags(wake));
    true
}

/// Adds one to a counter.
#[inline(always)]
pub(crate) fn count(counter: Counter) {
    if let Some(slot) = COUNTERS.get_ptr_mut(counter as u32) {
        // Another program can interrupt this one on the same CPU, as in `header`.
        // SAFETY: a per-CPU slot.
        unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(slot, 1) };
    }
}

/// Counts a failure of a program.
#[inline(always)]
pub(crate) fn count_failure(error: Error) {
    count(error.counter());
}

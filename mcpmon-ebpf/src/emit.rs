//! Records into rings, and the counters that prove what was lost.

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::generated::{bpf_get_smp_processor_id, bpf_ktime_get_boot_ns},
    maps::RingBuf,
};
use mcpmon_common::{
    event::{Counter, Header, Kind},
    limits::BULK_RING,
};

use crate::{
    error::Error,
    maps::{BULK, COUNTERS, SEQUENCES, URGENT},
};

/// Which ring a record goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ring {
    /// May wait: the reader is woken when a quarter is full, and polls every 10 ms.
    Bulk,
    /// Wakes the reader.
    Urgent,
}

impl Ring {
    #[inline(always)]
    pub(crate) fn map(self) -> &'static RingBuf {
        match self {
            Self::Bulk => &BULK,
            Self::Urgent => &URGENT,
        }
    }

    #[inline(always)]
    pub(crate) fn flags(self) -> u64 {
        match self {
            Self::Urgent => 0,
            Self::Bulk if BULK.query(u64::from(BPF_RB_AVAIL_DATA)) > u64::from(BULK_RING) / 4 => {
                u64::from(BPF_RB_FORCE_WAKEUP)
            }
            Self::Bulk => u64::from(BPF_RB_NO_WAKEUP),
        }
    }
}

/// A header with the next sequence number of this CPU and ring. Call it once for every record attempted,
/// so that a lost one leaves a gap.
#[inline(always)]
pub(crate) fn header(kind: Kind, ring: Ring) -> Header {
    let sequence = SEQUENCES.get_ptr_mut(ring as u32).map_or(0, |slot| {
        // SAFETY: a per-CPU slot, and programs are not preempted by another of ours on the same CPU.
        unsafe {
            *slot += 1;
            *slot
        }
    });
    Header {
        kind: kind as u16,
        ring: ring as u16,
        // SAFETY: helpers without arguments.
        cpu: unsafe { bpf_get_smp_processor_id() },
        sequence,
        // SAFETY: helpers without arguments.
        time: unsafe { bpf_ktime_get_boot_ns() },
    }
}

/// Copies a record of fixed size into the ring.
#[inline(always)]
pub(crate) fn emit<T: 'static>(ring: Ring, record: T, lost: Counter) {
    match ring.map().reserve::<T>(0) {
        Some(mut entry) => {
            entry.write(record);
            entry.submit(ring.flags());
        }
        None => count(lost),
    }
}

/// Adds one to a counter.
#[inline(always)]
pub(crate) fn count(counter: Counter) {
    if let Some(slot) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: a per-CPU slot.
        unsafe { *slot += 1 };
    }
}

/// Counts a failure.
#[inline(always)]
pub(crate) fn count_failure(error: Error) {
    count(error.counter());
}

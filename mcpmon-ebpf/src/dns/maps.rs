//! The maps of the programs for DNS.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    macros::map,
    maps::{HashMap, LruHashMap, PerCpuArray, RingBuf},
};
use mcpmon_common::dns::{
    ANSWER_RING, AnswerBuffer, DnsCounter, MAX_NAME, MAX_NAMES, MAX_QUESTIONS, Question,
};

/// Hashes of the followed names.
#[map]
pub(crate) static FOLLOWED: HashMap<u64, u32> = HashMap::with_max_entries(MAX_NAMES, BPF_F_NO_PREALLOC);

/// Questions that were sent, with their times by the monotonic clock.
#[map]
pub(crate) static QUESTIONS: LruHashMap<Question, u64> = LruHashMap::with_max_entries(MAX_QUESTIONS, 0);

#[map]
pub(crate) static ANSWERS: RingBuf = RingBuf::with_byte_size(ANSWER_RING, 0);

#[map]
pub(crate) static DNS_COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(DnsCounter::COUNT, 0);

#[map]
pub(crate) static NAME_SCRATCH: PerCpuArray<[u8; MAX_NAME + 1]> = PerCpuArray::with_max_entries(1, 0);

#[map]
pub(crate) static ANSWER_SCRATCH: PerCpuArray<AnswerBuffer> = PerCpuArray::with_max_entries(1, 0);

/// Adds one to a counter.
#[inline(always)]
pub(crate) fn count(counter: DnsCounter) {
    if let Some(slot) = DNS_COUNTERS.get_ptr_mut(counter as u32) {
        // The program for packets that leave can interrupt the one for those that come, on the same CPU.
        // SAFETY: a per-CPU slot.
        unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(slot, 1) };
    }
}

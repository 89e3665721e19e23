//! All maps of the tap.

use aya_ebpf::{
    Global,
    macros::map,
    maps::{HashMap, PerCpuArray, RingBuf},
};
use mcpmon_common::tap::{
    TAP_OWNERS, TAP_PROCESSES, TAP_RING, TAP_STREAMS, TapCount, TapEntry, TapOffsets, TapPlace, TapStream,
};

/// Processes of tapped servers, keyed by thread group id.
#[map]
pub(crate) static TAP_ENTRIES: HashMap<u32, TapEntry> = HashMap::with_max_entries(TAP_PROCESSES, 0);

/// Number of inherited entries of each user. Without an entry here, a user's processes inherit none.
#[map]
pub(crate) static TAP_INHERITED: HashMap<u32, u64> = HashMap::with_max_entries(TAP_OWNERS, 0);

/// Bytes of each direction. A direction without an entry here is not tapped.
#[map]
pub(crate) static TAP_COUNTS: HashMap<TapStream, TapCount> = HashMap::with_max_entries(TAP_STREAMS, 0);

/// The state of a copy. It is not kept in registers, because the verifier would track it there, and check the rest of
/// the copy once for each value. The program that uses it is not interrupted by itself.
#[map]
pub(crate) static TAP_PLACE: PerCpuArray<TapPlace> = PerCpuArray::with_max_entries(1, 0);

#[map]
pub(crate) static TAP_RECORDS: RingBuf = RingBuf::with_byte_size(TAP_RING, 0);

/// Patched by the loader.
#[unsafe(no_mangle)]
pub(crate) static TAP_OFFSETS: Global<TapOffsets> = Global::new(TapOffsets {
    task_tgid: 0,
    task_signal: 0,
    signal_live: 0,
    task_files: 0,
    files_table: 0,
    table_files: 0,
    table_size: 0,
    file_inode: 0,
    inode_ino: 0,
    inode_sb: 0,
    sb_dev: 0,
    call: 0,
    arguments: [0; 4],
    mode: 0,
    mode_of_64_bits: 0,
    reads: [0; 4],
    writes: [0; 4],
});

/// Reads a field of the patched offsets.
macro_rules! patched {
    ($($field:tt)+) => {{
        let offsets = (&raw const $crate::maps::TAP_OFFSETS).cast::<mcpmon_common::tap::TapOffsets>();
        // SAFETY: Global is transparent over TapOffsets; volatile, because the loader patches the section.
        unsafe { core::ptr::read_volatile(&raw const (*offsets).$($field)+) }
    }};
}
pub(crate) use patched;

//! Every map of the tap.

use aya_ebpf::{
    Global,
    macros::map,
    maps::{HashMap, RingBuf},
};
use mcpmon_common::tap::{
    TAP_PROCESSES, TAP_RING, TAP_STREAMS, TapCount, TapEntry, TapOffsets, TapStream,
};

/// Processes of tapped servers, by thread group id.
#[map]
pub(crate) static TAP_ENTRIES: HashMap<u32, TapEntry> = HashMap::with_max_entries(TAP_PROCESSES, 0);

/// Bytes of each direction; one that is not here is not tapped.
#[map]
pub(crate) static TAP_COUNTS: HashMap<TapStream, TapCount> = HashMap::with_max_entries(TAP_STREAMS, 0);

#[map]
pub(crate) static TAP_RECORDS: RingBuf = RingBuf::with_byte_size(TAP_RING, 0);

/// Patched by the loader.
#[unsafe(no_mangle)]
pub(crate) static TAP_OFFSETS: Global<TapOffsets> = Global::new(TapOffsets {
    task_tgid: 0,
    task_signal: 0,
    signal_live: 0,
    kiocb_file: 0,
    socket_file: 0,
    file_inode: 0,
    inode_ino: 0,
    msghdr_iter: 0,
    iter_kind: 0,
    iter_offset: 0,
    iter_iov: 0,
    kind_mask: 0,
    kind_iovec: 0,
    kind_ubuf: 0,
});

/// Reads a field of the patched offsets.
macro_rules! patched {
    ($field:ident) => {{
        let offsets = (&raw const $crate::maps::TAP_OFFSETS).cast::<mcpmon_common::tap::TapOffsets>();
        // SAFETY: Global is transparent over TapOffsets; volatile, because the loader patches the section.
        unsafe { core::ptr::read_volatile(&raw const (*offsets).$field) }
    }};
}
pub(crate) use patched;

//! Processes of tapped servers: a child inherits its parent's entry, and the last thread takes it along.

use aya_ebpf::{helpers::bpf_get_current_pid_tgid, programs::RawTracePointContext};

use crate::{
    kernel::{Address, read},
    maps::{TAP_ENTRIES, patched},
};

/// `sched_process_fork(parent, child)`.
#[inline(always)]
pub(crate) fn inherit(ctx: &RawTracePointContext) {
    let parent = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: entries are written as a whole, by the agent and here; the copy is taken at once.
    let Some(entry) = (unsafe { TAP_ENTRIES.get(parent) }).copied() else {
        return;
    };
    let child = read::<u32>(ctx.arg::<u64>(1) as Address, patched!(task_tgid));
    if let Some(child) = child.filter(|child| *child != parent) {
        // Where there is no room, what the child reads and writes is not seen: the agent compares the numbers.
        let _full = TAP_ENTRIES.insert(child, entry, 0);
    }
}

/// `sched_process_exit(task)`: runs for every thread, after it left the live count.
#[inline(always)]
pub(crate) fn forget(ctx: &RawTracePointContext) {
    let pid = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: the value is not used.
    if unsafe { TAP_ENTRIES.get(pid) }.is_none() {
        return;
    }
    let live = read::<Address>(ctx.arg::<u64>(0) as Address, patched!(task_signal))
        .and_then(|signal| read::<u32>(signal, patched!(signal_live)));
    if live == Some(0) {
        let _absent = TAP_ENTRIES.remove(pid);
    }
}

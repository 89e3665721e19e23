//! Processes of tapped servers: a child inherits its parent's entry as long as their user's share lasts; the entry is
//! removed with the last thread.

use aya_ebpf::{helpers::bpf_get_current_pid_tgid, programs::RawTracePointContext};
use mcpmon_common::tap::{TAP_SHARE, TapEntry, TapStream};

use crate::{
    kernel::{self, Address, read},
    maps::{TAP_COUNTS, TAP_ENTRIES, TAP_INHERITED, patched},
};

/// `sched_process_fork(parent, child)`.
#[inline(always)]
pub(crate) fn inherit(ctx: &RawTracePointContext) {
    let parent = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: entries are written as a whole, by the daemon and here; the copy is taken at once.
    let Some(entry) = (unsafe { TAP_ENTRIES.get(parent) }).copied() else {
        return;
    };
    let child = read::<u32>(ctx.arg::<u64>(1) as Address, patched!(task_tgid));
    if let Some(child) = child.filter(|child| *child != parent) {
        // The end of an earlier process with this number may have been missed.
        remove(child);
        if share(child, entry).is_none() {
            leave_out(entry.instance);
        }
    }
}

/// Gives the child its parent's entry; `None` if the table is full, or their user has no share left.
#[inline(always)]
fn share(child: u32, parent: TapEntry) -> Option<()> {
    /// Of several writers of an entry only the first succeeds, so that the entry is counted once.
    const BPF_NOEXIST: u64 = 1;
    // SAFETY: the value is not used.
    unsafe { TAP_COUNTS.get(input_of(parent.instance)) }?; // else its server is tapped no longer
    let inherited = TAP_INHERITED.get_ptr_mut(parent.owner)?;
    // SAFETY: a value of a map, which stays readable until this program ends.
    // It is below zero if the daemon removed the count between a fork and the end of that process.
    if unsafe { inherited.read_volatile() }.cast_signed() >= TAP_SHARE.cast_signed() {
        return None;
    }
    let entry = TapEntry {
        is_inherited: 1,
        ..parent
    };
    if TAP_ENTRIES.insert(child, entry, BPF_NOEXIST).is_err() {
        // SAFETY: the value is not used.
        return unsafe { TAP_ENTRIES.get(child) }.map(|_| ()); // the agent was first
    }
    // SAFETY: a value of a map.
    unsafe { kernel::add(inherited, 1) };
    Some(())
}

/// Returns the stream whose entry shows whether a server is tapped.
#[inline(always)]
fn input_of(instance: u32) -> TapStream {
    TapStream {
        instance,
        side: TapStream::INPUT,
    }
}

/// Counts a process that is not tapped, for its server.
#[inline(always)]
fn leave_out(instance: u32) {
    if let Some(count) = TAP_COUNTS.get_ptr_mut(input_of(instance)) {
        // SAFETY: a value of a map.
        unsafe { kernel::add(&raw mut (*count).left_out, 1) };
    }
}

/// Removes the entry of a process, if it has one, and gives it back to its user's share.
#[inline(always)]
fn remove(pid: u32) {
    // SAFETY: as above.
    let Some(entry) = (unsafe { TAP_ENTRIES.get(pid) }).copied() else {
        return;
    };
    if TAP_ENTRIES.remove(pid).is_ok()
        && entry.is_inherited != 0
        && let Some(inherited) = TAP_INHERITED.get_ptr_mut(entry.owner)
    {
        // SAFETY: a value of a map.
        unsafe { kernel::add(inherited, 1_u64.wrapping_neg()) };
    }
}

/// `sched_process_exit(task)`: runs for every thread, after it was removed from the live count.
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
        remove(pid);
    }
}

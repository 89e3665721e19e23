//! Fields of kernel structures, read through the offsets of the running kernel.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel, generated::bpf_get_current_task};
use mcpmon_common::event::ProcessKey;

use crate::{error::Error, maps::offset};

/// Address of a kernel structure.
pub(crate) type Address = usize;

/// Reads a `T` at `offset` bytes behind `base`.
#[inline(always)]
pub(crate) fn read<T>(base: Address, offset: usize) -> Result<T, Error> {
    // SAFETY: the helper checks the address and fails on a bad one.
    unsafe { bpf_probe_read_kernel((base + offset) as *const T) }.or(Err(Error::Read))
}

/// Thread group of the caller.
#[inline(always)]
pub(crate) fn current_pid() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

/// Task of the caller.
#[inline(always)]
pub(crate) fn current() -> Address {
    // SAFETY: a helper without arguments.
    unsafe { bpf_get_current_task() as Address }
}

/// Identity of the caller's process.
#[inline(always)]
pub(crate) fn current_key() -> ProcessKey {
    let start = read::<Address>(current(), offset!(task_group_leader))
        .and_then(|leader| read(leader, offset!(task_start_boottime)))
        .unwrap_or(0);
    ProcessKey {
        start,
        pid: current_pid(),
        reserved: 0,
    }
}

/// Identity of the process `task` belongs to.
#[inline(always)]
pub(crate) fn key(task: Address) -> Result<ProcessKey, Error> {
    let leader = read::<Address>(task, offset!(task_group_leader))?;
    Ok(ProcessKey {
        start: read(leader, offset!(task_start_boottime))?,
        pid: read(task, offset!(task_tgid))?,
        reserved: 0,
    })
}

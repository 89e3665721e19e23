//! Fields of kernel structures, read through the offsets of the running kernel.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel, generated::bpf_get_current_task};
use mcpmon_common::{event::ProcessKey, limits::COMM_LEN};

use crate::{error::Error, maps::offset};

/// Address of a kernel structure.
pub(crate) type Address = usize;

/// Reads a `T` at `offset` bytes from `base`.
#[inline(always)]
pub(crate) fn read<T>(base: Address, offset: usize) -> Result<T, Error> {
    // SAFETY: the helper checks the address and fails on a bad one.
    unsafe { bpf_probe_read_kernel((base + offset) as *const T) }.or(Err(Error::Read))
}

/// Returns a copy of a value about which the verifier knows nothing: different paths to this call become one, where
/// older verifiers would check the rest of the program once for each.
#[inline(always)]
pub(crate) fn forgotten<T: Copy>(value: &T) -> Option<T> {
    read(core::ptr::from_ref(value) as Address, 0).ok()
}

/// The ids of the current thread, and of its thread group.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) thread: u32,
    pub(crate) pid: u32,
}

impl Caller {
    #[inline(always)]
    pub(crate) fn get() -> Self {
        let numbers = bpf_get_current_pid_tgid();
        Self {
            thread: numbers as u32,
            pid: (numbers >> 32) as u32,
        }
    }
}

/// Returns the running process, for programs that have no helper for it before 6.10; zeros if it cannot be read.
#[inline(always)]
pub(crate) fn running() -> Caller {
    let task = current();
    Caller {
        thread: read(task, offset!(task_pid)).unwrap_or(0),
        pid: read(task, offset!(task_tgid)).unwrap_or(0),
    }
}

/// Returns the command name of the running task, read in the same way.
#[inline(always)]
pub(crate) fn current_comm() -> [u8; COMM_LEN] {
    read(current(), offset!(task_comm)).unwrap_or([0; COMM_LEN])
}

/// Returns the thread group id of the current task.
#[inline(always)]
pub(crate) fn current_pid() -> u32 {
    Caller::get().pid
}

/// Returns the address of the current task.
#[inline(always)]
pub(crate) fn current() -> Address {
    // SAFETY: a helper without arguments.
    unsafe { bpf_get_current_task() as Address }
}

/// Returns the identity of the current process.
#[inline(always)]
pub(crate) fn current_key(caller: Caller) -> ProcessKey {
    // The first thread leads its group. Most callers are one, and each read is expensive.
    let leader = if caller.thread == caller.pid {
        Ok(current())
    } else {
        read(current(), offset!(task_group_leader))
    };
    ProcessKey {
        start: leader
            .and_then(|leader| read(leader, offset!(task_start_boottime)))
            .unwrap_or(0),
        pid: caller.pid,
        reserved: 0,
    }
}

/// Returns the identity of the process to which `task` belongs.
#[inline(always)]
pub(crate) fn key(task: Address) -> Result<ProcessKey, Error> {
    let leader = read::<Address>(task, offset!(task_group_leader))?;
    Ok(ProcessKey {
        start: read(leader, offset!(task_start_boottime))?,
        pid: read(task, offset!(task_tgid))?,
        reserved: 0,
    })
}

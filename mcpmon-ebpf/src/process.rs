//! Processes of servers and agents: the entry is inherited on fork, and removed with the last thread.

use aya_ebpf::{
    helpers::{bpf_get_current_uid_gid, generated::bpf_send_signal},
    programs::RawTracePointContext,
};
use mcpmon_common::{
    event::{Counter, ExitRecord, ForkRecord, Kind},
    process::ProcessEntry,
};

use crate::{
    emit::{Ring, Sequence, count, emit, header},
    error::Error,
    maps::{PROCESSES, offset, process},
    task::{self, Address, read},
};

/// `sched_process_fork(parent, child)`: runs in the parent, before the child does.
#[inline(always)]
pub(crate) fn try_fork(ctx: &RawTracePointContext) -> Result<(), Error> {
    let parent = task::current_pid();
    let Some(entry) = process(parent) else {
        return Ok(());
    };
    let child = task::key(ctx.arg::<u64>(1) as Address)?;
    if child.pid == parent {
        return Ok(()); // a thread
    }
    PROCESSES
        .insert(child.pid, entry, 0)
        .or(Err(Error::ProcessTableFull))?;
    kill_doomed(entry);
    // Reported for agents' descendants, too: a server may fork and end before its own exec is judged.
    count(Counter::ProcessSeen);
    let header = header(Kind::Fork, Sequence::Processes);
    let parent = task::key(task::current())?;
    emit(Ring::Processes, Counter::ProcessLost, |slot| {
        slot.write(ForkRecord {
            header,
            process: child,
            parent,
            entry,
            uid: bpf_get_current_uid_gid() as u32,
            reserved: 0,
        });
    });
    Ok(())
}

/// `sched_process_exit(task)`: runs for every thread, after it was removed from the live count.
#[inline(always)]
pub(crate) fn try_exit(ctx: &RawTracePointContext) -> Result<(), Error> {
    let pid = task::current_pid();
    let Some(entry) = process(pid) else { return Ok(()) };
    let task = ctx.arg::<u64>(0) as Address;
    let signal = read::<Address>(task, offset!(task_signal))?;
    if read::<u32>(signal, offset!(signal_live))? != 0 {
        return Ok(());
    }
    // Missing only if the daemon has removed it meanwhile, which is the intended state.
    let _absent = PROCESSES.remove(pid);
    count(Counter::ProcessSeen);
    let group = read::<u32>(signal, offset!(signal_group_exit_code))?;
    let status = if group == 0 {
        read(task, offset!(task_exit_code))?
    } else {
        group
    };
    let header = header(Kind::Exit, Sequence::Processes);
    let process = task::key(task)?;
    emit(Ring::Processes, Counter::ProcessLost, |slot| {
        slot.write(ExitRecord {
            header,
            process,
            entry,
            status,
            uid: bpf_get_current_uid_gid() as u32,
        });
    });
    Ok(())
}

/// Kills the current process if its server is being stopped, so that it cannot escape by forking fast.
#[inline(always)]
pub(crate) fn kill_doomed(entry: ProcessEntry) {
    const SIGKILL: u32 = 9;
    if entry.has(ProcessEntry::FLAG_DOOMED) {
        // SAFETY: a helper; it signals the current process. One that is ending already needs no signal.
        let _unneeded = unsafe { bpf_send_signal(SIGKILL) };
    }
}

//! Successful execs: reports process, file and arguments. Kills the process if its file is refused, and stops it if it
//! may be a pinned server.

use aya_ebpf::{
    helpers::{
        bpf_get_current_comm, bpf_get_current_uid_gid, bpf_probe_read_kernel_str_bytes,
        generated::{bpf_get_current_cgroup_id, bpf_probe_read_user, bpf_ringbuf_output, bpf_send_signal},
    },
    programs::RawTracePointContext,
};
use mcpmon_common::{
    event::{Counter, ExecBuffer, ExecRecord, Kind},
    limits::ARGV_MAX,
    process::{FileKey, ProcessEntry},
};

use crate::{
    emit::{Ring, Sequence, Wake, count, header},
    error::Error,
    gate,
    log::log,
    maps::{self, AGENT_NAMES, EXEC_SCRATCH, PROCESSES, REFUSED, offset},
    process::kill_doomed,
    task::{self, Address, read},
};

const SIGKILL: u32 = 9;
/// Bit of `i_ctime_nsec` that says that a multigrain timestamp was read; it is no part of the time.
const CTIME_QUERIED: u32 = 1 << 31;

/// `sched_process_exec(task, old_pid, bprm)`: runs in the new image, before its first instruction.
#[inline(always)]
pub(crate) fn try_exec(ctx: &RawTracePointContext) -> Result<(), Error> {
    count(Counter::ExecSeen);
    let task = ctx.arg::<u64>(0) as Address;
    let bprm = ctx.arg::<u64>(2) as Address;
    let Some(buffer) = EXEC_SCRATCH.get_ptr_mut(0) else {
        return Err(Error::Read);
    };
    // SAFETY: a per-CPU slot that no other program of ours uses.
    let ExecBuffer { record, argv } = unsafe { &mut *buffer };

    // Done first, so that a refusal does not depend on steps that may fail.
    let file = file_facts(bprm, record)?;
    record.flags = refuse(file);
    record.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    let pid = task::current_pid();
    let (entry, wake) = track(pid, &record.comm);
    kill_doomed(entry);
    record.entry = entry;
    record.header = header(Kind::Exec, Sequence::Processes);

    record.process = task::key(task)?;
    record.parent = task::key(read::<Address>(task, offset!(task_real_parent))?)?;
    // SAFETY: a helper without arguments.
    record.cgroup = unsafe { bpf_get_current_cgroup_id() };
    record.uid = bpf_get_current_uid_gid() as u32;
    filename(bprm, record)?;
    arguments(task, record, argv)?;
    // Kept in memory, whose value the verifier does not track: else it would check the gate once for each value.
    record.reserved = u32::from(wake == Wake::Now);
    let held = gate::hold(record, argv);
    // SAFETY: a field of a live record.
    let is_urgent = unsafe { core::ptr::read_volatile(&raw const record.reserved) } != 0;
    record.reserved = 0;
    let wake = if held || is_urgent { Wake::Now } else { Wake::Later };

    let length = size_of::<ExecRecord>() + (record.argv_copied as usize).min(ARGV_MAX);
    // SAFETY: the scratch is at least `length` bytes; the verifier checks it again.
    let lost = unsafe {
        bpf_ringbuf_output(
            core::ptr::from_ref(Ring::Processes.map()).cast_mut().cast(),
            buffer.cast(),
            length as u64,
            Ring::Processes.flags(wake),
        )
    };
    log!(
        debug,
        "process {} executes: server {}, flags {:x}, {} bytes of arguments",
        pid,
        entry.instance,
        record.flags,
        record.argv_total
    );
    if lost < 0 {
        log!(warn, "process {} executes: no room in the ring", pid);
        count(Counter::ExecLost);
        if held {
            gate::let_go(pid);
        }
    }
    Ok(())
}

/// Kills the process if its file is refused; returns the flags of its record.
#[inline(always)]
fn refuse(file: FileKey) -> u32 {
    // SAFETY: entries are written by the daemon only; the value is not used.
    if unsafe { REFUSED.get(file) }.is_none() {
        return 0;
    }
    // SAFETY: a helper; it signals the current process.
    if unsafe { bpf_send_signal(SIGKILL) } != 0 {
        return 0;
    }
    count(Counter::ExecKilled);
    ExecRecord::FLAG_KILLED
}

/// Updates the process table for the new image; returns the entry, and how soon the reader is to be woken.
#[inline(always)]
fn track(pid: u32, comm: &[u8; 16]) -> (ProcessEntry, Wake) {
    let known = maps::process(pid);
    let mut entry = known.unwrap_or_default();
    // SAFETY: entries are written by the daemon only; the value is not used.
    if unsafe { AGENT_NAMES.get(comm) }.is_some() {
        entry.flags |= ProcessEntry::FLAG_AGENT;
    }
    if entry == ProcessEntry::default() {
        return (entry, Wake::Later);
    }
    if known != Some(entry) && PROCESSES.insert(pid, entry, 0).is_err() {
        log!(warn, "process {} executes: the process table is full", pid);
        count(Counter::ProcessTableFull);
    }
    (entry, Wake::Now)
}

/// Reads the inode's attributes of the file that runs.
#[inline(always)]
fn file_facts(bprm: Address, record: &mut ExecRecord) -> Result<FileKey, Error> {
    let file = read::<Address>(bprm, offset!(bprm_file))?;
    let inode = read::<Address>(file, offset!(file_inode))?;
    record.links = read(inode, offset!(inode_nlink))?;
    record.owner = read(inode, offset!(inode_uid))?;
    record.reserved = 0;
    record.file = file_key(inode)?;
    Ok(record.file)
}

/// Reads the identity of a file.
#[inline(always)]
pub(crate) fn file_key(inode: Address) -> Result<FileKey, Error> {
    let superblock = read::<Address>(inode, offset!(inode_sb))?;
    let seconds = read::<u64>(inode, offset!(inode_ctime_sec))?;
    let nanoseconds = read::<u32>(inode, offset!(inode_ctime_nsec))? & !CTIME_QUERIED;
    Ok(FileKey {
        inode: read(inode, offset!(inode_ino))?,
        size: read(inode, offset!(inode_size))?,
        ctime: seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(u64::from(nanoseconds)),
        device: read(superblock, offset!(sb_dev))?,
        reserved: 0,
    })
}

#[inline(always)]
fn filename(bprm: Address, record: &mut ExecRecord) -> Result<(), Error> {
    let pointer = read::<Address>(bprm, offset!(bprm_filename))?;
    // SAFETY: the helper checks the address and stops at the buffer's end.
    let copied = unsafe { bpf_probe_read_kernel_str_bytes(pointer as *const u8, &mut record.filename) };
    record.filename_len = copied.or(Err(Error::Read))?.len() as u32;
    Ok(())
}

#[inline(always)]
fn arguments(task: Address, record: &mut ExecRecord, argv: &mut [u8; ARGV_MAX]) -> Result<(), Error> {
    let mm = read::<Address>(task, offset!(task_mm))?;
    let start = read::<u64>(mm, offset!(mm_arg_start))?;
    let end = read::<u64>(mm, offset!(mm_arg_end))?;
    let total = end.saturating_sub(start);
    record.argv_total = total.min(u64::from(u32::MAX)) as u32;
    let length = total.min(ARGV_MAX as u64) as u32;
    // SAFETY: `length` is bounded by the buffer; the helper checks the user address.
    let failed = unsafe { bpf_probe_read_user(argv.as_mut_ptr().cast(), length, start as *const _) } != 0;
    record.argv_copied = if failed { 0 } else { length };
    if failed {
        record.flags |= ExecRecord::FLAG_ARGV_FAULT;
    }
    Ok(())
}

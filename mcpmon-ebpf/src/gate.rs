//! The exec gate: a start that may be a pinned server's is stopped before its first instruction, and it is reported if
//! another process than the daemon resumes it.

use aya_ebpf::{
    helpers::{
        bpf_get_current_comm, bpf_get_current_uid_gid,
        generated::{bpf_ktime_get_boot_ns, bpf_send_signal},
    },
    programs::RawTracePointContext,
};
use mcpmon_common::{
    event::{Counter, ExecRecord, Kind, ResumeRecord},
    gate::{AcceptedDigest, GateKey, GateKind, HASH_BASIS, Hold, hash_byte, name_hash},
    limits::{ARGV_MAX, GATE_ARGV_MAX},
    process::ProcessEntry,
};

use crate::{
    emit::{Ring, Sequence, Wake, count, emit_woken, header},
    error::Error,
    log::log,
    maps::{GATE, GATE_SCRATCH, GATED, HOLDS, PROCESSES, offset, process},
    start,
    task::{self, Address, Caller, read},
};

const SIGCONT: u32 = 18;
const SIGSTOP: u32 = 19;

/// Stops the process if it may be the start of a pinned server; returns whether it is stopped.
#[inline(always)]
pub(crate) fn hold(record: &mut ExecRecord, argv: &[u8; ARGV_MAX]) -> bool {
    if record.flags & ExecRecord::FLAG_KILLED != 0 || !is_open() {
        return false;
    }
    let pid = record.process.pid;
    let extent = start::accepted_extent(pid, &record.file);
    if extent == AcceptedDigest::WHOLE {
        record.flags |= ExecRecord::FLAG_VERIFIED;
        return false;
    }
    if extent != AcceptedDigest::PART && !is_gated(record, argv) {
        return false;
    }
    let hold = Hold {
        process: record.process,
        flags: 0,
        reserved: 0,
    };
    // Without an entry, the daemon could not find the stopped process.
    if HOLDS.insert(pid, hold, 0).is_err() {
        log!(warn, "process {} is not stopped: too many are", pid);
        return false;
    }
    // SAFETY: a helper; it signals the current process.
    if unsafe { bpf_send_signal(SIGSTOP) } != 0 {
        let _absent = HOLDS.remove(pid);
        log!(warn, "process {} is not stopped: it takes no signal", pid);
        return false;
    }
    log!(info, "process {} is stopped before its first instruction", pid);
    count(Counter::ExecHeld);
    record.flags |= ExecRecord::FLAG_HELD;
    true
}

/// Undoes a stop before it takes effect, because its record was lost.
#[inline(always)]
pub(crate) fn let_go(pid: u32) {
    let _absent = HOLDS.remove(pid);
    // SAFETY: a helper; it signals the current process, which cancels the pending stop.
    let _unneeded = unsafe { bpf_send_signal(SIGCONT) };
}

#[inline(always)]
pub(crate) fn is_open() -> bool {
    // SAFETY: a helper without arguments.
    GATE.get(0).map_or(0, |gate| gate.open_until) > unsafe { bpf_ktime_get_boot_ns() }
}

#[inline(always)]
fn is_gated(record: &ExecRecord, argv: &[u8; ARGV_MAX]) -> bool {
    let name = name_hash(&record.comm);
    if is_named(name, record.uid, GateKind::Program) {
        return true;
    }
    let is_below = record.entry.instance != 0 || record.entry.has(ProcessEntry::FLAG_AGENT);
    // Wrappers execute by descriptor; the command name is then meaningless.
    let is_candidate =
        is_by_descriptor(record) || is_below && is_named(name, record.uid, GateKind::Interpreter);
    is_candidate && has_gated_argument(record, argv)
}

#[inline(always)]
fn is_by_descriptor(record: &ExecRecord) -> bool {
    let [a, b, c, d, e, f, g, h, ..] = record.filename;
    u64::from_ne_bytes([a, b, c, d, e, f, g, h]) == u64::from_ne_bytes(*b"/dev/fd/")
}

/// Returns whether the last component of an argument is a gated name.
#[inline(always)]
fn has_gated_argument(record: &ExecRecord, argv: &[u8; ARGV_MAX]) -> bool {
    let Some(scan) = GATE_SCRATCH.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: a per-CPU slot that no other program of ours uses.
    unsafe { scan.write_volatile([HASH_BASIS, GateKind::First as u64, 0]) };
    // The loop always runs to its end: the verifier would check the rest of the program once for each exit.
    for (at, byte) in argv.iter().take(GATE_ARGV_MAX).enumerate() {
        // SAFETY: as above.
        let [hash, kind, found] = unsafe { scan.read_volatile() };
        // Read in each round: otherwise the verifier would track its range, as another state for each byte.
        // SAFETY: a field of a live record.
        let copied = unsafe { core::ptr::read_volatile(&raw const record.argv_copied) } as usize;
        let byte = if at < copied { *byte } else { b'/' };
        let next = match byte {
            0 if is_kind_named(hash, record.uid, kind as u32) => [HASH_BASIS, kind, 1],
            0 => [HASH_BASIS, GateKind::Argument as u64, found],
            b'/' => [HASH_BASIS, kind, found],
            byte => [hash_byte(hash, byte), kind, found],
        };
        // SAFETY: as above.
        unsafe { scan.write_volatile(next) };
    }
    // SAFETY: as above.
    unsafe { scan.read_volatile()[2] == 1 }
}

#[inline(always)]
fn is_named(name: u64, uid: u32, kind: GateKind) -> bool {
    is_kind_named(name, uid, kind as u32)
}

#[inline(always)]
fn is_kind_named(name: u64, uid: u32, kind: u32) -> bool {
    let key = GateKey { name, uid, kind };
    // SAFETY: entries are written by the daemon only; the value is not used.
    unsafe { GATED.get(key) }.is_some()
}

/// `signal_generate(signal, info, task, …)`: runs in the sender, when the signal has been sent.
#[inline(always)]
pub(crate) fn try_signal(ctx: &RawTracePointContext) -> Result<(), Error> {
    if ctx.arg::<u64>(0) as u32 != SIGCONT {
        return Ok(());
    }
    let target = ctx.arg::<u64>(2) as Address;
    let pid = read::<u32>(target, offset!(task_tgid))?;
    // The daemon removes the entry before it resumes a process.
    let Some(hold) = HOLDS.get_ptr_mut(pid) else {
        return Ok(());
    };
    // SAFETY: the entry stays readable until this program ends; a flag is only ever added here.
    let hold = unsafe { &mut *hold };
    // If a process ends while no daemon runs, its entry stays, and its number is used again.
    if !hold.is_of(task::key(target)?) {
        let _absent = HOLDS.remove(pid);
        return Ok(());
    }
    log!(info, "process {} goes on before it was judged", pid);
    hold.flags |= Hold::FLAG_RESUMED;
    if hold.flags & Hold::FLAG_SERVER != 0 {
        doom(pid);
    }
    let (process, header) = (hold.process, header(Kind::Resume, Sequence::Processes));
    let sender = task::current_key(Caller::get());
    let comm = bpf_get_current_comm().unwrap_or([0; 16]);
    let uid = bpf_get_current_uid_gid() as u32;
    let told = emit_woken(Ring::Processes, Wake::Now, |slot| {
        slot.write(ResumeRecord {
            header,
            process,
            sender,
            uid,
            reserved: 0,
            comm,
        });
    });
    if !told {
        count(Counter::ProcessLost);
    }
    Ok(())
}

/// Marks a process that the daemon is about to kill: it may not connect, and dies if it forks or executes.
#[inline(always)]
fn doom(pid: u32) {
    let mut entry = process(pid).unwrap_or_default();
    entry.flags |= ProcessEntry::FLAG_DOOMED;
    if PROCESSES.insert(pid, entry, 0).is_err() {
        count(Counter::ProcessTableFull);
    }
}

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
    gate::{ANY_USER, AcceptedDigest, GateKey, GateKind, HASH_BASIS, Hold, hash_byte, name_hash},
    limits::{ARGV_MAX, GATE_ARGV_MAX},
    process::ProcessEntry,
    watch::Control,
};

use crate::{
    emit::{Ring, Sequence, Wake, count, emit_woken, header},
    error::Error,
    log::log,
    maps::{GATE, GATE_SCRATCH, GATED, HOLDS, PROCESSES, Scan, control, offset, process},
    start,
    task::{self, Address, Caller, read},
};

const SIGCONT: u32 = 18;
const SIGSTOP: u32 = 19;

/// Bits of a match: the start may be a pinned server of its user, or it is a candidate.
const PINNED: u64 = 1;
const CANDIDATE: u64 = 1 << 1;
/// `enum pid_type` of the kernel.
const PROCESS_GROUP: usize = 2;
const SESSION: usize = 3;

/// Restricts a candidate until it is judged, and stops the process if it may be a pinned server or is a candidate.
/// Returns whether it is stopped.
#[inline(always)]
pub(crate) fn hold(record: &mut ExecRecord, argv: &[u8; ARGV_MAX]) -> bool {
    if record.flags & ExecRecord::FLAG_KILLED != 0 {
        return false;
    }
    let seeks_candidates = record.entry.instance == 0 && control() & Control::EGRESS != 0;
    if !is_open() && !seeks_candidates {
        return false;
    }
    let Some(scan) = GATE_SCRATCH.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: a per-CPU slot that no other program of ours uses.
    unsafe { find_names(record, argv, seeks_candidates, scan) };
    // Read anew each time, so that the program is not duplicated for each value.
    // SAFETY: as above.
    let has = |bit| unsafe { (&raw const (*scan).found).read_volatile() } & bit != 0;
    if has(CANDIDATE) {
        restrict(record);
    }
    let is_stopped = is_open() && stop(record, has);
    if has(CANDIDATE) && !is_stopped {
        count(Counter::ExecRestricted);
    }
    is_stopped
}

/// Marks the process as pending, and wakes the reader.
#[inline(always)]
#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "a copy on the stack would be written in parts, and the verifier would tell apart what was there before"
)]
fn restrict(record: &mut ExecRecord) {
    record.entry.flags |= ProcessEntry::FLAG_PENDING;
    record.entry.exec = record.entry.exec.wrapping_add(1);
    record.flags |= ExecRecord::FLAG_CANDIDATE;
    record.reserved = 1;
    if PROCESSES.insert(&record.process.pid, &record.entry, 0).is_err() {
        log!(
            warn,
            "process {} is not restricted: the process table is full",
            record.process.pid
        );
        count(Counter::ProcessTableFull);
    }
}

/// Stops the process if its start requires that; returns whether it is stopped.
#[inline(always)]
fn stop(record: &mut ExecRecord, has: impl Fn(u64) -> bool) -> bool {
    let pid = record.process.pid;
    let extent = start::accepted_extent(pid, &record.file);
    if extent == AcceptedDigest::WHOLE {
        record.flags |= ExecRecord::FLAG_VERIFIED;
    }
    let is_pinned = extent == AcceptedDigest::PART || extent != AcceptedDigest::WHOLE && has(PINNED);
    if !is_pinned && (!has(CANDIDATE) || !stops_candidates() || is_shell_job()) {
        return false;
    }
    let flags = if is_pinned { 0 } else { Hold::FLAG_CANDIDATE };
    // In whole words, as the key of a name.
    let words = [record.process.start, u64::from(pid), u64::from(flags)];
    // SAFETY: both types have the same size, and every bit pattern is valid.
    let hold = unsafe { core::mem::transmute::<[u64; 3], Hold>(words) };
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

/// Returns whether the process is a job of a shell with job control: it has another process group than its parent, in
/// the same session. Such a shell takes the terminal back when it sees its job stopped, so a candidate there is only
/// restricted.
#[inline(always)]
fn is_shell_job() -> bool {
    let groups = |task: Address| {
        let signal = read::<Address>(task, offset!(task_signal))?;
        let of_kind = |kind| read::<Address>(signal, offset!(signal_pids) + kind * size_of::<Address>());
        Ok::<_, Error>((of_kind(PROCESS_GROUP)?, of_kind(SESSION)?))
    };
    let own = task::current();
    let Ok(parent) = read::<Address>(own, offset!(task_real_parent)) else {
        return false;
    };
    match (groups(own), groups(parent)) {
        (Ok((group, session)), Ok((of_parent, parents_session))) => {
            group != of_parent && session == parents_session
        }
        (Ok(_) | Err(_), Ok(_) | Err(_)) => false,
    }
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
fn stops_candidates() -> bool {
    GATE.get(0).is_some_and(|gate| gate.stops_candidates != 0)
}

/// Notes [`PINNED`] and [`CANDIDATE`] in `scan`, as the names of a start are those of a pinned server or of a candidate.
///
/// # Safety
/// `scan` is the per-CPU slot, which no other program of ours uses.
#[inline(always)]
unsafe fn find_names(record: &ExecRecord, argv: &[u8; ARGV_MAX], seeks_candidates: bool, scan: *mut Scan) {
    let name = name_hash(&record.comm);
    let is_below = record.entry.instance != 0 || record.entry.has(ProcessEntry::FLAG_AGENT);
    // Wrappers execute by descriptor; the command name is then meaningless.
    let is_wrapped = is_by_descriptor(record);
    let mut found = 0;
    if is_named(name, record.uid, GateKind::Program) {
        found |= PINNED;
    }
    if seeks_candidates && (is_wrapped || is_named(name, ANY_USER, GateKind::Program)) {
        found |= CANDIDATE;
    }
    let is_pinned =
        found & PINNED == 0 && (is_wrapped || is_below && is_named(name, record.uid, GateKind::Interpreter));
    let is_candidate =
        seeks_candidates && found & CANDIDATE == 0 && is_named(name, ANY_USER, GateKind::Interpreter);
    if is_candidate && is_below {
        found |= CANDIDATE;
    }
    // One search only: elsewhere than below an agent or a server, no interpreter is a pinned server's.
    let (uid, bit) = match (is_pinned, is_candidate && !is_below) {
        (true, _) => (record.uid, PINNED),
        (false, true) => (ANY_USER, CANDIDATE),
        (false, false) => (ANY_USER, 0),
    };
    // SAFETY: by contract.
    unsafe {
        scan.write_volatile(Scan {
            progress: [HASH_BASIS, GateKind::First as u64, 0],
            uid: u64::from(uid),
            bit,
            found,
        });
        if bit == 0 {
            return;
        }
        scan_arguments(record, argv, scan);
        let [_, _, is_named] = (&raw const (*scan).progress).read_volatile();
        let bit = (&raw const (*scan).bit).read_volatile();
        // Computed without a branch: the verifier would check the rest once for each.
        (*scan).found |= is_named * bit;
    }
}

#[inline(always)]
fn is_by_descriptor(record: &ExecRecord) -> bool {
    let [a, b, c, d, e, f, g, h, ..] = record.filename;
    u64::from_ne_bytes([a, b, c, d, e, f, g, h]) == u64::from_ne_bytes(*b"/dev/fd/")
}

/// Looks for an argument whose last component is a name in the table.
///
/// # Safety
/// `scan` is the per-CPU slot, which no other program of ours uses.
#[inline(always)]
unsafe fn scan_arguments(record: &ExecRecord, argv: &[u8; ARGV_MAX], scan: *mut Scan) {
    // The loop always runs to its end: the verifier would check the rest of the program once for each exit.
    for (at, byte) in argv.iter().take(GATE_ARGV_MAX).enumerate() {
        // SAFETY: by contract.
        let ([hash, kind, found], uid) = unsafe {
            (
                (&raw const (*scan).progress).read_volatile(),
                (&raw const (*scan).uid).read_volatile(),
            )
        };
        // Read in each round: otherwise the verifier would track its range, as another state for each byte.
        // SAFETY: a field of a live record.
        let copied = unsafe { core::ptr::read_volatile(&raw const record.argv_copied) } as usize;
        let byte = if at < copied { *byte } else { b'/' };
        let next = match byte {
            0 if is_kind_named(hash, uid as u32, kind as u32) => [HASH_BASIS, kind, 1],
            0 => [HASH_BASIS, GateKind::Argument as u64, found],
            b'/' => [HASH_BASIS, kind, found],
            byte => [hash_byte(hash, byte), kind, found],
        };
        // SAFETY: by contract.
        unsafe { (&raw mut (*scan).progress).write_volatile(next) };
    }
}

#[inline(always)]
fn is_named(name: u64, uid: u32, kind: GateKind) -> bool {
    is_kind_named(name, uid, kind as u32)
}

#[inline(always)]
fn is_kind_named(name: u64, uid: u32, kind: u32) -> bool {
    // Written in whole words: to the verifier, a slot of the stack that is written in parts keeps what was there before,
    // and each content is another state.
    let words = [name, u64::from(kind) << 32 | u64::from(uid)];
    // SAFETY: both types have the same size, and every bit pattern is valid.
    let key = unsafe { core::mem::transmute::<[u64; 2], GateKey>(words) };
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

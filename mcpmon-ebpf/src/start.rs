//! Starts of programs that are pinned servers themselves: refused before the process gets the new program, unless the
//! digest that the kernel takes (IMA) is an accepted one.

use aya_ebpf::{
    bindings::{file, path},
    helpers::{
        bpf_get_current_comm, bpf_get_current_uid_gid,
        generated::{bpf_d_path, bpf_ima_file_hash},
    },
    programs::LsmContext,
};
use mcpmon_common::{
    event::{Counter, Kind, RefusedStartRecord},
    gate::{AcceptedDigest, AcceptedStart, CheckedProgram, HASH_BASIS, hash_byte},
    limits::FILENAME_MAX,
    process::FileKey,
};

use crate::{
    emit::{Ring, Sequence, Wake, count, emit_woken, header},
    error::Error,
    exec, gate,
    log::log,
    maps::{ACCEPTED_DIGESTS, CHECKED_PROGRAMS, VERIFIED, offset},
    task::{self, Address, Caller, forgotten, read},
};

/// `HASH_ALGO_SHA256` of the kernel.
const SHA256: i64 = 4;
const EPERM: i32 = 1;

/// A path on the stack: this program may sleep, and then another start on the same CPU would overwrite a per-CPU slot.
type Path = [u64; FILENAME_MAX / 8];

/// `bprm_check_security(bprm)`: runs before the process gets the new program, and for a script before that of its
/// interpreter. Returns the answer of the hook.
#[inline(always)]
pub(crate) fn try_start(ctx: &LsmContext) -> Result<i32, Error> {
    // Another program has refused it; newer verifiers want a constant.
    if ctx.arg::<i32>(1) != 0 {
        return Ok(-EPERM);
    }
    if !gate::is_open() {
        return Ok(0);
    }
    let caller = Caller::get();
    let _absent = VERIFIED.remove(caller.pid);

    // Loaded directly, not by a helper: the verifier then knows that these are kernel structures, as the helpers want.
    let bprm: *const u8 = ctx.arg(0);
    let program = bprm.wrapping_add(offset!(bprm_file)).cast::<*mut file>();
    // SAFETY: a field of the structure that the kernel passes; the verifier checks the offset.
    let program = unsafe { program.read() };
    let mut name: Path = [0; FILENAME_MAX / 8];
    let place = program.cast::<u8>().wrapping_add(offset!(file_path));
    // SAFETY: the helper writes at most as many bytes as it is told.
    let length = unsafe {
        bpf_d_path(
            place.cast::<path>(),
            name.as_mut_ptr().cast(),
            FILENAME_MAX as u32,
        )
    };
    if length <= 1 {
        return Ok(0);
    }
    let hash = hash_of(&name);
    let Some(hash) = forgotten(&hash) else {
        return Err(Error::Read);
    };
    let uid = bpf_get_current_uid_gid() as u32;
    let checked = CheckedProgram {
        path: hash,
        uid,
        reserved: 0,
    };
    // SAFETY: entries are written by the daemon only; the value is not used.
    if unsafe { CHECKED_PROGRAMS.get(checked) }.is_none() {
        return Ok(0);
    }
    // Read before the digest: the file of the start is compared with it, so that a change in between is no accepted file.
    let inode = read::<Address>(program as Address, offset!(file_inode))?;
    let file = exec::file_key(inode)?;
    let mut entry = AcceptedDigest {
        program: checked,
        digest: [0; 32],
    };
    // SAFETY: the helper writes at most as many bytes as it is told.
    let algorithm = unsafe { bpf_ima_file_hash(program, entry.digest.as_mut_ptr().cast(), 32) };
    if algorithm != SHA256 {
        log!(
            warn,
            "process {} starts unchecked: the kernel gives no SHA-256",
            caller.pid
        );
        count(Counter::StartUnhashed);
        return Ok(0);
    }
    // SAFETY: as above; the value is one word, copied at once.
    let Some(extent) = (unsafe { ACCEPTED_DIGESTS.get(entry) }).copied() else {
        // As for the table of refused files: what belongs to another user, or has other names, may be something else.
        if read::<u32>(inode, offset!(inode_uid))? != uid || read::<u32>(inode, offset!(inode_nlink))? > 1 {
            return Ok(0);
        }
        refuse(caller, uid, &entry.digest, &name, length as u32);
        return Ok(-EPERM);
    };
    count(Counter::StartVerified);
    let start = AcceptedStart {
        file,
        extent,
        reserved: 0,
    };
    // Without an entry the process is stopped by its name and compared, as without this program.
    let _full = VERIFIED.insert(caller.pid, start, 0);
    Ok(0)
}

/// Returns the extent of the accepted digest that the file of this start has; 0 if it has none.
#[inline(always)]
pub(crate) fn accepted_extent(pid: u32, file: &FileKey) -> u32 {
    // SAFETY: entries are written by this process's own starts only.
    let Some(verified) = (unsafe { VERIFIED.get(pid) }).copied() else {
        return 0;
    };
    let _absent = VERIFIED.remove(pid);
    if verified.file == *file {
        verified.extent
    } else {
        0
    }
}

#[inline(always)]
fn hash_of(name: &Path) -> u64 {
    let bytes = name.as_ptr().cast::<u8>();
    let mut hash = HASH_BASIS;
    for at in 0..FILENAME_MAX {
        // SAFETY: within the array.
        let byte = unsafe { bytes.add(at).read() };
        if byte == 0 {
            break;
        }
        hash = hash_byte(hash, byte);
    }
    hash
}

/// Reports a start that is refused.
#[inline(always)]
fn refuse(caller: Caller, uid: u32, digest: &[u8; 32], name: &Path, length: u32) {
    log!(
        info,
        "process {} may not start another program: its digest is not accepted",
        caller.pid
    );
    count(Counter::StartRefused);
    let header = header(Kind::RefusedStart, Sequence::RefusedStarts);
    let process = task::current_key(caller);
    let comm = bpf_get_current_comm().unwrap_or([0; 16]);
    let told = emit_woken::<RefusedStartRecord>(Ring::Processes, Wake::Now, |slot| {
        let slot = slot.as_mut_ptr();
        // SAFETY: fields of the reserved record; written one by one, because the stack has no room for the whole.
        unsafe {
            (&raw mut (*slot).header).write(header);
            (&raw mut (*slot).process).write(process);
            (&raw mut (*slot).uid).write(uid);
            (&raw mut (*slot).path_len).write(length - 1);
            (&raw mut (*slot).comm).write(comm);
            (&raw mut (*slot).digest).write(*digest);
            (&raw mut (*slot).path).cast::<Path>().write(*name);
        }
    });
    if !told {
        count(Counter::ProcessLost);
    }
}

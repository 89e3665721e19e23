//! The few system calls and casts of this sense without a safe wrapper.

#![expect(unsafe_code, reason = "no safe wrapper exists for what is here")]

use std::io;

use aya::Pod;
use nix::libc;

/// Waits until no kernel program that started before this call is still running.
///
/// `MEMBARRIER_CMD_GLOBAL` waits for an RCU grace period (membarrier(2)), and the cgroup programs run inside
/// RCU read sections.
///
/// # Errors
/// Returns an error if the kernel was built without membarrier, or runs with `nohz_full`.
pub(super) fn wait_for_running_programs() -> io::Result<()> {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: takes numbers only.
    match unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads a `T` from the start of `bytes`, which need not be aligned.
#[must_use]
pub(super) fn read_unaligned<T: Pod>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: long enough, and every byte pattern is a `T`.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

//! Commands of bpf(2) by which other processes interfere with the programs of a sensor.

use std::{
    ffi::CString,
    fs::File,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::{errno::Errno, libc};

/// Commands.
const PROG_LOAD: libc::c_int = 5;
const OBJ_GET: libc::c_int = 7;
const PROG_ATTACH: libc::c_int = 8;
const PROG_DETACH: libc::c_int = 9;
const LINK_DETACH: libc::c_int = 34;
/// `BPF_PROG_TYPE_CGROUP_SKB` and `BPF_CGROUP_INET_EGRESS`.
const PACKETS: u32 = 8;
const OUTGOING: u32 = 1;

/// A program of another process at a cgroup's hook for outgoing packets. It lets all packets pass, and is attached in
/// the way that allows no other program there, until this is dropped.
#[derive(Debug)]
pub struct OnlyProgram {
    program: OwnedFd,
    cgroup: File,
}

impl OnlyProgram {
    /// Attaches it.
    ///
    /// # Errors
    /// Returns the errors of bpf(2): `EPERM` where a program is attached already.
    pub fn attach(cgroup: File) -> Result<Self, Errno> {
        // `r0 = 1; exit`
        let instructions = [0x0000_0001_0000_00b7_u64, 0x95];
        let license = c"GPL";
        let attributes = [
            u64::from(PACKETS) | (instructions.len() as u64) << 32,
            instructions.as_ptr() as u64,
            license.as_ptr() as u64,
        ];
        let program = call(PROG_LOAD, &attributes)?;
        // SAFETY: the kernel has just made it for this process.
        let program = unsafe { OwnedFd::from_raw_fd(program) };
        let attached = Self { program, cgroup };
        call(PROG_ATTACH, &attached.place()).map(|_| attached)
    }

    fn place(&self) -> [u64; 2] {
        let cgroup = u64::from(self.cgroup.as_raw_fd().cast_unsigned());
        let program = u64::from(self.program.as_raw_fd().cast_unsigned());
        [cgroup | program << 32, u64::from(OUTGOING)]
    }
}

impl Drop for OnlyProgram {
    fn drop(&mut self) {
        // If it was not attached, it need not be detached.
        let _detached = call(PROG_DETACH, &self.place());
    }
}

/// Detaches the program of a pinned link.
///
/// # Errors
/// Returns the errors of bpf(2).
pub fn detach_pinned(link: &Path) -> Result<(), Errno> {
    let path = CString::new(link.as_os_str().as_bytes()).expect("a path has no NUL");
    let link = call(OBJ_GET, &[path.as_ptr() as u64, 0])?;
    // SAFETY: the kernel has just made it for this process.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    call(LINK_DETACH, &[u64::from(link.as_raw_fd().cast_unsigned())]).map(drop)
}

fn call(command: libc::c_int, attributes: &[u64]) -> Result<i32, Errno> {
    // SAFETY: the kernel reads as many bytes as it is told; what they point to outlives the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            size_of_val(attributes),
        )
    };
    Errno::result(answer).map(|answer| i32::try_from(answer).unwrap_or(-1))
}

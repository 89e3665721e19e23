//! The few system calls and casts of this crate without a safe wrapper.

#![expect(unsafe_code, reason = "no safe wrapper exists for what is here")]

use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, net::UnixDatagram},
    },
    path::Path,
};

use aya::{
    Pod,
    maps::{MapData, RingBuf},
};
use aya_log::EbpfLogger;
use nix::libc;
use tokio::io::{Interest, unix::AsyncFd};

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

/// Returns the cookie of this process's network namespace (socket(7), `SO_NETNS_COOKIE`, from Linux 5.14).
///
/// # Errors
/// Returns an error if the kernel does not know the option.
pub(super) fn network_cookie() -> io::Result<u64> {
    let socket = UnixDatagram::unbound()?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `cookie`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct file_handle` with the id of a file in kernfs, on which the cgroup file systems are based.
#[repr(C)]
struct KernfsHandle {
    bytes: u32,
    kind: i32,
    id: [u8; 8],
}

/// Opens a cgroup by its id, to find its path. Needs `CAP_DAC_READ_SEARCH`.
///
/// # Errors
/// Returns an error if the cgroup was removed (`ESTALE`) or may not be opened.
pub(super) fn open_cgroup(root: BorrowedFd<'_>, id: u64) -> io::Result<OwnedFd> {
    const FILEID_KERNFS: i32 = 0xfe;
    let mut handle = KernfsHandle {
        bytes: 8,
        kind: FILEID_KERNFS,
        id: id.to_ne_bytes(),
    };
    // SAFETY: the handle has the layout of `struct file_handle` and as many bytes as it says.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            root.as_raw_fd(),
            &raw mut handle,
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    match i32::try_from(opened) {
        // SAFETY: a new descriptor, which has no other owner.
        Ok(number @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        Ok(_) | Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Reads a `T` from the start of `bytes`, which need not be aligned.
pub(super) fn read_unaligned<T: Pod>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: long enough, and every byte pattern is a `T`.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// A type that owns the descriptor that it returns.
///
/// # Safety
/// The descriptor must stay the same and open as long as the value lives.
pub(super) unsafe trait OwnsDescriptor: AsRawFd {}

// SAFETY: a ring owns the descriptor of its map.
unsafe impl OwnsDescriptor for RingBuf<MapData> {}
// SAFETY: it owns such a ring.
unsafe impl<T> OwnsDescriptor for EbpfLogger<T> {}

/// Registers a ring with the current runtime, so that it can be waited for.
///
/// # Errors
/// Returns an error if the registration fails.
pub(super) fn awaited<T: OwnsDescriptor>(ring: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: by the trait's contract.
    let awaited = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) };
    awaited.map_err(|error| error.into_parts().1)
}

/// The first bytes of `union bpf_attr` as each command reads them; only those are passed to the kernel.
#[repr(C)]
struct Object {
    path: u64,
    descriptor: u32,
    flags: u32,
}

#[repr(C)]
struct NewLink {
    program: u32,
    target: u32,
    hook: u32,
    flags: u32,
}

#[repr(C)]
struct RawTracepoint {
    name: u64,
    program: u32,
    reserved: u32,
}

#[repr(C)]
struct Update {
    link: u32,
    program: u32,
    flags: u32,
    before: u32,
}

/// Pins a map, program or link at `path` in a BPF file system.
///
/// # Errors
/// Returns the kernel's error.
pub(super) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    const BPF_OBJ_PIN: libc::c_int = 6;
    let path = c_string(path.as_os_str())?;
    let arguments = Object {
        path: path.as_ptr() as u64,
        descriptor: number(object),
        flags: 0,
    };
    bpf(BPF_OBJ_PIN, &arguments).map(drop)
}

/// Opens the object that is pinned at `path`.
///
/// # Errors
/// Returns the kernel's error.
pub(super) fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    const BPF_OBJ_GET: libc::c_int = 7;
    let path = c_string(path.as_os_str())?;
    let arguments = Object {
        path: path.as_ptr() as u64,
        descriptor: 0,
        flags: 0,
    };
    bpf(BPF_OBJ_GET, &arguments).and_then(owned)
}

/// Attaches a program to a cgroup, at the hook with this number (`enum bpf_attach_type`), in addition to other programs
/// there.
///
/// # Errors
/// Returns the kernel's error.
pub(super) fn link_to_cgroup(
    program: BorrowedFd<'_>,
    cgroup: BorrowedFd<'_>,
    hook: u32,
) -> io::Result<OwnedFd> {
    const BPF_LINK_CREATE: libc::c_int = 28;
    let arguments = NewLink {
        program: number(program),
        target: number(cgroup),
        hook,
        flags: 0,
    };
    bpf(BPF_LINK_CREATE, &arguments).and_then(owned)
}

/// Attaches a program to a raw tracepoint, or without a name to the hook that it was loaded for.
///
/// # Errors
/// Returns the kernel's error.
pub(super) fn link_to_tracepoint(program: BorrowedFd<'_>, name: Option<&str>) -> io::Result<OwnedFd> {
    const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
    let name = name.map(|name| c_string(OsStr::new(name))).transpose()?;
    let arguments = RawTracepoint {
        name: name.as_ref().map_or(0, |name| name.as_ptr() as u64),
        program: number(program),
        reserved: 0,
    };
    bpf(BPF_RAW_TRACEPOINT_OPEN, &arguments).and_then(owned)
}

/// Makes an empty file in memory that may be executed.
///
/// # Errors
/// Returns the kernel's error.
pub(super) fn executable_in_memory(name: &CStr) -> io::Result<File> {
    let make = |flags: libc::c_uint| {
        // SAFETY: the name is a string, and outlives the call.
        let made = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC | flags) };
        match made {
            -1 => Err(io::Error::last_os_error()),
            descriptor => owned(descriptor).map(File::from),
        }
    };
    // Before 6.3 there is no such flag, and every such file may be executed.
    make(libc::MFD_EXEC).or_else(|_| make(0))
}

/// Opens a process, which is readable once it has ended.
///
/// # Errors
/// Returns the kernel's error.
pub(super) fn open_process(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    match unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) } {
        -1 => Err(io::Error::last_os_error()),
        descriptor => owned(descriptor),
    }
}

/// Replaces the program of a cgroup's link atomically.
///
/// # Errors
/// Returns the kernel's error: `ENOLINK` if the link is detached.
pub(super) fn update_link(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    const BPF_LINK_UPDATE: libc::c_int = 29;
    let arguments = Update {
        link: number(link),
        program: number(program),
        flags: 0,
        before: 0,
    };
    bpf(BPF_LINK_UPDATE, &arguments).map(drop)
}

fn bpf<T>(command: libc::c_int, arguments: &T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads as many bytes as it is told, and the strings they point to outlive the call.
    match unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            core::ptr::from_ref(arguments),
            size_of::<T>(),
        )
    } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made it for this process, with the close-on-exec flag.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn number(descriptor: BorrowedFd<'_>) -> u32 {
    u32::try_from(descriptor.as_raw_fd()).expect("an open descriptor is not negative")
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::other)
}

/// Returns `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` in nanoseconds, as kernel programs read them.
pub(super) fn clocks() -> (u64, u64) {
    let read = |clock| {
        let time = nix::time::clock_gettime(clock).unwrap_or_else(|_| nix::sys::time::TimeSpec::new(0, 0));
        let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or_default()
    };
    (
        read(nix::time::ClockId::CLOCK_MONOTONIC),
        read(nix::time::ClockId::CLOCK_BOOTTIME),
    )
}

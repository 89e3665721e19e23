//! New processes, by each system call that makes one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::{
    errno::Errno,
    libc,
    unistd::{ForkResult, Pid},
};

/// The system call that makes a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// fork(2).
    Plain,
    /// `CLONE_PARENT`: a sibling of the caller, not a child.
    SameParent,
    /// `CLONE_VFORK`: the caller waits until the new process ends or executes.
    Waiting,
    /// With this process number, which must be free (clone3(2) `set_tid`).
    Numbered(i32),
}

/// `struct clone_args` up to `set_tid_size`, as of Linux 5.5.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
}

/// Makes a process that runs `child` and ends with the status that `child` returns (101 after a panic).
///
/// The caller must have one thread only, because locks held by others would stay locked in the child.
///
/// # Errors
/// Returns the errors of fork(2) and clone3(2).
pub fn fork(how: Fork, child: impl FnOnce() -> i32) -> Result<Pid, Errno> {
    let made = match how {
        // SAFETY: the caller has one thread only, so no other thread can hold a lock.
        Fork::Plain => match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Some(child),
            ForkResult::Child => None,
        },
        // With CLONE_PARENT the exit signal is inherited and must not be given.
        Fork::SameParent => clone(libc::CLONE_PARENT, 0, None)?,
        Fork::Waiting => clone(libc::CLONE_VFORK, libc::SIGCHLD, None)?,
        Fork::Numbered(pid) => clone(0, libc::SIGCHLD, Some(pid))?,
    };
    if let Some(child) = made {
        return Ok(child);
    }
    let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(101);
    // SAFETY: this ends the process without running the parent's destructors and exit handlers.
    unsafe { libc::_exit(status) }
}

/// Ends the calling thread only. Its process continues while another thread does, and ends with status 0 after the last
/// one.
pub fn end_thread() -> ! {
    // SAFETY: the thread's stack is not used any more, and nothing depends on its destructors.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("exit(2) does not return")
}

/// Calls clone3(2) without a new stack. It returns twice, as fork does, with `None` in the child.
fn clone(flags: i32, exit_signal: i32, pid: Option<i32>) -> Result<Option<Pid>, Errno> {
    let arguments = CloneArguments {
        flags: u64::from(flags.cast_unsigned()),
        exit_signal: u64::from(exit_signal.cast_unsigned()),
        set_tid: pid.as_ref().map_or(0, |pid| std::ptr::from_ref(pid) as u64),
        set_tid_size: u64::from(pid.is_some()),
        ..CloneArguments::default()
    };
    // SAFETY: the arguments are on this stack, and memory is copied, not shared, so both sides may return.
    let made = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<CloneArguments>(),
        )
    };
    let made = i32::try_from(Errno::result(made)?).expect("process numbers fit an int");
    Ok((made != 0).then(|| Pid::from_raw(made)))
}

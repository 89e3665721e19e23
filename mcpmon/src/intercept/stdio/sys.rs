//! The few system calls of this sense without a safe wrapper.

#![expect(unsafe_code, reason = "no safe wrapper exists for what is here")]

use std::{
    ffi::{CString, c_char},
    fs::File,
    io,
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    process::Command,
    ptr,
};

use nix::{
    libc,
    sys::{
        prctl,
        signal::{SigHandler, SigSet, Signal, signal},
    },
    unistd::{ForkResult, Pid, fork, getppid},
};

/// Makes two processes of this one.
///
/// # Errors
/// As `fork(2)`.
pub(super) fn divide() -> io::Result<ForkResult> {
    // SAFETY: called before this process has a second thread, so the child may do whatever the parent may.
    Ok(unsafe { fork() }?)
}

/// Lets `signal` do again what it does by default.
pub(super) fn restore_default(number: Signal) {
    // SAFETY: no handler is installed or replaced: the runtime only ignores SIGPIPE.
    let _before = unsafe { signal(number, SigHandler::SigDfl) };
}

/// What a process is to become.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) file: File,
    pub(super) arguments: Strings,
    pub(super) environment: Strings,
    /// Signals that are blocked in it.
    pub(super) mask: SigSet,
    /// The process that starts it, and with which it ends.
    pub(super) parent: Pid,
}

/// Text as `execve(2)` takes it: made before the fork, after which nothing may be allocated.
#[derive(Debug)]
pub(super) struct Strings {
    pointers: Vec<*const c_char>,
    _texts: Vec<CString>,
}

// SAFETY: the pointers lead to the texts, which are owned, never changed, and do not move with the vector.
unsafe impl Send for Strings {}
// SAFETY: as above; they are only read.
unsafe impl Sync for Strings {}

impl Strings {
    pub(super) fn new(texts: Vec<CString>) -> Self {
        let ends = [ptr::null()];
        Self {
            pointers: texts.iter().map(|text| text.as_ptr()).chain(ends).collect(),
            _texts: texts,
        }
    }
}

/// Lets `command` execute `image` in the place of its program.
pub(super) fn execute(command: &mut Command, image: Image) {
    // SAFETY: between fork and exec it makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(move || Err(image.execute())) };
}

impl Image {
    /// Returns where it failed.
    fn execute(&self) -> io::Error {
        if let Err(errno) = prctl::set_pdeathsig(Signal::SIGKILL).and_then(|()| self.mask.thread_set_mask()) {
            return errno.into();
        }
        if getppid() != self.parent {
            return io::Error::from_raw_os_error(libc::ESRCH);
        }
        let error = self.execveat();
        if error.raw_os_error() != Some(libc::ENOENT) {
            return error;
        }
        // What binfmt_misc interprets is opened by the interpreter, through the descriptor.
        // SAFETY: takes numbers only.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETFD, 0) };
        self.execveat()
    }

    fn execveat(&self) -> io::Error {
        // SAFETY: both vectors end with a null pointer, and their texts live as long as `self`.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                self.file.as_raw_fd(),
                c"".as_ptr(),
                self.arguments.pointers.as_ptr(),
                self.environment.pointers.as_ptr(),
                libc::AT_EMPTY_PATH,
            )
        };
        io::Error::last_os_error()
    }
}

//! The few system calls of this crate without a safe wrapper.

#![expect(unsafe_code, reason = "no safe wrapper exists for what is here")]

use std::{
    cell::Cell,
    ffi::{CStr, CString, c_char, c_int, c_void},
    fs::File,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::Command,
    ptr, slice,
};

use nix::{
    errno::Errno,
    libc,
    sched::{CloneFlags, clone},
    sys::{
        prctl,
        signal::{SigHandler, SigSet, Signal, signal},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, getppid},
};

use super::domain::Domain;

/// The page size of x86_64, and the smallest one of aarch64. Where pages are larger, the kernel refuses an address within
/// one, and keeps the pages of that segment.
const MIN_PAGE_BYTES: u64 = 4096;
/// Usual number of segments of a program with a few libraries.
const SEGMENTS: usize = 32;
/// Stack size, bytes: many times what a few system calls need.
const STACK: usize = 64 << 10;
/// Number of arenas of malloc: one for the relay, and one for all other threads.
#[cfg(target_env = "gnu")]
const ARENAS: c_int = 2;

/// Forks this process.
///
/// # Errors
/// As `fork(2)`.
pub(super) fn divide() -> io::Result<ForkResult> {
    // SAFETY: called before this process has a second thread, so the child may do whatever the parent may.
    Ok(unsafe { fork() }?)
}

/// Gives free memory back to the kernel, and unmaps the pages of the program and its libraries: most of them are not
/// needed again soon, and the others come back from the page cache.
pub(super) fn forget_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number only.
    unsafe {
        libc::malloc_trim(0);
    }
    let mut segments = Vec::with_capacity(SEGMENTS);
    // SAFETY: the callback has the type it must have, and is given what it takes this for.
    unsafe { libc::dl_iterate_phdr(Some(note_object), (&raw mut segments).cast()) };
    // Only after all objects were found: the search reads the headers, which brings pages back.
    for (start, length) in segments {
        // SAFETY: the segment was never writable, so that nothing is lost: its pages are read from the file again. It is
        // still that segment: nothing here unloads a library, and the C library keeps those that it loads itself.
        unsafe {
            libc::madvise(
                ptr::with_exposed_provenance_mut(start),
                length,
                libc::MADV_DONTNEED,
            )
        };
    }
}

/// Adds the segments of one loaded object that are never changed in memory.
unsafe extern "C" fn note_object(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    segments: *mut c_void,
) -> c_int {
    // SAFETY: the loader gives a valid object, for the time of this call, and the list that it was given.
    let (object, segments) = unsafe { (&*info, &mut *segments.cast::<Vec<(usize, usize)>>()) };
    // SAFETY: as above: so many headers, and a name that ends.
    let (headers, name) = unsafe {
        let headers = slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        (headers, CStr::from_ptr(object.dlpi_name))
    };
    // The program has an empty name, and libraries have a path; any other object is the kernel's.
    if !name.is_empty() && !name.to_bytes().contains(&b'/') {
        return 0;
    }
    let from_file =
        |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0;
    segments.extend(headers.iter().filter(from_file).map(|header| {
        let start = object.dlpi_addr + header.p_vaddr;
        let into_page = start % MIN_PAGE_BYTES;
        let length = usize::try_from(header.p_memsz + into_page).unwrap_or_default();
        ((start - into_page) as usize, length)
    }));
    0
}

/// Limits the number of arenas: threads come and go, and the memory of an arena is never given back completely.
pub(super) fn share_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes numbers only.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

/// Restores the default action of a signal.
pub(super) fn restore_default(number: Signal) {
    // SAFETY: no handler is installed or replaced: the runtime only ignores SIGPIPE.
    let _before = unsafe { signal(number, SigHandler::SigDfl) };
}

/// The program that a new process executes.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) file: File,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) arguments: Strings,
    pub(super) environment: Strings,
    /// The signals that are blocked in the process.
    pub(super) mask: SigSet,
    /// The parent; the process ends when the parent ends.
    pub(super) parent: Pid,
    /// The Landlock domain for the process.
    pub(super) domain: Option<Domain>,
    /// The error because of which the process is not in the domain.
    pub(super) refused_domain: Cell<Option<Errno>>,
}

/// Texts in the form for `execve(2)`, built before the new process exists, which may not allocate.
#[derive(Debug)]
pub(super) struct Strings {
    pointers: Vec<*const c_char>,
    _texts: Vec<CString>,
}

impl Strings {
    pub(super) fn new(texts: Vec<CString>) -> Self {
        let ends = [ptr::null()];
        Self {
            pointers: texts.iter().map(|text| text.as_ptr()).chain(ends).collect(),
            _texts: texts,
        }
    }
}

/// Starts a process that executes `image`. Until then the process shares this one's memory: a fork would have to mark
/// the memory for copying, and copy the pages that this process writes.
///
/// # Errors
/// Returns the errors of `clone(2)` and of the calls before the execution; the process is gone then.
pub(super) fn start(image: &Image) -> io::Result<Pid> {
    let failure = Cell::new(None);
    let mut stack = vec![0; STACK];
    let turn = Box::new(|| {
        failure.set(Some(image.execute()));
        1
    });
    let borrowed = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: this thread waits until the process has a memory of its own or is gone: the stack stays, and nothing that
    // the process uses is used by two. It makes system calls only, which allocate and lock nothing, and no handler is
    // installed for what it may be sent.
    let pid = unsafe { clone(turn, &mut stack, borrowed, Some(libc::SIGCHLD)) }?;
    let Some(errno) = failure.get() else {
        return Ok(pid);
    };
    while waitpid(pid, None) == Err(Errno::EINTR) {}
    Err(errno.into())
}

/// Makes `command` enter a Landlock domain before it executes its program.
pub(super) fn enter_before_exec(ruleset: OwnedFd, command: &mut Command) -> &mut Command {
    // SAFETY: makes system calls only, which allocate and lock nothing.
    unsafe { command.pre_exec(move || enter(&ruleset).map_err(io::Error::from)) }
}

/// Returns the version of Landlock in the kernel. Returns `None` if the kernel has none, or has it switched off.
pub(super) fn landlock_version() -> Option<u8> {
    /// `LANDLOCK_CREATE_RULESET_VERSION`
    const VERSION: c_int = 1;
    // SAFETY: with this flag the call takes no attributes, and makes nothing.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<c_void>(),
            0_usize,
            VERSION,
        )
    };
    u8::try_from(version).ok().filter(|version| *version > 0)
}

/// Enters a Landlock domain, irrevocably. A process without the privilege to do so first gives up the rights that
/// set-user-ID programs would add (`no_new_privs`).
fn enter(ruleset: &OwnedFd) -> nix::Result<()> {
    match restrict(ruleset) {
        Err(Errno::EPERM) => {
            prctl::set_no_new_privs()?;
            restrict(ruleset)
        }
        done => done,
    }
}

fn restrict(ruleset: &OwnedFd) -> nix::Result<()> {
    // SAFETY: takes numbers only.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    Errno::result(done).map(drop)
}

impl Image {
    /// Executes the program, and returns the error if that failed.
    fn execute(&self) -> Errno {
        if let Err(errno) = self.prepare() {
            return errno;
        }
        if getppid() != self.parent {
            return Errno::ESRCH;
        }
        let errno = self.execveat();
        if errno != Errno::ENOENT {
            return errno;
        }
        // A program of binfmt_misc is opened by its interpreter through this descriptor, so the descriptor has to stay
        // open.
        // SAFETY: takes numbers only.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETFD, 0) };
        self.execveat()
    }

    /// Sets up the streams of the program.
    fn prepare(&self) -> nix::Result<()> {
        dup2_stdin(&self.stdin)?;
        dup2_stdout(&self.stdout)?;
        dup2_stderr(&self.stderr)?;
        if let Some(domain) = &self.domain
            && let Err(errno) = enter(&domain.ruleset)
        {
            self.refused_domain.set(Some(errno));
            if domain.is_required {
                return Err(errno);
            }
        }
        // The Rust runtime ignores SIGPIPE, which no program expects.
        restore_default(Signal::SIGPIPE);
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        self.mask.thread_set_mask()
    }

    fn execveat(&self) -> Errno {
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
        Errno::last()
    }
}

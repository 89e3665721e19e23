//! One operation through io_uring, with and without a kernel thread that polls the queue.

use std::{
    io::IoSlice,
    net::SocketAddr,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicU32, Ordering},
};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{SockaddrLike as _, SockaddrStorage},
};

/// The side that takes the operation off the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// The caller, by io_uring_enter(2).
    Caller,
    /// A kernel thread (`IORING_SETUP_SQPOLL`).
    Kernel,
}

/// The operation to carry out.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// `IORING_OP_CONNECT`.
    Connect,
    /// `IORING_OP_SENDMSG`.
    Send(&'a [u8]),
}

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError {
    /// The ring cannot be set up.
    Setup(Errno),
    /// The operation's own result.
    Operation(Errno),
}

const SETUP_SQPOLL: u32 = 1 << 1;
const ENTER_GETEVENTS: u32 = 1;
const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const REGISTER_FILES: u32 = 2;
const OP_SENDMSG: u8 = 9;
const OP_CONNECT: u8 = 16;
/// The descriptor is an index into the registered files, which a polling thread requires before Linux 5.11.
const FIXED_FILE: u8 = 1;

const OFFSET_SUBMISSIONS: i64 = 0;
const OFFSET_COMPLETIONS: i64 = 0x800_0000;
const OFFSET_ENTRIES: i64 = 0x1000_0000;
/// The bytes of a mapping: the rings are small, and the kernel maps whole pages.
const MAPPED: usize = 4096;

/// `struct io_sqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: [u32; 3],
}

/// `struct io_cqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    entries: u32,
    flags: u32,
    reserved: [u32; 3],
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    submissions: u32,
    completions: u32,
    flags: u32,
    thread_cpu: u32,
    thread_idle: u32,
    features: u32,
    shared_with: u32,
    reserved: [u32; 3],
    submission: SubmissionOffsets,
    completion: CompletionOffsets,
}

/// `struct io_uring_sqe`.
#[repr(C)]
#[derive(Default)]
struct Entry {
    operation: u8,
    flags: u8,
    priority: u16,
    file: i32,
    offset: u64,
    address: u64,
    length: u32,
    operation_flags: u32,
    user_data: u64,
    rest: [u64; 3],
}

const _: () = assert!(size_of::<Parameters>() == 120 && size_of::<Entry>() == 64);

/// Runs one operation on `socket` and waits for its result.
///
/// # Errors
/// Returns an error if the ring cannot be made, or the operation fails.
pub fn submit(
    polling: Polling,
    operation: Operation<'_>,
    socket: &OwnedFd,
    target: SocketAddr,
) -> Result<(), RingError> {
    let mut address = SockaddrStorage::from(target);
    let (content, is_send) = match operation {
        Operation::Connect => (&[][..], false),
        Operation::Send(content) => (content, true),
    };
    let mut slice = IoSlice::new(content);
    let length = u64::from(address.len());
    let header = super::header(&mut address, &mut slice);
    let mut entry = Entry {
        file: socket.as_raw_fd(),
        ..Entry::default()
    };
    if is_send {
        entry.operation = OP_SENDMSG;
        entry.address = (&raw const header) as u64;
        entry.length = 1;
    } else {
        entry.operation = OP_CONNECT;
        entry.address = (&raw const address) as u64;
        entry.offset = length;
    }
    let ring = Ring::new(polling).map_err(RingError::Setup)?;
    if polling == Polling::Kernel {
        ring.register(socket).map_err(RingError::Setup)?;
        entry.file = 0;
        entry.flags = FIXED_FILE;
    }
    // `address`, `slice` and `header` live until the result is there.
    let result = ring.run(polling, entry).map_err(RingError::Setup)?;
    if result < 0 {
        Err(RingError::Operation(Errno::from_raw(-result)))
    } else {
        Ok(())
    }
}

struct Ring {
    descriptor: OwnedFd,
    parameters: Parameters,
    submissions: Mapping,
    completions: Mapping,
    entries: Mapping,
}

impl Ring {
    fn new(polling: Polling) -> Result<Self, Errno> {
        let flags = match polling {
            Polling::Caller => 0,
            Polling::Kernel => SETUP_SQPOLL,
        };
        let mut parameters = Parameters {
            flags,
            thread_idle: 1000,
            ..Parameters::default()
        };
        // SAFETY: the kernel fills `parameters`, and the returned descriptor belongs to this function alone.
        let descriptor = unsafe {
            let made = Errno::result(libc::syscall(libc::SYS_io_uring_setup, 2, &raw mut parameters))?;
            OwnedFd::from_raw_fd(i32::try_from(made).expect("descriptors fit an int"))
        };
        Ok(Self {
            submissions: Mapping::new(&descriptor, OFFSET_SUBMISSIONS)?,
            completions: Mapping::new(&descriptor, OFFSET_COMPLETIONS)?,
            entries: Mapping::new(&descriptor, OFFSET_ENTRIES)?,
            descriptor,
            parameters,
        })
    }

    fn register(&self, socket: &OwnedFd) -> Result<(), Errno> {
        let files = [socket.as_raw_fd()];
        let ring = self.descriptor.as_raw_fd();
        // SAFETY: the kernel reads one descriptor from `files`.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                ring,
                REGISTER_FILES,
                files.as_ptr(),
                1,
            )
        };
        Errno::result(done).map(drop)
    }

    /// Queues the only entry, submits it, and waits for its result.
    fn run(&self, polling: Polling, entry: Entry) -> Result<i32, Errno> {
        let Parameters {
            submission,
            completion,
            ..
        } = &self.parameters;
        self.entries.write(0, entry);
        self.submissions.write(submission.array, 0u32);
        self.submissions.word(submission.tail).store(1, Ordering::Release);
        let (submit, flags) = match polling {
            Polling::Caller => (1, ENTER_GETEVENTS),
            Polling::Kernel => (0, ENTER_GETEVENTS | ENTER_SQ_WAKEUP),
        };
        while self.completions.word(completion.tail).load(Ordering::Acquire) == 0 {
            self.enter(submit, flags)?;
        }
        // The result follows the 64-bit user data.
        let result = self
            .completions
            .word(completion.entries + 8)
            .load(Ordering::Relaxed);
        Ok(result.cast_signed())
    }

    fn enter(&self, submit: u32, flags: u32) -> Result<(), Errno> {
        let ring = self.descriptor.as_raw_fd();
        // SAFETY: the call takes no pointer except the signal mask, which is null.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                ring,
                submit,
                1,
                flags,
                null_mut::<libc::sigset_t>(),
                0,
            )
        };
        match Errno::result(done) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A page shared with the kernel.
struct Mapping {
    start: NonNull<u8>,
}

impl Mapping {
    fn new(ring: &OwnedFd, offset: i64) -> Result<Self, Errno> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: this is a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                MAPPED,
                protection,
                libc::MAP_SHARED,
                ring.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or(Errno::EFAULT)?,
        })
    }

    /// Returns a word shared with the kernel, at an offset that the kernel gave.
    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: the word is within the page and aligned, because the kernel lays out its rings so.
        unsafe { AtomicU32::from_ptr(self.start.add(offset as usize).as_ptr().cast()) }
    }

    fn write<T>(&self, offset: u32, value: T) {
        // SAFETY: the offset is within the page and aligned; the kernel reads the value only after the tail has moved.
        unsafe { self.start.add(offset as usize).cast::<T>().write(value) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the page, and no reference outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), MAPPED) };
    }
}

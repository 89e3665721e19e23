//! Copies the bytes of a read or write into records, in parts.

use core::mem::MaybeUninit;

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_get_current_task, bpf_ktime_get_boot_ns, bpf_probe_read_user},
    },
    programs::RawTracePointContext,
};
use mcpmon_common::{
    offsets::Offsets,
    tap::{
        TAP_LARGE, TAP_MEDIUM, TAP_PARTS, TAP_RING, TAP_SMALL, TapCount, TapEntry, TapFile, TapPlace,
        TapRecord, TapStream,
    },
};

use crate::{
    kernel::{self, Address, read, read_user},
    maps::{TAP_COUNTS, TAP_ENTRIES, TAP_PLACE, TAP_RECORDS, patched},
};

/// The forms in which a system call receives its buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One buffer: `read`, `write`, `recvfrom`, `sendto`.
    One,
    /// An array of `struct iovec`: `readv`, `writev`.
    Several,
    /// An array of `struct iovec` in a `struct msghdr`: `recvmsg`, `sendmsg`.
    Message,
}

/// `struct iovec`
type Segment = [u64; 2];

/// Copies what the current process has read or written, if it belongs to a tapped server and the file is that server's
/// standard input or output.
#[inline(always)]
pub(crate) fn take(ctx: &RawTracePointContext) {
    let caller = bpf_get_current_pid_tgid();
    let pid = (caller >> 32) as u32;
    // SAFETY: entries are written as a whole; the copy is taken at once.
    let Some(entry) = (unsafe { TAP_ENTRIES.get(pid) }).copied() else {
        return;
    };
    let done = ctx.arg::<u64>(1) as i64;
    if done > 0 {
        // If something cannot be read from the kernel, the call counts as one that is not tapped.
        let _other = take_of(entry, caller as u32, ctx.arg::<u64>(0) as Address, done as u64);
    }
}

#[inline(always)]
fn take_of(entry: TapEntry, thread: u32, registers: Address, done: u64) -> Option<()> {
    let (side, form) = call(registers)?;
    let stream_of_it = if side == TapStream::INPUT {
        entry.input
    } else {
        entry.output
    };
    let used = file_of(read(registers, patched!(arguments[0]))?)?;
    if used.inode != stream_of_it.inode || used.device != stream_of_it.device {
        return None;
    }
    let stream = TapStream {
        instance: entry.instance,
        side,
    };
    let count = TAP_COUNTS.get_ptr_mut(stream)?;
    add(Number::Bytes, count, done);
    let place = TAP_PLACE.get_ptr_mut(0)?;
    let lost = match start(registers, form, done) {
        Some(start) => {
            // SAFETY: a slot of this processor, which no other program uses.
            unsafe { place.write_volatile(start) };
            copy(stream, thread, count, place);
            // SAFETY: as above.
            unsafe { place.read_volatile() }.remaining
        }
        None => done,
    };
    if lost > 0 {
        add(Number::Lost, count, lost);
    }
    Some(())
}

/// Returns the direction and form of the call that ends; `None` if it neither reads nor writes.
#[inline(always)]
fn call(registers: Address) -> Option<(u32, Form)> {
    const MSG_PEEK: u64 = 2;
    if patched!(mode) != Offsets::ABSENT
        && u32::from(read::<u16>(registers, patched!(mode))?) != patched!(mode_of_64_bits)
    {
        return None;
    }
    let number = read::<u32>(registers, patched!(call))?;
    let (side, form, flags) = if number == patched!(reads[0]) {
        (TapStream::INPUT, Form::One, None)
    } else if number == patched!(writes[0]) {
        (TapStream::OUTPUT, Form::One, None)
    } else if number == patched!(reads[1]) {
        (TapStream::INPUT, Form::Several, None)
    } else if number == patched!(writes[1]) {
        (TapStream::OUTPUT, Form::Several, None)
    } else if number == patched!(reads[2]) {
        (TapStream::INPUT, Form::One, Some(patched!(arguments[3])))
    } else if number == patched!(writes[2]) {
        (TapStream::OUTPUT, Form::One, None)
    } else if number == patched!(reads[3]) {
        (TapStream::INPUT, Form::Message, Some(patched!(arguments[2])))
    } else if number == patched!(writes[3]) {
        (TapStream::OUTPUT, Form::Message, None)
    } else {
        return None;
    };
    // Bytes that are only peeked at will be read again.
    match flags {
        Some(flags) if read::<u64>(registers, flags)? & MSG_PEEK != 0 => None,
        Some(_) | None => Some((side, form)),
    }
}

/// Returns the file behind a descriptor of the current process.
#[inline(always)]
fn file_of(descriptor: u64) -> Option<TapFile> {
    // SAFETY: a helper without arguments.
    let task = unsafe { bpf_get_current_task() } as Address;
    let files = read::<Address>(task, patched!(task_files))?;
    let table = read::<Address>(files, patched!(files_table))?;
    let descriptor = u64::from(descriptor as u32);
    if descriptor >= u64::from(read::<u32>(table, patched!(table_size))?) {
        return None;
    }
    let slots = read::<Address>(table, patched!(table_files))?;
    let file = read::<Address>(slots.wrapping_add(descriptor as usize * size_of::<Address>()), 0)?;
    let inode = read::<Address>(file, patched!(file_inode))?;
    let superblock = read::<Address>(inode, patched!(inode_sb))?;
    Some(TapFile {
        inode: read(inode, patched!(inode_ino))?,
        device: read(superblock, patched!(sb_dev))?,
        reserved: 0,
    })
}

/// Copies as much as it can, and leaves the rest in `place`.
#[inline(always)]
fn copy(stream: TapStream, thread: u32, count: *mut TapCount, place: *mut TapPlace) {
    let mut step = 0;
    while step < TAP_PARTS {
        step += 1;
        // SAFETY: a slot of this processor, which no other program uses.
        let at = unsafe { place.read_volatile() };
        if at.remaining == 0 {
            return;
        }
        let length = at.remaining.min(at.left).min(TAP_LARGE as u64);
        let next = if length == 0 {
            next_buffer(at)
        } else {
            copy_part(stream, thread, count, at, length)
        };
        let Some(next) = next else { return };
        // SAFETY: as above.
        unsafe { place.write_volatile(next) };
    }
}

/// Copies `length` bytes, which fit one record; returns the place after them.
#[inline(always)]
fn copy_part(
    stream: TapStream,
    thread: u32,
    count: *mut TapCount,
    at: TapPlace,
    length: u64,
) -> Option<TapPlace> {
    let remaining = at.remaining - length;
    let head = TapRecord {
        // SAFETY: a helper without arguments.
        time: unsafe { bpf_ktime_get_boot_ns() },
        // SAFETY: a value of a map, which stays readable until this program ends.
        lost: unsafe { core::ptr::read_volatile(&raw const (*count).lost) },
        instance: stream.instance,
        side: stream.side,
        thread,
        length: length as u32,
        remaining: remaining.min(u64::from(u32::MAX)) as u32,
        reserved: 0,
    };
    let is_kept = if length <= TAP_SMALL as u64 {
        emit::<TAP_SMALL>(head, length, at.address)
    } else if length <= TAP_MEDIUM as u64 {
        emit::<TAP_MEDIUM>(head, length, at.address)
    } else {
        emit::<TAP_LARGE>(head, length, at.address)
    };
    is_kept.then_some(TapPlace {
        address: at.address.wrapping_add(length),
        left: at.left - length,
        next: at.next,
        remaining,
    })
}

/// Returns the place at the start of the next buffer, if there is one.
#[inline(always)]
fn next_buffer(at: TapPlace) -> Option<TapPlace> {
    if at.next == 0 {
        return None;
    }
    let [address, left] = read_user::<Segment>(at.next)?;
    Some(TapPlace {
        address,
        left,
        next: at.next.wrapping_add(size_of::<Segment>() as u64),
        remaining: at.remaining,
    })
}

/// Returns the place of the first byte of `remaining` that were read or written.
#[inline(always)]
fn start(registers: Address, form: Form, remaining: u64) -> Option<TapPlace> {
    /// Offset of `msg_iov` in the `struct msghdr` of 64-bit programs.
    const MESSAGE_SEGMENTS: u64 = 16;
    let second = read::<u64>(registers, patched!(arguments[1]))?;
    let (address, left, next) = match form {
        Form::One => (second, remaining, 0),
        Form::Several => (0, 0, second),
        Form::Message => (0, 0, read_user(second.wrapping_add(MESSAGE_SEGMENTS))?),
    };
    Some(TapPlace {
        address,
        left,
        next,
        remaining,
    })
}

/// A record in the ring.
#[repr(C)]
struct Slot<const SIZE: usize> {
    head: TapRecord,
    bytes: [u8; SIZE],
}

/// Writes a record; returns false if the ring was full, or the memory could not be read.
#[inline(always)]
fn emit<const SIZE: usize>(head: TapRecord, length: u64, address: u64) -> bool {
    let Some(mut entry) = TAP_RECORDS.reserve::<Slot<SIZE>>(0) else {
        return false;
    };
    let slot: *mut Slot<SIZE> = MaybeUninit::as_mut_ptr(&mut entry);
    let length = length.min(SIZE as u64) as u32;
    // SAFETY: the slot is reserved memory of that size; the helper checks the user address.
    let failed = unsafe {
        (&raw mut (*slot).head).write(head);
        bpf_probe_read_user((&raw mut (*slot).bytes).cast(), length, address as *const _)
    } != 0;
    if failed {
        entry.discard(0);
        return false;
    }
    let flags = if TAP_RECORDS.query(u64::from(BPF_RB_AVAIL_DATA)) > u64::from(TAP_RING) / 4 {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    entry.submit(u64::from(flags));
    true
}

/// The counters of a direction.
enum Number {
    Bytes,
    Lost,
}

/// Adds to a counter.
#[inline(always)]
fn add(number: Number, count: *mut TapCount, value: u64) {
    // SAFETY: a value of a map.
    unsafe {
        let number = match number {
            Number::Bytes => &raw mut (*count).bytes,
            Number::Lost => &raw mut (*count).lost,
        };
        kernel::add(number, value);
    }
}

//! Copies of the bytes of one read or write, in parts that fit records.

use core::{
    intrinsics::{AtomicOrdering, atomic_xadd},
    mem::MaybeUninit,
};

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_ktime_get_boot_ns, bpf_probe_read_user},
    },
};
use mcpmon_common::tap::{
    TAP_LARGE, TAP_MEDIUM, TAP_PARTS, TAP_RING, TAP_SEGMENTS, TAP_SMALL, TapCount, TapEntry, TapRecord,
    TapStream,
};

use crate::{
    kernel::{Address, read},
    maps::{TAP_COUNTS, TAP_ENTRIES, TAP_RECORDS, patched},
};

/// The kernel's structures of one read or write that is over.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    file: Address,
    /// Its iterator, which stands behind the last byte.
    iter: Address,
}

impl Transfer {
    #[inline(always)]
    pub(crate) fn of_pipe(kiocb: Address, iter: Address) -> Option<Self> {
        let file = read(kiocb, patched!(kiocb_file))?;
        Some(Self { file, iter })
    }

    #[inline(always)]
    pub(crate) fn of_socket(socket: Address, message: Address) -> Option<Self> {
        let file = read(socket, patched!(socket_file))?;
        let iter = message.wrapping_add(patched!(msghdr_iter) as usize);
        Some(Self { file, iter })
    }

    #[inline(always)]
    fn inode(self) -> Option<u64> {
        let inode = read::<Address>(self.file, patched!(file_inode))?;
        read(inode, patched!(inode_ino))
    }
}

/// Takes a copy of `done` bytes that the caller read or wrote, if it is of a tapped server and they went through that
/// server's standard input or output.
#[inline(always)]
pub(crate) fn take(side: u32, done: i64, transfer: impl FnOnce() -> Option<Transfer>) {
    let caller = bpf_get_current_pid_tgid();
    let pid = (caller >> 32) as u32;
    // SAFETY: entries are written as a whole; the copy is taken at once.
    let Some(TapEntry {
        input,
        output,
        instance,
        ..
    }) = (unsafe { TAP_ENTRIES.get(pid) }).copied()
    else {
        return;
    };
    if done <= 0 {
        return;
    }
    let Some(transfer) = transfer() else { return };
    let Some(inode) = transfer.inode() else { return };
    if inode != if side == TapStream::INPUT { input } else { output } {
        return;
    }
    let stream = TapStream { instance, side };
    let Some(count) = TAP_COUNTS.get_ptr_mut(stream) else {
        return;
    };
    let done = done as u64;
    add(Number::Bytes, count, done);
    let lost = copy(stream, caller as u32, count, transfer.iter, done);
    if lost > 0 {
        add(Number::Lost, count, lost);
    }
}

/// Copies what it can; returns the number of bytes that it could not.
#[inline(always)]
fn copy(stream: TapStream, thread: u32, count: *mut TapCount, iter: Address, done: u64) -> u64 {
    let Some(mut place) = Place::before(iter, done) else {
        return done;
    };
    let mut remaining = done;
    let mut part = 0;
    while part < TAP_PARTS && remaining > 0 {
        part += 1;
        let Some(length) = place.next(remaining) else {
            return remaining;
        };
        let head = TapRecord {
            // SAFETY: a helper without arguments.
            time: unsafe { bpf_ktime_get_boot_ns() },
            // SAFETY: a value of a map, which stays readable until this program ends.
            lost: unsafe { core::ptr::read_volatile(&raw const (*count).lost) },
            instance: stream.instance,
            side: stream.side,
            thread,
            length: length as u32,
            remaining: u32::try_from(remaining - length).unwrap_or(u32::MAX),
            reserved: 0,
        };
        let is_kept = if length <= TAP_SMALL as u64 {
            emit::<TAP_SMALL>(head, length, place.address)
        } else if length <= TAP_MEDIUM as u64 {
            emit::<TAP_MEDIUM>(head, length, place.address)
        } else {
            emit::<TAP_LARGE>(head, length, place.address)
        };
        if !is_kept {
            return remaining;
        }
        place.address = place.address.wrapping_add(length);
        place.left -= length;
        remaining -= length;
    }
    remaining
}

/// A place in the caller's buffers.
struct Place {
    address: u64,
    /// Bytes of the same buffer from there.
    left: u64,
    /// Its `struct iovec`; zero where there is one buffer only.
    segment: Address,
}

/// `struct iovec`
type Segment = [u64; 2];

impl Place {
    /// The place at which an iterator stood `done` bytes ago: it goes forward only, over an array.
    #[inline(always)]
    fn before(iter: Address, done: u64) -> Option<Self> {
        let kind = read::<u32>(iter, patched!(iter_kind))? & patched!(kind_mask);
        let at = read::<u64>(iter, patched!(iter_iov))?;
        let offset = read::<u64>(iter, patched!(iter_offset))?;
        if kind == patched!(kind_ubuf) {
            return Some(Self {
                address: at.wrapping_add(offset).wrapping_sub(done),
                left: done,
                segment: 0,
            });
        }
        if kind != patched!(kind_iovec) {
            return None; // pages of the kernel's own (splice)
        }
        let mut segment = at as Address;
        let mut behind = offset;
        let mut back = 0;
        let mut missing = done;
        while back < TAP_SEGMENTS && missing > behind {
            back += 1;
            missing -= behind;
            segment = segment.wrapping_sub(size_of::<Segment>());
            behind = segment_at(segment)?[1];
        }
        if missing > behind {
            return None;
        }
        let [base, length] = segment_at(segment)?;
        let start = behind - missing;
        Some(Self {
            address: base.wrapping_add(start),
            left: length.saturating_sub(start),
            segment,
        })
    }

    /// Moves on to the next buffer where this one is over; returns how many of `remaining` bytes one record takes.
    #[inline(always)]
    fn next(&mut self, remaining: u64) -> Option<u64> {
        if self.left == 0 {
            if self.segment == 0 {
                return None;
            }
            self.segment = self.segment.wrapping_add(size_of::<Segment>());
            [self.address, self.left] = segment_at(self.segment)?;
        }
        Some(remaining.min(self.left).min(TAP_LARGE as u64))
    }
}

#[inline(always)]
fn segment_at(segment: Address) -> Option<Segment> {
    read(segment, 0)
}

/// A record as it lies in the ring.
struct Slot<const SIZE: usize> {
    head: TapRecord,
    bytes: [u8; SIZE],
}

/// Writes a record; returns whether there was room, and the memory could be read.
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

/// A number of a direction.
enum Number {
    Bytes,
    Lost,
}

/// Adds to a number, whoever else does. The sum is not used: the kernel returns it from 5.12 on only.
#[inline(always)]
fn add(number: Number, count: *mut TapCount, value: u64) {
    // SAFETY: a value of a map, aligned, which stays valid until this program ends.
    unsafe {
        let number = match number {
            Number::Bytes => &raw mut (*count).bytes,
            Number::Lost => &raw mut (*count).lost,
        };
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(number, value);
    }
}

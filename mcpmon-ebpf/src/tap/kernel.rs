//! Reading of kernel structures and of the current process's memory, and counting.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use aya_ebpf::helpers::{bpf_probe_read_kernel, bpf_probe_read_user};

/// Address of a kernel structure.
pub(crate) type Address = usize;

/// Reads a `T` at `offset` bytes from `base`.
#[inline(always)]
pub(crate) fn read<T>(base: Address, offset: u32) -> Option<T> {
    // SAFETY: the helper checks the address and fails on a bad one.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize) as *const T) }.ok()
}

/// Reads a `T` from the memory of the current process.
#[inline(always)]
pub(crate) fn read_user<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address and fails on a bad one.
    unsafe { bpf_probe_read_user(address as *const T) }.ok()
}

/// Adds to a number in a map, atomically. The sum is not used, because kernels before 5.12 cannot return it.
///
/// # Safety
/// `number` points into a value of a map.
#[inline(always)]
pub(crate) unsafe fn add(number: *mut u64, value: u64) {
    // SAFETY: aligned, and valid until the program ends.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(number, value) };
}

//! Reading of kernel structures and of the caller's memory.

use aya_ebpf::helpers::{bpf_probe_read_kernel, bpf_probe_read_user};

/// Address of a kernel structure.
pub(crate) type Address = usize;

/// Reads a `T` at `offset` bytes behind `base`.
#[inline(always)]
pub(crate) fn read<T>(base: Address, offset: u32) -> Option<T> {
    // SAFETY: the helper checks the address and fails on a bad one.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize) as *const T) }.ok()
}

/// Reads a `T` of the caller's.
#[inline(always)]
pub(crate) fn read_user<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address and fails on a bad one.
    unsafe { bpf_probe_read_user(address as *const T) }.ok()
}

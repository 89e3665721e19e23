//! The ABI between mcpmon's kernel programs and its daemon: event records, map keys and values, limits, and the address
//! normalisation that both sides must share.
//!
//! Everything here is `repr(C)` with explicit padding; each type states its size and offsets as
//! compile-time assertions, because the two sides are built by different compilers.

#![no_std]
#![cfg_attr(
    feature = "user",
    expect(unsafe_code, reason = "aya::Pod is an unsafe marker trait")
)]

pub mod address;
pub mod dns;
pub mod event;
pub mod gate;
pub mod limits;
pub mod offsets;
pub mod process;
pub mod reserved;
pub mod state;
pub mod tap;
pub mod watch;

/// Version of every record and map in this crate; a loader refuses an object that states another.
pub const ABI_VERSION: u32 = 10;

/// Asserts a type's size and the offsets of the named fields at compile time.
macro_rules! assert_layout {
    ($type:ty, size $size:expr $(, $field:ident at $offset:expr)* $(,)?) => {
        const _: () = {
            assert!(core::mem::size_of::<$type>() == $size, "size changed");
            $(assert!(core::mem::offset_of!($type, $field) == $offset, "offset changed");)*
        };
    };
}
pub(crate) use assert_layout;

/// Marks types whose every byte pattern is valid and that have no implicit padding.
macro_rules! pod {
    ($($type:ty),* $(,)?) => {
        $(
            #[cfg(feature = "user")]
            // SAFETY: repr(C), Copy, no references, and padding is explicit (asserted by size beside the type).
            unsafe impl aya::Pod for $type {}
        )*
    };
}
pub(crate) use pod;

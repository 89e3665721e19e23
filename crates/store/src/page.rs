//! A number in a file that is mapped: to read it is a load from memory that whoever writes the file shares.

#![expect(unsafe_code, reason = "no safe wrapper maps a file")]

use std::{
    fs::File,
    io,
    num::NonZeroUsize,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of the number.
pub(super) const LENGTH: usize = size_of::<u64>();

/// The number at the beginning of a file.
///
/// Whoever can shorten the file can end this process by it: the store's owner, who can kill it too.
#[derive(Debug)]
pub(super) struct Page(NonNull<AtomicU64>);

// SAFETY: the mapping is not bound to a thread, and is only read, atomically.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Maps it for reading.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        // Beyond the end of the file there is no page to read.
        if file.metadata()?.len() < LENGTH as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = NonZeroUsize::new(LENGTH).expect("a number has bytes");
        // SAFETY: a new mapping, which replaces none.
        let page = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(Self(page.cast()))
    }

    /// The number now.
    pub(super) fn number(&self) -> u64 {
        // SAFETY: the mapping lives as long as `self` and begins with as many bytes, aligned as a page is; whoever
        // writes them does so through the kernel.
        u64::from_le(unsafe { self.0.as_ref() }.load(Ordering::Relaxed))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and not used any more. It cannot fail.
        let _unmapped = unsafe { munmap(self.0.cast(), LENGTH) };
    }
}

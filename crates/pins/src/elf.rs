//! Recognition of a dynamic loader by the ELF headers of its file.

use std::{fs::File, os::unix::fs::FileExt as _};

/// Most program headers that are read; loaders have about ten.
const MAX_HEADERS: usize = 64;
/// Most bytes read of the dynamic section.
const MAX_DYNAMIC: usize = 8192;

const END: u64 = 0;
const SHARED: u64 = 3;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;
const NAME_OF_LIBRARY: u64 = 14;

/// Positions in the file header, and in a program header, for programs of 32 or 64 bits.
struct Layout {
    /// Bytes of an address, an offset or a size.
    word: usize,
    headers_at: usize,
    header_length_at: usize,
    offset_at: usize,
    size_at: usize,
}

const OF_32_BITS: Layout = Layout {
    word: 4,
    headers_at: 28,
    header_length_at: 42,
    offset_at: 4,
    size_at: 16,
};
const OF_64_BITS: Layout = Layout {
    word: 8,
    headers_at: 32,
    header_length_at: 54,
    offset_at: 8,
    size_at: 32,
};

/// Returns whether a program that was executed is a dynamic loader, whatever the name of its file: a library by its own
/// name, which asks for no loader. A program that is linked statically has no such name. `None` if the file is none that
/// can be told, such as one of another byte order.
pub(super) fn is_loader(file: &File) -> Option<bool> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    let layout = match header.get(..6)? {
        b"\x7fELF\x01\x01" => OF_32_BITS,
        b"\x7fELF\x02\x01" => OF_64_BITS,
        _ => return None,
    };
    if number(&header, 16, 2)? != SHARED {
        return Some(false);
    }
    let length = usize::try_from(number(&header, layout.header_length_at, 2)?).ok()?;
    let count = usize::try_from(number(&header, layout.header_length_at + 2, 2)?).ok()?;
    let mut headers = vec![0; length.checked_mul(count.min(MAX_HEADERS))?];
    file.read_exact_at(&mut headers, number(&header, layout.headers_at, layout.word)?)
        .ok()?;
    let mut dynamic = None;
    for header in headers.chunks_exact(length.max(1)) {
        match number(header, 0, 4)? {
            INTERPRETER => return Some(false),
            DYNAMIC => dynamic = Some(header),
            _ => {}
        }
    }
    let Some(dynamic) = dynamic else {
        return Some(false);
    };
    let size = usize::try_from(number(dynamic, layout.size_at, layout.word)?).ok()?;
    let mut entries = vec![0; size.min(MAX_DYNAMIC)];
    let offset = number(dynamic, layout.offset_at, layout.word)?;
    file.read_exact_at(&mut entries, offset).ok()?;
    let tags = entries.chunks_exact(2 * layout.word);
    let mut tags = tags.map_while(|entry| number(entry, 0, layout.word).filter(|tag| *tag != END));
    Some(tags.any(|tag| tag == NAME_OF_LIBRARY))
}

/// Returns the number of `length` bytes at a position, the lowest byte first.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let mut number = [0; 8];
    number
        .get_mut(..length)?
        .copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
    Some(u64::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, path::Path};

    use test_case::test_case;

    use super::*;

    /// An ELF file: its kind, the kinds of its program headers, and the tags of its dynamic section.
    fn elf(is_64: bool, kind: u16, headers: &[u32], tags: &[u64]) -> Vec<u8> {
        let layout = if is_64 { OF_64_BITS } else { OF_32_BITS };
        let put = |bytes: &mut [u8], at: usize, length: usize, number: u64| {
            bytes[at..at + length].copy_from_slice(&number.to_le_bytes()[..length]);
        };
        let (start, length) = (64, layout.size_at + 2 * layout.word);
        let mut bytes = vec![0; start + length * headers.len()];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', if is_64 { 2 } else { 1 }, 1]);
        put(&mut bytes, 16, 2, kind.into());
        put(&mut bytes, layout.headers_at, layout.word, start as u64);
        put(&mut bytes, layout.header_length_at, 2, length as u64);
        put(&mut bytes, layout.header_length_at + 2, 2, headers.len() as u64);
        let dynamic = bytes.len() as u64;
        for (index, kind) in headers.iter().enumerate() {
            let header = &mut bytes[start + index * length..];
            put(header, 0, 4, (*kind).into());
            put(header, layout.offset_at, layout.word, dynamic);
            put(
                header,
                layout.size_at,
                layout.word,
                (tags.len() * 2 * layout.word) as u64,
            );
        }
        for tag in tags {
            let mut entry = vec![0; 2 * layout.word];
            put(&mut entry, 0, layout.word, *tag);
            bytes.extend(entry);
        }
        bytes
    }

    fn told(bytes: &[u8]) -> Option<bool> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("a file");
        is_loader(&file)
    }

    #[test_case(3, &[1, 2], &[5, 14, 0] => Some(true); "a loader")]
    #[test_case(3, &[1, 3, 2], &[5, 14, 0] => Some(false); "a library that asks for a loader")]
    #[test_case(3, &[1, 2], &[5, 0] => Some(false); "a static program at any address")]
    #[test_case(3, &[1, 2], &[5, 0, 14] => Some(false); "a name behind the end")]
    #[test_case(3, &[1], &[] => Some(false); "without a dynamic section")]
    #[test_case(2, &[1, 2], &[14] => Some(false); "a program at a fixed address")]
    fn files(kind: u16, headers: &[u32], tags: &[u64]) -> Option<bool> {
        let told_of = |is_64| told(&elf(is_64, kind, headers, tags));
        assert_eq!(told_of(true), told_of(false));
        told_of(true)
    }

    #[test]
    fn what_is_cut_or_no_program_is_not_told() {
        let whole = elf(true, 3, &[1, 2], &[14]);
        for length in 0..whole.len() {
            assert_eq!(told(&whole[..length]), None, "{length}");
        }
        assert_eq!(told("#!/bin/sh\n".repeat(20).as_bytes()), None);
        let mut hostile = whole;
        hostile[54..58].fill(0xff);
        assert_eq!(told(&hostile), None);
    }

    #[test]
    fn the_programs_of_this_host() -> std::io::Result<()> {
        let loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
        for loader in loaders.iter().filter(|path| Path::new(path).exists()) {
            assert_eq!(is_loader(&File::open(loader)?), Some(true), "{loader}");
        }
        let own = std::env::current_exe()?;
        assert_eq!(is_loader(&File::open(own)?), Some(false));
        Ok(())
    }
}

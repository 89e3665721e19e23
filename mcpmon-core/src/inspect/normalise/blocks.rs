//! Bytes by the block: what each of them is, as bits, which tells stretches of a kind at a few steps for all of them.

/// Bytes of a block.
pub(super) const BLOCK: usize = u64::BITS as usize;
/// Shortest stretch that is looked for.
pub(in crate::inspect) const RUN: usize = 20;
/// The first byte of a block from which on a stretch goes on in the next one.
const LAST: usize = BLOCK - RUN;

/// Which bytes of a block are of a kind, the first one lowest. What tells the kind has to do without branches.
#[inline]
pub(super) fn bits(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
    /// Brings the lowest bits of eight bytes together in the highest byte.
    const TOGETHER: u64 = 0x0102_0408_1020_4080;
    let told = block.map(|byte| u8::from(is(byte)));
    let eights = told.as_chunks::<8>().0.iter().rev();
    eights.fold(0, |bits, eight| {
        bits << 8 | u64::from_le_bytes(*eight).wrapping_mul(TOGETHER) >> 56
    })
}

/// What stands across the border of two blocks, as far as a stretch can.
#[inline]
pub(super) const fn across(before: u64, bits: u64) -> u64 {
    before >> LAST | bits << RUN
}

/// Where [`RUN`] ones begin.
#[inline]
pub(super) const fn runs(ones: u64) -> u64 {
    let two = ones & ones >> 1;
    let four = two & two >> 2;
    let eight = four & four >> 4;
    let sixteen = eight & eight >> 8;
    sixteen & four >> 16
}

/// Where the first [`RUN`] bytes of a kind begin, from `from` on.
pub(in crate::inspect) fn first_run(bytes: &[u8], from: usize, is: impl Fn(u8) -> bool) -> Option<usize> {
    let (blocks, _) = bytes.get(from..)?.as_chunks::<BLOCK>();
    let (mut at, mut before) = (from, 0);
    for block in blocks {
        let bits = bits(block, &is);
        let across = runs(across(before, bits));
        if across != 0 {
            return Some(at + across.trailing_zeros() as usize - RUN);
        }
        let within = runs(bits);
        if within != 0 {
            return Some(at + within.trailing_zeros() as usize);
        }
        (at, before) = (at + BLOCK, bits);
    }
    // What is left is less than a block, and may go on with the last one's end.
    let mut start = at - (before.leading_ones() as usize).min(at - from);
    while let Some(window) = bytes.get(start..start + RUN) {
        match window.iter().rposition(|&byte| !is(byte)) {
            Some(gap) => start += gap + 1,
            None => return Some(start),
        }
    }
    None
}

/// The places of ones, ascending.
pub(super) fn places(mut ones: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = ones.trailing_zeros() as usize;
        (ones != 0).then(|| {
            ones &= ones - 1;
            place
        })
    })
}

/// Whether a byte is a letter or a digit of ASCII.
#[inline]
pub(in crate::inspect) const fn is_alphanumeric(byte: u8) -> bool {
    is_letter(byte) | (byte.wrapping_sub(b'0') < 10)
}

/// Whether a byte is a letter of ASCII.
#[inline]
pub(super) const fn is_letter(byte: u8) -> bool {
    (byte | 0x20).wrapping_sub(b'a') < 26
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_told_as_the_standard_library_tells_them() {
        for byte in 0..=u8::MAX {
            assert_eq!(is_alphanumeric(byte), byte.is_ascii_alphanumeric(), "{byte}");
            assert_eq!(is_letter(byte), byte.is_ascii_alphabetic(), "{byte}");
        }
    }

    #[test]
    fn the_first_byte_of_a_block_is_lowest() {
        let mut block = [0; BLOCK];
        (block[0], block[9], block[63]) = (1, 1, 1);
        assert_eq!(bits(&block, |byte| byte == 1), 1 | 1 << 9 | 1 << 63);
    }

    proptest! {
        #[test]
        fn stretches_are_found_as_by_looking_at_each_place(
            lengths in prop::collection::vec((0..45_usize, 1..4_usize), 0..16),
            from in 0..80_usize,
        ) {
            let text: String = lengths
                .into_iter()
                .map(|(letters, gap)| format!("{}{}", "x".repeat(letters), " ".repeat(gap)))
                .collect();
            let bytes = text.as_bytes();
            let begins = |start: &usize| bytes[*start..*start + RUN].iter().all(|byte| *byte == b'x');
            let plainly = (from..(bytes.len() + 1).saturating_sub(RUN)).find(begins);
            prop_assert_eq!(first_run(bytes, from, is_letter), plainly);
        }
    }
}

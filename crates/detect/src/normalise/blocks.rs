//! Bytes by the block: what each of them is, as bits, which tells stretches of a kind at a few steps for all of them.

use crate::vector::{self, BLOCK, Kind, MANY};

/// Shortest stretch that is looked for.
pub(crate) const RUN: usize = 20;
/// The first byte of a block from which on a stretch goes on in the next one.
const LAST: usize = BLOCK - RUN;

/// Returns the bits across the border of two blocks, as far as a stretch can reach.
#[inline]
pub(super) const fn across(before: u64, bits: u64) -> u64 {
    before >> LAST | bits << RUN
}

/// Returns the positions at which [`RUN`] ones begin.
#[inline]
pub(super) const fn runs(ones: u64) -> u64 {
    let two = ones & ones >> 1;
    let four = two & two >> 2;
    let eight = four & four >> 4;
    let sixteen = eight & eight >> 8;
    sixteen & four >> 16
}

/// Returns whether eight ones stand in a row in a byte, as they do in every stretch of [`RUN`] of them: most
/// blocks have none.
#[inline]
pub(super) const fn may_run(ones: u64) -> bool {
    const LOWEST: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHEST: u64 = u64::from_ne_bytes([0x80; 8]);
    (!ones).wrapping_sub(LOWEST) & ones & HIGHEST != 0
}

/// Looks for so many ones in a row, block by block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch<const LENGTH: usize> {
    before: u64,
}

impl<const LENGTH: usize> Stretch<LENGTH> {
    /// Returns whether as many end in this block.
    #[inline]
    pub(super) const fn goes_on(&mut self, ones: u64) -> bool {
        let (before, here) = (self.before.leading_ones(), ones.trailing_ones());
        self.before = ones;
        here > 0 && (before + here) as usize >= LENGTH || Self::stands_in(ones)
    }

    #[inline]
    const fn stands_in(ones: u64) -> bool {
        if LENGTH >= RUN && !may_run(ones) {
            return false;
        }
        let (mut starts, mut known) = (ones, 1);
        while known < LENGTH {
            let more = if known < LENGTH - known {
                known
            } else {
                LENGTH - known
            };
            starts &= starts >> more;
            known += more;
        }
        starts != 0
    }
}

/// Returns the position of the first [`RUN`] bytes of a kind, from `from` on.
pub(crate) fn first_run<K: Kind>(bytes: &[u8], from: usize) -> Option<usize> {
    let (blocks, _) = bytes.get(from..)?.as_chunks::<BLOCK>();
    let (mut at, mut before) = (from, 0);
    let mut told = [0; MANY];
    for many in blocks.chunks(MANY) {
        vector::bits::<K>(many, &mut told);
        for &bits in &told[..many.len()] {
            if !may_run(before) && !may_run(bits) {
                (at, before) = (at + BLOCK, bits);
                continue;
            }
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
    }
    // What is left is less than a block, and may go on with the last one's end.
    let mut start = at - (before.leading_ones() as usize).min(at - from);
    while let Some(window) = bytes.get(start..start + RUN) {
        match window.iter().rposition(|&byte| !vector::is::<K>(byte)) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vector::Letter;

    proptest! {
        #[test]
        fn a_stretch_is_seen_where_it_ends(
            kinds in prop::collection::vec((0..5_usize, 0..64_u32), 1..6),
        ) {
            const KINDS: [u64; 5] = [0, u64::MAX, 0x0f0f_ffff_ff00_1ff0, u64::MAX << 53, u64::MAX >> 44];
            let blocks: Vec<u64> = kinds.into_iter().map(|(kind, turn)| KINDS[kind].rotate_left(turn)).collect();
            let bit = |place: usize| blocks[place / BLOCK] >> (place % BLOCK) & 1 != 0;
            let mut long = Stretch::<RUN>::default();
            let mut short = Stretch::<9>::default();
            for (index, &block) in blocks.iter().enumerate() {
                let stands = |length: usize| {
                    let mut ends = (BLOCK * index..BLOCK * (index + 1)).filter(|end| end + 1 >= length);
                    ends.any(|end| (end + 1 - length..=end).all(bit))
                };
                prop_assert_eq!(long.goes_on(block), stands(RUN));
                prop_assert_eq!(short.goes_on(block), stands(9));
            }
        }

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
            prop_assert_eq!(first_run::<Letter>(bytes, from), plainly);
        }
    }
}

//! A set of classes of words, a bit for each.

/// Words of bits in a set of classes.
const SET_WORDS: usize = 8;

/// Most classes that patterns may need.
pub(super) const MAX_CLASSES: usize = SET_WORDS * u64::BITS as usize;

/// Classes of words that patterns need, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes([u64; SET_WORDS]);

impl Classes {
    pub(super) const fn add(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    pub(super) const fn has(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 != 0
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        let lacking = self
            .0
            .iter()
            .zip(other.0)
            .fold(0, |lacking, (word, wanted)| lacking | wanted & !word);
        lacking == 0
    }

    pub(super) fn has_any(&self, others: &Self) -> bool {
        let common = self.0.iter().zip(others.0);
        common.fold(0, |common, (word, other)| common | word & other) != 0
    }

    /// Returns the bits that are in both sets.
    pub(super) fn common(&self, other: &Self) -> impl Iterator<Item = usize> + use<> {
        let mut left: [u64; SET_WORDS] = std::array::from_fn(|index| self.0[index] & other.0[index]);
        let mut index = 0;
        std::iter::from_fn(move || {
            while *left.get(index)? == 0 {
                index += 1;
            }
            let bit = left[index].trailing_zeros() as usize;
            left[index] &= left[index] - 1;
            Some(64 * index + bit)
        })
    }
}

//! The names seen so far in every open object, in one allocation that is reused.

/// More names than this are sorted before they are compared.
const FEW: usize = 16;

/// Memory for more names than this is given back after a line.
const KEPT: usize = 1 << 14;

/// Names as they are written, by their place in the line.
#[derive(Debug)]
pub(super) struct WrittenNames {
    places: Vec<(u32, u32)>,
}

impl WrittenNames {
    pub(super) fn new() -> Self {
        Self {
            places: Vec::with_capacity(2 * FEW),
        }
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.places.shrink_to(KEPT);
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn push(&mut self, start: usize, end: usize) {
        let place = |offset| u32::try_from(offset).expect("the scanner refuses longer lines");
        self.places.push((place(start), place(end)));
    }

    /// Forgets the names from `first` on; whether two of them are the same.
    #[inline]
    pub(super) fn close(&mut self, first: usize, bytes: &[u8]) -> bool {
        let names = &mut self.places[first..];
        let name = |place: &(u32, u32)| &bytes[place.0 as usize..place.1 as usize];
        let repeated = if names.len() <= FEW {
            (1..names.len()).any(|at| {
                let (earlier, this) = (&names[..at], name(&names[at]));
                earlier.iter().any(|other| name(other) == this)
            })
        } else {
            names.sort_unstable_by(|a, b| name(a).cmp(name(b)));
            names.windows(2).any(|pair| name(&pair[0]) == name(&pair[1]))
        };
        self.places.truncate(first);
        repeated
    }
}

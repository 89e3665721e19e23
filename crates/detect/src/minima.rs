//! Minima: positions of the smallest stretches of a text.
//!
//! The code is written so that the compiler vectorises it.

/// Most positions that [`lowest`] distinguishes.
pub(super) const MAX_PLACES: usize = 1 << 18;
/// Bytes of a stretch.
pub(super) const STRETCH: usize = 24;
/// Bytes of a gram of a stretch.
const LANE: usize = size_of::<u32>();
const FACTOR: u32 = 0x9e37_79b1;
/// Windows that are processed together, so that their orders stay in the fastest cache.
const TOGETHER: usize = 1024;
/// The factor of the last gram of a stretch. Each gram has the factor of the one before times [`FACTOR`], so that all
/// bytes of a stretch count: otherwise, in a row of equal letters, every position would be the smallest one of its
/// window.
const LAST_FACTOR: u32 = FACTOR.wrapping_pow((STRETCH / LANE) as u32);
/// The inverse of [`FACTOR`].
const INVERSE: u32 = {
    let mut inverse = FACTOR;
    let mut bits = 3;
    while bits < u32::BITS {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(FACTOR.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
};
/// The bits of an order that contain the position of the stretch.
const PLACE: u32 = MAX_PLACES as u32 - 1;

/// Returns the positions of the smallest stretch in each window of `window` stretches, by an arbitrary order; of equal
/// ones, the first. Each position occurs once, ascending, among the first [`MAX_PLACES`].
pub(super) fn lowest(text: &[u8], window: usize) -> Vec<u32> {
    let count = (text.len() + 1).saturating_sub(STRETCH).min(MAX_PLACES);
    let window = window.clamp(1, count.max(1));
    let windows = (count + 1).saturating_sub(window);
    let mut places = Vec::with_capacity(windows.min(2 * windows / window + TOGETHER));
    let room = windows.min(TOGETHER) + window;
    let (mut orders, mut spare) = (vec![0; room], vec![0; room]);
    // No smallest order has this value: of equal stretches the first is smaller than the last possible one.
    let mut before = u32::MAX;
    for start in (0..windows).step_by(TOGETHER) {
        let here = TOGETHER.min(windows - start);
        let read = here + window - 1;
        let text = &text[start..start + read + STRETCH - 1];
        order(text, start as u32, &mut orders[1..=read]);
        let smallest = smallest(&mut orders[..=read], &mut spare[..=read], window);
        smallest[0] = before;
        before = smallest[here];
        keep(&smallest[..=here], &mut places);
    }
    places
}

/// Computes the order of each stretch, which ends with its position, so that the first of equal stretches is the
/// smallest.
fn order(text: &[u8], start: u32, orders: &mut [u32]) {
    for (order, stretch) in orders.iter_mut().zip(text.windows(STRETCH)).take(LANE) {
        *order = hash(stretch);
    }
    // One gram further, the first gram is removed, and another one is added at the end.
    let moves = text.windows(STRETCH + LANE);
    for (place, bytes) in (LANE..orders.len()).zip(moves) {
        let (gone, come) = (gram(bytes), gram(&bytes[STRETCH..]));
        let before = orders[place - LANE];
        let hash = before.wrapping_mul(INVERSE).wrapping_sub(gone);
        orders[place] = hash.wrapping_add(come.wrapping_mul(LAST_FACTOR));
    }
    for (order, place) in orders.iter_mut().zip(start..) {
        *order = *order & !PLACE | place;
    }
}

/// Returns the sum of a stretch's grams, each times its factor.
fn hash(stretch: &[u8]) -> u32 {
    let add = |hash: u32, bytes: &[u8]| hash.wrapping_add(gram(bytes)).wrapping_mul(FACTOR);
    stretch.rchunks_exact(LANE).fold(0, add)
}

fn gram(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |gram| u32::from_le_bytes(*gram))
}

/// Returns for each order the smallest one of the window that begins with it, if it has a whole window; the first order
/// is only a predecessor.
fn smallest<'o>(mut orders: &'o mut [u32], mut spare: &'o mut [u32], window: usize) -> &'o mut [u32] {
    let mut reached = 1;
    while reached < window {
        // Twice as far, or as far as the window reaches.
        let further = reached.min(window - reached);
        let both = orders.iter().zip(&orders[further..]);
        for (smaller, (one, other)) in spare.iter_mut().zip(both) {
            *smaller = *one.min(other);
        }
        (orders, spare) = (spare, orders);
        reached += further;
    }
    orders
}

/// Adds the positions of these orders except the first, skipping those equal to their predecessor.
fn keep(orders: &[u32], places: &mut Vec<u32>) {
    // Equality with the predecessor can hardly be predicted: each position is written, and overwritten if it was equal.
    let mut end = places.len();
    places.resize(end + orders.len() - 1, 0);
    for pair in orders.windows(2) {
        places[end] = pair[1] & PLACE;
        end += usize::from(pair[0] != pair[1]);
    }
    places.truncate(end);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_smallest_stretch_of_each_window_is_returned_once(
            text in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..300),
                prop::collection::vec(b'a'..b'c', 0..300),
                prop::collection::vec(b'a'..=b'z', 1000..3000),
            ],
            window in 1..150_usize,
        ) {
            let order = |stretch: &[u8]| {
                let (grams, _) = stretch.as_chunks();
                let hash = |(hash, factor): (u32, u32), gram: &[u8; 4]| {
                    let part = u32::from_le_bytes(*gram).wrapping_mul(factor);
                    (hash.wrapping_add(part), factor.wrapping_mul(FACTOR))
                };
                grams.iter().fold((0, FACTOR), hash).0 & !PLACE
            };
            let orders: Vec<u32> = text.windows(STRETCH).map(order).collect();
            let window = window.min(orders.len().max(1));
            let first_of_the_smallest = |(start, orders): (usize, &[u32])| {
                let smallest = orders.iter().min().expect("a window is not empty");
                let place = orders.iter().position(|order| order == smallest);
                (start + place.expect("it is one of them")) as u32
            };
            let mut expected: Vec<u32> = orders.windows(window).enumerate().map(first_of_the_smallest).collect();
            expected.dedup();
            prop_assert_eq!(lowest(&text, window), expected);
        }
    }

    #[test]
    fn no_more_places_are_returned_than_there_are() {
        let text = vec![b'a'; MAX_PLACES + 1000];
        let last = lowest(&text, 16).last().copied();
        assert_eq!(last, Some(MAX_PLACES as u32 - 16));
    }
}

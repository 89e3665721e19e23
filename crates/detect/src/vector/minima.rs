//! Minima: positions of the smallest stretches of a text.
//!
//! Written so that the compiler makes vectors of it, for whichever processor it is inlined.

use super::{FACTOR, LANE, MOST_PLACES, STRETCH};

/// Windows that are gone through together: what is told of them stays in the fastest cache.
const TOGETHER: usize = 1024;
/// The factor of each gram of a stretch: all of its bytes count, or in a row of equal letters every place
/// would be the smallest one of its window.
const FACTORS: [u32; STRETCH / LANE] = {
    let mut factors = [FACTOR; STRETCH / LANE];
    let mut gram = 1;
    while gram < factors.len() {
        factors[gram] = factors[gram - 1].wrapping_mul(FACTOR);
        gram += 1;
    }
    factors
};
/// The bits of an order that are the place of the stretch.
pub(super) const PLACE: u32 = MOST_PLACES as u32 - 1;

/// See [`super::lowest`]. `keep` adds the places of these orders but the first, without what stands before it already.
#[inline(always)]
pub(super) fn find(text: &[u8], window: usize, keep: impl Fn(&[u32], &mut Vec<u32>)) -> Vec<u32> {
    let count = (text.len() + 1).saturating_sub(STRETCH).min(MOST_PLACES);
    let window = window.clamp(1, count.max(1));
    let windows = (count + 1).saturating_sub(window);
    let mut places = Vec::with_capacity(windows.min(2 * windows / window + TOGETHER));
    let room = windows.min(TOGETHER) + window;
    let (mut orders, mut spare) = (vec![0; room], vec![0; room]);
    let mut grams = vec![0; room + STRETCH];
    // No smallest one is this: of equal stretches the first is smaller than the last one there is.
    let mut before = u32::MAX;
    for start in (0..windows).step_by(TOGETHER) {
        let here = TOGETHER.min(windows - start);
        let read = here + window - 1;
        let text = &text[start..start + read + STRETCH - 1];
        order(text, start as u32, &mut grams, &mut orders[1..=read]);
        let smallest = smallest(&mut orders[..=read], &mut spare[..=read], window);
        smallest[0] = before;
        before = smallest[here];
        keep(&smallest[..=here], &mut places);
    }
    places
}

/// The order of each stretch, which ends with its place: of two that are alike the first is the smaller one.
#[inline(always)]
fn order(text: &[u8], start: u32, grams: &mut [u32], orders: &mut [u32]) {
    let grams = &mut grams[..text.len() + 1 - LANE];
    let [a, b, c, d] = std::array::from_fn(|byte| &text[byte..byte + grams.len()]);
    for (place, gram) in grams.iter_mut().enumerate() {
        *gram = u32::from_le_bytes([a[place], b[place], c[place], d[place]]);
    }
    let parts: [&[u32]; FACTORS.len()] = std::array::from_fn(|part| &grams[LANE * part..][..orders.len()]);
    for (place, order) in orders.iter_mut().enumerate() {
        let hash = (0..FACTORS.len()).fold(0_u32, |hash, part| {
            hash.wrapping_add(parts[part][place].wrapping_mul(FACTORS[part]))
        });
        *order = hash & !PLACE | start.wrapping_add(place as u32);
    }
}

/// For each the smallest one of the window that begins with it, where it has a whole one; the first is none.
#[inline(always)]
fn smallest<'o>(mut orders: &'o mut [u32], mut spare: &'o mut [u32], window: usize) -> &'o mut [u32] {
    let mut reached = 1;
    while reached < window {
        // Twice as far, or as far as is left.
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

/// One after another.
#[inline(always)]
pub(super) fn keep(orders: &[u32], places: &mut Vec<u32>) {
    // Whether one is another than the one before can hardly be foreseen: each is written, and the next one over it.
    let mut end = places.len();
    places.resize(end + orders.len() - 1, 0);
    for pair in orders.windows(2) {
        places[end] = pair[1] & PLACE;
        end += usize::from(pair[0] != pair[1]);
    }
    places.truncate(end);
}

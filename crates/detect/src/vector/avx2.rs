//! By AVX2: thirty-two bytes at once.

use std::arch::x86_64::{
    __m256i, _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_loadu_si128, _mm_shuffle_epi8,
    _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi8,
    _mm256_cmpeq_epi32, _mm256_cvtepu8_epi32, _mm256_i32gather_epi32, _mm256_loadu_si256,
    _mm256_movemask_epi8, _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_or_si256,
    _mm256_permutevar8x32_epi32, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_sllv_epi32, _mm256_srl_epi32, _mm256_srli_epi16, _mm256_srli_epi32,
    _mm256_storeu_si256, _mm256_xor_si256,
};

use super::{
    Alphanumeric, BLOCK, FACTOR, FOLD, Glance, Grams, Hashes, Kind, LOOKED, Looks, MANY, MOVED, READ, STEP,
    minima, plain,
};

/// Bytes of a vector.
const WIDTH: usize = size_of::<__m256i>();

/// A kind by both halves of a byte: it is one where what both give has a bit in common.
struct Halves {
    low: [u8; 16],
    high: [u8; 16],
}

impl Halves {
    /// Upper halves with the same lower ones share a bit: there are eight.
    const fn of(ranges: &[(u8, u8)]) -> Self {
        let mut halves = Self {
            low: [0; 16],
            high: [0; 16],
        };
        let (mut known, mut count) = ([0_u16; 8], 0);
        let mut high = 0;
        while high < 16 {
            let lower = lower_halves(ranges, high);
            let mut bit = 0;
            while bit < count && known[bit] != lower {
                bit += 1;
            }
            if lower != 0 && bit == count {
                known[count] = lower;
                count += 1;
                let mut low = 0;
                while low < 16 {
                    halves.low[low] |= ((lower >> low & 1) as u8) << bit;
                    low += 1;
                }
            }
            if lower != 0 {
                assert!(high < 8, "kinds are of ASCII");
                halves.high[high] = 1 << bit;
            }
            high += 1;
        }
        halves
    }
}

/// The lower halves that make a byte of one of the ranges with this upper one, a bit for each.
const fn lower_halves(ranges: &[(u8, u8)], high: usize) -> u16 {
    let (mut lower, mut low) = (0, 0);
    while low < 16 {
        let byte = (high * 16 + low) as u8;
        let mut range = 0;
        while range < ranges.len() {
            if ranges[range].0 <= byte && byte <= ranges[range].1 {
                lower |= 1 << low;
            }
            range += 1;
        }
        low += 1;
    }
    lower
}

/// A kind, as vectors.
#[derive(Clone, Copy)]
struct Tables {
    low: __m256i,
    high: __m256i,
}

impl Tables {
    #[target_feature(enable = "avx2")]
    fn of<K: Kind>() -> Self {
        let halves = const { Halves::of(K::RANGES) };
        Self {
            low: table(&halves.low),
            high: table(&halves.high),
        }
    }

    /// Returns the bytes of the kind; `upper` are their upper halves.
    #[target_feature(enable = "avx2")]
    fn bits(self, bytes: __m256i, upper: __m256i) -> u64 {
        let low = _mm256_shuffle_epi8(self.low, bytes);
        let common = _mm256_and_si256(low, _mm256_shuffle_epi8(self.high, upper));
        let others = _mm256_cmpeq_epi8(common, _mm256_setzero_si256());
        u64::from((!_mm256_movemask_epi8(others)).cast_unsigned())
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn bits<K: Kind>(blocks: &[[u8; BLOCK]], told: &mut [u64; MANY]) {
    let tables = Tables::of::<K>();
    for (block, told) in blocks.iter().zip(told) {
        let [[first, upper_first], [second, upper_second]] = vectors(block);
        *told = tables.bits(first, upper_first) | tables.bits(second, upper_second) << WIDTH;
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn bits_of_two<K: Kind, L: Kind>(
    blocks: &[[u8; BLOCK]],
    one: &mut [u64; MANY],
    other: &mut [u64; MANY],
) {
    let (tables, others) = (Tables::of::<K>(), Tables::of::<L>());
    for ((block, one), other) in blocks.iter().zip(one).zip(other) {
        let [[first, upper_first], [second, upper_second]] = vectors(block);
        *one = tables.bits(first, upper_first) | tables.bits(second, upper_second) << WIDTH;
        *other = others.bits(first, upper_first) | others.bits(second, upper_second) << WIDTH;
    }
}

/// A block's bytes, and their upper halves.
#[target_feature(enable = "avx2")]
fn vectors(block: &[u8; BLOCK]) -> [[__m256i; 2]; 2] {
    let half = _mm256_set1_epi8(0x0f);
    let [first, second] = block.as_chunks::<WIDTH>().0 else {
        unreachable!("two vectors are a block");
    };
    let both = |bytes| {
        let bytes = load(bytes);
        [bytes, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half)]
    };
    [both(first), both(second)]
}

#[target_feature(enable = "avx2")]
pub(super) fn glance(text: &[u8]) -> Glance {
    let Some(last) = text.last_chunk::<WIDTH>() else {
        return plain::glance(text);
    };
    let sign = |byte: u8| _mm256_set1_epi8(byte.cast_signed());
    let (escape, backslash, percent, ampersand) = (sign(0x1b), sign(b'\\'), sign(b'%'), sign(b'&'));
    let mut seen = [_mm256_setzero_si256(); 3];
    let mut look = |vector| {
        let bytes = load(vector);
        let [beyond, escapes, notations] = seen;
        let notation = _mm256_or_si256(
            _mm256_or_si256(
                _mm256_cmpeq_epi8(bytes, backslash),
                _mm256_cmpeq_epi8(bytes, percent),
            ),
            _mm256_cmpeq_epi8(bytes, ampersand),
        );
        seen = [
            _mm256_or_si256(beyond, bytes),
            _mm256_or_si256(escapes, _mm256_cmpeq_epi8(bytes, escape)),
            _mm256_or_si256(notations, notation),
        ];
    };
    text.as_chunks().0.iter().for_each(&mut look);
    // It may have bytes that were seen.
    look(last);
    // What is seen sets the highest bit of a byte.
    let [beyond_ascii, escape, notation] = seen.map(|seen| _mm256_movemask_epi8(seen) != 0);
    Glance {
        beyond_ascii,
        escape,
        notation,
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn has_pair(text: &[u8], pairs: &[[u8; 2]]) -> bool {
    let (firsts, seconds) = (
        &text[..text.len().saturating_sub(1)],
        text.get(1..).unwrap_or_default(),
    );
    let (Some(last_first), Some(last_second)) = (firsts.last_chunk(), seconds.last_chunk()) else {
        return plain::has_pair(text, pairs);
    };
    let (firsts, seconds) = (firsts.as_chunks().0, seconds.as_chunks().0);
    let mut seen = _mm256_setzero_si256();
    for pair in pairs {
        let [one, other] = pair.map(|byte| _mm256_set1_epi8(byte.cast_signed()));
        let mut look = |first, second| {
            let first = _mm256_cmpeq_epi8(load(first), one);
            let second = _mm256_cmpeq_epi8(load(second), other);
            seen = _mm256_or_si256(seen, _mm256_and_si256(first, second));
        };
        for (first, second) in firsts.iter().zip(seconds) {
            look(first, second);
        }
        // They may have bytes that were seen.
        look(last_first, last_second);
    }
    _mm256_movemask_epi8(seen) != 0
}

#[target_feature(enable = "avx2")]
pub(super) fn looks(grams: &Grams, text: &[u8; READ]) -> Looks {
    let fold = _mm256_set1_epi8(FOLD.cast_signed());
    let lanes = |at: usize| {
        let bytes = text[at..].first_chunk().expect("it begins within what is read");
        _mm256_or_si256(load(bytes), fold)
    };
    let mut looks = Looks { long: 0, short: 0 };
    for vector in 0..LOOKED / WIDTH {
        let at = vector * WIDTH;
        let (here, next, after) = (lanes(at), lanes(at + STEP), lanes(at + 2 * STEP));
        for (first, last, look) in [(here, next, 8 * vector), (next, after, 32 + 8 * vector)] {
            let long = _mm256_xor_si256(first, _mm256_srli_epi32::<{ MOVED.cast_signed() }>(last));
            looks.long |= has(&grams.long, long) << look;
            looks.short |= has(&grams.short, first) << look;
        }
    }
    looks
}

/// Returns those of eight lanes that may be among the hashes.
#[target_feature(enable = "avx2")]
fn has(hashes: &Hashes, lanes: __m256i) -> u64 {
    let factor = _mm256_set1_epi32(FACTOR.cast_signed());
    let shift = _mm_cvtsi32_si128(hashes.shift.cast_signed());
    let hash = _mm256_srl_epi32(_mm256_mullo_epi32(lanes, factor), shift);
    let words = hashes.words.as_ptr().cast();
    // SAFETY: a hash is less than 32 times the words, for what is shifted out leaves no more.
    let words = unsafe { _mm256_i32gather_epi32::<4>(words, _mm256_srli_epi32::<5>(hash)) };
    let has = _mm256_sllv_epi32(words, _mm256_and_si256(hash, _mm256_set1_epi32(31)));
    u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(has)).cast_unsigned())
}

/// Eight bytes.
const EIGHT: usize = size_of::<u64>();

/// The source of each of eight bytes, if only those with a set bit are kept. The bytes behind them have no
/// meaning.
const TOGETHER: [[u8; EIGHT]; 256] = {
    let mut all = [[0; EIGHT]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut from, mut to) = (0, 0);
        while from < EIGHT {
            if bits >> from & 1 != 0 {
                all[bits][to] = from as u8;
                to += 1;
            }
            from += 1;
        }
        bits += 1;
    }
    all
};

#[target_feature(enable = "avx2")]
pub(super) fn append_alphanumerics(text: &[u8], to: &mut Vec<u8>) {
    let fold = u64::from_ne_bytes([FOLD; EIGHT]);
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    let mut told = [0; MANY];
    for many in blocks.chunks(MANY) {
        bits::<Alphanumeric>(many, &mut told);
        for (block, bits) in many.iter().zip(told) {
            let mut kept = [0; BLOCK + EIGHT];
            let mut end = 0;
            for (eight, bits) in block.as_chunks::<EIGHT>().0.iter().zip(bits.to_le_bytes()) {
                let eight = _mm_cvtsi64_si128((u64::from_ne_bytes(*eight) | fold).cast_signed());
                let from = u64::from_ne_bytes(TOGETHER[usize::from(bits)]).cast_signed();
                let eight = _mm_cvtsi128_si64(_mm_shuffle_epi8(eight, _mm_cvtsi64_si128(from)));
                // It is never further than it has come.
                if let Some(place) = kept.get_mut(end..).and_then(<[u8]>::first_chunk_mut) {
                    *place = eight.to_ne_bytes();
                }
                end += bits.count_ones() as usize;
            }
            to.extend_from_slice(&kept[..end]);
        }
    }
    plain::append_alphanumerics(rest, to);
}

#[target_feature(enable = "avx2")]
pub(super) fn lowest(text: &[u8], window: usize) -> Vec<u32> {
    minima::find(text, window, |orders, places| keep(orders, places))
}

/// See [`minima::keep`].
#[target_feature(enable = "avx2")]
fn keep(orders: &[u32], places: &mut Vec<u32>) {
    let (eights, rest) = orders[1..].as_chunks::<EIGHT>();
    let (before, _) = orders.as_chunks::<EIGHT>();
    let place = _mm256_set1_epi32(minima::PLACE.cast_signed());
    let mut end = places.len();
    places.resize(end + orders.len() + EIGHT, 0);
    for (eight, before) in eights.iter().zip(before) {
        let eight = load_lanes(eight);
        let same = _mm256_castsi256_ps(_mm256_cmpeq_epi32(eight, load_lanes(before)));
        let others = !_mm256_movemask_ps(same) as u8;
        let from = u64::from_ne_bytes(TOGETHER[usize::from(others)]).cast_signed();
        let from = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(from));
        if let Some(to) = places.get_mut(end..).and_then(<[u32]>::first_chunk_mut) {
            store(
                _mm256_permutevar8x32_epi32(_mm256_and_si256(eight, place), from),
                to,
            );
        }
        end += others.count_ones() as usize;
    }
    places.truncate(end);
    minima::keep(&orders[orders.len() - rest.len() - 1..], places);
}

#[target_feature(enable = "avx2")]
fn store(lanes: __m256i, to: &mut [u32; EIGHT]) {
    // SAFETY: the array has room for all of them, and need not be aligned.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), lanes) }
}

#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; WIDTH]) -> __m256i {
    // SAFETY: the array has all the bytes, and need not be aligned.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn load_lanes(lanes: &[u32; EIGHT]) -> __m256i {
    // SAFETY: the array has all of them, and need not be aligned.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

/// The same table for both halves of a vector.
#[target_feature(enable = "avx2")]
fn table(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: the array has all the bytes, and need not be aligned.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

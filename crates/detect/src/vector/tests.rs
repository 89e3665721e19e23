//! Results of vectors, which equal those of single bytes.

use proptest::prelude::*;

use super::*;

fn told<K: Kind>(block: [u8; BLOCK]) -> (u64, u64) {
    let (mut here, mut plainly) = ([0; MANY], [0; MANY]);
    bits::<K>(&[block], &mut here);
    plain::bits::<K>(&[block], &mut plainly);
    (here[0], plainly[0])
}

#[test]
fn bytes_are_told_as_the_standard_library_tells_them() {
    for byte in 0..=u8::MAX {
        let in_base64 = byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
        assert_eq!(is::<Letter>(byte), byte.is_ascii_alphabetic(), "{byte}");
        assert_eq!(is::<Alphanumeric>(byte), byte.is_ascii_alphanumeric(), "{byte}");
        assert_eq!(is::<Encoding>(byte), in_base64, "{byte}");
    }
}

#[test]
fn the_first_byte_of_a_block_is_lowest() {
    let mut block = [b' '; BLOCK];
    (block[0], block[9], block[63]) = (b'a', b'b', b'c');
    let expected = 1 | 1 << 9 | 1 << 63;
    assert_eq!(told::<Letter>(block), (expected, expected));
}

#[test]
fn each_block_is_told_apart() {
    let blocks: [[u8; BLOCK]; MANY] = std::array::from_fn(|index| {
        let mut block = [b' '; BLOCK];
        block[index] = b'a';
        block
    });
    let (mut here, mut plainly) = ([0; MANY], [0; MANY]);
    bits::<Letter>(&blocks, &mut here);
    plain::bits::<Letter>(&blocks, &mut plainly);
    assert_eq!(here, std::array::from_fn(|index| 1 << index));
    assert_eq!(here, plainly);
}

#[test]
fn two_kinds_are_told_as_each_is() {
    let blocks: [[u8; BLOCK]; 4] =
        std::array::from_fn(|block| std::array::from_fn(|place| (block * BLOCK + place) as u8));
    let (mut encoding, mut letters) = ([0; MANY], [0; MANY]);
    bits_of_two::<Encoding, Letter>(&blocks, &mut encoding, &mut letters);
    for (index, block) in blocks.iter().enumerate() {
        assert_eq!(encoding[index], told::<Encoding>(*block).1);
        assert_eq!(letters[index], told::<Letter>(*block).1);
    }
}

#[test]
fn every_byte_is_told_alike_at_every_place() {
    for first in 0..=u8::MAX {
        let block = std::array::from_fn(|place| first.wrapping_add(place as u8));
        let (here, plainly) = told::<Letter>(block);
        assert_eq!(here, plainly, "{first}");
        let (here, plainly) = told::<Alphanumeric>(block);
        assert_eq!(here, plainly, "{first}");
        let (here, plainly) = told::<Encoding>(block);
        assert_eq!(here, plainly, "{first}");
    }
}

proptest! {
    #[test]
    fn looks_are_those_of_every_second_byte(
        text in prop::collection::vec(any::<u8>(), READ..READ + 1),
        long in prop::collection::vec(0..LOOKED / STEP, 0..4),
        short in prop::collection::vec(0..LOOKED / STEP, 0..4),
        room in 0..5000_usize,
    ) {
        let text = read(&text, 0).expect("enough");
        let mut grams = Grams::with_room(room, room / 2);
        for look in &long {
            grams.add_long(*text[place(*look)..].first_chunk().expect("it ends within what is read"));
        }
        for look in &short {
            grams.add_short(*text[place(*look)..].first_chunk().expect("it ends within what is read"));
        }
        let looks = grams.looks(text);
        prop_assert_eq!(looks, plain::looks(&grams, text));
        prop_assert!(long.iter().all(|look| places(looks.long).any(|at| at == place(*look))));
        prop_assert!(short.iter().all(|look| places(looks.short).any(|at| at == place(*look))));
    }
}

proptest! {
    #[test]
    fn a_glance_sees_what_there_is(
        length in 0..200_usize, byte in any::<u8>(), at in 0..200_usize,
    ) {
        let mut text = vec![b'a'; length];
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
        let expected = Glance {
            beyond_ascii: text.iter().any(|byte| *byte >= 0x80),
            escape: text.contains(&0x1b),
            notation: text.iter().any(|byte| b"\\%&".contains(byte)),
        };
        prop_assert_eq!(glance(&text), expected);
        prop_assert_eq!(plain::glance(&text), expected);
    }

    #[test]
    fn pairs_are_seen_wherever_they_stand(text in "[a!\\[<|]{0,4}a{0,80}[a!\\[<|]{0,4}a{0,80}[!\\[<|]{0,3}") {
        let stands = text.contains("![") || text.contains("<|");
        prop_assert_eq!(has_pair(text.as_bytes(), &[*b"![", *b"<|"]), stands);
        prop_assert_eq!(plain::has_pair(text.as_bytes(), &[*b"![", *b"<|"]), stands);
    }
}

#[test]
fn places_are_all_of_them_each_once() {
    let mut all: Vec<usize> = places(u64::MAX).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq((0..LOOKED).step_by(STEP)));
}

/// The answer of the processor, and that of any.
fn appended(text: &[u8]) -> [Vec<u8>; 2] {
    let mut told = [b"before".to_vec(), b"before".to_vec()];
    append_alphanumerics(text, &mut told[0]);
    plain::append_alphanumerics(text, &mut told[1]);
    told
}

proptest! {
    #[test]
    fn letters_and_digits_are_appended(
        text in prop::collection::vec(prop_oneof![any::<u8>(), b'0'..=b'z'], 0..2500),
    ) {
        let kept = text.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase);
        let expected: Vec<u8> = b"before".iter().copied().chain(kept).collect();
        for told in appended(&text) {
            prop_assert_eq!(&told, &expected);
        }
    }

    #[test]
    fn the_smallest_stretch_of_each_window_is_told_once(
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
            grams.iter().fold((0, FACTOR), hash).0 & !(MOST_PLACES as u32 - 1)
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
        prop_assert_eq!(lowest(&text, window), &expected[..]);
        prop_assert_eq!(minima::find(&text, window, minima::keep), expected);
    }
}

#[test]
fn no_more_places_are_told_than_there_are() {
    let text = vec![b'a'; MOST_PLACES + 1000];
    let told = lowest(&text, 16);
    assert_eq!(told.last().copied(), Some(MOST_PLACES as u32 - 16));
}

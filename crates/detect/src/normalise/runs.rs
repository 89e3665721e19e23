//! Runs of bytes of one kind.

/// Shortest run that is searched for.
pub(crate) const MIN_RUN: usize = 20;

/// Returns the position of the first [`MIN_RUN`] bytes of a kind, from `from` on.
pub(crate) fn first_run(bytes: &[u8], from: usize, is_of_kind: impl Fn(u8) -> bool) -> Option<usize> {
    let mut start = from;
    // The last byte of another kind in a window shows where the next run can begin.
    while let Some(window) = bytes.get(start..start + MIN_RUN) {
        match window.iter().rposition(|byte| !is_of_kind(*byte)) {
            Some(gap) => start += gap + 1,
            None => return Some(start),
        }
    }
    None
}

/// Bytes that are tested together.
const BLOCK: usize = 32;

/// Returns the position of the first byte that is no ASCII, or begins a terminal command; the length if there is none.
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    let is_odd = |byte: &u8| !byte.is_ascii() || *byte == b'\x1b';
    let blocks = bytes.as_chunks::<BLOCK>().0.iter();
    // Without a branch for each byte.
    let is_plain = |block: &&[u8; BLOCK]| !block.iter().fold(false, |odd, byte| odd | is_odd(byte));
    let plain = BLOCK * blocks.take_while(is_plain).count();
    bytes[plain..]
        .iter()
        .position(is_odd)
        .map_or(bytes.len(), |at| plain + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plain_bytes_are_counted(text in "[ -~]{0,100}[é\x1b]{0,2}[ -~]{0,9}") {
            let odd = text.bytes().position(|byte| !byte.is_ascii() || byte == 0x1b);
            prop_assert_eq!(plain_length(text.as_bytes()), odd.unwrap_or(text.len()));
        }

        #[test]
        fn runs_are_found_as_by_looking_at_each_place(
            lengths in prop::collection::vec((0..45_usize, 1..4_usize), 0..16),
            from in 0..80_usize,
        ) {
            let text: String = lengths
                .into_iter()
                .map(|(letters, gap)| format!("{}{}", "x".repeat(letters), " ".repeat(gap)))
                .collect();
            let bytes = text.as_bytes();
            let begins = |start: &usize| bytes[*start..*start + MIN_RUN].iter().all(|byte| *byte == b'x');
            let plainly = (from..(bytes.len() + 1).saturating_sub(MIN_RUN)).find(begins);
            prop_assert_eq!(first_run(bytes, from, |byte| byte == b'x'), plainly);
        }
    }
}

//! Runs: bytes of one kind in a row.

/// Shortest run that is looked for.
pub(crate) const MIN_RUN: usize = 20;

/// Returns the position of the first [`MIN_RUN`] bytes of a kind, from `from` on.
pub(crate) fn first_run(bytes: &[u8], from: usize, is_of_kind: impl Fn(u8) -> bool) -> Option<usize> {
    let mut start = from;
    // The last byte of another kind in a window tells how far the next one is.
    while let Some(window) = bytes.get(start..start + MIN_RUN) {
        match window.iter().rposition(|byte| !is_of_kind(*byte)) {
            Some(gap) => start += gap + 1,
            None => return Some(start),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
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

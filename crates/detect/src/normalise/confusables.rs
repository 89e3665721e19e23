//! Letters of other scripts that look like ASCII ones (a selection of Unicode's UTS 39 data).

use std::sync::LazyLock;

use crate::tables::{self, WordList};

/// Each row: the ASCII letter, then what looks like it.
static ROWS: WordList = tables::NORMALISE.list("confusables", "rows");

/// The characters that look like an ASCII letter, with the letter; ascending.
static LOOK_ALIKES: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let row = |row: &'static str| {
        let letter = row.chars().next().expect("a row begins with its letter");
        row.chars().skip(1).map(move |look_alike| (look_alike, letter))
    };
    let mut table: Vec<_> = ROWS.iter().copied().flat_map(row).collect();
    table.sort_unstable();
    table
});

/// The ASCII letter that `c` looks like.
pub(super) fn ascii(c: char) -> Option<char> {
    let found = LOOK_ALIKES.binary_search_by_key(&c, |&(look_alike, _)| look_alike);
    found.ok().map(|index| LOOK_ALIKES[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_found_and_other_letters_are_not() {
        assert_eq!(
            "іgnоrе"
                .chars()
                .map(|c| ascii(c).unwrap_or(c))
                .collect::<String>(),
            "ignore"
        );
        for c in ['a', 'ж', '中', '😀', 'λ'] {
            assert_eq!(ascii(c), None, "{c}");
        }
    }

    #[test]
    fn every_row_maps_other_characters_to_one_ascii_letter() {
        for row in ROWS.iter() {
            assert!(row.starts_with(|c: char| c.is_ascii_alphabetic()), "{row}");
            assert!(
                row.chars().skip(1).all(|c| !c.is_ascii()) && row.chars().count() > 1,
                "{row}"
            );
        }
        assert!(
            LOOK_ALIKES.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "a character stands in two rows"
        );
    }
}

//! Spellings of one name: the letters that readers who ignore case take for one another.

/// The letters that `letter` is compared by.
///
/// All that some reader folds are folded: Go takes a long s for an `s` and the Kelvin sign for a `k`, Java a dotless or
/// dotted i for an `i`, and what writes a name in capitals first a sharp s for two.
pub fn fold(letter: char) -> impl Iterator<Item = char> {
    let letter = if letter == '\u{130}' { 'i' } else { letter };
    letter.to_uppercase().flat_map(char::to_lowercase)
}

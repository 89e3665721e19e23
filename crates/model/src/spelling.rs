//! Spellings of one name: letters that readers who ignore case treat as equal.

/// Returns the letters by which `letter` is compared.
///
/// Every folding that some reader does is done: Go takes a long s for an `s` and the Kelvin sign for a `k`, Java a
/// dotless or dotted i for an `i`, and a reader that converts a name to capitals first takes a sharp s for two.
pub fn fold(letter: char) -> impl Iterator<Item = char> {
    let letter = if letter == '\u{130}' { 'i' } else { letter };
    letter.to_uppercase().flat_map(char::to_lowercase)
}

//! Spellings of one name: letters that readers who ignore case treat as equal.

/// Returns the letters by which `letter` is compared.
///
/// Every folding that some reader does is done: Go takes a long s for an `s` and the Kelvin sign for a `k`, Java a
/// dotless or dotted i for an `i`, and a reader that converts a name to capitals first takes a sharp s for two.
pub fn fold(letter: char) -> impl Iterator<Item = char> {
    let letter = if letter == '\u{130}' { 'i' } else { letter };
    letter.to_uppercase().flat_map(char::to_lowercase)
}

/// Returns whether some reader takes `key` for `known` although it is spelled otherwise: in another case, as
/// [`fold`] has it, or with other `_` and `-` in it. Servers written in Go ignore the case of names, and a
/// Python SDK takes snake case for camel case.
pub fn is_spelled_like(key: &str, known: &str) -> bool {
    if key.is_ascii() {
        return key != known && ascii_letters(key).eq(ascii_letters(known));
    }
    letters(key).eq(letters(known))
}

/// As [`letters`], for the names that nearly all are.
fn ascii_letters(name: &str) -> impl Iterator<Item = u8> {
    let is_letter = |byte: &u8| !matches!(byte, b'_' | b'-');
    name.bytes()
        .filter(is_letter)
        .map(|byte| byte.to_ascii_lowercase())
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    let is_letter = |character: &char| !matches!(character, '_' | '-');
    name.chars().filter(is_letter).flat_map(fold)
}

//! Words of a text in any spelling: with letters of other scripts, digits for letters, or spaced letters.

use crate::normalise::skeleton::Skeleton;

/// Most letters of words that, in a row, are one spaced word.
const APART: usize = 2;
/// Fewest letters of a spaced word.
const MIN_LETTERS: usize = 3;
/// Most bytes of the skeleton of a text that are read: invisible characters do not count. A question is short.
const MAX_TEXT: usize = 64 << 10;

/// The character after which text is shown from right to left (UAX #9), and the characters that end it.
const OVERRIDE: char = '\u{202e}';
const OVERRIDE_ENDS: [char; 3] = ['\u{202c}', '\u{2029}', '\n'];

/// Returns the ways to read a text. In each, words are in lower case, with one space between, before and after them.
pub(super) fn readings(text: &str, is_name: bool) -> Vec<String> {
    let mut readings = readings_as_written(text, is_name);
    readings.extend(
        turned(text)
            .iter()
            .flat_map(|shown| readings_as_written(shown, is_name)),
    );
    readings
}

/// Returns a text with its overridden stretches in the order in which they are shown; `None` if it has none.
fn turned(text: &str) -> Option<String> {
    let mut stretches = text.split(OVERRIDE);
    let mut shown = stretches.next()?.to_owned();
    if shown.len() == text.len() {
        return None;
    }
    for stretch in stretches {
        let (overridden, rest) = stretch.split_at(stretch.find(OVERRIDE_ENDS).unwrap_or(stretch.len()));
        shown.extend(overridden.chars().rev());
        shown.push_str(rest);
    }
    Some(shown)
}

fn readings_as_written(text: &str, is_name: bool) -> Vec<String> {
    let skeleton = Skeleton::of(text);
    let seen = &skeleton.text[..skeleton.text.floor_char_boundary(MAX_TEXT)];
    let cased = match is_name {
        true => apart_by_case(seen),
        false => seen.to_owned(),
    };
    let plain = words(&cased, char::is_alphanumeric);
    let meant = words(&cased, |c| c.is_alphanumeric() || is_sign(c)).into_iter();
    let meant: Vec<String> = meant.map(|word| letters(&word)).collect();
    let mut readings = vec![spaced(plain), spaced(joined(meant))];
    if !is_name {
        // Punctuation within a word is removed; an address is no word.
        let whole = seen.split_whitespace();
        let whole = whole.filter(|word| !word.contains(['/', '\\']));
        let squeezed = whole.map(|word| {
            let kept: String = word
                .chars()
                .filter(|&c| c.is_alphanumeric() || is_sign(c))
                .collect();
            letters(&kept.to_lowercase())
        });
        readings.push(spaced(squeezed.collect()));
    }
    readings.dedup();
    readings
}

/// Returns the words of a text in lower case.
fn words(text: &str, is_part: fn(char) -> bool) -> Vec<String> {
    let words = text.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn spaced(words: Vec<String>) -> String {
    let mut text = " ".to_owned();
    for word in words {
        text.push_str(&word);
        text.push(' ');
    }
    text
}

/// Splits a name into its words: `apiKey` and `api_key` are the same name.
fn apart_by_case(name: &str) -> String {
    let mut apart = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            apart.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        apart.push(c);
    }
    apart
}

/// Returns whether a sign can replace a letter within a word.
const fn is_sign(c: char) -> bool {
    matches!(c, '@' | '$' | '!')
}

/// Returns a word with the letters that its digits and signs replace; a number stays unchanged.
fn letters(word: &str) -> String {
    if !word.chars().any(char::is_alphabetic) {
        return word.to_owned();
    }
    let word = word.trim_end_matches('!');
    let letter = |c| match c {
        '0' => 'o',
        '1' | '!' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        '8' => 'b',
        _ => c,
    };
    word.chars().map(letter).collect()
}

/// Joins spaced letters into words.
fn joined(words: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::with_capacity(words.len());
    let mut run: Vec<String> = Vec::new();
    for word in words.into_iter().map(Some).chain([None]) {
        match word {
            Some(word) if word.chars().count() <= APART => run.push(word),
            word => {
                let is_one = run.len() >= MIN_LETTERS;
                let whole = if is_one { vec![run.concat()] } else { run.clone() };
                joined.extend(whole);
                run.clear();
                joined.extend(word);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test]
    fn what_nobody_sees_takes_no_room() {
        let text = format!("{}Enter your password", "\u{200b}".repeat(MAX_TEXT));
        let readings = readings(&text, false);
        assert!(
            readings
                .iter()
                .all(|reading| reading.contains(" enter your password ")),
            "{readings:?}"
        );
    }

    #[test_case("Enter your password", "enter your password"; "as it is")]
    #[test_case("pаssw\u{200b}ord", "password"; "letters of other scripts, and invisible ones")]
    #[test_case("ｐａｓｓｗｏｒｄ", "password"; "full width")]
    #[test_case("P4$$w0rd!", "password"; "digits and signs")]
    #[test_case("your p a s s w o r d here", "your password here"; "set apart")]
    #[test_case("pa-ss.wo_rd", "password"; "punctuation within")]
    #[test_case("Enter your \u{202e}drowssap", "enter your password"; "shown from right to left")]
    #[test_case("Your \u{202e}drowssap\u{202c} here", "your password here"; "a part from right to left")]
    fn words_are_read(text: &str, expected: &str) {
        let readings = readings(text, false);
        assert!(readings.contains(&format!(" {expected} ")), "{readings:?}");
    }

    #[test]
    fn names_are_taken_apart_by_case() {
        assert_eq!(readings("myApiKey2", true)[0], " my api key2 ");
        assert_eq!(readings("my_api-key", true)[0], " my api key ");
    }

    #[test_case("4 of 11"; "numbers")]
    #[test_case("go to it"; "short words")]
    fn what_says_nothing_else_stays(text: &str) {
        assert!(readings(text, false).contains(&format!(" {text} ")));
    }
}

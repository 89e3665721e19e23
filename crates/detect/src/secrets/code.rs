//! Code in place of secrets: values in programs, their documents and style sheets that are visibly no secrets.

use super::value::is_wordy;
use crate::tables::{self, WordList};

/// Returns whether a value without quotes is a piece of code: a type, a rule of a grammar, a name in a macro.
pub(super) fn is_bare_code(value: &str) -> bool {
    is_type(value) || is_grammar(value) || value.strip_prefix('#').is_some_and(is_word)
}

/// Returns whether a value shows what it is: a colour, a number, a pattern of paths.
pub(super) fn is_telling(value: &str) -> bool {
    is_colour(value) || is_number(value) || is_pattern(value)
}

/// Returns whether a value is a colour: `#fff`, `#d8dee9`.
fn is_colour(value: &str) -> bool {
    value.strip_prefix('#').is_some_and(|digits| {
        matches!(digits.len(), 3 | 4 | 6 | 8) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns whether a value is a number that fits into a register: `0b1010`, `0xff00`.
fn is_number(value: &str) -> bool {
    let digits = |prefix: &str, most: usize, is_digit: fn(&u8) -> bool| {
        let digits = value.strip_prefix(prefix);
        digits.is_some_and(|digits| {
            let counts = digits.bytes().filter(|byte| *byte != b'_');
            !digits.is_empty() && counts.clone().count() <= most && counts.clone().all(|byte| is_digit(&byte))
        })
    };
    digits("0b", 64, |byte| matches!(byte, b'0' | b'1'))
        || digits("0o", 22, |byte| matches!(byte, b'0'..=b'7'))
        || digits("0x", 16, u8::is_ascii_hexdigit)
}

/// Returns whether a value is a pattern of paths, `tests/pass/*.rs`: words between slashes, with a star or an ending.
fn is_pattern(value: &str) -> bool {
    value.contains('/') && value.contains(['*', '.']) && !value.contains('+') && is_wordy(value)
}

/// Returns whether a value is a repetition in a protocol's grammar: `1*tchar`, `*cookie-octet`.
fn is_grammar(value: &str) -> bool {
    let Some((times, what)) = value.split_once('*') else {
        return false;
    };
    let is_count = times.len() <= 2 && times.bytes().all(|byte| byte.is_ascii_digit());
    let what = what.trim_start_matches(|c: char| c.is_ascii_digit());
    is_count && what.split('-').all(|word| !word.is_empty() && is_letters(word))
}

/// Ends of names of types with a number in them: `Uint8Array`, `Vec3Buffer`.
static TYPES: WordList = tables::SECRETS.list("code", "types");

/// Returns whether a value is the name of a type: `Uint8Array`, `_bindgen_ty_24`.
fn is_type(value: &str) -> bool {
    let is_named = value.starts_with(|c: char| c.is_ascii_uppercase())
        && TYPES.iter().any(|end| value.ends_with(end))
        && is_word(value);
    is_named || value.starts_with('_') && is_word(value) && is_wordy(value)
}

/// Returns the assigned value if a value is another assignment: `token=`, `include=members`, `id=GIT_AUTH_TOKEN`. A
/// value that ends with `=` may be base64 too, so a word must precede the sign then.
pub(super) fn assigned(value: &str) -> Option<&str> {
    let (name, given) = value.split_once('=')?;
    let name = name.strip_prefix('$').unwrap_or(name);
    let is_name = is_word(name) && (is_wordy(name) || !given.is_empty());
    (is_name && !given.starts_with('=')).then_some(given)
}

/// Returns whether a value only repeats its name: `hide_cookie2 = hide_cookie2`, `ECDSA_P256_KEY, "ecdsa-p256"`.
pub(super) fn repeats(name: &str, value: &str) -> bool {
    let name = letters(name);
    let mut parts = value
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .peekable();
    parts.peek().is_some() && parts.all(|part| name.contains(&letters(part)))
}

fn letters(text: &str) -> String {
    let counts = text.chars().filter(char::is_ascii_alphanumeric);
    counts.map(|c| c.to_ascii_lowercase()).collect()
}

/// Verbs of functions that return something or take its name: their argument is not the thing itself.
static ASKING: WordList = tables::SECRETS.list("code", "asking");

/// Returns whether the argument of a function of this name is not the secret in its name: `getToken("…")`.
pub(super) fn asks(function: &str) -> bool {
    let function = function.rsplit('.').next().unwrap_or(function);
    ASKING.iter().any(|verb| {
        let rest = function.strip_prefix(verb);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c == '_' || c.is_ascii_uppercase()))
    })
}

/// Returns whether a value is an expression, or a format string.
pub(super) fn is_expression(value: &str) -> bool {
    let is_path = |between: &str| value.contains(between) && value.split(between).all(is_word);
    let is_form = |(at, _): (usize, &str)| {
        let next = value.as_bytes().get(at + 1);
        next.is_some_and(|next| matches!(next, b's' | b'd' | b'0'))
    };
    is_path(".")
        || is_path("::")
        || value.strip_prefix(['!', '&', '*']).is_some_and(is_word)
        || value.match_indices('%').any(is_form)
}

/// Returns whether a text is one identifier of a program.
fn is_word(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(is_start) && name.bytes().all(is_part)
}

fn is_letters(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("win32api.RegEnumKey" => true; "a path")]
    #[test_case("Self::key_of" => true; "another path")]
    #[test_case("!is_final" => true; "an expression")]
    #[test_case("%s:%s" => true; "a form")]
    #[test_case("hunter2" => false; "one word")]
    #[test_case("q7.9Lx" => false; "a dot in a secret")]
    #[test_case("!x9-" => false; "a sign in a secret")]
    #[test_case("a%zb1" => false; "a percent sign in a secret")]
    fn expressions(value: &str) -> bool {
        is_expression(value)
    }

    #[test_case("Uint8Array" => true; "a type")]
    #[test_case("_bindgen_ty_24" => true; "a type that was generated")]
    #[test_case("1*tchar" => true; "a rule")]
    #[test_case("*field-content" => true; "another rule")]
    #[test_case("#skipped_err" => true; "a name in a macro")]
    #[test_case("Summer2024" => false; "a year behind a word")]
    #[test_case("B00kWorm" => false; "digits for letters")]
    #[test_case("K9Xw2Lm4Qz7P" => false; "random")]
    #[test_case("7*Gq2" => false; "a star in a secret")]
    #[test_case("#1fan!" => false; "a sign before a secret")]
    fn bare(value: &str) -> bool {
        is_bare_code(value)
    }

    #[test_case("#d8dee9" => true; "a colour")]
    #[test_case("0b1000_0000" => true; "bits")]
    #[test_case("0xff00" => true; "a number")]
    #[test_case("tests/pass/*.rs" => true; "a pattern")]
    #[test_case("#d8dee9!" => false; "no colour")]
    #[test_case("0xk9Xw2" => false; "no number")]
    #[test_case("k9X/w2Lm.4Qz" => false; "no path")]
    fn telling(value: &str) -> bool {
        is_telling(value)
    }

    #[test_case("token=" => Some(""); "nothing")]
    #[test_case("include=members" => Some("members"); "a word")]
    #[test_case("$Version=\"1\"" => Some("\"1\""); "a variable")]
    #[test_case("c2VjcmV0MQ=" => None; "the end of base64")]
    #[test_case("c2VjcmV0MQ==" => None; "the longer end of base64")]
    #[test_case("h7!=Gq2" => None; "a sign in a secret")]
    fn assignments(value: &str) -> Option<&str> {
        assigned(value)
    }

    #[test_case("hide_cookie2", "hide_cookie2" => true; "the same")]
    #[test_case("ECDSA_P256_CLIENT_KEY", "ecdsa-p256" => true; "parts of it")]
    #[test_case("token", "k9Xw2Lm4" => false; "something else")]
    #[test_case("token", "---" => false; "nothing")]
    fn repetitions(name: &str, value: &str) -> bool {
        repeats(name, value)
    }

    #[test_case("getIntegrationToken" => true; "asks")]
    #[test_case("self.is_token" => true; "tests")]
    #[test_case("setPassword" => false; "gives")]
    #[test_case("issueToken" => false; "another verb")]
    fn functions(name: &str) -> bool {
        asks(name)
    }
}

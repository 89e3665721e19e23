//! `%41`, once and again: servers decode what clients encoded, and some do it twice.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The number of decoding rounds.
const MAX_ROUNDS: usize = 3;

/// `text`, and what it is when it is decoded once, twice, three times, as long as that makes a difference.
pub(super) fn decodings(text: &str) -> Vec<Cow<'_, str>> {
    let mut decodings = vec![Cow::Borrowed(text)];
    for _ in 0..MAX_ROUNDS {
        let Some(decoded) = decodings.last().and_then(|last| decoded(last)) else {
            break;
        };
        decodings.push(Cow::Owned(decoded));
    }
    decodings
}

/// `None` where there is no escape. Bytes that are no UTF-8 become U+FFFD.
fn decoded(text: &str) -> Option<String> {
    match percent_decode_str(text).into() {
        Cow::Borrowed(_) => None,
        Cow::Owned(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("plain", &["plain"]; "nothing to decode")]
    #[test_case("100%", &["100%"]; "no escape")]
    #[test_case("%2e%2E/a", &["%2e%2E/a", "../a"]; "once")]
    #[test_case("%252e", &["%252e", "%2e", "."]; "twice")]
    #[test_case("%25252525", &["%25252525", "%252525", "%2525", "%25"]; "three times at most")]
    #[test_case("%ff%é", &["%ff%é", "\u{fffd}%é"]; "no utf 8")]
    fn decodes(text: &str, expected: &[&str]) {
        assert_eq!(decodings(text), expected);
    }
}

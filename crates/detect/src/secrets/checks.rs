//! Checks of a format's values: check digits, checksums, structure.

use crate::{
    normalise::decode,
    tables::{self, WordList},
};

/// Digits of base 62, in which GitHub and npm write checksums.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters of a checksum.
const CHECKSUM: usize = 6;

/// Returns whether the last six characters are the CRC-32 of those before them.
pub(super) fn has_crc32(body: &str) -> bool {
    let Some((random, checksum)) = body
        .len()
        .checked_sub(CHECKSUM)
        .and_then(|at| body.split_at_checked(at))
    else {
        return false;
    };
    let mut rest = crc32(random.as_bytes());
    checksum.bytes().rev().all(|digit| {
        let expected = BASE62[usize::try_from(rest % 62).unwrap_or_default()];
        rest /= 62;
        digit == expected
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| {
        if crc & 1 == 1 {
            (crc >> 1) ^ 0xedb8_8320
        } else {
            crc >> 1
        }
    };
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc))
    })
}

/// Returns whether digits are the number of a payment card: its issuer, its length and its check digit.
pub(super) fn is_card(digits: &[u8]) -> bool {
    let value = |count: usize| {
        digits
            .iter()
            .take(count)
            .fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0'))
    };
    let fits = match (value(1), value(2), value(3), value(4)) {
        (4, ..) => matches!(digits.len(), 13 | 16 | 19),
        (_, 34 | 37, ..) => digits.len() == 15,
        (_, 51..=55, ..) | (.., 2221..=2720) => digits.len() == 16,
        (_, 36 | 38, ..) | (_, _, 300..=305, _) => digits.len() == 14,
        (_, 65, ..) | (_, _, 644..=649, _) | (.., 6011) | (.., 3528..=3589) | (_, 62, ..) => {
            (16..=19).contains(&digits.len())
        }
        _ => false,
    };
    // People type two alternating digits as a dummy number: 4242 4242 4242 4242.
    let is_varied = digits.windows(3).any(|group| group[0] != group[2]);
    fits && is_varied && luhn(digits)
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let value = u32::from(digit - b'0') << (index % 2);
            if value > 9 { value - 9 } else { value }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Lengths of account numbers by country, for the countries that issue them.
static COUNTRIES: WordList = tables::SECRETS.list("checks", "countries");

/// Returns whether a text without spaces is an account number: its country, its length and its check digits.
pub(super) fn is_iban(text: &str) -> bool {
    let length = text.get(..2).and_then(|country| {
        let mut lengths = COUNTRIES.iter().filter_map(|known| known.strip_prefix(country));
        lengths.next()?.parse::<usize>().ok()
    });
    let bytes = text.as_bytes();
    if length != Some(bytes.len()) || !bytes[2..4].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let rest = bytes[4..]
        .iter()
        .chain(&bytes[..4])
        .try_fold(0_u32, |rest, byte| match byte {
            b'0'..=b'9' => Some((rest * 10 + u32::from(byte - b'0')) % 97),
            b'A'..=b'Z' => Some((rest * 100 + u32::from(byte - b'A') + 10) % 97),
            _ => None,
        });
    rest == Some(1)
}

/// Returns whether a part of a web token is a JSON object that has one of `members`.
pub(super) fn encodes_object(part: &str, members: &[&str]) -> bool {
    let decoded = decode::base64(part.trim_end_matches('=')).and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.is_some_and(|text| {
        let text = text.trim_end();
        text.starts_with('{') && text.ends_with('}') && members.iter().any(|member| text.contains(member))
    })
}

/// Returns the secret if base64 encodes `user:secret`, and the secret is not a placeholder.
pub(super) fn encodes_credentials(encoded: &str) -> Option<String> {
    let decoded = String::from_utf8(decode::base64(encoded.trim_end_matches('='))?).ok()?;
    let is_printable = decoded
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ');
    (is_printable && decoded.contains(':') && decoded.len() >= 4).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("0000000000000000000000000000002C8GjS" => true; "of zeros")]
    #[test_case("0000000000000000000000000000012C8GjS" => false; "of something else")]
    #[test_case("4WZ" => false; "too short")]
    fn checksums(body: &str) -> bool {
        has_crc32(body)
    }

    #[test_case("4111111111111111" => true; "visa")]
    #[test_case("378282246310005" => true; "american express")]
    #[test_case("5555555555554444" => true; "mastercard")]
    #[test_case("4242424242424242" => false; "two digits by turns")]
    #[test_case("4242424242424341" => true; "almost")]
    #[test_case("4111111111111112" => false; "check digit")]
    #[test_case("411111111111111" => false; "length")]
    #[test_case("9111111111111111" => false; "issuer")]
    #[test_case("0000000000000000" => false; "zeros")]
    fn cards(digits: &str) -> bool {
        is_card(digits.as_bytes())
    }

    #[test_case("GB82WEST12345698765432" => true; "british")]
    #[test_case("GB82WEST12345698765433" => false; "check digits")]
    #[test_case("DE89370400440532013000" => true; "german")]
    #[test_case("ZZ82WEST12345698765432" => false; "country")]
    #[test_case("GB82" => false; "length")]
    #[test_case("é" => false; "no ascii")]
    fn accounts(text: &str) -> bool {
        is_iban(text)
    }

    #[test]
    fn countries_are_sorted() {
        assert!(COUNTRIES.is_sorted());
    }

    #[test]
    fn encoded_objects_and_credentials() {
        assert!(encodes_object("eyJhbGciOiJIUzI1NiJ9", &["alg"]));
        assert!(!encodes_object("eyJhbGciOiJIUzI1NiJ9", &["typ"]));
        assert_eq!(
            encodes_credentials("YWRtaW46aHVudGVyMg==").as_deref(),
            Some("admin:hunter2")
        );
        assert_eq!(encodes_credentials("YWRtaW4="), None);
    }
}

//! Values of headers that repeat a part of the body: as they are, or in Base64 if a header cannot hold them.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

const START: &str = "=?base64?";
const END: &str = "?=";

/// Decodes a header's value; `None` if it cannot be a value, or is Base64 that some reader decodes
/// differently.
pub(super) fn decode(value: &[u8]) -> Option<Cow<'_, str>> {
    let text = plain(value)?;
    let Some(inside) = text.strip_prefix(START).and_then(|rest| rest.strip_suffix(END)) else {
        return Some(Cow::Borrowed(text));
    };
    // Padded, and with zeros in its unused bits, so that each value has only one encoding.
    let bytes = STANDARD.decode(inside).ok()?;
    Some(Cow::Owned(String::from_utf8(bytes).ok()?))
}

/// Returns a header's value as text; `None` if it cannot be one.
pub(super) fn plain(value: &[u8]) -> Option<&str> {
    let text = str::from_utf8(value).ok()?;
    let is_plain = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    is_plain.then_some(text)
}

/// Encodes `text` as the value of a header.
pub fn encode(text: &str) -> String {
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let is_marked = text.starts_with(START);
    if is_printable && !is_padded && !is_marked {
        return text.to_owned();
    }
    format!("{START}{}{END}", STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("us-west1" => "us-west1"; "plain")]
    #[test_case("" => ""; "nothing")]
    #[test_case("a b\tc" => "=?base64?YSBiCWM=?="; "a tab")]
    #[test_case(" padded " => "=?base64?IHBhZGRlZCA=?="; "spaces at the ends")]
    #[test_case("line1\nline2" => "=?base64?bGluZTEKbGluZTI=?="; "a line end")]
    #[test_case("Größe" => "=?base64?R3LDtsOfZQ==?="; "beyond ASCII")]
    #[test_case("=?base64?YQ==?=" => "=?base64?PT9iYXNlNjQ/WVE9PT89?="; "what looks encoded")]
    fn values(text: &str) -> String {
        let value = encode(text);
        assert_eq!(decode(value.as_bytes()).as_deref(), Some(text));
        value
    }

    #[test_case(b"=?base64?YQ==?=" => Some("a".to_owned()); "encoded")]
    #[test_case(b"=?base64??=" => Some(String::new()); "nothing, encoded")]
    #[test_case(b"=?Base64?YQ==?=" => Some("=?Base64?YQ==?=".to_owned()); "a capital is no mark")]
    #[test_case(b"a\tb" => Some("a\tb".to_owned()); "a tab")]
    #[test_case(b"=?base64?YQ?=" => None; "no padding")]
    #[test_case(b"=?base64?YR==?=" => None; "bits that are not used")]
    #[test_case(b"=?base64?Y===?=" => None; "too much padding")]
    #[test_case(b"=?base64?Y Q=?=" => None; "a space inside")]
    #[test_case(b"=?base64?Y-_=?=" => None; "the other alphabet")]
    #[test_case(b"=?base64?/w==?=" => None; "no UTF-8")]
    #[test_case(b"a\xc3\xa9" => None; "beyond ASCII")]
    #[test_case(b"a\nb" => None; "a line end")]
    fn what_a_value_says(value: &[u8]) -> Option<String> {
        decode(value).map(Cow::into_owned)
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in ".{0,40}") {
            let value = encode(&text);
            prop_assert_eq!(decode(value.as_bytes()), Some(Cow::Owned(text)));
        }

        #[test]
        fn no_other_value_says_the_same(value in "=\\?base64\\?[A-D+/=]{0,8}\\?=") {
            if let Some(text) = decode(value.as_bytes())
                && encode(&text).starts_with(START)
            {
                prop_assert_eq!(encode(&text), value);
            }
        }
    }
}

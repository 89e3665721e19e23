//! Canonical JSON (RFC 8785): one text for every way of writing the same value, so that its hash changes only if the
//! definition changes.
//!
//! Different values for which the standard gives the same text are kept apart: a number that a double cannot hold keeps
//! its original text, a lone surrogate its escape, and all members of the same name stay, in their order.

use std::{borrow::Cow, fmt::Write as _};

use super::{
    Definition, Digest, RawJson,
    json::{Document, Escape, JsonReader, unescape},
};

/// Deepest nesting that is followed.
pub(super) const MAX_DEPTH: usize = 256;

impl Definition {
    /// Returns the definition that was written as `raw`. A text that is nested deeper than 256 levels, or is no JSON,
    /// is its own canonical text: any difference in writing counts then.
    pub fn of(raw: RawJson<'_>) -> Self {
        let canonical = canonical(raw.as_str()).unwrap_or_else(|| raw.as_str().to_owned());
        Self {
            hash: Digest::of(canonical.as_bytes()),
            canonical: canonical.into(),
        }
    }

    /// Returns the definition of a text that is not JSON, such as a server's instructions.
    pub fn of_text(text: &str) -> Self {
        let mut canonical = String::with_capacity(text.len() + 2);
        write_string(text, &mut canonical);
        Self {
            hash: Digest::of(canonical.as_bytes()),
            canonical: canonical.into(),
        }
    }
}

fn canonical(text: &str) -> Option<String> {
    let mut writer = DefinitionWriter {
        reader: JsonReader::new(Document::new(text)),
        out: String::with_capacity(text.len()),
        members: Vec::new(),
        scratch: String::new(),
    };
    writer.value(MAX_DEPTH)?;
    writer.reader.is_done().then_some(writer.out)
}

struct DefinitionWriter<'a> {
    reader: JsonReader<'a>,
    out: String,
    /// Members of the open objects, the innermost last.
    members: Vec<CanonicalMember<'a>>,
    /// Buffer for an object while its members are sorted.
    scratch: String,
}

/// A written member: its name, and its position.
struct CanonicalMember<'a> {
    name: Cow<'a, str>,
    start: usize,
    end: usize,
}

impl DefinitionWriter<'_> {
    fn value(&mut self, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match self.reader.peek()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => {
                let inside = self.reader.string()?;
                self.string(inside)
            }
            b'-' | b'0'..=b'9' => {
                number(self.reader.scalar()?, &mut self.out);
                Some(())
            }
            _ => {
                let scalar = self.reader.scalar()?;
                self.out.push_str(scalar);
                matches!(scalar, "true" | "false" | "null").then_some(())
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        self.reader.take(b'[')?;
        self.out.push('[');
        if !self.reader.is_empty(b']')? {
            loop {
                self.value(depth)?;
                if !self.reader.more(b']')? {
                    break;
                }
                self.out.push(',');
            }
        }
        self.out.push(']');
        Some(())
    }

    /// Writes the members in the order of the text, each with its comma, and sorts them afterwards if necessary.
    fn object(&mut self, depth: usize) -> Option<()> {
        self.reader.take(b'{')?;
        self.out.push('{');
        let (first, own) = (self.out.len(), self.members.len());
        let mut is_sorted = true;
        let mut open = !self.reader.is_empty(b'}')?;
        while open {
            let inside = self.reader.string()?;
            let name = unescape(inside);
            let start = self.out.len();
            self.string(inside)?;
            self.reader.take(b':')?;
            self.out.push(':');
            self.value(depth)?;
            self.out.push(',');
            let last = self.members[own..].last();
            is_sorted &= last.is_none_or(|last| utf16_order(&last.name, &name).is_le());
            let end = self.out.len();
            self.members.push(CanonicalMember { name, start, end });
            open = self.reader.more(b'}')?;
        }
        if !is_sorted {
            self.sort(first, own);
        }
        if self.members.len() > own {
            self.out.pop();
        }
        self.members.truncate(own);
        self.out.push('}');
        Some(())
    }

    /// Sorts the members from `own` on, whose text begins at `first`.
    fn sort(&mut self, first: usize, own: usize) {
        self.members[own..].sort_by(|one, other| utf16_order(&one.name, &other.name));
        self.scratch.clear();
        self.scratch.push_str(&self.out[first..]);
        self.out.truncate(first);
        for member in &self.members[own..] {
            self.out
                .push_str(&self.scratch[member.start - first..member.end - first]);
        }
    }

    /// `inside` as it was written between its quotes.
    fn string(&mut self, inside: &str) -> Option<()> {
        self.out.push('"');
        let mut rest = inside;
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            self.out.push_str(&rest[..at]);
            let Escape { character, end } = Escape::read(rest.as_bytes(), at)?;
            match character {
                Some(meant) => write_character(meant, &mut self.out),
                None => self.out.push_str(&rest[at..end].to_ascii_lowercase()),
            }
            rest = &rest[end..];
        }
        self.out.push_str(rest);
        self.out.push('"');
        Some(())
    }
}

/// Compares names by UTF-16 code units, as RFC 8785 sorts. Code points have the same order, except beyond the
/// surrogates.
fn utf16_order(one: &str, other: &str) -> std::cmp::Ordering {
    if one.is_ascii() && other.is_ascii() {
        return one.cmp(other);
    }
    one.encode_utf16().cmp(other.encode_utf16())
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        write_character(character, out);
    }
    out.push('"');
}

fn write_character(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..='\u{1f}' => write!(out, "\\u{:04x}", u32::from(character)).expect("a String takes any text"),
        _ => out.push(character),
    }
}

/// Most digits with which every integer is exact as a double.
const SAFE_DIGITS: usize = 15;

fn number(literal: &str, out: &mut String) {
    let is_plain = literal.len() <= SAFE_DIGITS && literal.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain {
        return out.push_str(literal);
    }
    let double: f64 = literal.parse().unwrap_or(f64::NAN);
    let formatted = if double.is_finite() {
        ecmascript(double)
    } else {
        String::new()
    };
    // Both are compared as decimals, so `0.10` equals `0.1`, but a digit that a double cannot hold counts.
    let is_exact = CanonicalDecimal::of(literal)
        .is_some_and(|written| CanonicalDecimal::of(&formatted) == Some(written));
    out.push_str(if is_exact { &formatted } else { literal });
}

/// Returns a double as ECMAScript writes it (`Number::toString`).
fn ecmascript(double: f64) -> String {
    if double == 0.0 {
        return "0".to_owned();
    }
    let shortest = format!("{double:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    match point {
        _ if count <= point && point <= 21 => format!("{sign}{digits}{}", zeros(point - count)),
        1..=21 => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            format!("{sign}{whole}.{fraction}")
        }
        -5..=0 => format!("{sign}0.{}{digits}", zeros(-point)),
        _ => {
            let (first, more) = digits.split_at(1);
            let dot = if more.is_empty() { "" } else { "." };
            format!("{sign}{first}{dot}{more}e{:+}", point - 1)
        }
    }
}

/// A decimal number: its digits without zeros at either end, and the exponent of the last one.
#[derive(PartialEq, Eq)]
struct CanonicalDecimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl CanonicalDecimal {
    fn of(literal: &str) -> Option<Self> {
        let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
        let exponent: i64 = exponent.parse().ok()?;
        let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(mantissa) => (true, mantissa),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let kept = digits.trim_end_matches('0');
        let dropped = digits.len() - kept.len();
        let shift = i64::try_from(dropped)
            .ok()?
            .checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let kept = kept.trim_start_matches('0');
        Some(if kept.is_empty() {
            // JavaScript writes a negative zero without its sign.
            Self {
                is_negative: false,
                digits: String::new(),
                exponent: 0,
            }
        } else {
            Self {
                is_negative,
                digits: kept.to_owned(),
                exponent: exponent.checked_add(shift)?,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    fn of(text: &str) -> String {
        Definition::of(RawJson::trusted(text)).canonical.to_string()
    }

    #[test_case(r#"{"b":1,"a":2}"# => r#"{"a":2,"b":1}"#; "order")]
    #[test_case(r#"{ "a" : [ 1 , 2 ] , "b" : { } }"# => r#"{"a":[1,2],"b":{}}"#; "white space")]
    #[test_case(r#"{"z":{"y":1,"x":[{"b":1,"a":2}]},"a":null}"# => r#"{"a":null,"z":{"x":[{"a":2,"b":1}],"y":1}}"#; "nested")]
    #[test_case(r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#
        => "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}"; "the order of RFC 8785")]
    #[test_case(r#""\u0041\/\u000a\u000F\"""# => r#""A/\n\u000f\"""#; "escapes")]
    #[test_case(r#"{"a":1,"a":2}"# => r#"{"a":1,"a":2}"#; "one name twice")]
    #[test_case(r#""\uD800""# => r#""\ud800""#; "lone surrogate")]
    #[test_case("[true,false,null]" => "[true,false,null]"; "words")]
    fn texts(text: &str) -> String {
        of(text)
    }

    #[test_case("0" => "0")]
    #[test_case("-0" => "0")]
    #[test_case("0.0e5" => "0")]
    #[test_case("1.0" => "1")]
    #[test_case("0.10" => "0.1")]
    #[test_case("1E3" => "1000")]
    #[test_case("1e21" => "1e+21")]
    #[test_case("100000000000000000000" => "100000000000000000000")]
    #[test_case("333333333.33333329" => "333333333.33333329"; "more digits than a double tells apart")]
    #[test_case("4.50" => "4.5")]
    #[test_case("2e-3" => "0.002")]
    #[test_case("0.000001" => "0.000001")]
    #[test_case("0.0000001" => "1e-7")]
    #[test_case("-1.5e-10" => "-1.5e-10")]
    #[test_case("9007199254740992" => "9007199254740992")]
    #[test_case("9007199254740993" => "9007199254740993"; "beyond a double")]
    #[test_case("9007199254740993.0" => "9007199254740993.0"; "beyond a double, as written")]
    #[test_case("1e400" => "1e400"; "beyond every double")]
    #[test_case("1e99999999999999999999" => "1e99999999999999999999"; "exponent beyond everything")]
    #[test_case("5e-324" => "5e-324")]
    #[test_case("1e-400" => "1e-400"; "no zero")]
    fn numbers(text: &str) -> String {
        of(text)
    }

    #[test]
    fn what_cannot_be_followed_is_its_own_text() {
        let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
        for text in [deep.as_str(), "{\"a\":", "[1,]", "nul", "1 2", ""] {
            assert_eq!(of(text), text);
        }
    }

    #[test]
    fn a_text_is_the_string_of_it() {
        assert_eq!(
            Definition::of_text("a\"\n"),
            Definition::of(RawJson::trusted(r#""a\"\u000a""#))
        );
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,8}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::vec((".{0,4}", inner), 0..5)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn writing_does_not_matter(value in json()) {
            let compact = serde_json::to_string(&value).expect("a value serialises");
            let pretty = serde_json::to_string_pretty(&value).expect("a value serialises");
            let canonical = of(&compact);
            prop_assert_eq!(&of(&pretty), &canonical);
            prop_assert_eq!(&of(&canonical), &canonical);
        }

        #[test]
        fn every_integer_is_itself(one: u128, other: u128) {
            let (one, other) = (one.to_string(), other.to_string());
            prop_assert_eq!(of(&one) == of(&other), one == other);
        }

        #[test]
        fn nothing_panics(text in ".{0,64}") {
            of(&text);
        }
    }
}

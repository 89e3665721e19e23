//! Numbers as people and programs write them: signs, separators, other digits, other bases.

use mcpmon_model::Decimal;
use unicode_normalization::char::decompose_compatible;

use crate::normalise::raw::is_invisible;
use crate::tables::{self, WordList};

/// The numeric meaning of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numeral {
    /// No reader takes the text for a number.
    None,
    /// Each of these numbers is the reading of some reader; never empty.
    Read(Vec<Decimal>),
    /// The text begins like a number, or is infinite or `NaN`: readers may differ about it.
    Doubtful,
}

/// Longest text that is read, bytes.
const MAX_TEXT: usize = 4096;
/// Letters of a currency code.
const CODE: usize = 3;

/// Returns the numeric meaning of `text`.
pub fn numeral(text: &str) -> Numeral {
    let start = text.len().min(MAX_TEXT);
    let folded = folded(&text[..text.floor_char_boundary(start)]);
    let bare = bare(&folded);
    if is_special(&folded) || is_special(bare.text) {
        return Numeral::Doubtful;
    }
    if !bare.begins_like_one {
        return Numeral::None;
    }
    let readings = match text.len() > MAX_TEXT {
        true => None,
        false => readings(&bare),
    };
    match readings {
        Some(readings) if !readings.iter().any(Decimal::is_beyond_doubles) => Numeral::Read(readings),
        Some(_) | None => Numeral::Doubtful,
    }
}

/// Returns the text with ASCII digits and signs, with `_` for separators of digit groups other than point and comma,
/// and without invisible characters.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.trim().chars().filter(|c| !is_invisible(*c)) {
        match c {
            _ if c.is_ascii_digit() => folded.push(c),
            '\u{2212}' | '\u{2010}'..='\u{2015}' => folded.push('-'),
            '\u{66b}' => folded.push('.'),
            '\u{66c}' => folded.push(','),
            '\'' | '\u{2018}' | '\u{2019}' | '\u{2bc}' => folded.push('_'),
            _ if c.is_whitespace() => folded.push(' '),
            _ => match digit(c) {
                Some(digit) => folded.push(digit),
                None => decompose_compatible(c, |part| folded.push(part)),
            },
        }
    }
    folded
}

/// Returns the ASCII digit for a digit of another script.
fn digit(c: char) -> Option<char> {
    /// The zero of each script; its nine other digits follow it.
    const ZEROS: [u32; 38] = [
        0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50,
        0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40,
        0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x11066,
    ];
    let code = u32::from(c);
    let zero = ZEROS.iter().rev().find(|zero| **zero <= code)?;
    char::from_digit(code - zero, 10)
}

/// Returns whether the text is `NaN`, `-Infinity` or the like.
fn is_special(folded: &str) -> bool {
    let word = folded.trim_start_matches(['-', '+', ' ']).to_lowercase();
    matches!(word.as_str(), "nan" | "snan" | "qnan" | "inf" | "infinity" | "∞")
}

/// A number without the text around it.
struct Bare<'a> {
    is_negative: bool,
    is_percent: bool,
    text: &'a str,
    begins_like_one: bool,
}

fn bare(folded: &str) -> Bare<'_> {
    let mut text = folded.trim();
    let mut signs = 0;
    let mut is_negative = false;
    loop {
        let before = text;
        if let Some(rest) = text.strip_prefix(['-', '+']) {
            is_negative |= text.starts_with('-');
            signs += 1;
            text = rest;
        }
        text = text.strip_prefix(is_currency).unwrap_or(text).trim_start();
        text = after_code(text).trim_start();
        if text.len() == before.len() {
            break;
        }
    }
    let opened = text.trim_start_matches(['(', '[', '"', '_', '`', '~', '<', '>', '=', '#', ' ']);
    let begins_like_one = opened
        .strip_prefix(['.', ','])
        .unwrap_or(opened)
        .starts_with(|c: char| c.is_ascii_digit());
    let mut is_percent = false;
    loop {
        let before = text;
        if let Some(rest) = text.strip_suffix('%') {
            // Two percent signs are no number.
            signs += usize::from(is_percent) * 2;
            is_percent = true;
            text = rest;
        }
        text = text.strip_suffix(is_currency).unwrap_or(text).trim_end();
        text = before_code(text).trim_end();
        if text.len() == before.len() {
            break;
        }
    }
    Bare {
        is_negative,
        is_percent,
        // A text with two signs is no number, and neither is an empty one.
        text: if signs > 1 { "" } else { text },
        begins_like_one,
    }
}

/// Returns `text` without a currency code at its beginning.
fn after_code(text: &str) -> &str {
    match text.split_at_checked(CODE) {
        Some((code, rest)) if is_code(code) => rest,
        Some(_) | None => text,
    }
}

/// Returns `text` without a currency code at its end.
fn before_code(text: &str) -> &str {
    let split = text
        .len()
        .checked_sub(CODE)
        .and_then(|at| text.split_at_checked(at));
    match split {
        Some((rest, code)) if is_code(code) => rest,
        Some(_) | None => text,
    }
}

const fn is_currency(c: char) -> bool {
    matches!(c, '$' | '¢'..='¥' | '֏' | '؋' | '৲' | '৳' | '৻' | '૱' | '௹' | '฿' | '៛' | '\u{20a0}'..='\u{20c0}')
}

/// Returns whether a text is the code of a widely used currency; any other word after a number may mean a multiple of
/// it.
fn is_code(text: &str) -> bool {
    static CODES: WordList = tables::MEANING.list("number", "codes");
    CODES.binary_search(&text).is_ok()
}

/// Returns every number that a reader may take the text for; `None` if it is not a number as it is written.
fn readings(bare: &Bare<'_>) -> Option<Vec<Decimal>> {
    let mut readings = match based(bare.text) {
        Some(whole) => vec![Decimal::from(whole?)],
        None => decimals(bare.text)?,
    };
    if bare.is_percent {
        let parts: Vec<Decimal> = readings.iter().cloned().map(|number| number.scaled(-2)).collect();
        readings.extend(parts);
    }
    if bare.is_negative {
        readings = readings.into_iter().map(Decimal::negated).collect();
    }
    Some(readings)
}

/// Returns a whole number of another base; `Some(None)` if it is invalid or too large.
fn based(text: &str) -> Option<Option<u128>> {
    let (prefix, digits) = text.split_at_checked(2)?;
    let base = match prefix {
        "0x" | "0X" => 16,
        "0o" | "0O" => 8,
        "0b" | "0B" => 2,
        _ => return None,
    };
    let digits = digits.replace('_', "");
    let is_plain = digits.starts_with(|c: char| c.is_ascii_hexdigit());
    Some(u128::from_str_radix(&digits, base).ok().filter(|_| is_plain))
}

fn decimals(text: &str) -> Option<Vec<Decimal>> {
    let (mantissa, exponent) = text.split_at(text.find(['e', 'E']).unwrap_or(text.len()));
    let mantissa = ungrouped(mantissa)?;
    let (commas, points) = (mantissa.matches(',').count(), mantissa.matches('.').count());
    let forms = match (commas, points) {
        (0, 0 | 1) => vec![mantissa],
        // Half of the world writes thousands in this way, the other half fractions.
        (1, 0) => vec![mantissa.replace(',', ""), mantissa.replace(',', ".")],
        (0, _) => vec![mantissa.replace('.', "")],
        (_, 0) => vec![mantissa.replace(',', "")],
        (_, _) => {
            let last = mantissa.rfind([',', '.'])?;
            let (whole, fraction) = mantissa.split_at(last);
            let mark = &fraction[..1];
            if whole.contains(mark) {
                return None;
            }
            vec![format!("{}.{}", whole.replace([',', '.'], ""), &fraction[1..])]
        }
    };
    let read = |form: String| format!("{form}{exponent}").parse().ok();
    forms.into_iter().map(read).collect()
}

/// Returns the number without separators of digit groups, which must be between digits.
fn ungrouped(mantissa: &str) -> Option<String> {
    let bytes = mantissa.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let mut plain = String::with_capacity(bytes.len());
    for (at, c) in mantissa.char_indices() {
        match c {
            '_' | ' ' if is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)) => {}
            '_' | ' ' => return None,
            _ => plain.push(c),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("10", &["10"]; "plain")]
    #[test_case(" +10 ", &["10"]; "plus and spaces")]
    #[test_case("-10.5", &["-10.5"]; "negative")]
    #[test_case("1e9", &["1000000000"]; "exponent")]
    #[test_case("1E-2", &["0.01"]; "negative exponent")]
    #[test_case("0x3E8", &["1000"]; "hexadecimal")]
    #[test_case("0b1010", &["10"]; "binary")]
    #[test_case("0o17", &["15"]; "octal")]
    #[test_case("1,000", &["1000", "1"]; "thousands, or thousandths")]
    #[test_case("1,5", &["15", "1.5"]; "decimal comma")]
    #[test_case("1,000,000", &["1000000"]; "millions")]
    #[test_case("1.000.000", &["1000000"]; "millions with points")]
    #[test_case("1,000.50", &["1000.5"]; "both")]
    #[test_case("1.000,50", &["1000.5"]; "both the other way")]
    #[test_case("1 000", &["1000"]; "space")]
    #[test_case("1\u{a0}000", &["1000"]; "hard space")]
    #[test_case("1\u{202f}000", &["1000"]; "narrow space")]
    #[test_case("1_000", &["1000"]; "underscore")]
    #[test_case("1'000", &["1000"]; "apostrophe")]
    #[test_case("1’000", &["1000"]; "typographic apostrophe")]
    #[test_case("１０００", &["1000"]; "full width")]
    #[test_case("١٠٠٠", &["1000"]; "arabic digits")]
    #[test_case("१०", &["10"]; "devanagari digits")]
    #[test_case("−10", &["-10"]; "minus sign")]
    #[test_case("1\u{200b}0", &["10"]; "zero width")]
    #[test_case("$1,000", &["1000", "1"]; "dollars")]
    #[test_case("-$5", &["-5"]; "sign before currency")]
    #[test_case("€ -5", &["-5"]; "sign behind currency")]
    #[test_case("10 EUR", &["10"]; "currency code behind")]
    #[test_case("USD 10", &["10"]; "currency code before")]
    #[test_case("50%", &["50", "0.5"]; "percent")]
    #[test_case("9007199254740993", &["9007199254740993"]; "beyond doubles")]
    #[test_case("1,00,000", &["100000"]; "groups of two")]
    #[test_case("1.000", &["1"]; "a point alone is a decimal point")]
    #[test_case(".5", &["0.5"]; "point first")]
    #[test_case("5.", &["5"]; "point last")]
    fn is_read(text: &str, expected: &[&str]) {
        let expected: Vec<Decimal> = expected
            .iter()
            .map(|text| text.parse().expect("a number"))
            .collect();
        assert_eq!(numeral(text), Numeral::Read(expected));
    }

    #[test_case("NaN"; "nan")]
    #[test_case("-Infinity"; "infinity")]
    #[test_case("+inf"; "inf")]
    #[test_case("∞"; "sign of infinity")]
    #[test_case("$inf"; "infinitely many dollars")]
    #[test_case("NaN %"; "nan percent")]
    #[test_case("1e999"; "beyond doubles")]
    #[test_case("0xffffffffffffffffffffffffffffffffff"; "hexadecimal beyond 128 bits")]
    #[test_case("0x1p4"; "hexadecimal fraction")]
    #[test_case("0x-5"; "sign behind the base")]
    #[test_case("1k"; "thousand")]
    #[test_case("52M tokens"; "million")]
    #[test_case("3 million"; "million in a word")]
    #[test_case("--5"; "two signs")]
    #[test_case("5-"; "sign behind")]
    #[test_case("(100)"; "in brackets")]
    #[test_case("1__0"; "two separators")]
    #[test_case("1,00.00,0"; "mixed separators")]
    #[test_case("10*10"; "sum")]
    #[test_case("2026-01-01"; "date")]
    #[test_case("½ 5"; "fraction sign")]
    #[test_case("\"5\""; "quoted")]
    #[test_case("5%%"; "percent twice")]
    fn is_doubtful(text: &str) {
        assert_eq!(numeral(text), Numeral::Doubtful);
    }

    #[test_case(""; "empty")]
    #[test_case("ten"; "word")]
    #[test_case("abc123"; "letters first")]
    #[test_case("-"; "sign alone")]
    #[test_case("$"; "currency alone")]
    #[test_case("nancy"; "begins like nan")]
    #[test_case("USD"; "code alone")]
    #[test_case("true"; "literal")]
    fn is_none(text: &str) {
        assert_eq!(numeral(text), Numeral::None);
    }

    #[test]
    fn a_very_long_number_is_doubtful() {
        assert_eq!(numeral(&"1".repeat(5000)), Numeral::Doubtful);
        assert_eq!(numeral(&"a".repeat(5000)), Numeral::None);
    }

    #[test]
    fn codes_and_zeros_are_sorted() {
        assert!(is_code("AED") && is_code("ZAR") && !is_code("MIO"));
        for (c, expected) in [('٩', '9'), ('९', '9'), ('９', '9'), ('𑁯', '9')] {
            assert_eq!(digit(c), Some(expected));
        }
        assert_eq!(digit('\u{66a}'), None);
    }

    proptest! {
        #[test]
        fn whole_numbers_are_read(number in any::<i64>()) {
            prop_assert_eq!(numeral(&number.to_string()), Numeral::Read(vec![i128::from(number).into()]));
        }

        #[test]
        fn what_begins_with_a_digit_is_never_nothing(text in "[0-9][ -~]{0,12}") {
            prop_assert_ne!(numeral(&text), Numeral::None);
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            drop(numeral(&text));
        }
    }
}

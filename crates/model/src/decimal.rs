//! Decimal numbers of any size, compared exactly: nothing is rounded to what a double holds.

use std::{cmp::Ordering, fmt, str::FromStr};

/// A decimal number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    is_negative: bool,
    /// Significant digits, without zeros at either end; empty for zero.
    digits: Box<str>,
    /// The number is 0.DIGITS × 10^point; 0 for zero.
    point: i64,
}

/// The text is no decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a decimal number such as `10`, `-0.5` or `1e9`")]
pub struct ParseDecimalError;

/// Exponents are cut to this magnitude: what lies beyond is beyond every reader.
const FARTHEST: i64 = 1 << 40;
/// From 10 to the power of this on, readers differ, or read infinity.
const MAX_POWER: i64 = 308;
/// Most zeros with which a number is shown before it is shown with an exponent.
const MAX_ZEROS: i64 = 20;
/// Most digits that are shown.
const MAX_SHOWN: usize = 40;

impl Decimal {
    /// Returns the number as which a double is written; `None` if it is infinite or not a number.
    pub fn of_double(number: f64) -> Option<Self> {
        // It is written with the fewest digits that convert back to it: `0.1` is a tenth.
        number.is_finite().then(|| number.to_string().parse().ok())?
    }

    /// Returns whether a reader that holds doubles may take it for infinity.
    pub const fn is_beyond_doubles(&self) -> bool {
        self.point > MAX_POWER
    }

    /// Returns the number times ten to the power of `exponent`.
    #[must_use]
    pub fn scaled(mut self, exponent: i64) -> Self {
        if !self.digits.is_empty() {
            self.point = self.point.saturating_add(exponent);
        }
        self
    }

    /// Returns the number with the other sign.
    #[must_use]
    pub fn negated(mut self) -> Self {
        self.is_negative = !self.is_negative && !self.digits.is_empty();
        self
    }
}

impl From<i128> for Decimal {
    fn from(number: i128) -> Self {
        number
            .to_string()
            .parse()
            .expect("an integer is a decimal number")
    }
}

impl From<u128> for Decimal {
    fn from(number: u128) -> Self {
        number
            .to_string()
            .parse()
            .expect("an integer is a decimal number")
    }
}

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    /// Reads what JSON writes, and a `+` in front, zeros in front, and a point at either end.
    fn from_str(text: &str) -> Result<Self, ParseDecimalError> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, power(exponent)?),
            None => (text, 0),
        };
        let is_negative = mantissa.starts_with('-');
        let mantissa = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
            return Err(ParseDecimalError);
        }
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0');
        let zeros = length(&all) - length(significant);
        let significant = significant.trim_end_matches('0');
        if significant.is_empty() {
            return Ok(Self {
                is_negative: false,
                digits: Box::default(),
                point: 0,
            });
        }
        Ok(Self {
            is_negative,
            digits: significant.into(),
            point: length(whole) - zeros + exponent,
        })
    }
}

/// Parses the exponent after the `e`.
fn power(text: &str) -> Result<i64, ParseDecimalError> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseDecimalError);
    }
    let magnitude = digits.parse().unwrap_or(FARTHEST).min(FARTHEST);
    Ok(if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    })
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitude = || match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            // Without zeros at the end, digits compare as text.
            (false, false) => (self.point, &self.digits).cmp(&(other.point, &other.digits)),
        };
        match (self.is_negative, other.is_negative) {
            (false, false) => magnitude(),
            (true, true) => magnitude().reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    /// Writes the number plainly if that is short, else with an exponent; of very many digits only the first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        let count = length(&self.digits);
        if self.digits.is_empty() {
            return f.write_str("0");
        }
        if self.digits.len() <= MAX_SHOWN && (0..=count + MAX_ZEROS).contains(&self.point) {
            let point = usize::try_from(self.point).unwrap_or_default();
            if self.point >= count {
                return write!(
                    f,
                    "{sign}{}{}",
                    self.digits,
                    "0".repeat(point - self.digits.len())
                );
            }
            let (whole, fraction) = self.digits.split_at(point);
            let whole = if whole.is_empty() { "0" } else { whole };
            return write!(f, "{sign}{whole}.{fraction}");
        }
        let (first, rest) = self.digits.split_at(1);
        let shown = &rest[..rest.len().min(MAX_SHOWN)];
        let (point, more) = (
            if shown.is_empty() { "" } else { "." },
            if rest.len() > shown.len() { "…" } else { "" },
        );
        write!(f, "{sign}{first}{point}{shown}{more}e{}", self.point - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    fn read(text: &str) -> Decimal {
        text.parse().expect("a number")
    }

    #[test_case("0", "-0.000" => Ordering::Equal; "zero")]
    #[test_case("1e9", "1000000000" => Ordering::Equal; "exponent")]
    #[test_case("1e-2", "0.010" => Ordering::Equal; "negative exponent")]
    #[test_case("9007199254740993", "9007199254740992" => Ordering::Greater; "beyond the integers of doubles")]
    #[test_case("0.1", "0.10000000000000000001" => Ordering::Less; "beyond the fractions of doubles")]
    #[test_case("-5", "3" => Ordering::Less; "signs")]
    #[test_case("-5", "-3" => Ordering::Less; "below zero")]
    #[test_case("-3", "0" => Ordering::Less; "zero and below")]
    #[test_case("99", "100" => Ordering::Less; "lengths")]
    #[test_case("1e999999999999999999999", "1e400" => Ordering::Greater; "huge exponents")]
    #[test_case("+.5", "0.5" => Ordering::Equal; "nothing before the point")]
    fn compares(left: &str, right: &str) -> Ordering {
        read(left).cmp(&read(right))
    }

    #[test_case("" ; "empty")]
    #[test_case("." ; "point alone")]
    #[test_case("1e" ; "no exponent")]
    #[test_case("--1" ; "two signs")]
    #[test_case("1.2.3" ; "two points")]
    #[test_case("0x10" ; "hexadecimal")]
    #[test_case("١" ; "other digits")]
    fn refuses(text: &str) {
        assert_eq!(text.parse::<Decimal>(), Err(ParseDecimalError));
    }

    #[test_case("1000" => "1000"; "whole")]
    #[test_case("-0.050" => "-5e-2"; "small")]
    #[test_case("12.5" => "12.5"; "fraction")]
    #[test_case("0.5" => "0.5"; "below one")]
    #[test_case("1e300" => "1e300"; "large")]
    #[test_case("9007199254740993" => "9007199254740993"; "long")]
    fn shows(text: &str) -> String {
        read(text).to_string()
    }

    #[test]
    fn doubles_are_what_they_are_written_as() {
        assert_eq!(Decimal::of_double(0.1), Some(read("0.1")));
        assert_eq!(Decimal::of_double(1e300), Some(read("1e300")));
        assert_eq!(Decimal::of_double(f64::NAN), None);
        assert!(read("1e308").is_beyond_doubles() && !read("9e307").is_beyond_doubles());
    }

    proptest! {
        #[test]
        fn integers_compare_as_integers(left in any::<i128>(), right in any::<i128>()) {
            prop_assert_eq!(Decimal::from(left).cmp(&Decimal::from(right)), left.cmp(&right));
        }

        #[test]
        fn doubles_compare_as_doubles(left in -1e300..1e300_f64, right in -1e-300..1e300_f64) {
            let decimals = (Decimal::of_double(left), Decimal::of_double(right));
            prop_assert_eq!(decimals.0.cmp(&decimals.1), left.total_cmp(&right));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            drop(text.parse::<Decimal>());
        }
    }
}

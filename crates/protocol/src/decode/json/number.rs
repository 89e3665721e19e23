//! Numbers: their grammar, and whether a double holds them.

use super::{Defect, Malformed};

/// At and beyond this magnitude readers begin to differ; doubles end at 1.8 × this.
const LIMIT: f64 = 1e308;

/// A number with fewer bytes and no exponent is below [`LIMIT`].
const SHORT: usize = 300;

/// Reads the number that starts at `start`; its end.
pub(super) fn read(bytes: &[u8], start: usize) -> Result<usize, Malformed> {
    let invalid = |position| Malformed {
        position,
        defect: Defect::Number,
    };
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let digits = |mut at: usize| {
        while digit(at) {
            at += 1;
        }
        at
    };
    let mut at = start + usize::from(bytes[start] == b'-');
    if !digit(at) {
        return Err(invalid(at));
    }
    at = if bytes[at] == b'0' { at + 1 } else { digits(at) };
    if digit(at) {
        return Err(invalid(at));
    }
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        if !digit(at) {
            return Err(invalid(at));
        }
        at = digits(at);
    }
    let exponent = matches!(bytes.get(at), Some(b'e' | b'E'));
    if exponent {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if !digit(at) {
            return Err(invalid(at));
        }
        at = digits(at);
    }
    if (exponent || at - start >= SHORT) && !is_in_range(&bytes[start..at]) {
        return Err(Malformed {
            position: start,
            defect: Defect::Range,
        });
    }
    Ok(at)
}

fn is_in_range(number: &[u8]) -> bool {
    let text = str::from_utf8(number).expect("a number is ASCII");
    text.parse::<f64>().is_ok_and(|value| value.abs() < LIMIT)
}

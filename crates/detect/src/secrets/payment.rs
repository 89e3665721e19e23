//! Numbers of payment cards and bank accounts.

use mcpmon_model::Severity;

use super::{SecretHit, checks};
use crate::tables::{self, WordList};

/// Fewest digits of a card or an account.
pub(super) const MIN_DIGITS: usize = 12;

/// Finds the digits of a card, with single spaces or dashes between groups, and no digits, letters or points around
/// them.
pub(super) fn cards(text: &str, hits: &mut Vec<SecretHit>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(u8::is_ascii_digit))
    {
        let start = at + start;
        let mut digits = Vec::with_capacity(20);
        let (mut end, mut separator, mut groups) = (start, None, Vec::new());
        let mut group = 0;
        while let Some(&byte) = bytes.get(end) {
            if byte.is_ascii_digit() {
                if digits.len() < 20 {
                    digits.push(byte);
                }
                group += 1;
            } else if matches!(byte, b' ' | b'-')
                && bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
                && group <= 6
                && separator.is_none_or(|known| known == byte)
                && digits.len() < 19
            {
                separator = Some(byte);
                groups.push(group);
                group = 0;
            } else {
                break;
            }
            end += 1;
        }
        groups.push(group);
        let is_grouped = groups.len() == 1
            || groups[..groups.len() - 1]
                .iter()
                .all(|group| matches!(group, 4 | 6))
                && groups[0] == 4;
        let is_alone = !is_joined(bytes, start, end);
        if is_grouped && is_alone && checks::is_card(&digits) {
            // One number in ten has a valid check digit.
            let is_certain = groups.len() > 1 || is_called_card(&text[..start]);
            let is_certain = is_certain && !is_published(&digits);
            hits.push(SecretHit::new("credit_card", Severity::High, start..end).only_if(is_certain));
        }
        at = end.max(start + 1);
    }
}

/// Words before the number of a card, and their greatest distance.
static CARDS: WordList = tables::SECRETS.list("payment", "cards");
const NEAR: usize = 40;

fn is_called_card(before: &str) -> bool {
    let near = &before[before.ceil_char_boundary(before.len().saturating_sub(NEAR))..];
    let lower = near.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        CARDS
            .iter()
            .any(|card| word.starts_with(card) || word.ends_with("card"))
    })
}

/// Numbers that issuers and processors publish for tests, except those of few different digits.
static PUBLISHED: WordList = tables::SECRETS.list("payment", "published");
/// Most different digits of a number that was made for tests: `4111 1111 1111 1111`.
const FEW_DIGITS: u32 = 4;

/// Returns whether a number is a published one, with which nothing can be paid.
fn is_published(digits: &[u8]) -> bool {
    let kinds = digits
        .iter()
        .fold(0_u16, |kinds, digit| kinds | 1 << (digit - b'0'));
    kinds.count_ones() <= FEW_DIGITS || PUBLISHED.iter().any(|known| known.as_bytes() == digits)
}

fn is_joined(bytes: &[u8], start: usize, end: usize) -> bool {
    let joins = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'/' | b'-' | b'#');
    let before = start.checked_sub(1).and_then(|at| bytes.get(at));
    let is_decimal = before == Some(&b'.')
        || bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
    before.is_some_and(joins) || bytes.get(end).is_some_and(joins) || is_decimal
}

/// Finds account numbers, also in groups of four.
pub(super) fn accounts(text: &str, hits: &mut Vec<SecretHit>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&[a, b, c, d]) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let begins = a.is_ascii_uppercase()
            && b.is_ascii_uppercase()
            && c.is_ascii_digit()
            && d.is_ascii_digit()
            && (at == 0 || !bytes[at - 1].is_ascii_alphanumeric());
        if !begins {
            // The last of four characters shows how far the next ones are.
            at += match d {
                b'0'..=b'9' => 1,
                b'A'..=b'Z' => 2,
                _ => 4,
            };
            continue;
        }
        let mut compact = String::with_capacity(34);
        let mut end = at;
        while compact.len() < 34
            && let Some(&byte) = bytes.get(end)
        {
            if byte.is_ascii_uppercase() || byte.is_ascii_digit() {
                compact.push(char::from(byte));
            } else if byte != b' ' || !compact.len().is_multiple_of(4) {
                break;
            }
            end += 1;
            let ends = bytes.get(end).is_none_or(|next| !next.is_ascii_alphanumeric());
            if ends && byte != b' ' && checks::is_iban(&compact) {
                // An account number belongs into a transfer, not into an address.
                let word = text[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
                let severity = if word.contains("://") {
                    Severity::High
                } else {
                    Severity::Medium
                };
                hits.push(SecretHit::new("bank_account", severity, at..end));
                break;
            }
        }
        at = end.max(at + 4);
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("4111 1111 1111 1111" => 1; "groups")]
    #[test_case("pay with 4111-1111-1111-1111." => 1; "dashes")]
    #[test_case("4111111111111111" => 1; "in a row")]
    #[test_case("3782 822463 10005" => 1; "american express")]
    #[test_case("id_4111111111111111" => 0; "part of a name")]
    #[test_case("0.4111111111111111" => 0; "a fraction")]
    #[test_case("4111-11111111-1111" => 0; "grouped otherwise")]
    #[test_case("2024-11-21 10:00:00 1732183200000" => 0; "times")]
    fn numbers_of_cards(text: &str) -> usize {
        let mut hits = Vec::new();
        cards(text, &mut hits);
        hits.len()
    }

    #[test_case("4539 5787 6362 1486" => true; "somebody's")]
    #[test_case("4111 1111 1111 1111" => false; "of few digits")]
    #[test_case("5500-0000-0000-0004" => false; "of few digits and another issuer")]
    #[test_case("3782 822463 10005" => false; "of a list")]
    fn a_number_that_is_published_is_no_secret(text: &str) -> bool {
        let mut hits = Vec::new();
        cards(text, &mut hits);
        hits[0].certain
    }

    #[test_case("to GB82 WEST 1234 5698 7654 32, please" => 1; "groups")]
    #[test_case("DE89370400440532013000" => 1; "in a row")]
    #[test_case("DE89370400440532013001" => 0; "check digits")]
    #[test_case("XDE89370400440532013000" => 0; "part of a word")]
    fn numbers_of_accounts(text: &str) -> usize {
        let mut hits = Vec::new();
        accounts(text, &mut hits);
        hits.len()
    }
}

//! What a secret cannot do without, found in one pass; and what a text without any secret does not have.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{assignment, issued::ISSUED, payment, pem, shapes::SHAPES};
use crate::inspect::scan::literals::Literals;

/// What a literal opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Anchor {
    /// A secret of this row of the table.
    Issued(usize),
    /// A form of this number.
    Shape(usize),
    /// A key in armour.
    Armour,
    /// A key in PuTTY's format.
    Putty,
    /// An address.
    Address,
    /// A web token.
    WebToken,
    /// A bearer token.
    Bearer,
    /// Credentials in a header.
    Basic,
    /// Credentials for curl.
    Credentials,
    /// A name of a secret.
    Name,
    /// A phrase that a password follows.
    Phrase,
}

/// Options that take `user:secret`.
const CREDENTIALS: [&str; 5] = ["-u ", "-u\"", "--user", "--proxy-user", "_userpwd"];

/// Every literal, with what it opens.
struct Anchors {
    literals: Literals,
    opens: Vec<(usize, Vec<Anchor>)>,
}

static ANCHORS: LazyLock<Anchors> = LazyLock::new(|| {
    let mut opens: BTreeMap<String, Vec<Anchor>> = BTreeMap::new();
    let mut open = |literal: &str, anchor| opens.entry(literal.to_lowercase()).or_default().push(anchor);
    for (index, row) in ISSUED.iter().enumerate() {
        open(row.prefix, Anchor::Issued(index));
    }
    for (index, shape) in SHAPES.iter().enumerate() {
        shape
            .words
            .iter()
            .for_each(|word| open(word, Anchor::Shape(index)));
    }
    assignment::NAMES.iter().for_each(|name| open(name, Anchor::Name));
    assignment::PHRASES
        .iter()
        .for_each(|phrase| open(phrase, Anchor::Phrase));
    CREDENTIALS
        .iter()
        .for_each(|option| open(option, Anchor::Credentials));
    open(pem::ARMOUR, Anchor::Armour);
    open(pem::PUTTY, Anchor::Putty);
    open("://", Anchor::Address);
    open("eyj", Anchor::WebToken);
    open("bearer", Anchor::Bearer);
    open("basic", Anchor::Basic);
    let (texts, opens): (Vec<_>, Vec<_>) = opens.into_iter().unzip();
    // Built once, and kept for as long as the program runs.
    let texts: Vec<&'static str> = texts.into_iter().map(|text| &*text.leak()).collect();
    Anchors {
        opens: texts.iter().map(|text| text.len()).zip(opens).collect(),
        literals: Literals::new(texts),
    }
});

/// Where literals stand, ascending: start, end, what they open.
pub(super) fn find(text: &str) -> impl Iterator<Item = (usize, usize, &'static [Anchor])> {
    ANCHORS
        .literals
        .find(text.as_bytes())
        .into_iter()
        .map(|(start, literal)| {
            let (length, anchors) = &ANCHORS.opens[literal];
            (start, start + length, anchors.as_slice())
        })
}

/// Shortest run of letters and digits that can be a secret without a literal of its own, or hide one.
const RUN: usize = 20;

/// Whether a JSON text could hold a secret, hidden or not; much cheaper than looking for it.
pub(super) fn may_hold(json: &str) -> bool {
    let bytes = json.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits >= payment::FEWEST || has_run(bytes) || may_hide(bytes) || ANCHORS.literals.is_in(bytes)
}

/// Whether anything is escaped beyond what JSON needs for plain text, or spelled with other characters.
fn may_hide(bytes: &[u8]) -> bool {
    let is_escape = |at: usize| !matches!(bytes.get(at + 1), Some(b'n' | b't' | b'"' | b'\\' | b'/'));
    memchr::memchr_iter(b'\\', bytes).any(is_escape)
        || memchr::memchr2_iter(b'%', b'&', bytes).next().is_some()
        || memchr::memchr3(0xe2, 0xef, 0xf3, bytes).is_some()
        || memchr::memchr(0xc2, bytes).is_some()
}

/// Looks only at every [`RUN`]th byte until one can lie in a run.
fn has_run(bytes: &[u8]) -> bool {
    let mut start = 0;
    while let Some(window) = bytes.get(start..start + RUN) {
        match window.iter().rposition(|byte| !byte.is_ascii_alphanumeric()) {
            Some(gap) => start += gap + 1,
            None => return true,
        }
    }
    false
}

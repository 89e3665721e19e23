//! Anchors: literals of which every secret has at least one, found in one pass.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{assignment, issued::ISSUED, pem, shapes::SHAPES};
use crate::scan::literals::Literals;
use crate::tables::{self, WordList};

/// The kind of secret at a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Anchor {
    /// A secret of this row of the table.
    Issued(usize),
    /// A form of this number.
    Shape(usize),
    /// A key in ASCII armour.
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
    /// A phrase before a password.
    Phrase,
}

/// Options that take `user:secret`.
static CREDENTIALS: WordList = tables::SECRETS.list("anchors", "credentials");

/// All literals, with the kinds of secrets at them.
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
    let (texts, opens): (Vec<String>, Vec<_>) = opens.into_iter().unzip();
    Anchors {
        literals: Literals::new(&texts),
        opens: texts.iter().map(String::len).zip(opens).collect(),
    }
});

/// Returns the positions of literals, ascending: start, end, and the kinds of secrets there.
pub(super) fn find(text: &str) -> impl ExactSizeIterator<Item = (usize, usize, &'static [Anchor])> {
    let found = ANCHORS.literals.find(text.as_bytes());
    found.into_iter().map(|(start, literal)| {
        let (length, anchors) = &ANCHORS.opens[literal];
        (start, start + length, anchors.as_slice())
    })
}

/// Returns whether any literal occurs in a text.
pub(super) fn is_in(text: &str) -> bool {
    ANCHORS.literals.is_in(text.as_bytes())
}

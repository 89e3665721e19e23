//! Secrets in text that people, tools and models wrote: prompts, files, output of commands.

use super::{code, found::placeholder, layers, makeup, text};
use crate::model::{Redaction, Severity};

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disclosure {
    /// What it is: the name of a pattern.
    pub kind: &'static str,
    /// How bad it is that it is there.
    pub severity: Severity,
    /// What takes it out of the text.
    pub redaction: Redaction,
}

/// The secrets in `text`, in their order, none overlapping another. What only looks random is none of them: lock
/// files, hashes, ids and images do too. What code has where a secret would stand is none either.
#[must_use]
pub fn in_text(text: &str) -> Vec<Disclosure> {
    if !makeup::may_hold(text) {
        return Vec::new();
    }
    let known = text::hits(text).into_iter();
    let known = known.filter(|hit| match hit.kind {
        "high_entropy" | "base64_blob" => false,
        "generic_secret" => {
            let value = layers::unescape(&text[hit.span.clone()]);
            // No secret that has a name has words: an address writes them with escapes.
            !code::is_expression(&value) && !value.contains(' ')
        }
        _ => true,
    });
    known
        .map(|hit| Disclosure {
            kind: hit.kind,
            severity: hit.severity,
            redaction: Redaction {
                text: placeholder(hit.kind),
                place: hit.span,
            },
        })
        .collect()
}

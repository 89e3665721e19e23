//! Secrets in text that people, tools and models wrote: prompts, files, output of commands.

use super::{found::placeholder, layers, makeup, text};
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
        "generic_secret" => !is_code(&layers::unescape(&text[hit.span.clone()])),
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

/// Whether a value is an expression, or a form that is filled in.
fn is_code(value: &str) -> bool {
    let is_name = |name: &str| {
        let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
        name.starts_with(is_start)
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_path = |between: &str| value.contains(between) && value.split(between).all(is_name);
    let is_form = |(at, _): (usize, &str)| {
        let next = value.as_bytes().get(at + 1);
        next.is_some_and(|next| matches!(next, b's' | b'd' | b'0'))
    };
    is_path(".")
        || is_path("::")
        || value.strip_prefix(['!', '&', '*']).is_some_and(is_name)
        || value.match_indices('%').any(is_form)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::is_code;

    #[test_case("win32api.RegEnumKey" => true; "a path")]
    #[test_case("Self::key_of" => true; "another path")]
    #[test_case("!is_final" => true; "an expression")]
    #[test_case("%s:%s" => true; "a form")]
    #[test_case("hunter2" => false; "one word")]
    #[test_case("q7.9Lx" => false; "a dot in a secret")]
    #[test_case("!x9-" => false; "a sign in a secret")]
    #[test_case("a%zb1" => false; "a percent sign in a secret")]
    fn values(value: &str) -> bool {
        is_code(value)
    }
}

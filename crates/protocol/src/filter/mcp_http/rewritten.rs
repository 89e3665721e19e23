//! Headers that repeat arguments which have become others.

use super::{
    annotations::Annotation,
    head::{Head, PARAM, at, header_value, last, says},
    value::decode,
};
use crate::decode::json::{LoneSurrogate, MAX_DEPTH, Scanner, Value, ValueKind, canonical};

impl Head<'_> {
    /// Returns all headers with arguments, if one of them has another value in the body `after` than in `before`; none
    /// if all stay.
    pub(super) fn rewritten(
        &self,
        before: &[u8],
        after: &str,
        known: &[Annotation],
    ) -> Vec<(String, String)> {
        if self.params().is_empty() {
            return Vec::new();
        }
        let mut scanner = Scanner::new(MAX_DEPTH);
        let Ok(scan) = scanner.scan(before, LoneSurrogate::Refuse) else {
            return Vec::new();
        };
        let before = canonical(scan.document);
        let (mut old, mut new) = (Scanner::new(MAX_DEPTH), Scanner::new(MAX_DEPTH));
        let old = old.scan(before.as_bytes(), LoneSurrogate::Refuse);
        let new = new.scan(after.as_bytes(), LoneSurrogate::Refuse);
        let (Ok(old), Ok(new)) = (old, new) else {
            return Vec::new();
        };
        let (old, new) = (old.document.root(), new.document.root());
        match (last(old, "params"), last(new, "params")) {
            (Some(old), Some(new)) => self.anew(old, new, known),
            (Some(_) | None, _) => Vec::new(),
        }
    }

    /// Returns the same for two versions of a message's parameters.
    fn anew(&self, old: Value<'_>, new: Value<'_>, known: &[Annotation]) -> Vec<(String, String)> {
        let arguments = last(new, "arguments");
        let mut is_other = false;
        let mut headers = Vec::new();
        for (name, value) in self.params() {
            let said = decode(value);
            let annotation = known
                .iter()
                .find(|known| name.eq_ignore_ascii_case(&known.header));
            let now = match (annotation, said) {
                (Some(annotation), said) => arguments
                    .and_then(|arguments| at(arguments, &annotation.path))
                    .filter(|argument| !said.is_some_and(|said| says(&said, *argument)))
                    .and_then(header_value),
                // No list says which argument it repeats, so it is the one that had the same value before, and has
                // another one now.
                (None, Some(said)) => counterpart(old, new, &said),
                (None, None) => None,
            };
            let was = String::from_utf8_lossy(value).into_owned();
            is_other |= now.is_some();
            headers.push((format!("{PARAM}{name}"), now.unwrap_or(was)));
        }
        if is_other { headers } else { Vec::new() }
    }
}

/// Returns the new value of an argument whose old value was `text`: the first one that differs now.
fn counterpart(old: Value<'_>, new: Value<'_>, text: &str) -> Option<String> {
    let both = |old: Value<'_>, new: Value<'_>| counterpart(old, new, text);
    match old.kind() {
        ValueKind::Object => old
            .members()
            .zip(new.members())
            .find_map(|(old, new)| both(old.value, new.value)),
        ValueKind::Array => old.items().zip(new.items()).find_map(|(old, new)| both(old, new)),
        ValueKind::Null | ValueKind::Boolean | ValueKind::Number | ValueKind::String => {
            let is_other = old.text() != new.text() && says(text, old);
            is_other.then(|| header_value(new)).flatten()
        }
    }
}

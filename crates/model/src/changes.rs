//! Differences between two versions of a definition, field by field.

use std::borrow::Cow;

use super::{Definition, Digest, FieldChange, RawJson, canonical::MAX_DEPTH};

/// Most changes that are reported.
const MAX_CHANGES: usize = 50;
/// Longest text in a change, characters.
const MAX_TEXT: usize = 1000;
/// Longest path, bytes; a deeper field is reported as a part of the field above it.
const MAX_PATH: usize = 400;

/// The value that a missing field is compared as.
const NOTHING: RawJson<'_> = RawJson::trusted("");

impl Definition {
    /// Returns the fields in which `new` differs: at most 50, each with at most 1,000 characters of its old and new
    /// value.
    pub fn changes(&self, new: &Self) -> Vec<FieldChange> {
        let mut changes = Vec::new();
        compare(
            &mut String::new(),
            self.json(),
            new.json(),
            MAX_DEPTH,
            &mut changes,
        );
        changes
    }

    /// Returns the digest of the definition without its top-level member `name`; `None` if it has no other member.
    pub fn digest_apart_from(&self, name: &str) -> Option<Digest> {
        let mut others = String::with_capacity(self.canonical.len());
        for (member, value) in self.json().members().filter(|(member, _)| member != name) {
            // Neither an escaped name nor a canonical value contains a line break.
            others.extend([one_line(&member).as_str(), ":", value.as_str(), "\n"]);
        }
        (!others.is_empty()).then(|| Digest::of(others.as_bytes()))
    }

    /// Returns the text of the top-level member `name`; `None` if there is none, or it is no string.
    pub fn text_of(&self, name: &str) -> Option<Cow<'_, str>> {
        let (_, value) = self.json().members().find(|(member, _)| member == name)?;
        value.text()
    }

    fn json(&self) -> RawJson<'_> {
        RawJson::trusted(&self.canonical)
    }
}

/// Compares two canonical texts: equal values have equal texts, and members have the same order.
fn compare(
    path: &mut String,
    previous: RawJson<'_>,
    new: RawJson<'_>,
    depth: usize,
    changes: &mut Vec<FieldChange>,
) {
    if previous == new || changes.len() >= MAX_CHANGES {
        return;
    }
    let first = |json: RawJson<'_>| json.as_str().bytes().next();
    match (first(previous), first(new)) {
        (Some(b'{'), Some(b'{')) if depth > 0 && path.len() < MAX_PATH => {
            compare_members(path, previous, new, depth - 1, changes);
        }
        (Some(b'['), Some(b'[')) if depth > 0 && path.len() < MAX_PATH => {
            compare_items(path, previous, new, depth - 1, changes);
        }
        _ => changes.push(FieldChange {
            field: path.clone(),
            previous: told(previous),
            new: told(new),
        }),
    }
}

fn compare_members(
    path: &mut String,
    previous: RawJson<'_>,
    new: RawJson<'_>,
    depth: usize,
    changes: &mut Vec<FieldChange>,
) {
    let mut before = previous.members().peekable();
    let mut after = new.members().peekable();
    loop {
        // Both sides are sorted, so the smaller name is missing on the other side.
        let order = match (before.peek(), after.peek()) {
            (Some((one, _)), Some((other, _))) => one.encode_utf16().cmp(other.encode_utf16()),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return,
        };
        let old = order.is_le().then(|| before.next()).flatten();
        let now = order.is_ge().then(|| after.next()).flatten();
        let Some(name) = old.as_ref().or(now.as_ref()).map(|(name, _)| name.clone()) else {
            return;
        };
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(cut(&name, MAX_PATH));
        let old = old.map_or(NOTHING, |(_, value)| value);
        let now = now.map_or(NOTHING, |(_, value)| value);
        compare(path, old, now, depth, changes);
        path.truncate(length);
    }
}

fn compare_items(
    path: &mut String,
    previous: RawJson<'_>,
    new: RawJson<'_>,
    depth: usize,
    changes: &mut Vec<FieldChange>,
) {
    let (mut before, mut after) = (previous.items(), new.items());
    for index in 0.. {
        let (old, now) = (before.next(), after.next());
        if old.is_none() && now.is_none() {
            return;
        }
        let length = path.len();
        path.push_str(&format!("[{index}]"));
        compare(
            path,
            old.unwrap_or(NOTHING),
            now.unwrap_or(NOTHING),
            depth,
            changes,
        );
        path.truncate(length);
    }
}

/// Returns the value of a string, or any other value as JSON.
fn told(canonical: RawJson<'_>) -> String {
    let text = canonical.text().unwrap_or(Cow::Borrowed(canonical.as_str()));
    text.chars().take(MAX_TEXT).collect()
}

/// Escapes a name, so that it cannot be taken for the end of another member.
fn one_line(name: &str) -> String {
    name.escape_default().collect()
}

/// Returns at most the first `most` bytes of `text`, ending at a character boundary.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::RawJson;

    fn of(text: &str) -> Definition {
        Definition::of(RawJson::trusted(text))
    }

    fn changes(previous: &str, new: &str) -> Vec<(String, String, String)> {
        of(previous)
            .changes(&of(new))
            .into_iter()
            .map(|change| (change.field, change.previous, change.new))
            .collect()
    }

    fn change(field: &str, previous: &str, new: &str) -> (String, String, String) {
        (field.to_owned(), previous.to_owned(), new.to_owned())
    }

    #[test_case(r#"{"a":1,"b":2}"#, r#"{"b":2.0,"a":1}"# => Vec::<(String, String, String)>::new(); "written otherwise")]
    #[test_case(r#"{"description":"a\nb"}"#, r#"{"description":"a\nb and c"}"#
        => vec![change("description", "a\nb", "a\nb and c")]; "text")]
    #[test_case(r#"{"s":{"p":{"x":{"type":"string"}}}}"#, r#"{"s":{"p":{"x":{"type":"integer"},"y":{}}}}"#
        => vec![change("s.p.x.type", "string", "integer"), change("s.p.y", "", "{}")]; "nested")]
    #[test_case(r#"{"a":[1,{"b":2}]}"#, r#"{"a":[1,{"b":3},4]}"#
        => vec![change("a[1].b", "2", "3"), change("a[2]", "", "4")]; "list")]
    #[test_case(r#"{"a":1,"z":1}"#, r#"{"m":1,"z":1}"# => vec![change("a", "1", ""), change("m", "", "1")]; "gone and new")]
    #[test_case(r#"{"a":[]}"#, r#"{"a":{}}"# => vec![change("a", "[]", "{}")]; "other kind")]
    #[test_case(r#""old""#, r#""new""# => vec![change("", "old", "new")]; "instructions")]
    fn fields_that_differ_are_told(previous: &str, new: &str) -> Vec<(String, String, String)> {
        changes(previous, new)
    }

    #[test]
    fn what_is_told_is_bounded() {
        let list = |count: usize, text: &str| {
            let members: Vec<String> = (0..count).map(|n| format!("\"{n:03}\":\"{text}\"")).collect();
            format!("{{{}}}", members.join(","))
        };
        let many = changes(&list(100, "a"), &list(100, &"é".repeat(2000)));
        assert_eq!(many.len(), MAX_CHANGES);
        assert!(many.iter().all(|(_, _, new)| new.chars().count() == MAX_TEXT));
        let long = format!("{{\"{0}\":{{\"{0}\":1}}}}", "é".repeat(1000));
        let (field, _, _) = changes("{}", &long).remove(0);
        assert!(field.len() <= MAX_PATH, "{}", field.len());
        let deep = |end: &str| format!("{}{end}{}", "{\"a\":".repeat(200), "}".repeat(200));
        assert_eq!(changes(&deep("1"), &deep("2")).len(), 1);
    }

    #[test_case(r#"{"name":"a","x":1}"#, r#"{"name":"b","x":1}"# => true)]
    #[test_case(r#"{"name":"a","x":1}"#, r#"{"name":"b","x":2}"# => false)]
    #[test_case(r#"{"name":"a"}"#, r#"{"name":"b"}"# => false; "nothing but a name says nothing")]
    fn sameness_apart_from_a_name(one: &str, other: &str) -> bool {
        let apart = |text| of(text).digest_apart_from("name");
        apart(one).is_some() && apart(one) == apart(other)
    }

    #[test_case(r#"{"description":"a\tb"}"# => Some("a\tb".to_owned()))]
    #[test_case(r#"{"description":1}"# => None; "no string")]
    #[test_case(r#"{"x":{"description":"a"}}"# => None; "not at the top")]
    fn texts_of_members(text: &str) -> Option<String> {
        of(text).text_of("description").map(Cow::into_owned)
    }
}

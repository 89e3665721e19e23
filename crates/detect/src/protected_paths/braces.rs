//! Expansion of texts with `{a,b}` in them.

use std::ops::Range;

use mcpmon_model::MAX_PATH;

/// Most combinations of one text.
const MAX_COMBINED: usize = 16;
/// Most bytes of all expanded texts of one call, each with the overhead of reading it.
const MAX_BYTES: usize = 16 << 20;
const READING: usize = 64;

/// The remaining room for the expanded texts of one call.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
    is_cut: bool,
}

impl Room {
    /// Returns the room for one call.
    pub(super) const fn new() -> Self {
        Self {
            left: MAX_BYTES,
            is_cut: false,
        }
    }

    /// Returns whether there was not enough room.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the texts that a text with lists in braces expands to; none if it has no list. If there are too many
    /// combinations, each item is used once, with a wildcard for every other list: a file that is named among many is
    /// still named.
    pub(super) fn expanded(&mut self, text: &str) -> Vec<String> {
        let lists = lists(text);
        if lists.is_empty() {
            return Vec::new();
        }
        combined(text).unwrap_or_else(|| self.one_by_one(text, &lists))
    }

    /// Returns each item with a wildcard for the other lists, if the result can be a path; that of a JSON object
    /// cannot.
    fn one_by_one(&mut self, text: &str, lists: &[BraceList]) -> Vec<String> {
        let whole = wild(text, lists);
        let mut found = Vec::new();
        // The position of the list's wildcard in `whole`.
        let (mut at, mut done) = (0, 0);
        for list in lists {
            at += list.place.start - done;
            for item in &list.items {
                let item = &text[item.clone()];
                let item = wild(item, &self::lists(item));
                let length = whole.len() + item.len();
                let one = (length <= MAX_PATH).then(|| [&whole[..at], &item, &whole[at + 1..]].concat());
                let Some(one) = one.filter(|one| !one.trim_matches(['"', ' ']).contains('"')) else {
                    continue;
                };
                let Some(left) = self.left.checked_sub(length + READING) else {
                    self.is_cut = true;
                    return found;
                };
                self.left = left;
                found.push(one);
            }
            at += 1;
            done = list.place.end;
        }
        found
    }
}

/// Returns all combinations, the last items first; `None` if there are too many.
fn combined(text: &str) -> Option<Vec<String>> {
    let mut open = vec![text.to_owned()];
    let mut done = Vec::new();
    while let Some(text) = open.pop() {
        let Some(list) = lists(&text).into_iter().next() else {
            done.push(text);
            continue;
        };
        if done.len() + open.len() + list.items.len() > MAX_COMBINED {
            return None;
        }
        let (before, after) = (&text[..list.place.start], &text[list.place.end..]);
        let items = list.items.into_iter();
        open.extend(items.map(|item| format!("{before}{}{after}", &text[item])));
    }
    Some(done)
}

/// Returns a text with a wildcard for each of its lists.
fn wild(text: &str, lists: &[BraceList]) -> String {
    let mut wild = String::with_capacity(text.len());
    let mut done = 0;
    for BraceList { place, .. } in lists {
        wild.push_str(&text[done..place.start]);
        wild.push('*');
        done = place.end;
    }
    wild.push_str(&text[done..]);
    wild
}

/// A list in braces.
#[derive(Debug)]
struct BraceList {
    /// The range, with the braces.
    place: Range<usize>,
    items: Vec<Range<usize>>,
}

/// Returns the outermost lists of a text, in order. `${a,b}` is no list, and neither are braces without a comma.
fn lists(text: &str) -> Vec<BraceList> {
    let bytes = text.as_bytes();
    let mut open: Vec<Open> = Vec::new();
    let mut found: Vec<BraceList> = Vec::new();
    let marks = memchr::memchr3_iter(b'{', b',', b'}', bytes);
    for at in marks {
        match (bytes[at], open.last_mut()) {
            (b'{', _) => open.push(Open {
                at,
                is_variable: text[..at].ends_with('$'),
                commas: Vec::new(),
            }),
            (b',', Some(last)) => last.commas.push(at),
            (b',', None) => {}
            _ => {
                if let Some(list) = open.pop().and_then(|open| open.list(at)) {
                    while found
                        .last()
                        .is_some_and(|inner| inner.place.start > list.place.start)
                    {
                        found.pop();
                    }
                    found.push(list);
                }
            }
        }
    }
    found
}

/// A brace that was opened.
struct Open {
    at: usize,
    /// True if it belongs to a variable.
    is_variable: bool,
    commas: Vec<usize>,
}

impl Open {
    /// Returns the list that ends with the brace at `end`, if it is one.
    fn list(self, end: usize) -> Option<BraceList> {
        if self.is_variable || self.commas.is_empty() {
            return None;
        }
        let starts = std::iter::once(&self.at).chain(&self.commas).map(|at| at + 1);
        let ends = self.commas.iter().copied().chain([end]);
        Some(BraceList {
            place: self.at..end + 1,
            items: starts.zip(ends).map(|(start, end)| start..end).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("a/b", &[]; "none")]
    #[test_case("a/{b,c}", &["a/c", "a/b"]; "one list")]
    #[test_case("{a,b}{c,d}", &["bd", "bc", "ad", "ac"]; "two lists")]
    #[test_case("a{b,{c,d}e}", &["ade", "ace", "ab"]; "a list in a list")]
    #[test_case("{x:{a,b}}", &["{x:b}", "{x:a}"]; "braces without a comma")]
    #[test_case("${a,b}{c}{", &[]; "no lists")]
    #[test_case("{a,b", &[]; "never closed")]
    #[test_case("}{a,b}", &["}b", "}a"]; "never opened")]
    #[test_case("{1,2,3,4,5,6}/{1,2,3,{4,5}}", &["1/*", "2/*", "3/*", "4/*", "5/*", "6/*", "*/1", "*/2", "*/3", "*/*"]; "too many combinations")]
    fn lists_are_expanded(text: &str, expected: &[&str]) {
        assert_eq!(Room::new().expanded(text), expected);
    }

    #[test]
    fn any_item_among_many_is_read() {
        let expanded = |text: &str| Room::new().expanded(text);
        let many = format!("rm {{{}~/.bashrc}}", "x,".repeat(1000));
        assert_eq!(expanded(&many).pop().as_deref(), Some("rm ~/.bashrc"));
        assert_eq!(expanded(&"{".repeat(10_000)), [""; 0]);
        assert!(expanded(&"{a,b}".repeat(1000)).len() <= 2000);
        let quoted = format!("{{{}\"~/.bashrc\"}}", "x,".repeat(1000));
        assert_eq!(expanded(&quoted).pop().as_deref(), Some("\"~/.bashrc\""));
        let object = format!("{{{}\"last\":0}}", "\"member\":1,".repeat(100));
        assert_eq!(expanded(&object), [""; 0]);
        let long = format!("{}{{{}}}", "x".repeat(MAX_PATH), "x,".repeat(1000));
        assert_eq!(expanded(&long), [""; 0], "none of them is a path");
    }

    #[test]
    fn there_is_room_for_so_many() {
        let text = format!("{}{{{}}}", "x".repeat(1 << 10), "x,".repeat(1 << 10));
        let mut room = Room::new();
        for _ in 0..8 {
            assert_eq!(room.expanded(&text).len(), 1 + (1 << 10));
        }
        assert!(!room.is_cut());
        for _ in 0..8 {
            drop(room.expanded(&text));
        }
        assert!(room.is_cut());
    }
}

//! Every string of a JSON text, keys too, and every number and literal, with its path. Iterative, without building
//! values.

use std::{borrow::Cow, cell::RefCell, fmt::Write as _, ops::Range};

use mcpmon_model::{
    Digest, RawJson,
    json::{Escape, quote_or_escape, unescape_into},
};

/// Longest shown path, and longest shown name in it, bytes.
const SHOWN: usize = 1000;
const SHOWN_NAME: usize = 200;

/// The role of a string in its JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The name of a member.
    Key,
    /// A value, or an item of a list.
    Value,
}

/// A value without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// A string, unescaped.
    String(Part),
    /// A number, `true`, `false` or `null`, as it is written.
    Literal,
}

/// The path of a string in a JSON text.
#[derive(Debug, Default)]
pub(super) struct Path<'a> {
    steps: Vec<Step<'a>>,
    /// Digests of the enclosing paths, as far as they were needed.
    around: RefCell<Vec<Digest>>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step<'a> {
    /// Into a member of an object.
    Member(Cow<'a, str>),
    /// Into an item of a list.
    Item(usize),
}

/// Returns a path in the form of findings: `inputSchema.properties.path.description`, `content[0].text`; empty at the
/// root. Long names and long paths are cut: there may be many findings below a name of any length.
pub(super) fn shown(steps: &[Step<'_>]) -> String {
    let mut shown = String::new();
    for step in steps {
        if shown.len() > SHOWN {
            shown.push('…');
            break;
        }
        match step {
            Step::Member(name) => {
                if !shown.is_empty() {
                    shown.push('.');
                }
                let cut = &name[..name.floor_char_boundary(SHOWN_NAME)];
                shown.push_str(cut);
                if cut.len() < name.len() {
                    shown.push('…');
                }
            }
            Step::Item(index) => {
                write!(shown, "[{index}]").expect("a string takes any text");
            }
        }
    }
    shown
}

impl Step<'_> {
    /// Returns the digest of the path that this step makes of the path with the digest `way`.
    fn after(&self, way: Digest) -> Digest {
        let (kind, index);
        let step = match self {
            Step::Member(name) => {
                kind = b'.';
                name.as_bytes()
            }
            Step::Item(number) => {
                kind = b'[';
                index = number.to_le_bytes();
                &index
            }
        };
        Digest::of(&[way.as_bytes(), &[kind][..], step].concat())
    }
}

impl<'a> Path<'a> {
    /// Returns the path in the form of findings; see [`shown`].
    pub(super) fn shown(&self) -> String {
        shown(&self.steps)
    }

    /// Returns a digest that no other path has, however long its names are. Values share the digest of their enclosing
    /// path, so that a long name is not read for each value below it.
    pub(super) fn digest(&self) -> Digest {
        let root = || Digest::of(b"");
        let Some((last, outer)) = self.steps.split_last() else {
            return root();
        };
        let mut around = self.around.borrow_mut();
        for step in &outer[around.len()..] {
            let way = around.last().copied().unwrap_or_else(root);
            around.push(step.after(way));
        }
        last.after(around.last().copied().unwrap_or_else(root))
    }

    fn pop(&mut self) {
        self.steps.pop();
        // The next value below the present last step may have another path.
        self.around.get_mut().truncate(self.steps.len().saturating_sub(1));
    }

    /// Returns the steps of the path, outermost first.
    pub(super) fn steps(&self) -> &[Step<'a>] {
        &self.steps
    }

    /// Returns the names of the members on the path, outermost first.
    pub(super) fn members(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            Step::Member(name) => Some(name.as_ref()),
            Step::Item(_) => None,
        })
    }
}

/// Calls `visit` with every string, in the order of the text.
///
/// The text is trusted to be valid; an invalid text ends the walk early.
pub(super) fn strings<'a>(json: RawJson<'a>, mut visit: impl FnMut(&Path<'a>, Part, Cow<'a, str>)) {
    scalars(json, |path, scalar, text, _| match scalar {
        Scalar::String(part) => visit(path, part, text),
        Scalar::Literal => {}
    });
}

/// Calls `visit` with every string, number and literal and its range, that of a string without its quotes, in the order
/// of the text; see [`strings`].
pub(super) fn scalars<'a>(
    json: RawJson<'a>,
    mut visit: impl FnMut(&Path<'a>, Scalar, Cow<'a, str>, Range<usize>),
) {
    let text = json.as_str();
    let bytes = text.as_bytes();
    let mut path = Path::default();
    let mut expects_key = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let from = at + 1;
                let Some((string, end)) = string_at(text, from) else {
                    return;
                };
                let place = from..end;
                at = end;
                if expects_key && let Some(Step::Member(name)) = path.steps.last_mut() {
                    name.clone_from(&string);
                    expects_key = false;
                    visit(&path, Scalar::String(Part::Key), string, place);
                } else {
                    visit(&path, Scalar::String(Part::Value), string, place);
                }
            }
            b'{' => {
                path.steps.push(Step::Member(Cow::Borrowed("")));
                expects_key = true;
            }
            b'[' => {
                path.steps.push(Step::Item(0));
                expects_key = false;
            }
            b'}' | b']' => {
                path.pop();
                expects_key = false;
            }
            b',' => match path.steps.last_mut() {
                Some(Step::Item(index)) => *index += 1,
                Some(Step::Member(_)) => expects_key = true,
                None => return,
            },
            b':' | b' ' | b'\n' | b'\t' | b'\r' => {}
            _ => {
                let end = literal_end(bytes, at);
                visit(&path, Scalar::Literal, Cow::Borrowed(&text[at..end]), at..end);
                at = end;
                continue;
            }
        }
        at += 1;
    }
}

/// Returns the end of a number or literal that begins at `from`.
fn literal_end(bytes: &[u8], from: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\t' | b'\r' | b'"');
    let length = bytes[from..].iter().position(ends);
    length.map_or(bytes.len(), |length| from + length.max(1))
}

/// Returns the string whose contents begin at `from`, unescaped, and the position of its closing quote; a lone
/// surrogate becomes U+FFFD.
fn string_at(text: &str, from: usize) -> Option<(Cow<'_, str>, usize)> {
    let bytes = text.as_bytes();
    let mut at = quote_or_escape(bytes, from)?;
    if bytes[at] == b'"' {
        return Some((Cow::Borrowed(&text[from..at]), at));
    }
    let mut string = String::with_capacity(at - from + FIRST.min(bytes.len() - at));
    let mut done = from;
    while bytes[at] != b'"' {
        string.push_str(&text[done..at]);
        done = unescape_into(bytes, at, &mut string);
        at = quote_or_escape(bytes, done)?;
    }
    string.push_str(&text[done..at]);
    // Many short strings may be kept.
    if string.capacity() > 2 * string.len() {
        string.shrink_to_fit();
    }
    Some((Cow::Owned(string), at))
}

/// Bytes that are reserved for an unescaped string after its first escape.
const FIRST: usize = 1 << 12;

/// Returns the range, inside a JSON string, of the part that its text has at `span`.
pub(super) fn written(raw: &str, span: &Range<usize>) -> Range<usize> {
    if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        return span.clone();
    }
    let (mut at, mut read) = (0, 0);
    let mut start = None;
    while let Some(c) = raw[at..].chars().next() {
        if read >= span.start {
            start.get_or_insert(at);
        }
        if read >= span.end {
            break;
        }
        let (says, end) = match Escape::read(raw.as_bytes(), at).filter(|_| c == '\\') {
            Some(escape) => (escape.meant().len_utf8(), escape.end),
            None if c == '\\' => (0, at + 1),
            None => (c.len_utf8(), at + c.len_utf8()),
        };
        read += says;
        at = end;
    }
    start.unwrap_or(at)..at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    fn walked(json: &str) -> Vec<String> {
        let mut seen = Vec::new();
        strings(RawJson::trusted(json), |path, part, text| {
            let mark = if part == Part::Key { "key " } else { "" };
            seen.push(format!("{mark}{}={text}", path.shown()));
        });
        seen
    }

    #[test_case(r#""alone""#, &["=alone"]; "a string is its own root")]
    #[test_case(r#"{"a":{"b":["x",1,{"c":"y"}]},"d":"z"}"#, &["key a=a", "key a.b=b", "a.b[0]=x", "key a.b[2].c=c", "a.b[2].c=y", "key d=d", "d=z"]; "paths of members and items")]
    #[test_case(r#"[[], ["x"], {}, "y"]"#, &["[1][0]=x", "[3]=y"]; "empty lists and objects")]
    #[test_case(r#"["a\n\"\\\/\u0041\ud83d\ude00"]"#, &["[0]=a\n\"\\/A😀"]; "escapes")]
    #[test_case(r#"["\ud83dx","\udc00"]"#, &["[0]=\u{fffd}x", "[1]=\u{fffd}"]; "lone surrogates")]
    #[test_case("{\"a\":\"never ends", &["key a=a"]; "what is cut off ends the walk")]
    #[test_case(r#"{"a" : true , "b" : null , "c" : "x"}"#, &["key a=a", "key b=b", "key c=c", "c=x"]; "spaces and literals")]
    fn strings_have_their_paths(json: &str, expected: &[&str]) {
        assert_eq!(walked(json), expected);
    }

    #[test]
    fn numbers_and_literals_are_as_they_are_written() {
        let mut seen = Vec::new();
        scalars(
            RawJson::trusted(r#"{"a": 1e9 ,"b":[true,-0.5],"c":{"d":null}}"#),
            |path, scalar, text, place| {
                assert!(place.end > place.start);
                if scalar == Scalar::Literal {
                    seen.push(format!("{}={text}", path.shown()));
                }
            },
        );
        assert_eq!(seen, ["a=1e9", "b[0]=true", "b[1]=-0.5", "c.d=null"]);
    }

    #[test]
    fn long_ways_are_shown_cut() {
        let long = "ä".repeat(SHOWN);
        let json = format!(r#"{{"{long}":["x"]}}"#);
        let shown = walked(&json).pop().expect("a value");
        assert!(
            shown.ends_with("…[0]=x") && shown.len() < 2 * SHOWN_NAME,
            "{shown}"
        );
        let deep = format!("{}\"x\"{}", "[".repeat(SHOWN), "]".repeat(SHOWN));
        let shown = walked(&deep).pop().expect("a value");
        assert!(shown.ends_with("[0]…=x") && shown.len() < 2 * SHOWN, "{shown}");
    }

    #[test]
    fn every_way_has_a_digest_of_its_own() {
        let json = r#"{"a":{"b":"","c":["","",{"b":""}]},"a.b":"","c":[["",""],{"a":{"b":""}}]}"#;
        let mut digests = std::collections::BTreeMap::new();
        strings(RawJson::trusted(json), |path, part, _| {
            if part == Part::Value {
                let fresh = Path {
                    steps: path.steps().to_vec(),
                    ..Path::default()
                };
                assert_eq!(path.digest(), fresh.digest(), "{}", path.shown());
                digests.insert(path.digest(), path.shown());
            }
        });
        assert_eq!(digests.len(), 8, "{digests:?}");
    }

    #[test]
    fn short_strings_take_little_room() {
        let json = format!("[{}\"\"]", r#""\n","#.repeat(1000));
        let mut room = 0;
        strings(RawJson::trusted(&json), |_, _, text| {
            room += text.into_owned().capacity();
        });
        assert!(room <= json.len(), "{room}");
    }

    #[test]
    fn deep_nesting_is_no_recursion() {
        let deep = format!("{}\"x\"{}", "[".repeat(100_000), "]".repeat(100_000));
        let mut count = 0;
        strings(RawJson::trusted(&deep), |_, _, _| count += 1);
        assert_eq!(count, 1);
    }

    proptest! {
        #[test]
        fn any_text_survives_escaping(text in any::<String>()) {
            let json = serde_json::to_string(&[&text]).expect("a list of a string");
            assert_eq!(walked(&json), [format!("[0]={text}")]);
        }

        #[test]
        fn what_is_said_is_found_where_it_is_written(before in any::<String>(), said in any::<String>(), after in any::<String>()) {
            let json = serde_json::to_string(&[before.as_str(), &said, &after].concat()).expect("a string");
            let raw = &json[1..json.len() - 1];
            let place = written(raw, &(before.len()..before.len() + said.len()));
            let quoted = format!("{}\"", &raw[place]);
            let (string, _) = string_at(&quoted, 0).expect("it ends");
            prop_assert_eq!(string, said);
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            walked(&text);
        }
    }
}

//! JSON with comments as strict JSON of the same length: every byte keeps its place, so that what is found in the one
//! can be edited in the other.

use mcpmon_protocol::decode::json::{DEEPEST, Defect, Document, LoneSurrogate, Malformed, Scanner};

/// The dialect that a client's reader accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// RFC 8259.
    Json,
    /// With `//` and `/* */`, and commas before a closing bracket.
    Jsonc,
}

/// A syntax error and its place. Line and column count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
    /// The error.
    pub reason: String,
}

impl Mistake {
    /// At an offset into `bytes`.
    pub(super) fn at(bytes: &[u8], position: usize, reason: impl Into<String>) -> Self {
        let before = &bytes[..position.min(bytes.len())];
        let start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let line = before[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = String::from_utf8_lossy(&before[start..])
            .trim_start_matches('\u{feff}')
            .chars()
            .count()
            + 1;
        Self {
            line,
            column,
            reason: reason.into(),
        }
    }
}

/// A file's text without what only its dialect knows.
#[derive(Debug)]
pub(super) struct Plain {
    text: Vec<u8>,
    scanner: Scanner,
}

impl Plain {
    /// Blanks out comments, commas that nothing follows, and a byte order mark.
    pub(super) fn of(bytes: &[u8], dialect: Dialect) -> Result<Self, Mistake> {
        let mut text = bytes.to_vec();
        if text.starts_with("\u{feff}".as_bytes()) {
            text[..3].fill(b' ');
        }
        if dialect == Dialect::Jsonc {
            blank(&mut text).map_err(|at| Mistake::at(bytes, at, "this comment has no end"))?;
        }
        Ok(Self {
            text,
            scanner: Scanner::new(DEEPEST),
        })
    }

    /// Returns whether nothing is in it: some clients make such a file.
    pub(super) fn is_empty(&self) -> bool {
        self.text.iter().all(u8::is_ascii_whitespace)
    }

    /// The document that it is; `bytes` are those it was made of.
    pub(super) fn document(&mut self, bytes: &[u8]) -> Result<Document<'_>, Mistake> {
        // A client's own history may have strings that were cut in two; nothing of theirs is edited.
        match self.scanner.scan(&self.text, LoneSurrogate::Replace) {
            Ok(scan) => Ok(scan.document),
            Err(Malformed { position, defect }) => Err(Mistake::at(bytes, position, told(defect))),
        }
    }
}

/// A text with comments as strict JSON would have it; not yet looked at.
///
/// # Errors
/// Returns an error if a comment or a text has no end, in a sentence.
pub(in crate::agent) fn without_comments(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let plain = Plain::of(bytes, Dialect::Jsonc);
    plain.map(|plain| plain.text).map_err(|mistake| {
        let Mistake { line, column, reason } = mistake;
        format!("line {line}, column {column}: {reason}")
    })
}

fn told(defect: Defect) -> String {
    if let Defect::Unexpected(byte) = defect
        && byte.is_ascii_graphic()
    {
        return format!("unexpected `{}`", char::from(byte));
    }
    defect.to_string()
}

/// Fills comments and trailing commas with spaces; the start of a comment that has no end is an error.
fn blank(text: &mut [u8]) -> Result<(), usize> {
    let mut at = 0;
    // The last two bytes of any meaning.
    let (mut before, mut last) = (None, None);
    while let Some(byte) = text.get(at).copied() {
        let end = match (byte, text.get(at + 1)) {
            (b'"', _) => end_of_string(text, at),
            (b'/', Some(b'/')) => {
                let end = end_of_line(text, at);
                text[at..end].fill(b' ');
                at = end;
                continue;
            }
            (b'/', Some(b'*')) => {
                let end = end_of_block(text, at).ok_or(at)?;
                let is_text = |byte: &&mut u8| !matches!(**byte, b'\r' | b'\n');
                text[at..end]
                    .iter_mut()
                    .filter(is_text)
                    .for_each(|byte| *byte = b' ');
                at = end;
                continue;
            }
            (b' ' | b'\t' | b'\r' | b'\n', _) => {
                at += 1;
                continue;
            }
            _ => at + 1,
        };
        if let (b']' | b'}', Some(comma)) = (byte, last)
            && text[comma] == b','
            && before.is_some_and(|before: usize| !matches!(text[before], b'[' | b'{' | b',' | b':'))
        {
            text[comma] = b' ';
        }
        (before, last) = (last, Some(end - 1));
        at = end;
    }
    Ok(())
}

fn end_of_string(text: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn end_of_line(text: &[u8], start: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
    text[start..]
        .iter()
        .position(ends)
        .map_or(text.len(), |length| start + length)
}

fn end_of_block(text: &[u8], start: usize) -> Option<usize> {
    let inside = text.get(start + 2..)?;
    let length = inside.windows(2).position(|pair| pair == b"*/")?;
    Some(start + 2 + length + 2)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(r#"{"a": 1}"#, r#"{"a": 1}"#; "plain")]
    #[test_case("{ // c \"x\"\n}", "{         \n}"; "line comment")]
    #[test_case("{/* ,}\r\n */}", "{     \r\n   }"; "block comment keeps lines")]
    #[test_case("[1, /* 2 */ ]", "[1          ]"; "comma before a comment")]
    #[test_case(r#"{"a": [1,],}"#, r#"{"a": [1 ] }"#; "trailing commas")]
    #[test_case(r#"["// no", "\"/*", "a,"]"#, r#"["// no", "\"/*", "a,"]"#; "strings are left")]
    #[test_case("// c\r[]", "    \r[]"; "a carriage return ends a line")]
    #[test_case("[,]", "[,]"; "a comma after nothing stays")]
    #[test_case("[1,,]", "[1,,]"; "two commas stay")]
    #[test_case("{\"a\":,}", "{\"a\":,}"; "a comma after a colon stays")]
    fn comments_and_trailing_commas_are_blanked(text: &str, expected: &str) {
        let plain = Plain::of(text.as_bytes(), Dialect::Jsonc).expect("readable");
        assert_eq!(String::from_utf8(plain.text).expect("text"), expected);
    }

    fn mistake(text: &str, dialect: Dialect) -> String {
        let read = Plain::of(text.as_bytes(), dialect)
            .and_then(|mut plain| plain.document(text.as_bytes()).map(drop));
        let mistake = read.expect_err("malformed");
        format!("{}:{}: {}", mistake.line, mistake.column, mistake.reason)
    }

    #[test_case("{\n  // c\n}", Dialect::Json => "2:3: unexpected `/`"; "a comment in JSON")]
    #[test_case("{\"a\": 1,}", Dialect::Json => "1:9: unexpected `}`"; "a trailing comma in JSON")]
    #[test_case("[\n1\n /* x", Dialect::Jsonc => "3:2: this comment has no end"; "an endless comment")]
    #[test_case("[,]", Dialect::Jsonc => "1:2: unexpected `,`"; "only a comma")]
    #[test_case("{\"é\": x}", Dialect::Jsonc => "1:7: unexpected `x`"; "columns are characters")]
    #[test_case("\u{feff}{'a'}", Dialect::Jsonc => "1:2: unexpected `'`"; "after a byte order mark")]
    #[test_case("{} {}", Dialect::Jsonc => "1:4: more than one value"; "two values")]
    #[test_case("{\"a\": \"b", Dialect::Jsonc => "1:9: unexpected end"; "an endless string")]
    fn mistakes_have_a_place(text: &str, dialect: Dialect) -> String {
        mistake(text, dialect)
    }

    #[test]
    fn a_byte_order_mark_and_nothing_are_read() {
        let bytes = "\u{feff}{}".as_bytes();
        let mut marked = Plain::of(bytes, Dialect::Json).expect("readable");
        assert!(marked.document(bytes).expect("strict").root().is_object());
        for empty in ["", " \n", "\u{feff}", "// nothing yet\n"] {
            let plain = Plain::of(empty.as_bytes(), Dialect::Jsonc).expect("readable");
            assert!(plain.is_empty(), "{empty:?}");
        }
    }
}

//! Conversion of JSON with comments to strict JSON of the same length: every byte keeps its position, so that positions
//! in the result are valid in the original.

use mcpmon_protocol::decode::json::{Defect, LoneSurrogate, MAX_DEPTH, Malformed, Scanner, Value, ValueKind};

use super::{Node, NodeKind, PlacedItem, PlacedMember, Style, SyntaxMistake};

/// Levels below the path of the servers that are read: server, member, list, item, and one for a nested command.
const MAX_SERVER_DEPTH: usize = 6;

/// The JSON that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonDialect {
    /// RFC 8259.
    Strict,
    /// JSON with `//` and `/* */`, and commas before a closing bracket.
    Comments,
}

/// Parses the values on the paths to the servers; other values get no content.
pub(super) fn parse(
    bytes: &[u8],
    dialect: JsonDialect,
    servers: &[Vec<String>],
) -> Result<Option<Node>, SyntaxMistake> {
    let plain = plain(bytes, dialect)?;
    if plain.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let mut scanner = Scanner::new(MAX_DEPTH);
    // A client's own history may contain strings that were cut within a surrogate pair; they are never edited.
    let document = match scanner.scan(&plain, LoneSurrogate::Replace) {
        Ok(scan) => scan.document,
        Err(Malformed { position, defect }) => {
            return Err(SyntaxMistake::at(bytes, position, described(defect)));
        }
    };
    let ways: Vec<&[String]> = servers.iter().map(Vec::as_slice).collect();
    Ok(Some(on_the_way(document.root(), &ways)))
}

/// Returns the value with only those members that are on one of these paths.
fn on_the_way(value: Value<'_>, ways: &[&[String]]) -> Node {
    if ways.iter().any(|way| way.is_empty()) {
        return whole(value, MAX_SERVER_DEPTH);
    }
    let member = |member: mcpmon_protocol::decode::json::Member<'_>| {
        let name = unescaped(member.name);
        let ahead = ways.iter().filter_map(|way| way.split_first());
        let rest: Vec<_> = ahead
            .filter(|(step, _)| *step == "*" || **step == name)
            .map(|(_, rest)| rest)
            .collect();
        (!rest.is_empty()).then(|| PlacedMember {
            name,
            start: member.start,
            node: on_the_way(member.value, &rest),
        })
    };
    let kind = match value.is_object() {
        true => NodeKind::Map(value.members().filter_map(member).collect()),
        false => NodeKind::Other,
    };
    node(value, kind)
}

fn whole(value: Value<'_>, depth: usize) -> Node {
    let kind = match value.kind() {
        _ if depth == 0 => NodeKind::Other,
        ValueKind::Null => NodeKind::Null,
        ValueKind::String => NodeKind::Text(value.string().unwrap_or_default().into_owned()),
        ValueKind::Array => {
            let items = value.items().map(|item| PlacedItem {
                start: item.range().start,
                node: whole(item, depth - 1),
            });
            NodeKind::List(items.collect())
        }
        ValueKind::Object => {
            let members = value.members().map(|member| PlacedMember {
                name: unescaped(member.name),
                start: member.start,
                node: whole(member.value, depth - 1),
            });
            NodeKind::Map(members.collect())
        }
        ValueKind::Boolean | ValueKind::Number => NodeKind::Other,
    };
    node(value, kind)
}

fn node(value: Value<'_>, kind: NodeKind) -> Node {
    Node {
        range: value.range(),
        kind,
        style: Style::Inline,
        is_shared: false,
    }
}

/// Returns a name without its escapes; unchanged if it has half of a surrogate pair.
fn unescaped(name: &str) -> String {
    if !name.contains('\\') {
        return name.to_owned();
    }
    serde_json::from_str(&format!("\"{name}\"")).unwrap_or_else(|_| name.to_owned())
}

/// Replaces comments, trailing commas, and a byte order mark by spaces.
pub(crate) fn plain(bytes: &[u8], dialect: JsonDialect) -> Result<Vec<u8>, SyntaxMistake> {
    let mut text = bytes.to_vec();
    if text.starts_with("\u{feff}".as_bytes()) {
        text[..3].fill(b' ');
    }
    if dialect == JsonDialect::Comments {
        blank(&mut text).map_err(|at| SyntaxMistake::at(bytes, at, "this comment has no end"))?;
    }
    Ok(text)
}

/// Replaces the comments and trailing commas of a text by spaces; the rest is not checked.
///
/// # Errors
/// Returns a sentence with the position of a comment without an end.
pub fn without_comments(bytes: &[u8]) -> Result<Vec<u8>, String> {
    plain(bytes, JsonDialect::Comments).map_err(|mistake| {
        let SyntaxMistake { line, column, reason } = mistake;
        format!("line {line}, column {column}: {reason}")
    })
}

/// Returns a sentence about a defect.
pub(crate) fn described(defect: Defect) -> String {
    if let Defect::Unexpected(byte) = defect
        && byte.is_ascii_graphic()
    {
        return format!("unexpected `{}`", char::from(byte));
    }
    defect.to_string()
}

/// Replaces comments and trailing commas by spaces. Returns the start of a comment without an end as an error.
fn blank(text: &mut [u8]) -> Result<(), usize> {
    let mut at = 0;
    // The last two significant bytes.
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
        let plain = plain(text.as_bytes(), JsonDialect::Comments).expect("readable");
        assert_eq!(String::from_utf8(plain).expect("text"), expected);
    }

    fn mistake(text: &str, dialect: JsonDialect) -> String {
        let mistake = parse(text.as_bytes(), dialect, &[]).expect_err("malformed");
        format!("{}:{}: {}", mistake.line, mistake.column, mistake.reason)
    }

    #[test_case("{\n  // c\n}", JsonDialect::Strict => "2:3: unexpected `/`"; "a comment in JSON")]
    #[test_case("{\"a\": 1,}", JsonDialect::Strict => "1:9: unexpected `}`"; "a trailing comma in JSON")]
    #[test_case("[\n1\n /* x", JsonDialect::Comments => "3:2: this comment has no end"; "an endless comment")]
    #[test_case("[,]", JsonDialect::Comments => "1:2: unexpected `,`"; "only a comma")]
    #[test_case("{\"é\": x}", JsonDialect::Comments => "1:7: unexpected `x`"; "columns are characters")]
    #[test_case("\u{feff}{'a'}", JsonDialect::Comments => "1:2: unexpected `'`"; "after a byte order mark")]
    #[test_case("{} {}", JsonDialect::Comments => "1:4: more than one value"; "two values")]
    #[test_case("{\"a\": \"b", JsonDialect::Comments => "1:9: unexpected end"; "an endless string")]
    fn mistakes_have_a_place(text: &str, dialect: JsonDialect) -> String {
        mistake(text, dialect)
    }

    #[test]
    fn a_byte_order_mark_and_nothing_are_read() {
        let marked = parse("\u{feff}{}".as_bytes(), JsonDialect::Strict, &[vec![]]).expect("strict");
        assert_eq!(marked.map(|node| node.kind), Some(NodeKind::Map(Vec::new())));
        for empty in ["", " \n", "\u{feff}", "// nothing yet\n"] {
            let nothing = parse(empty.as_bytes(), JsonDialect::Comments, &[]).expect("readable");
            assert_eq!(nothing, None, "{empty:?}");
        }
    }

    #[test]
    fn values_beside_the_way_have_no_content() {
        let text = r#"{"history": [1, [2]], "a": {"x": {"s": {"k": ["v"]}}, "y": 1}}"#;
        let way = ["a", "*", "s"].map(str::to_owned).to_vec();
        let root = parse(text.as_bytes(), JsonDialect::Strict, &[way])
            .expect("strict")
            .expect("a value");
        let [a] = root.members() else {
            panic!("one member: {root:?}")
        };
        assert_eq!(a.name, "a");
        let [x, y] = a.node.members() else {
            panic!("two members: {a:?}")
        };
        assert_eq!(y.node.kind, NodeKind::Other);
        let servers = &x.node.members()[0].node;
        assert_eq!(servers.members()[0].node.items()[0].node.text(), Some("v"));
    }
}

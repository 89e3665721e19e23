//! Parsing of YAML with positions, from the events of a parser. Anchors, tags and aliases are not resolved but marked,
//! because a change at one position would be a change at others.

use std::{borrow::Cow, ops::Range};

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle, Tag};

use super::{Node, NodeKind, PlacedItem, PlacedMember, Style, SyntaxMistake};

/// Parses a whole file, which is one document.
pub(super) fn parse(text: &str) -> Result<Option<Node>, SyntaxMistake> {
    let options = granit_parser::options! { emit_comments: false };
    let mut reader = Reader {
        text,
        parser: Parser::new_from_str_with_options(text, options),
    };
    let mut root = None;
    while let Some((event, span)) = reader.next()? {
        if matches!(event, Event::StreamEnd) {
            break;
        }
        let is_content = !matches!(
            event,
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd
        );
        if is_content && root.is_some() {
            return Err(reader.mistake(&span, "there is more than one document"));
        }
        if is_content {
            root = Some(reader.node(event, &span)?);
        }
    }
    Ok(root.filter(|root| root.kind != NodeKind::Null))
}

struct Reader<'t> {
    text: &'t str,
    parser: Parser<'t, granit_parser::StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, SyntaxMistake> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok(next)) => Ok(Some(next)),
            Some(Err(error)) => {
                let position = error.marker().byte_offset().unwrap_or_default();
                Err(SyntaxMistake::at(self.text.as_bytes(), position, error.info()))
            }
        }
    }

    /// Returns the next event, at a position where there must be one.
    fn inside(&mut self) -> Result<(Event<'t>, Span), SyntaxMistake> {
        let end = self.text.len();
        self.next()?
            .ok_or_else(|| SyntaxMistake::at(self.text.as_bytes(), end, "unexpected end"))
    }

    /// Reads a node and its content; the parser limits the nesting of nodes.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an alias, or an event of a later version"
    )]
    fn node(&mut self, event: Event<'t>, span: &Span) -> Result<Node, SyntaxMistake> {
        let range = self.range(span)?;
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                Ok(scalar(&value, style, range, anchor != 0 || tag.is_some()))
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.sequence(range, structure(style), is_marked(anchor, tag.as_ref()))
            }
            Event::MappingStart(style, anchor, tag) => {
                self.mapping(range, structure(style), is_marked(anchor, tag.as_ref()))
            }
            _ => Ok(Node {
                range,
                kind: NodeKind::Other,
                style: Style::Inline,
                is_shared: true,
            }),
        }
    }

    fn sequence(
        &mut self,
        start: Range<usize>,
        style: Style,
        is_shared: bool,
    ) -> Result<Node, SyntaxMistake> {
        let mut items: Vec<PlacedItem> = Vec::new();
        let end = loop {
            let (event, span) = self.inside()?;
            if matches!(event, Event::SequenceEnd) {
                break self.range(&span)?.end;
            }
            let node = self.node(event, &span)?;
            let start = match style {
                Style::Inline => node.range.start,
                Style::Block => self.dash_before(node.range.start),
            };
            items.push(PlacedItem { start, node });
        };
        let range = self.extent(
            style,
            start.start,
            end,
            items.first().map(|item| item.start),
            || items.last().map(|item| item.node.range.end),
        );
        Ok(Node {
            range,
            kind: NodeKind::List(items),
            style,
            is_shared,
        })
    }

    fn mapping(&mut self, start: Range<usize>, style: Style, is_shared: bool) -> Result<Node, SyntaxMistake> {
        let mut members: Vec<PlacedMember> = Vec::new();
        let end = loop {
            let (event, span) = self.inside()?;
            if matches!(event, Event::MappingEnd) {
                break self.range(&span)?.end;
            }
            let key = self.node(event, &span)?;
            let (event, span) = self.inside()?;
            let mut node = self.node(event, &span)?;
            if node.kind == NodeKind::Null && node.range.is_empty() {
                let position = self.colon_after(key.range.end);
                node.range = position..position;
            }
            // A key that is not a text is never one of the wanted names.
            let name = key.text().map_or_else(
                || self.text.get(key.range.clone()).unwrap_or_default().to_owned(),
                str::to_owned,
            );
            members.push(PlacedMember {
                name,
                start: key.range.start,
                node,
            });
        };
        let range = self.extent(
            style,
            start.start,
            end,
            members.first().map(|member| member.start),
            || members.last().map(|member| member.node.range.end),
        );
        Ok(Node {
            range,
            kind: NodeKind::Map(members),
            style,
            is_shared,
        })
    }

    /// Returns the range of a collection: a block ends with its last value, and not where the next token begins.
    fn extent(
        &self,
        style: Style,
        start: usize,
        end: usize,
        first: Option<usize>,
        last: impl FnOnce() -> Option<usize>,
    ) -> Range<usize> {
        match style {
            Style::Inline => start..end,
            Style::Block => first.unwrap_or(start)..last().unwrap_or(end),
        }
    }

    /// Returns the position of the dash of a block's item; that of the item itself if there is anything but white space
    /// in between.
    fn dash_before(&self, value: usize) -> usize {
        let before = self.text[..value].trim_end_matches([' ', '\t', '\r', '\n']);
        match before.ends_with('-') {
            true => before.len() - 1,
            false => value,
        }
    }

    /// Returns the position after the colon of a name.
    fn colon_after(&self, name: usize) -> usize {
        let rest = &self.text[name..];
        let gap = rest.len() - rest.trim_start().len();
        match rest[gap..].starts_with(':') {
            true => name + gap + 1,
            false => name,
        }
    }

    fn range(&self, span: &Span) -> Result<Range<usize>, SyntaxMistake> {
        span.byte_range()
            .filter(|range| self.text.get(range.clone()).is_some())
            .ok_or_else(|| self.mistake(span, "this has no position"))
    }

    fn mistake(&self, span: &Span, reason: &str) -> SyntaxMistake {
        let position = span.start.byte_offset().unwrap_or_default();
        SyntaxMistake::at(self.text.as_bytes(), position, reason)
    }
}

const fn structure(style: StructureStyle) -> Style {
    match style {
        StructureStyle::Block => Style::Block,
        StructureStyle::Flow => Style::Inline,
    }
}

const fn is_marked(anchor: usize, tag: Option<&Cow<'_, Tag>>) -> bool {
    anchor != 0 || tag.is_some()
}

fn scalar(value: &str, style: ScalarStyle, range: Range<usize>, is_shared: bool) -> Node {
    let kind = match style {
        ScalarStyle::Plain => plain(value),
        ScalarStyle::SingleQuoted
        | ScalarStyle::DoubleQuoted
        | ScalarStyle::Literal
        | ScalarStyle::Folded => NodeKind::Text(value.to_owned()),
    };
    let style = match style {
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
        ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Inline,
    };
    Node {
        range,
        kind,
        style,
        is_shared,
    }
}

/// Returns the value of a word without quotes, by the core schema of YAML 1.2 and the truth values of 1.1, which some
/// readers accept.
fn plain(value: &str) -> NodeKind {
    let lower = value.to_ascii_lowercase();
    match lower.as_str() {
        "" | "~" | "null" => NodeKind::Null,
        "true" | "false" | "yes" | "no" | "on" | "off" => NodeKind::Other,
        number if is_number(number) => NodeKind::Other,
        _ => NodeKind::Text(value.to_owned()),
    }
}

fn is_number(lower: &str) -> bool {
    let unsigned = lower.trim_start_matches(['+', '-']);
    let radix = |prefix: &str, radix: u32| {
        unsigned
            .strip_prefix(prefix)
            .is_some_and(|digits| !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix)))
    };
    let is_special = matches!(unsigned, ".inf" | ".nan");
    let is_decimal = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.parse::<f64>().is_ok();
    is_special || is_decimal || radix("0x", 16) || radix("0o", 8)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn parsed(text: &str) -> Node {
        parse(text)
            .unwrap_or_else(|mistake| panic!("{mistake:?}"))
            .expect("a value")
    }

    #[test_case("a: [x, 'y']\n", "a" => "[x, 'y']"; "flow")]
    #[test_case("a:\n  - x\n  # c\n  - \"y\" # d\n\nb: 1\n", "a" => "- x\n  # c\n  - \"y\""; "block")]
    #[test_case("a:\n- x\n- é\nb: 1\n", "a" => "- x\n- é"; "not indented")]
    #[test_case("é: 'ü'\r\na:\r\n  k: v\r\n", "a" => "k: v"; "map behind other characters")]
    #[test_case("\u{feff}a: plain word # c\n", "a" => "plain word"; "plain, behind a byte order mark")]
    fn values_have_their_bytes(text: &str, name: &str) -> String {
        let root = parsed(text);
        let member = root
            .members()
            .iter()
            .find(|member| member.name == name)
            .expect("there");
        text[member.node.range.clone()].to_owned()
    }

    #[test_case("x" => NodeKind::Text("x".to_owned()); "a word")]
    #[test_case("'1'" => NodeKind::Text("1".to_owned()); "a quoted number")]
    #[test_case("1" => NodeKind::Other; "a number")]
    #[test_case("-1.5e3" => NodeKind::Other; "a float")]
    #[test_case("0x1F" => NodeKind::Other; "hexadecimal")]
    #[test_case("1.2.3" => NodeKind::Text("1.2.3".to_owned()); "a version")]
    #[test_case("-y" => NodeKind::Text("-y".to_owned()); "an option")]
    #[test_case("infinity" => NodeKind::Text("infinity".to_owned()); "a word that Rust takes for a number")]
    #[test_case("Yes" => NodeKind::Other; "a truth value of YAML 1.1")]
    fn scalars_have_a_type(text: &str) -> NodeKind {
        parsed(&format!("a: {text}\n")).members()[0].node.kind.clone()
    }

    #[test]
    fn an_empty_value_stands_behind_its_colon() {
        let root = parsed("a:\nb: ~\n");
        assert_eq!(root.members()[0].node.range, 2..2);
        assert_eq!(root.members()[1].node.range, 6..7);
    }

    #[test]
    fn anchors_tags_and_aliases_are_marked() {
        let root = parsed("a: &x [1]\nb: *x\nc: !t y\nd: z\n");
        let shared: Vec<_> = root
            .members()
            .iter()
            .map(|member| member.node.is_shared)
            .collect();
        assert_eq!(shared, [true, true, true, false]);
    }

    #[test]
    fn nothing_is_empty_and_two_documents_are_refused() {
        for empty in ["", "# c\n", "---\n", "\u{feff}\n"] {
            assert_eq!(parse(empty), Ok(None), "{empty:?}");
        }
        let mistake = parse("a: 1\n---\nb: 2\n").expect_err("two documents");
        assert_eq!(
            (mistake.line, mistake.reason.as_str()),
            (3, "there is more than one document")
        );
    }

    #[test]
    fn mistakes_have_a_position() {
        let mistake = parse("a: 1\nb: [1\nc: 2\n").expect_err("malformed");
        assert!(mistake.line >= 2, "{mistake:?}");
    }
}

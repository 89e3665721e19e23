//! Parsing of TOML with positions. Tables below a header and dotted keys have block style, inline tables have inline
//! style.

use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{Node, NodeKind, PlacedItem, PlacedMember, Style, SyntaxMistake};

/// Parses a whole file.
pub(super) fn parse(text: &str) -> Result<Option<Node>, SyntaxMistake> {
    let mark = text.len() - text.trim_start_matches('\u{feff}').len();
    let table = DeTable::parse(&text[mark..]).map_err(|error| {
        let position = error.span().map_or(0, |span| span.start);
        SyntaxMistake::at(text.as_bytes(), mark + position, error.message())
    })?;
    let reader = Reader { text, mark };
    let mut root = reader.table(table.get_ref(), 0..text.len());
    root.style = Style::Block;
    Ok(Some(root))
}

struct Reader<'t> {
    text: &'t str,
    /// Length of the byte order mark, which the parser does not count.
    mark: usize,
}

impl Reader<'_> {
    fn value(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let span = value.span();
        let range = span.start + self.mark..span.end + self.mark;
        let inline = |kind| Node {
            range: range.clone(),
            kind,
            style: Style::Inline,
            is_shared: false,
        };
        match value.get_ref() {
            DeValue::String(text) => inline(NodeKind::Text(text.clone().into_owned())),
            DeValue::Array(array) => {
                let items = array.iter().map(|item| {
                    let node = self.value(item);
                    let start = node.range.start;
                    PlacedItem { start, node }
                });
                inline(NodeKind::List(items.collect()))
            }
            DeValue::Table(table) => self.table(table, range),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
                inline(NodeKind::Other)
            }
        }
    }

    fn table(&self, table: &DeTable<'_>, range: std::ops::Range<usize>) -> Node {
        let member = |(name, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| PlacedMember {
            name: name.get_ref().clone().into_owned(),
            start: name.span().start + self.mark,
            node: self.value(value),
        };
        let mut members: Vec<_> = table.iter().map(member).collect();
        members.sort_by_key(|member| member.start);
        let style = match self.text.as_bytes().get(range.start) {
            Some(b'{') => Style::Inline,
            _ => Style::Block,
        };
        Node {
            range,
            kind: NodeKind::Map(members),
            style,
            is_shared: false,
        }
    }
}

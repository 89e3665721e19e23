//! Parsing of JSON, TOML and YAML to the same nodes, which have the position of every value, so that the same code
//! edits all formats.

mod json;
mod toml;
mod yaml;

use std::ops::Range;

pub use self::json::without_comments;
pub(crate) use self::json::{JsonDialect, described as described_defect, plain as plain_json};
use crate::table::Format;

/// Largest TOML or YAML file, bytes: they are parsed as a whole, and of JSON only the paths to the servers are.
const MAX_TREE_BYTES: usize = 4 << 20;

/// The position and the reason of a syntax error. Line and column count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxMistake {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
    /// The reason.
    pub reason: String,
}

impl SyntaxMistake {
    /// Describes the mistake at an offset into `bytes`.
    pub(crate) fn at(bytes: &[u8], position: usize, reason: impl Into<String>) -> Self {
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

/// A value with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The bytes of the value, quotes and brackets included.
    pub(crate) range: Range<usize>,
    pub(crate) kind: NodeKind,
    pub(crate) style: Style,
    /// True for an anchor or an alias: a change here would change another place too.
    pub(crate) is_shared: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Null,
    Text(String),
    List(Vec<PlacedItem>),
    Map(Vec<PlacedMember>),
    /// A number, a truth value, a date, or a value that is too deep below the servers.
    Other,
}

/// The style in which a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Inline: between brackets or quotes, or as a plain word.
    Inline,
    /// On lines of its own: the members below a TOML header, or a YAML block.
    Block,
}

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedItem {
    /// Start of the item, its dash included.
    pub(crate) start: usize,
    pub(crate) node: Node,
}

/// A member of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedMember {
    pub(crate) name: String,
    /// Start of the name, its quote included.
    pub(crate) start: usize,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Text(text) => Some(text),
            NodeKind::Null | NodeKind::List(_) | NodeKind::Map(_) | NodeKind::Other => None,
        }
    }

    pub(crate) fn items(&self) -> &[PlacedItem] {
        match &self.kind {
            NodeKind::List(items) => items,
            NodeKind::Null | NodeKind::Text(_) | NodeKind::Map(_) | NodeKind::Other => &[],
        }
    }

    pub(crate) fn members(&self) -> &[PlacedMember] {
        match &self.kind {
            NodeKind::Map(members) => members,
            NodeKind::Null | NodeKind::Text(_) | NodeKind::List(_) | NodeKind::Other => &[],
        }
    }
}

/// Parses a file as far as it is needed for servers. Returns `None` if the file is empty, which some clients create.
///
/// # Errors
/// Returns the position of a syntax error.
pub(crate) fn parse(
    bytes: &[u8],
    format: Format,
    servers: &[Vec<String>],
) -> Result<Option<Node>, SyntaxMistake> {
    match format {
        Format::Json => json::parse(bytes, JsonDialect::Strict, servers),
        Format::Jsonc => json::parse(bytes, JsonDialect::Comments, servers),
        Format::Toml => toml::parse(tree_text(bytes)?),
        Format::Yaml => yaml::parse(tree_text(bytes)?),
    }
}

/// Checks a text that is parsed as a whole.
fn tree_text(bytes: &[u8]) -> Result<&str, SyntaxMistake> {
    if bytes.len() > MAX_TREE_BYTES {
        return Err(SyntaxMistake::at(
            bytes,
            MAX_TREE_BYTES,
            "the file is larger than 4 MiB",
        ));
    }
    str::from_utf8(bytes).map_err(|error| SyntaxMistake::at(bytes, error.valid_up_to(), "this is not UTF-8"))
}

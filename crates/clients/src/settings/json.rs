//! Edits of JSON settings: a value is inserted after the opening bracket of its container, and removed again.

use std::ops::Range;

use mcpmon_protocol::decode::json::{LoneSurrogate, MAX_DEPTH, Scanner, Value as Node, ValueKind};
use serde_json::Value;

use super::plan::{SettingError, SettingMatch, SettingPosition, WantedSetting};
use crate::{
    edit::{TextEdit, gap_before, quoted},
    syntax::{JsonDialect, SyntaxMistake, described_defect, plain_json},
};

/// A JSON text, and a copy without comments in which all bytes keep their positions.
pub(super) struct JsonText<'b> {
    bytes: &'b [u8],
    plain: Vec<u8>,
}

impl<'b> JsonText<'b> {
    pub(super) fn new(bytes: &'b [u8], dialect: JsonDialect) -> Result<Self, SyntaxMistake> {
        let plain = plain_json(bytes, dialect)?;
        Ok(Self { bytes, plain })
    }

    fn is_blank(&self) -> bool {
        self.plain.iter().all(u8::is_ascii_whitespace)
    }

    /// Calls `read` with the root.
    fn root<T>(&self, read: impl FnOnce(Node<'_>) -> Result<T, SettingError>) -> Result<T, SettingError> {
        let mut scanner = Scanner::new(MAX_DEPTH);
        match scanner.scan(&self.plain, LoneSurrogate::Replace) {
            Ok(scan) => read(scan.document.root()),
            Err(malformed) => {
                let reason = described_defect(malformed.defect);
                Err(SyntaxMistake::at(self.bytes, malformed.position, reason).into())
            }
        }
    }

    /// Searches for the wanted value, or the one that was added earlier.
    pub(super) fn find(
        &self,
        wanted: &WantedSetting,
        before: Option<&str>,
    ) -> Result<SettingMatch, SettingError> {
        if self.is_blank() {
            return Ok(SettingMatch::Nothing);
        }
        self.root(|root| {
            let PathEnd::Value(value, _) = walk(root, &wanted.path)? else {
                return Ok(SettingMatch::Nothing);
            };
            match &wanted.leaf {
                SettingPosition::Value => Ok(match value_of(value) {
                    value if value == parsed(&wanted.text) => SettingMatch::Wanted,
                    value if before.is_some_and(|before| value == parsed(before)) => SettingMatch::Before,
                    _ => SettingMatch::Other(value.text().to_owned()),
                }),
                SettingPosition::Item { words } => {
                    if value.kind() != ValueKind::Array {
                        return Err(SettingError::Unclear(format!(
                            "`{}` is no list",
                            wanted.path.join(".")
                        )));
                    }
                    let items: Vec<_> = value.items().map(value_of).collect();
                    if items.contains(&parsed(&wanted.text)) {
                        return Ok(SettingMatch::Wanted);
                    }
                    if before.is_some_and(|before| items.contains(&parsed(before))) {
                        return Ok(SettingMatch::Before);
                    }
                    let ours = items.iter().find(|item| mentions(item, words));
                    Ok(ours.map_or(SettingMatch::Nothing, |item| {
                        SettingMatch::Other(item.to_string())
                    }))
                }
            }
        })
    }

    /// Returns the edit that inserts the wanted value, and the number of members that are created for it.
    pub(super) fn insertion(&self, wanted: &WantedSetting) -> Result<(TextEdit, usize), SettingError> {
        if self.is_blank() {
            let text = format!("{{{}}}\n", nested(&wanted.path, wanted));
            let end = self.bytes.len();
            return Ok((TextEdit::new(end..end, text), wanted.path.len()));
        }
        self.root(|root| match walk(root, &wanted.path)? {
            PathEnd::Value(list, _) => Ok((self.behind_bracket(list, wanted.text.clone()), 0)),
            PathEnd::Missing(inside, rest) => {
                let element = nested(rest, wanted);
                Ok((self.behind_bracket(inside, element), rest.len()))
            }
        })
    }

    fn behind_bracket(&self, container: Node<'_>, element: String) -> TextEdit {
        let open = container.range().start + 1;
        let rest = &self.plain[open..];
        let first = open
            + rest
                .iter()
                .position(|byte| !byte.is_ascii_whitespace())
                .unwrap_or(rest.len());
        let text = match self.plain.get(first) {
            Some(b'}' | b']') | None => element,
            Some(_) => match gap_before(self.bytes, first) {
                gap if gap.contains('\n') => format!("{gap}{element},"),
                gap => format!("{element},{gap}"),
            },
        };
        TextEdit::new(open..open, text)
    }

    /// Returns the edit that replaces the value.
    pub(super) fn replacement(
        &self,
        wanted: &WantedSetting,
        before: &str,
    ) -> Result<Option<TextEdit>, SettingError> {
        let place = self.place(wanted, before)?;
        Ok(place.map(|place| TextEdit::new(place.value, wanted.text.clone())))
    }

    /// Returns the edit that removes the value from a text that was reformatted since, with those of the `made` members
    /// above it that contain nothing else.
    pub(super) fn removal(
        &self,
        wanted: &WantedSetting,
        before: &str,
        made: usize,
    ) -> Result<Option<TextEdit>, SettingError> {
        let Some(place) = self.place(wanted, before)? else {
            return Ok(None);
        };
        let mut elements = place.elements.iter().rev();
        let Some(mut element) = elements.next() else {
            return Ok(None);
        };
        // The value itself is one of the created members, or an item in the last of them.
        let above = match wanted.leaf {
            SettingPosition::Value => made.saturating_sub(1),
            SettingPosition::Item { .. } => made,
        };
        for outer in elements.take(above) {
            if element.siblings.len() > 1 {
                break;
            }
            element = outer;
        }
        Ok(Some(TextEdit::new(self.with_comma(element), "")))
    }

    /// Returns the range of an element with the comma after it, or before it if it is the last.
    fn with_comma(&self, element: &PlacedElement) -> Range<usize> {
        let PlacedElement { range, siblings } = element;
        let at = siblings
            .iter()
            .position(|sibling| sibling == range)
            .unwrap_or_default();
        if let Some(next) = siblings.get(at + 1) {
            return range.start..next.start;
        }
        let behind = self.bytes[range.end..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let end = match self.bytes.get(range.end + behind) {
            Some(b',') => range.end + behind + 1,
            Some(_) | None => range.end,
        };
        match at.checked_sub(1).and_then(|before| siblings.get(before)) {
            Some(before) => before.end..end,
            None => range.start..end,
        }
    }

    fn place(&self, wanted: &WantedSetting, before: &str) -> Result<Option<PlacedSetting>, SettingError> {
        if self.is_blank() {
            return Ok(None);
        }
        self.root(|root| {
            let PathEnd::Value(value, mut elements) = walk(root, &wanted.path)? else {
                return Ok(None);
            };
            let before = parsed(before);
            if let SettingPosition::Value = wanted.leaf {
                let is_it = value_of(value) == before;
                return Ok(is_it.then(|| PlacedSetting {
                    value: value.range(),
                    elements,
                }));
            }
            let siblings: Vec<_> = value.items().map(|item| item.range()).collect();
            let Some(item) = value.items().find(|item| value_of(*item) == before) else {
                return Ok(None);
            };
            elements.push(PlacedElement {
                range: item.range(),
                siblings,
            });
            Ok(Some(PlacedSetting {
                value: item.range(),
                elements,
            }))
        })
    }
}

/// The position of a setting in a text.
struct PlacedSetting {
    value: Range<usize>,
    /// The members from the root to the setting, and the setting itself.
    elements: Vec<PlacedElement>,
}

/// A member or an item, and all elements of its container.
struct PlacedElement {
    range: Range<usize>,
    siblings: Vec<Range<usize>>,
}

/// The end of a path through a document.
enum PathEnd<'v, 'p> {
    /// The value, and the members on the path.
    Value(Node<'v>, Vec<PlacedElement>),
    /// The object in which the rest of the path is missing.
    Missing(Node<'v>, &'p [String]),
}

fn walk<'v, 'p>(root: Node<'v>, path: &'p [String]) -> Result<PathEnd<'v, 'p>, SettingError> {
    let (mut value, mut elements) = (root, Vec::new());
    for (depth, step) in path.iter().enumerate() {
        if !value.is_object() {
            let place = if depth == 0 {
                "the file".to_owned()
            } else {
                format!("`{}`", path[..depth].join("."))
            };
            return Err(SettingError::Unclear(format!("{place} is no object")));
        }
        let is_named = |name: &str| {
            name == step
                || serde_json::from_str::<String>(&format!("\"{name}\"")).is_ok_and(|name| name == *step)
        };
        let mut named = value.members().filter(|member| is_named(member.name));
        let Some(member) = named.next() else {
            return Ok(PathEnd::Missing(value, &path[depth..]));
        };
        if named.next().is_some() {
            return Err(SettingError::Unclear(format!("`{step}` is set twice in it")));
        }
        let range =
            |member: mcpmon_protocol::decode::json::Member<'_>| member.start..member.value.range().end;
        elements.push(PlacedElement {
            range: range(member),
            siblings: value.members().map(range).collect(),
        });
        value = member.value;
    }
    Ok(PathEnd::Value(value, elements))
}

/// Returns nested members, with the wanted value in the innermost.
fn nested(path: &[String], wanted: &WantedSetting) -> String {
    let innermost = match wanted.leaf {
        SettingPosition::Value => wanted.text.clone(),
        SettingPosition::Item { .. } => format!("[{}]", wanted.text),
    };
    let Some((first, rest)) = path.split_first() else {
        return innermost;
    };
    let value = rest
        .iter()
        .rev()
        .fold(innermost, |value, step| format!("{{{}: {value}}}", quoted(step)));
    format!("{}: {value}", quoted(first))
}

fn value_of(node: Node<'_>) -> Value {
    parsed(node.text())
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns whether a command in this hook ends with these words.
fn mentions(item: &Value, words: &str) -> bool {
    match item {
        Value::Object(members) => members.iter().any(|(name, value)| match value {
            Value::String(text) => name == "command" && text.trim_end().ends_with(words),
            Value::Array(_) | Value::Object(_) => mentions(value, words),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }),
        Value::Array(items) => items.iter().any(|item| mentions(item, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

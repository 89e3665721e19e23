//! Parsing of YAML to a tree. Only this module uses the YAML library.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{Error, Location, MessageFormatter as _, Options, Spanned, UserMessageFormatter};

use super::node::{ListItem, MapEntry, Node, YamlValue};
use crate::mistake::{Mistake, Place};

/// Deepest nesting; the format itself needs 7 levels.
const MAX_DEPTH: usize = 32;
/// Most values in a file.
const MAX_NODES: usize = 200_000;
/// Most values that aliases repeat.
const MAX_REPEATED: usize = 20_000;
/// Most anchors, and most aliases of a file.
const MAX_ALIASES: usize = 1000;

/// Reads the text of the file numbered `origin`.
///
/// # Errors
/// Returns the first position that is not YAML, or that exceeds a limit.
pub(super) fn parse(text: &str, origin: usize) -> Result<Node, Mistake> {
    let parsed: Result<Tree, Error> = serde_saphyr::from_str_with_options(text, options());
    match parsed {
        Ok(tree) => Ok(tree.into_node(origin)),
        Err(error) => Err(Mistake {
            place: error
                .location()
                .map_or_else(|| Place::start_of(origin), |location| place(origin, location)),
            key: String::new(),
            message: message(&error),
            related: None,
        }),
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPEATED },
        budget: serde_saphyr::budget! {
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_depth: MAX_DEPTH,
            max_merge_keys: MAX_ALIASES,
            max_nodes: MAX_NODES,
        },
        emit_comments: false,
        strict_booleans: true,
        with_snippet: false,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's own words do for most of its many errors"
)]
fn message(error: &Error) -> String {
    match error {
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => message(error),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => format!(
            "too much for a configuration: at most {MAX_NODES} values are read, {MAX_REPEATED} of them repeated by \
             {MAX_ALIASES} aliases, {MAX_DEPTH} levels deep"
        ),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key `{key}` is given twice"),
        Error::UnknownAnchor { .. } => "no anchor of this name is defined above".to_owned(),
        Error::MultipleDocuments { .. } => {
            "a second document starts here: one file holds one document".to_owned()
        }
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}

fn place(origin: usize, location: Location) -> Place {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Place {
        origin,
        line: number(location.line()),
        column: number(location.column()),
        length: number(location.span().len()),
    }
}

/// A value from the library.
struct Tree {
    location: Location,
    value: Branch,
}

enum Branch {
    Leaf(YamlValue),
    List(Vec<Tree>),
    Map(Vec<(Spanned<String>, Tree)>),
}

impl Tree {
    fn into_node(self, origin: usize) -> Node {
        let value = match self.value {
            Branch::Leaf(value) => value,
            Branch::List(items) => YamlValue::List(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, tree)| ListItem {
                        index,
                        node: tree.into_node(origin),
                    })
                    .collect(),
            ),
            Branch::Map(entries) => YamlValue::Map(
                entries
                    .into_iter()
                    .map(|(key, tree)| MapEntry {
                        place: place(origin, key.referenced),
                        key: key.value,
                        node: tree.into_node(origin),
                    })
                    .collect(),
            ),
        };
        Node {
            place: place(origin, self.location),
            value,
            damaged: false,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Branch>::deserialize(deserializer)?;
        Ok(Self {
            location: spanned.referenced,
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Branch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BranchVisitor)
    }
}

struct BranchVisitor;

impl<'de> de::Visitor<'de> for BranchVisitor {
    type Value = Branch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Branch, E> {
        Ok(Branch::Leaf(YamlValue::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Branch, E> {
        Ok(Branch::Leaf(YamlValue::Bool(value)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Branch, E> {
        Ok(Branch::Leaf(YamlValue::Integer(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Branch, E> {
        Ok(Branch::Leaf(YamlValue::Integer(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Branch, E> {
        Ok(Branch::Leaf(YamlValue::Float(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Branch, E> {
        Ok(Branch::Leaf(YamlValue::Text(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Branch, E> {
        Ok(Branch::Leaf(YamlValue::Text(text)))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Branch, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Branch::List(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Branch, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Branch::Map(entries))
    }
}

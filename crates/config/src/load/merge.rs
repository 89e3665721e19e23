//! Merging of several files.

use super::node::{MapEntry, Node, YamlValue};

/// Merges `later` into `earlier`: mappings are merged, lists are appended, and of two other values the later is used. A
/// key without a value is ignored.
pub(crate) fn merge(earlier: Node, later: Node) -> Node {
    combine(earlier, later, ListMerge::Append)
}

/// Merges like [`merge`], except that a later list replaces an earlier one.
pub(super) fn overlay(earlier: Node, later: Node) -> Node {
    combine(earlier, later, ListMerge::Replace)
}

/// The way in which two lists are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListMerge {
    Append,
    Replace,
}

fn combine(earlier: Node, later: Node, lists: ListMerge) -> Node {
    let damaged = earlier.damaged || later.damaged;
    let (place, value) = match (earlier.value, later.value) {
        (YamlValue::Map(below), YamlValue::Map(above)) if below.is_empty() => {
            (later.place, YamlValue::Map(above))
        }
        (YamlValue::Map(below), YamlValue::Map(above)) => (
            earlier.place,
            YamlValue::Map(combine_entries(below, above, lists)),
        ),
        (YamlValue::List(mut below), YamlValue::List(above)) if lists == ListMerge::Append => {
            below.extend(above);
            (earlier.place, YamlValue::List(below))
        }
        (below, YamlValue::Null) => (earlier.place, below),
        (_, above) => (later.place, above),
    };
    Node {
        place,
        value,
        damaged,
    }
}

fn combine_entries(mut below: Vec<MapEntry>, above: Vec<MapEntry>, lists: ListMerge) -> Vec<MapEntry> {
    for entry in above {
        match below.iter().position(|known| known.key == entry.key) {
            None => below.push(entry),
            Some(position) => {
                let known = below.remove(position);
                let merged = MapEntry {
                    key: entry.key,
                    place: entry.place,
                    node: combine(known.node, entry.node, lists),
                };
                below.insert(position, merged);
            }
        }
    }
    below
}

//! Several files as one.

use super::node::{Entry, Node, Value};

/// `later` on top of `earlier`: mappings are merged, lists appended, and of two other values the later holds.
/// A key without a value says nothing.
pub(crate) fn merge(earlier: Node, later: Node) -> Node {
    combine(earlier, later, Lists::Append)
}

/// The same, but that a later list takes the place of an earlier one.
pub(super) fn overlay(earlier: Node, later: Node) -> Node {
    combine(earlier, later, Lists::Replace)
}

/// The combination of a list with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lists {
    Append,
    Replace,
}

fn combine(earlier: Node, later: Node, lists: Lists) -> Node {
    let damaged = earlier.damaged || later.damaged;
    let (place, value) = match (earlier.value, later.value) {
        (Value::Map(below), Value::Map(above)) if below.is_empty() => (later.place, Value::Map(above)),
        (Value::Map(below), Value::Map(above)) => {
            (earlier.place, Value::Map(combine_entries(below, above, lists)))
        }
        (Value::List(mut below), Value::List(above)) if lists == Lists::Append => {
            below.extend(above);
            (earlier.place, Value::List(below))
        }
        (below, Value::Null) => (earlier.place, below),
        (_, above) => (later.place, above),
    };
    Node {
        place,
        value,
        damaged,
    }
}

fn combine_entries(mut below: Vec<Entry>, above: Vec<Entry>, lists: Lists) -> Vec<Entry> {
    for entry in above {
        match below.iter().position(|known| known.key == entry.key) {
            None => below.push(entry),
            Some(position) => {
                let known = below.remove(position);
                let merged = Entry {
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

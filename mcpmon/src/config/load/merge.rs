//! Several files as one.

use super::node::{Entry, Node, Value};

/// `later` on top of `earlier`: mappings are merged, lists appended, and of two other values the later holds.
/// A key without a value says nothing.
pub(in crate::config) fn merge(earlier: Node, later: Node) -> Node {
    let damaged = earlier.damaged || later.damaged;
    let (place, value) = match (earlier.value, later.value) {
        (Value::Map(below), Value::Map(above)) if below.is_empty() => (later.place, Value::Map(above)),
        (Value::Map(below), Value::Map(above)) => (earlier.place, Value::Map(merge_entries(below, above))),
        (Value::List(mut below), Value::List(above)) => {
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

fn merge_entries(mut below: Vec<Entry>, above: Vec<Entry>) -> Vec<Entry> {
    for entry in above {
        match below.iter().position(|known| known.key == entry.key) {
            None => below.push(entry),
            Some(position) => {
                let known = below.remove(position);
                let merged = Entry {
                    key: entry.key,
                    place: entry.place,
                    node: merge(known.node, entry.node),
                };
                below.insert(position, merged);
            }
        }
    }
    below
}

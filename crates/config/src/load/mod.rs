//! Parsing of one or more files to one [`Config`], with every mistake in them.
//!
//! serde stops at its first error. So the text is first parsed to a tree with positions; a part that serde refuses is
//! noted and cut out, and the rest is read again, until nothing is refused. Only a syntax error ends the reading of a
//! file, because nothing after it is certain. Only the module `yaml` uses the YAML library.

mod bundled;
mod key_mistake;
mod merge;
mod node;
mod reader;
mod shown;
mod suggest;
mod yaml;

use std::ops::Range;

use mcpmon_policy::rules::Pattern;
use serde::Deserialize as _;

use self::merge::overlay;
pub(super) use self::{
    bundled::{read_bundle, read_on_bundle},
    key_mistake::{KeyMistake, check_name},
    merge::merge,
    node::{KeyPath, ListItem, MapEntry, Node, YamlValue},
    reader::{PathSubject, SerdeFault},
    shown::without_host_sections,
    suggest::closest,
};
use super::{
    mistake::{InvalidConfiguration, Mistake, Mistakes, Origin},
    raw::{Config, VERSION},
};

/// The document without its malformed parts, and the mistakes in these parts.
pub(super) struct LoadedDocument {
    /// The configuration, defaults filled in.
    pub(super) config: Config,
    /// The tree it was read from: it has the position of each key, and shows which keys are set.
    pub(super) tree: Node,
    /// The mistakes that were cut out.
    pub(super) mistakes: Mistakes,
}

impl LoadedDocument {
    /// Adds the mistakes that `compile` found.
    pub(super) fn tell(&mut self, mistakes: Vec<KeyMistake>) {
        for finding in mistakes {
            let related = finding.related.as_ref();
            let mistake = mistake_at(&self.tree, &finding.path, finding.message, related);
            mistake
                .into_iter()
                .for_each(|mistake| self.mistakes.push(mistake));
        }
    }
}

/// Reads `origins` as one configuration: mappings are merged, lists are appended, and the later of two values is used.
pub(super) fn read(origins: Vec<Origin>) -> LoadedDocument {
    let all = 0..origins.len();
    let mut mistakes = Mistakes::new(origins);
    let mut merged = read_all(all, &mut mistakes);
    let config = config_of(&mut merged, &mut mistakes);
    LoadedDocument {
        config,
        tree: merged,
        mistakes,
    }
}

/// Reads `own` on top of `below`: values that `own` does not set come from `below`, except for the keys `apart`, whose
/// values come from `own` alone.
pub(super) fn read_on_top(below: Vec<Origin>, own: Vec<Origin>, apart: &[KeyPath]) -> LoadedDocument {
    let (first, all) = (below.len(), below.len() + own.len());
    let mut mistakes = Mistakes::new(below.into_iter().chain(own).collect());
    let mut base = read_all(0..first, &mut mistakes);
    for path in apart {
        base.remove(path);
    }
    let mut merged = overlay(base, read_all(first..all, &mut mistakes));
    let config = config_of(&mut merged, &mut mistakes);
    LoadedDocument {
        config,
        tree: merged,
        mistakes,
    }
}

/// Parses these origins and merges their trees.
fn read_all(origins: Range<usize>, mistakes: &mut Mistakes) -> Node {
    let mut merged = Node::empty();
    for index in origins {
        if let Some(tree) = read_one(index, mistakes) {
            merged = merge(merged, tree);
        }
    }
    merged
}

/// Parses a text of any shape.
pub(super) fn any(origin: Origin) -> Result<Node, InvalidConfiguration> {
    let mut mistakes = Mistakes::new(vec![origin]);
    match yaml::parse(&mistakes.origins()[0].text, 0) {
        Ok(tree) => Ok(tree),
        Err(mistake) => {
            mistakes.push(mistake);
            mistakes.unless_any(Node::empty())
        }
    }
}

/// Deserializes a tree as a configuration, or returns the first error.
pub(super) fn config(tree: &Node) -> Result<Config, SerdeFault> {
    Config::deserialize(tree)
}

/// Parses one file. Returns `None` if no [`Config`] can be made of it.
fn read_one(index: usize, mistakes: &mut Mistakes) -> Option<Node> {
    let mut tree = match yaml::parse(&mistakes.origins()[index].text, index) {
        Ok(tree) => tree,
        Err(mistake) => {
            mistakes.push(mistake);
            return None;
        }
    };
    if let Some(mistake) = other_version(&tree) {
        mistakes.push(mistake);
        return None;
    }
    config_of(&mut tree, mistakes);
    Some(tree)
}

/// Reports another version of the format, because the file would only give unknown keys.
fn other_version(tree: &Node) -> Option<Mistake> {
    let path = KeyPath::root().key("version");
    let node = tree.find(&path)?;
    match node.value {
        YamlValue::Integer(version) if version == i128::from(VERSION) => None,
        YamlValue::Integer(version) => Some(Mistake {
            place: node.place,
            key: tree.written(&path),
            message: format!(
                "version {version} of the format is unknown: this mcpmon reads version {VERSION}"
            ),
            related: None,
        }),
        YamlValue::Null
        | YamlValue::Bool(_)
        | YamlValue::Float(_)
        | YamlValue::Text(_)
        | YamlValue::List(_)
        | YamlValue::Map(_) => None,
    }
}

/// Reads `tree`, cutting out refused parts until the rest can be read.
fn config_of(tree: &mut Node, mistakes: &mut Mistakes) -> Config {
    loop {
        let fault = match Config::deserialize(&*tree) {
            Ok(config) => return config,
            Err(fault) => fault,
        };
        if let Some(mistake) = describe(tree, &fault) {
            mistakes.push(mistake);
        }
        // The part that is cut out is not read again, so other mistakes in it are reported now.
        if let Some(cut) = tree.find(&fault.path) {
            let mut wrong = Vec::new();
            patterns(tree, cut, &fault.path, &mut wrong);
            wrong.into_iter().for_each(|mistake| mistakes.push(mistake));
        }
        if mistakes.is_full() {
            return Config::default();
        }
        if !tree.cut(&fault.path) {
            *tree = Node::empty();
        }
    }
}

/// Keys whose values are regular expressions, wherever they occur.
const PATTERNS: [&str; 3] = ["pattern", "tool_name_regex", "uri_regex"];

/// Reports the mistakes in the regular expressions below `node`, an element of a list that is cut out as a whole.
fn patterns(tree: &Node, node: &Node, path: &KeyPath, wrong: &mut Vec<Mistake>) {
    let YamlValue::Map(entries) = &node.value else {
        return;
    };
    for entry in entries {
        let below = path.key(&entry.key);
        match &entry.node.value {
            YamlValue::Text(text) if PATTERNS.contains(&entry.key.as_str()) => {
                wrong.extend(Pattern::new(text).err().map(|error| Mistake {
                    place: entry.node.place,
                    key: tree.written(&below),
                    message: error.to_string(),
                    related: None,
                }));
            }
            YamlValue::Map(_) => patterns(tree, &entry.node, &below, wrong),
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_)
            | YamlValue::List(_) => {}
        }
    }
}

/// Describes `fault`. Returns `None` if it only follows from an earlier cut.
fn describe(tree: &Node, fault: &SerdeFault) -> Option<Mistake> {
    let node = tree.nearest(&fault.path);
    let place = match fault.subject {
        PathSubject::Key => tree.key_place(&fault.path).unwrap_or(node.place),
        PathSubject::Value => node.place,
        PathSubject::Absent if node.is_incomplete() => return None,
        PathSubject::Absent => node.place,
    };
    Some(Mistake {
        place,
        key: tree.written(&fault.path),
        message: fault.message.clone(),
        related: None,
    })
}

/// Returns the mistake of a key that `compile` reported, at its own position, or at the innermost existing value around
/// it. Returns `None` if the mistake only follows from an earlier cut.
fn mistake_at(tree: &Node, path: &KeyPath, message: String, related: Option<&KeyPath>) -> Option<Mistake> {
    let node = tree.nearest(path);
    if node.is_incomplete() {
        return None;
    }
    Some(Mistake {
        place: node.place,
        key: tree.written(path),
        message,
        related: related.map(|path| tree.nearest(path).place),
    })
}

//! A parsed document with the position of every value.

use crate::mistake::Place;

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// The start of the node.
    pub(crate) place: Place,
    /// The value.
    pub(crate) value: YamlValue,
    /// True if a mistake was cut out of the value, so that missing parts are not reported.
    pub(crate) damaged: bool,
}

/// The kinds of values of a YAML document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum YamlValue {
    /// `null`, `~`, or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// Text, quoted or not.
    Text(String),
    /// A list.
    List(Vec<ListItem>),
    /// A mapping, in the order of the file; keys are unique.
    Map(Vec<MapEntry>),
}

/// An element of a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListItem {
    /// Its index in the file, also after elements before it were cut out or added.
    pub(crate) index: usize,
    /// Its value.
    pub(crate) node: Node,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapEntry {
    /// The key.
    pub(crate) key: String,
    /// The place of the key.
    pub(crate) place: Place,
    /// Its value.
    pub(crate) node: Node,
}

/// The path from the root of a document to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyPath(Vec<PathStep>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathStep {
    /// The value of a key.
    Key(String),
    /// An element of a list, by its position.
    Index(usize),
}

impl KeyPath {
    /// Returns the path of the document itself.
    pub(crate) const fn root() -> Self {
        Self(Vec::new())
    }

    /// Returns the path of `key` in this value.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.step(PathStep::Key(key.to_owned()))
    }

    /// Returns the path of element `index` of this value.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.step(PathStep::Index(index))
    }

    /// Returns the path of the containing value; `None` for the root.
    pub(crate) fn parent(&self) -> Option<Self> {
        let (_, steps) = self.0.split_last()?;
        Some(Self(steps.to_vec()))
    }

    /// Returns the first list on the path, as keys with dots between, and the path of that list's element.
    pub(crate) fn element(&self) -> Option<(String, Self)> {
        let position = self
            .0
            .iter()
            .position(|step| matches!(step, PathStep::Index(_)))?;
        let keys = self.0[..position].iter().filter_map(|step| match step {
            PathStep::Key(key) => Some(key.as_str()),
            PathStep::Index(_) => None,
        });
        Some((
            keys.collect::<Vec<_>>().join("."),
            Self(self.0[..=position].to_vec()),
        ))
    }

    /// Adds `step` at the beginning: an error collects its path while it is returned through the levels.
    pub(crate) fn under(mut self, step: PathStep) -> Self {
        self.0.insert(0, step);
        self
    }

    fn step(&self, step: PathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl Node {
    /// Returns an empty mapping.
    pub(crate) const fn empty() -> Self {
        Self {
            place: Place::START,
            value: YamlValue::Map(Vec::new()),
            damaged: false,
        }
    }

    /// Returns the value at `path`.
    pub(crate) fn find(&self, path: &KeyPath) -> Option<&Self> {
        path.0.iter().try_fold(self, Self::child)
    }

    /// Returns the value at `path`, or the innermost existing one around it.
    pub(crate) fn nearest(&self, path: &KeyPath) -> &Self {
        let mut node = self;
        for step in &path.0 {
            match node.child(step) {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    /// Returns `path` as its file has it: `network.deny[0].cidrs[1]`.
    pub(crate) fn written(&self, path: &KeyPath) -> String {
        let mut text = String::new();
        let mut node = Some(self);
        for step in &path.0 {
            match (step, node.map(|node| &node.value)) {
                (PathStep::Key(key), _) if text.is_empty() => text.push_str(key),
                (PathStep::Key(key), _) => text.extend([".", key]),
                (PathStep::Index(position), Some(YamlValue::List(items))) if *position < items.len() => {
                    text.push_str(&format!("[{}]", items[*position].index));
                }
                (PathStep::Index(position), _) => text.push_str(&format!("[{position}]")),
            }
            node = node.and_then(|node| node.child(step));
        }
        text
    }

    /// Returns the place of the last key of `path`.
    pub(crate) fn key_place(&self, path: &KeyPath) -> Option<Place> {
        let (last, parents) = path.0.split_last()?;
        let parent = parents.iter().try_fold(self, Self::child)?;
        match (&parent.value, last) {
            (YamlValue::Map(entries), PathStep::Key(key)) => entries
                .iter()
                .find(|entry| entry.key == *key)
                .map(|entry| entry.place),
            _ => None,
        }
    }

    /// Removes the value at `path`, and marks the containing value as damaged; later elements of a list move up.
    /// Returns whether there was a value to remove.
    pub(crate) fn cut(&mut self, path: &KeyPath) -> bool {
        let Some((last, parents)) = path.0.split_last() else {
            return false;
        };
        let Some(parent) = parents.iter().try_fold(self, Self::child_mut) else {
            return false;
        };
        parent.damaged = true;
        match (&mut parent.value, last) {
            (YamlValue::Map(entries), PathStep::Key(key)) => {
                let before = entries.len();
                entries.retain(|entry| entry.key != *key);
                entries.len() < before
            }
            (YamlValue::List(items), PathStep::Index(position)) if *position < items.len() => {
                items.remove(*position);
                true
            }
            _ => false,
        }
    }

    /// Removes the value of the last key of `path` without a trace.
    pub(crate) fn remove(&mut self, path: &KeyPath) {
        let Some((PathStep::Key(key), parents)) = path.0.split_last() else {
            return;
        };
        let parent = parents.iter().try_fold(self, Self::child_mut);
        if let Some(YamlValue::Map(entries)) = parent.map(|parent| &mut parent.value) {
            entries.retain(|entry| entry.key != *key);
        }
    }

    /// Returns whether something was cut out of the value or of its direct parts, so that a missing key may have been
    /// there.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.damaged
            || match &self.value {
                YamlValue::Map(entries) => entries.iter().any(|entry| entry.node.damaged),
                YamlValue::List(items) => items.iter().any(|item| item.node.damaged),
                YamlValue::Null
                | YamlValue::Bool(_)
                | YamlValue::Integer(_)
                | YamlValue::Float(_)
                | YamlValue::Text(_) => false,
            }
    }

    fn child(&self, step: &PathStep) -> Option<&Self> {
        match (&self.value, step) {
            (YamlValue::Map(entries), PathStep::Key(key)) => entries
                .iter()
                .find(|entry| entry.key == *key)
                .map(|entry| &entry.node),
            (YamlValue::List(items), PathStep::Index(position)) => {
                items.get(*position).map(|item| &item.node)
            }
            _ => None,
        }
    }

    fn child_mut<'a>(&'a mut self, step: &PathStep) -> Option<&'a mut Self> {
        match (&mut self.value, step) {
            (YamlValue::Map(entries), PathStep::Key(key)) => entries
                .iter_mut()
                .find(|entry| entry.key == *key)
                .map(|entry| &mut entry.node),
            (YamlValue::List(items), PathStep::Index(position)) => {
                items.get_mut(*position).map(|item| &mut item.node)
            }
            _ => None,
        }
    }
}

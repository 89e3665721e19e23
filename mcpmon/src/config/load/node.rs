//! A parsed document that remembers where everything stands.

use std::fmt;

use crate::config::mistake::Place;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Where it starts.
    pub(crate) place: Place,
    /// What it is.
    pub(crate) value: Value,
    /// Whether a mistake was cut out of it, so that what it lacks is no news.
    pub(crate) damaged: bool,
}

/// The kinds of values of a YAML document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
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
    List(Vec<Node>),
    /// A mapping, in the order of the file; keys are unique.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The key.
    pub(crate) key: String,
    /// Where it stands.
    pub(crate) place: Place,
    /// Its value.
    pub(crate) node: Node,
}

/// The way from the root of a document to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyPath(Vec<Step>);

/// A step down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// To the value of a key.
    Key(String),
    /// To an element of a list.
    Index(usize),
}

impl KeyPath {
    /// The document itself.
    pub(crate) const fn root() -> Self {
        Self(Vec::new())
    }

    /// Whether this is the document itself.
    pub(crate) const fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of `key` in it.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    /// The path of its element `index`.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    /// Puts `step` in front: how an error learns its way while it climbs.
    pub(crate) fn under(mut self, step: Step) -> Self {
        self.0.insert(0, step);
        self
    }

    fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if position == 0 => write!(f, "{}", key.escape_debug())?,
                Step::Key(key) => write!(f, ".{}", key.escape_debug())?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl Node {
    /// An empty mapping.
    pub(crate) const fn empty() -> Self {
        Self {
            place: Place::START,
            value: Value::Map(Vec::new()),
            damaged: false,
        }
    }

    /// The value at `path`.
    pub(crate) fn find(&self, path: &KeyPath) -> Option<&Self> {
        path.0.iter().try_fold(self, Self::child)
    }

    /// The value at `path`, or the innermost existing one around it.
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

    /// Where the last key of `path` stands.
    pub(crate) fn key_place(&self, path: &KeyPath) -> Option<Place> {
        let (last, parents) = path.0.split_last()?;
        let parent = parents.iter().try_fold(self, Self::child)?;
        match (&parent.value, last) {
            (Value::Map(entries), Step::Key(key)) => entries
                .iter()
                .find(|entry| entry.key == *key)
                .map(|entry| entry.place),
            _ => None,
        }
    }

    /// Removes the value at `path`, and marks what it stood in as damaged.
    ///
    /// An element of a list leaves a gap that closes: later elements move up.
    pub(crate) fn cut(&mut self, path: &KeyPath) {
        let Some((last, parents)) = path.0.split_last() else {
            return;
        };
        let parent = parents.iter().try_fold(self, Self::child_mut);
        let Some(parent) = parent else {
            return;
        };
        parent.damaged = true;
        match (&mut parent.value, last) {
            (Value::Map(entries), Step::Key(key)) => entries.retain(|entry| entry.key != *key),
            (Value::List(items), Step::Index(index)) if *index < items.len() => drop(items.remove(*index)),
            _ => {}
        }
    }

    /// Whether something was cut out of it or of its direct parts, so that what it lacks may have been there.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.damaged
            || match &self.value {
                Value::Map(entries) => entries.iter().any(|entry| entry.node.damaged),
                Value::List(items) => items.iter().any(|item| item.damaged),
                Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) => false,
            }
    }

    fn child(&self, step: &Step) -> Option<&Self> {
        match (&self.value, step) {
            (Value::Map(entries), Step::Key(key)) => entries
                .iter()
                .find(|entry| entry.key == *key)
                .map(|entry| &entry.node),
            (Value::List(items), Step::Index(index)) => items.get(*index),
            _ => None,
        }
    }

    fn child_mut<'a>(&'a mut self, step: &Step) -> Option<&'a mut Self> {
        match (&mut self.value, step) {
            (Value::Map(entries), Step::Key(key)) => entries
                .iter_mut()
                .find(|entry| entry.key == *key)
                .map(|entry| &mut entry.node),
            (Value::List(items), Step::Index(index)) => items.get_mut(*index),
            _ => None,
        }
    }
}

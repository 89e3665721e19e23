//! Definitions a server offers, as the registry keeps them: everything a model can read, listed and pinned.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Digest, Finding, ListKind, PinKey, Timestamp};

/// The kinds of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionKind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource.
    Resource,
    /// A resource template.
    Template,
    /// A skill that the server offers: its entry, with the manifest of its files. Its name is its URI.
    Skill,
    /// A page that the client shows for the server (`ui://`), as it was read: its digest, and what it asks the
    /// client for. Its name is its URI.
    App,
    /// The text in which a server describes itself to the model; its definition is a JSON string, its name is
    /// empty.
    Instructions,
}

impl DefinitionKind {
    /// Returns the name used in events and texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "template",
            Self::Skill => "skill",
            Self::App => "app",
            Self::Instructions => "instructions",
        }
    }
}

impl From<ListKind> for DefinitionKind {
    fn from(list: ListKind) -> Self {
        match list {
            ListKind::Tools => Self::Tool,
            ListKind::Prompts => Self::Prompt,
            ListKind::Resources => Self::Resource,
            ListKind::Templates => Self::Template,
            ListKind::Skills => Self::Skill,
        }
    }
}

/// The owner of a definition's pin: the server's pin key, the kind and the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DefinitionKey {
    /// The server.
    pub identity: PinKey,
    /// The kind of definition.
    pub kind: DefinitionKind,
    /// Its name; a resource's, skill's or app's URI; empty for instructions.
    pub name: String,
}

/// A definition at one moment. Copies share the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// SHA-256 of the canonical text.
    pub hash: Digest,
    /// Canonical JSON (RFC 8785) of the whole definition.
    #[serde(with = "shared")]
    pub canonical: Arc<str>,
}

/// A definition in the registry. Copies share its texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionRecord {
    /// The definition's key.
    pub key: DefinitionKey,
    /// As the server listed it last.
    pub seen: Definition,
    /// The accepted version; `None` if there is none.
    pub pinned: Option<Definition>,
    /// The user who approved the pinned version; `None` if it was trusted on first use.
    pub approved_by: Option<String>,
    /// The time it was first listed.
    pub first_seen: Timestamp,
    /// The time it was last listed.
    pub last_seen: Timestamp,
    /// Findings in the version that was listed last.
    #[serde(with = "shared")]
    pub findings: Arc<[Finding]>,
    /// True if it is left out of its list and cannot be used.
    pub hidden: bool,
}

impl DefinitionRecord {
    /// Shares the text between the listed and the pinned version if they are equal.
    pub fn share(&mut self) {
        if let Some(pinned) = self
            .pinned
            .as_mut()
            .filter(|pinned| pinned.hash == self.seen.hash)
        {
            pinned.canonical = Arc::clone(&self.seen.canonical);
        }
    }

    /// Returns whether the listed version differs from the pinned one.
    pub fn is_changed(&self) -> bool {
        self.pinned
            .as_ref()
            .is_some_and(|pinned| pinned.hash != self.seen.hash)
    }
}

/// Shared values, read and written as those that are not.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T, S>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + ?Sized,
        S: Serializer,
    {
        (**value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Arc<T>, D::Error>
    where
        T: ?Sized,
        Box<T>: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Box::deserialize(deserializer).map(Arc::from)
    }
}

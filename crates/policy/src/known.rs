//! Definitions that are known to be good: approved once for a whole fleet, by their digests.

use std::collections::BTreeMap;

use mcpmon_model::{DefinitionKind, Digest, ServerId};

/// Known definitions by name. A listed name may only have one of the listed definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownDefinitions {
    by_name: BTreeMap<String, Vec<KnownDefinition>>,
    /// The definitions of a second policy, which must also know a definition if it lists the name.
    on_top: Option<Box<Self>>,
}

/// One version of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDefinition {
    /// The server.
    pub server: ServerId,
    /// The kind of definition.
    pub kind: DefinitionKind,
    /// The name; a resource's URI; empty for instructions.
    pub name: String,
    /// The digest of its canonical text.
    pub hash: Digest,
}

/// The relation of a definition to those that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownStanding {
    /// The name is not listed.
    Unlisted,
    /// The definition is listed.
    Good,
    /// The name is listed, with other definitions only.
    Other,
}

impl KnownDefinitions {
    /// Builds a list.
    pub fn new(definitions: impl IntoIterator<Item = KnownDefinition>) -> Self {
        let mut by_name: BTreeMap<String, Vec<KnownDefinition>> = BTreeMap::new();
        for definition in definitions {
            by_name
                .entry(definition.name.clone())
                .or_default()
                .push(definition);
        }
        Self {
            by_name,
            on_top: None,
        }
    }

    /// Returns every definition of this list, by name.
    pub fn iter(&self) -> impl Iterator<Item = &KnownDefinition> {
        self.by_name.values().flatten()
    }

    /// Returns the relation of a definition to the list.
    pub fn standing(
        &self,
        server: &ServerId,
        kind: DefinitionKind,
        name: &str,
        hash: Digest,
    ) -> KnownStanding {
        let above = match &self.on_top {
            Some(above) => above.standing(server, kind, name, hash),
            None => KnownStanding::Unlisted,
        };
        let of_name = self.by_name.get(name).into_iter().flatten();
        let mut listed = of_name
            .filter(|known| known.kind == kind && known.server.is_spelling_of(server))
            .peekable();
        let is_listed = listed.peek().is_some();
        match above {
            // The second list only tightens this one: it approves nothing that this one does not list.
            KnownStanding::Other => KnownStanding::Other,
            KnownStanding::Good | KnownStanding::Unlisted if !is_listed => KnownStanding::Unlisted,
            KnownStanding::Good | KnownStanding::Unlisted => match listed.any(|known| known.hash == hash) {
                true => KnownStanding::Good,
                false => KnownStanding::Other,
            },
        }
    }

    /// Combines two lists: if both have a name, both must list its definition.
    pub(super) fn tightened_by(&self, other: &Self) -> Self {
        if other.by_name.is_empty() && other.on_top.is_none() || self == other {
            return self.clone();
        }
        let on_top = match &self.on_top {
            Some(above) => above.tightened_by(other),
            None => other.clone(),
        };
        Self {
            by_name: self.by_name.clone(),
            on_top: Some(Box::new(on_top)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(server: &str, name: &str, text: &str) -> KnownDefinition {
        KnownDefinition {
            server: ServerId::new(server).expect("an id"),
            kind: DefinitionKind::Tool,
            name: name.to_owned(),
            hash: Digest::of(text.as_bytes()),
        }
    }

    fn standing(
        list: &KnownDefinitions,
        server: &str,
        kind: DefinitionKind,
        name: &str,
        text: &str,
    ) -> KnownStanding {
        let server = ServerId::new(server).expect("an id");
        list.standing(&server, kind, name, Digest::of(text.as_bytes()))
    }

    #[test]
    fn a_listed_name_has_its_listed_definitions_only() {
        let list = KnownDefinitions::new([known("files", "read", "one"), known("files", "read", "two")]);
        let tool = |server, name, text| standing(&list, server, DefinitionKind::Tool, name, text);
        assert_eq!(tool("files", "read", "one"), KnownStanding::Good);
        assert_eq!(tool("Files", "read", "two"), KnownStanding::Good);
        assert_eq!(tool("files", "read", "three"), KnownStanding::Other);
        assert_eq!(tool("files", "write", "one"), KnownStanding::Unlisted);
        assert_eq!(tool("mail", "read", "one"), KnownStanding::Unlisted);
        let prompt = standing(&list, "files", DefinitionKind::Prompt, "read", "one");
        assert_eq!(prompt, KnownStanding::Unlisted);
    }

    #[test]
    fn a_list_on_top_approves_nothing() {
        let fleet = KnownDefinitions::new([known("files", "read", "one"), known("files", "read", "two")]);
        let host = KnownDefinitions::new([known("files", "read", "two"), known("files", "write", "one")]);
        let both = fleet.tightened_by(&host);
        let tool = |name, text| standing(&both, "files", DefinitionKind::Tool, name, text);
        assert_eq!(tool("read", "two"), KnownStanding::Good);
        assert_eq!(tool("read", "one"), KnownStanding::Other);
        assert_eq!(
            tool("write", "one"),
            KnownStanding::Unlisted,
            "as if nobody had listed it"
        );
        assert_eq!(tool("write", "two"), KnownStanding::Other);
        assert_eq!(fleet.tightened_by(&KnownDefinitions::default()), fleet);
        assert_eq!(fleet.tightened_by(&fleet), fleet);
    }
}

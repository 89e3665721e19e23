//! Compilation of `mcp.version_pinning.known`: definitions that are known to be good.

use mcpmon_model::DefinitionKind;
use mcpmon_policy::{KnownDefinition, KnownDefinitions};

use crate::{
    load::{KeyMistake, KeyPath},
    raw::{self, KnownKind},
};

/// Most definitions in the list.
const MAX_KNOWN: usize = 20_000;

/// Compiles the list.
pub(super) fn known(raw: &[raw::KnownDefinition], mistakes: &mut Vec<KeyMistake>) -> KnownDefinitions {
    let path = KeyPath::root().key("mcp").key("version_pinning").key("known");
    if raw.len() > MAX_KNOWN {
        let message = format!("more than {MAX_KNOWN} definitions: list those of servers that are in use");
        mistakes.push(KeyMistake::new(path, message));
        return KnownDefinitions::default();
    }
    for (index, known) in raw.iter().enumerate() {
        let message = match (known.kind, known.name.as_str()) {
            (KnownKind::Instructions, "") => continue,
            (KnownKind::Instructions, _) => "instructions have no name: remove it",
            (_, "") => "expected the name of the definition",
            (_, _) => continue,
        };
        mistakes.push(KeyMistake::new(path.index(index).key("name"), message));
    }
    let definition = |known: &raw::KnownDefinition| KnownDefinition {
        server: known.server.0.clone(),
        kind: match known.kind {
            KnownKind::Tool => DefinitionKind::Tool,
            KnownKind::Prompt => DefinitionKind::Prompt,
            KnownKind::Resource => DefinitionKind::Resource,
            KnownKind::Template => DefinitionKind::Template,
            KnownKind::Instructions => DefinitionKind::Instructions,
        },
        name: known.name.clone(),
        hash: known.content_hash.0,
    };
    KnownDefinitions::new(raw.iter().map(definition))
}

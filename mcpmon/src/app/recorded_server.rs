//! Recorded servers of this host: the package of the latest start, and the latest lists.

use std::path::{Path, PathBuf};

use mcpmon_config::LoadedConfiguration;
use mcpmon_detect::scan::{Scanner, Scene};
use mcpmon_model::{DefinitionKind, DefinitionRecord, EventType, PackageOrigin, Timestamp};
use mcpmon_pins::Root;
use mcpmon_store::{Filter, QueryError, Selection, StoreReader, StoredEvent};
use serde_json::Value;

use super::{
    inspection::{InspectError, InspectedDefinition},
    scan::findings_of_record,
    server_card::{ServerCard, ServerCardError},
};

/// The file that a package is published with.
const SERVER_JSON: &str = "server.json";
/// Largest `server.json`, bytes.
const MAX_SERVER_JSON: u64 = 1 << 20;

/// The record of a server.
#[derive(Debug)]
pub(crate) struct RecordedServer {
    /// The definitions that it last listed to the user of that start.
    pub(crate) listed: Vec<InspectedDefinition>,
    /// The server's latest start.
    pub(crate) start: Option<RecordedStart>,
}

/// A start of a server.
#[derive(Debug)]
pub(crate) struct RecordedStart {
    pub(crate) at: Timestamp,
    /// The origin of its package.
    pub(crate) origin: Option<PackageOrigin>,
    /// The directory of its package, inside the root of the process.
    package: Option<PathBuf>,
    /// True if the root of the process is not this host's.
    is_in_container: bool,
}

/// The reason why the record of a server cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordedServerError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] QueryError),
    /// A pattern of the configuration cannot be used.
    #[error(transparent)]
    Pattern(#[from] InspectError),
}

impl RecordedServer {
    /// Reads the record of the server `id`. Returns `None` if there is none.
    ///
    /// # Errors
    /// [`RecordedServerError`]
    pub(crate) fn read(
        store: &StoreReader,
        id: &str,
        loaded: &LoadedConfiguration,
    ) -> Result<Option<Self>, RecordedServerError> {
        let starts = Filter {
            types: vec![EventType::ServerStarted.as_str().to_owned()],
            server: Some(id.to_owned()),
            ..Filter::default()
        };
        let start = store.events(&starts, 1)?.pop();
        let uid = start
            .as_ref()
            .and_then(|start| start.process.as_ref())
            .and_then(|process| process.uid);
        let mut records = store.definitions(&Selection {
            server: Some(id.to_owned()),
            uid,
            ..Selection::default()
        })?;
        // Without a recorded start, the definitions are those of the user to whom it listed something last.
        let latest = records.iter().max_by_key(|record| record.last_seen);
        if let Some(uid) = uid.or_else(|| latest.map(|record| record.key.identity.uid)) {
            records.retain(|record| record.key.identity.uid == uid);
        }
        if records.is_empty() && start.is_none() {
            return Ok(None);
        }
        let detection = &loaded.policy.inspection;
        let scanner = Scanner::new(&detection.builtin, &detection.custom).map_err(InspectError::from)?;
        let tools = records
            .iter()
            .filter(|record| record.key.kind == DefinitionKind::Tool);
        let own: Vec<&str> = tools.map(|record| &*record.key.name).collect();
        let scene = Scene {
            own: &own,
            ..Scene::default()
        };
        let listed = records.iter().map(|record| inspected(record, &scanner, &scene));
        Ok(Some(Self {
            listed: listed.collect(),
            start: start.map(RecordedStart::of),
        }))
    }
}

fn inspected(record: &DefinitionRecord, scanner: &Scanner, scene: &Scene<'_>) -> InspectedDefinition {
    let text: Value = serde_json::from_str(&record.seen.canonical).unwrap_or_default();
    let description = match record.key.kind {
        DefinitionKind::Instructions => &text,
        DefinitionKind::Skill => &text["frontmatter"]["description"],
        DefinitionKind::Tool
        | DefinitionKind::Prompt
        | DefinitionKind::Resource
        | DefinitionKind::Template
        | DefinitionKind::App => &text["description"],
    };
    InspectedDefinition {
        kind: record.key.kind,
        name: record.key.name.clone(),
        description: description.as_str().map(str::to_owned),
        findings: findings_of_record(record, scanner, scene),
    }
}

impl RecordedStart {
    fn of(mut event: StoredEvent) -> Self {
        let mut field = |name| event.data.remove(name).unwrap_or_default();
        Self {
            at: event.timestamp,
            origin: serde_json::from_value(field("package_origin")).ok(),
            package: serde_json::from_value(field("package_path")).ok(),
            is_in_container: event.container.is_some(),
        }
    }

    /// Reads the `server.json` of its package as it is now. Returns `None` if there is none, or the package is in a
    /// container.
    pub(crate) fn card(&self) -> Option<(PathBuf, Result<ServerCard, ServerCardError>)> {
        let noted = self
            .origin
            .as_ref()
            .and_then(|origin| origin.registry_entry.as_ref());
        let noted = noted.and_then(|entry| entry.file.as_deref()).map(PathBuf::from);
        let beside = || self.package.as_deref().map(|package| package.join(SERVER_JSON));
        let file = noted.or_else(beside).filter(|_| !self.is_in_container)?;
        let text = Root::at(Path::new("/")).ok()?.read(&file, MAX_SERVER_JSON).ok()?;
        let card = ServerCard::parse(&String::from_utf8_lossy(&text));
        Some((file, card))
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_config::{LocalConfig, Search, Trust, load};
    use mcpmon_model::Event;
    use mcpmon_store::{Destination as _, StoreEntry, sample};
    use test_case::test_case;

    use super::*;

    fn started(second: i64, uid: Option<u32>) -> Event {
        let mut event = sample::at(second, sample::started("files", 2));
        event.process.as_mut().expect("a process").uid = uid;
        event
    }

    fn listed(second: i64, uid: u32, tool: &str) -> DefinitionRecord {
        let text = format!(r#"{{"name":"{tool}"}}"#);
        let mut record = sample::definition("files", tool, &text);
        record.key.identity.uid = uid;
        record.last_seen = Timestamp(record.last_seen.0 + second);
        record
    }

    #[test_case(&[(1, Some(1000)), (2, Some(1001))] => vec!["theirs"]; "of the latest start")]
    #[test_case(&[(1, Some(1001)), (2, Some(1000))] => vec!["mine"]; "of another one")]
    #[test_case(&[(1, Some(1002))] => Vec::<String>::new(); "one to whom nothing was listed")]
    #[test_case(&[(1, None)] => vec!["theirs"]; "a start whose user is not known")]
    #[test_case(&[] => vec!["theirs"]; "no start")]
    fn lists_are_those_of_one_user(starts: &[(i64, Option<u32>)]) -> Vec<String> {
        let (directory, mut store) = sample::store();
        sample::fill(
            &mut store,
            starts.iter().map(|(second, uid)| started(*second, *uid)),
        );
        let records = [listed(1, 1000, "mine"), listed(2, 1001, "theirs")];
        store.keep(&records.map(StoreEntry::Definition)).expect("kept");
        let file = directory.path().join("mcpmon.yaml");
        std::fs::write(&file, "version: 1\n").expect("written");
        let search = Search::of_process(Some(file), LocalConfig::Ignore);
        let loaded = load(&search, Trust::Anyone).expect("a policy");
        let reader = StoreReader::open(store.path()).expect("a reader");
        let found = RecordedServer::read(&reader, "files", &loaded).expect("it is read");
        let found = found.expect("it is recorded").listed.into_iter();
        found.map(|definition| definition.name).collect()
    }
}

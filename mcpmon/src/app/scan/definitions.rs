//! Definitions of scanned servers: from the registry, where wrappers recorded them, or from the servers' current lists.

use std::{collections::BTreeSet, path::Path};

use mcpmon_detect::{
    inventory::InventoryFinding,
    scan::{Scanner, Scene},
};
use mcpmon_model::{DefinitionKind, DefinitionRecord, Finding, RawJson};
use mcpmon_store::{Selection, StoreReader};

use super::{Definitions, Scan, ScanFinding, ScannedServer, StartPlan};
use crate::app::inspection::InspectedDefinition;

impl Scan {
    /// Adds the definitions that wrappers and proxies recorded.
    pub(super) fn read_definitions(&mut self, registry: &StoreReader, scanner: &Scanner) {
        for file in &mut self.files {
            for server in &mut file.servers {
                let selection = Selection {
                    server: Some(server.configured.id.to_string()),
                    ..Selection::default()
                };
                // If the store cannot be read, there are no definitions; the configuration is judged all the same.
                let records = registry.definitions(&selection).unwrap_or_default();
                if records.is_empty() {
                    continue;
                }
                server.definitions = Definitions::Registry(records.len());
                server.take(&file.path, &records, scanner);
            }
        }
    }
}

impl ScannedServer {
    /// Notes the reason why the server was not started, unless a definition or a reason is known.
    pub(super) fn tell_obstacle(&mut self) {
        if self.definitions == Definitions::Unknown
            && let Err(reason) = StartPlan::new((0, 0), &self.configured, Path::new("/"))
        {
            self.definitions = Definitions::Failed(reason.to_owned());
        }
    }

    /// Replaces recorded definitions by those that the server lists now.
    pub(super) fn take_listed(&mut self, file: &Path, listed: Result<&[InspectedDefinition], &String>) {
        let definitions = match listed {
            Ok(definitions) => definitions,
            Err(fault) => {
                if self.definitions == Definitions::Unknown {
                    self.definitions = Definitions::Failed(fault.clone());
                }
                return;
            }
        };
        self.findings.retain(|finding| !finding.is_of_definition);
        self.definitions = Definitions::Listed(definitions.len());
        let tools = definitions
            .iter()
            .filter(|found| found.kind == DefinitionKind::Tool);
        self.tools = tools.map(|tool| tool.name.clone()).collect();
        for definition in definitions {
            for finding in &definition.findings {
                let found = self.definition_finding(file, &definition.name, finding);
                self.findings.push(found);
            }
        }
    }

    /// Adds and inspects recorded definitions.
    fn take(&mut self, file: &Path, records: &[DefinitionRecord], scanner: &Scanner) {
        let tools = records
            .iter()
            .filter(|record| record.key.kind == DefinitionKind::Tool);
        let tools: BTreeSet<String> = tools.map(|record| record.key.name.clone()).collect();
        let own: Vec<&str> = tools.iter().map(String::as_str).collect();
        for record in records {
            let scene = Scene {
                own: &own,
                ..Scene::default()
            };
            let is_approved = record.approved_by.is_some()
                && record
                    .pinned
                    .as_ref()
                    .is_some_and(|pinned| pinned.hash == record.seen.hash);
            for finding in findings_of_record(record, scanner, &scene) {
                let mut found = self.definition_finding(file, &record.key.name, &finding);
                found.is_accepted = is_approved;
                self.findings.push(found);
            }
        }
        self.tools = tools.into_iter().collect();
    }

    fn definition_finding(&self, file: &Path, item: &str, finding: &Finding) -> ScanFinding {
        let mut found = InventoryFinding::of_text(finding, "");
        let of = if item.is_empty() { "its instructions" } else { item };
        found.message = format!("{of}, {}: {}", finding.field, found.message);
        found.place = Some(self.configured.place);
        ScanFinding {
            file: file.to_owned(),
            item: item.to_owned(),
            finding: found,
            is_accepted: false,
            is_of_definition: true,
        }
    }
}

/// Returns the findings in a definition by the current rules. If its text is not kept, returns those of the time when
/// it was listed.
pub(in crate::app) fn findings_of_record(
    record: &DefinitionRecord,
    scanner: &Scanner,
    scene: &Scene<'_>,
) -> Vec<Finding> {
    let text = &*record.seen.canonical;
    if text.is_empty() {
        return record.findings.to_vec();
    }
    let json = RawJson::trusted(text);
    match record.key.kind {
        DefinitionKind::Instructions => json
            .text()
            .map(|text| scanner.instructions(&text, scene))
            .unwrap_or_default(),
        DefinitionKind::Tool
        | DefinitionKind::Prompt
        | DefinitionKind::Resource
        | DefinitionKind::Template
        | DefinitionKind::Skill
        | DefinitionKind::App => scanner.definition(json, scene),
    }
}

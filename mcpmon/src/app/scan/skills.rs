//! Skills of a scan: each tree is read once, however many clients use it, and compared with its pin.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use mcpmon_clients::{Client, Roots, skills, skills_below};
use mcpmon_detect::{inventory::InventoryFinding, scan::Scanner};
use mcpmon_model::{Manifest, ServerId};
use mcpmon_store::{SkillPin, Store, StoreError};

use super::{Scan, ScanFinding, ScanOptions, ScannedSkill, SkillState, tree};

/// Id of a skill whose name contains no character that is allowed in ids.
const NAMELESS: &str = "skill";

impl Scan {
    pub(super) fn read_skills(
        &mut self,
        options: &ScanOptions,
        roots: &[Roots],
        projects: &[PathBuf],
        scanner: &Scanner,
        progress: &mut dyn FnMut(&str),
    ) {
        let mut found: BTreeMap<PathBuf, Vec<&'static Client>> = BTreeMap::new();
        let mut add = |path: &Path, client: Option<&'static Client>| {
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let clients = found.entry(real).or_default();
            clients.extend(client.filter(|client| clients.iter().all(|known| known.id != client.id)));
        };
        for client in options.clients.iter().copied() {
            for (number, roots) in roots.iter().enumerate() {
                let projects = if number == 0 { projects } else { &[] };
                for skill in skills(client, roots, projects) {
                    add(&skill.path, Some(client));
                }
            }
        }
        for path in options.paths.iter().flat_map(|path| skills_below(path)) {
            add(&path, None);
        }
        for (path, clients) in found {
            progress(&path.display().to_string());
            let tree = tree::read(&path, scanner);
            let pin = self.pins.iter().find(|pin| pin.path == path);
            let state = match pin {
                None => SkillState::New,
                Some(pin) if pin.manifest == tree.manifest => SkillState::Unchanged,
                Some(pin) => SkillState::Changed(Manifest::changes(&pin.manifest, &tree.manifest)),
            };
            let mut findings: Vec<_> = tree
                .findings
                .into_iter()
                .map(|(file, finding)| ScanFinding::new(path.join(file), finding))
                .collect();
            if let SkillState::Changed(changes) = &state {
                let message = format!("since it was pinned: {}", changes.join(", "));
                let finding = InventoryFinding::new("changed-skill", message, None);
                findings.push(ScanFinding::new(path.join(tree::SKILL), finding));
            }
            self.skills.push(ScannedSkill {
                clients,
                name: path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                digest: tree.manifest.digest(),
                state,
                findings,
                path: path.clone(),
            });
            self.pins.push(SkillPin {
                path,
                manifest: tree.manifest,
                pinned_at: options.now,
                pinned_by: String::new(),
            });
        }
    }

    /// Pins every skill without a pin, and with `accept` also the changed ones. Returns the number of new pins.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn pin_skills(&self, store: &mut Store, accept: bool, by: &str) -> Result<usize, StoreError> {
        let mut pinned = 0;
        for skill in &self.skills {
            let by = match &skill.state {
                SkillState::New => "first_use",
                SkillState::Changed(_) if accept => by,
                SkillState::Changed(_) | SkillState::Unchanged => continue,
            };
            // The last entry of a path is what was read now.
            let Some(read) = self.pins.iter().rev().find(|pin| pin.path == skill.path) else {
                continue;
            };
            let pin = SkillPin {
                pinned_by: by.to_owned(),
                ..read.clone()
            };
            pinned += usize::from(store.pin_skill(&pin)?);
        }
        Ok(pinned)
    }
}

/// Returns the id of a skill that suppressions use in the place of a server's.
pub fn skill_id(name: &str) -> ServerId {
    let allowed = |character: char| match ServerId::new(character) {
        Ok(_) => character,
        Err(_) => '-',
    };
    let id: String = name.chars().map(allowed).take(ServerId::MAX).collect();
    ServerId::new(id).unwrap_or_else(|_| ServerId::new(NAMELESS).expect("a plain word is an id"))
}

//! `mcpmon scan`: reads and judges the configuration of every client, and every skill. Servers are started only if a
//! person agreed, and nothing is sent to other hosts.

mod caches;
pub mod confined;
mod definitions;
pub(in crate::app) mod homes;
mod outcome;
mod skills;
mod started;
mod tree;

use std::{collections::BTreeSet, path::PathBuf};

use mcpmon_clients::{CLIENTS, Client, ConfiguredFile, FileTrouble, Roots, configured_files, projects_below};
use mcpmon_config::LoadedConfiguration;
use mcpmon_detect::{
    inventory::{FileTraits, InventoryFinding, OfferedTool, inspect_server, shadowed_tools},
    scan::{PatternError, Scanner},
};
use mcpmon_model::{ServerId, Severity, Timestamp};
use mcpmon_store::{SkillPin, StoreReader};

pub(super) use self::definitions::findings_of_record;
pub use self::{
    outcome::{Definitions, Scan, ScanFinding, ScannedFile, ScannedServer, ScannedSkill, SkillState},
    skills::skill_id,
    started::{AppliedConfinement, ConfinementGap, StartConfinement, StartPlan, StartTarget},
};
use super::inspection::{InspectError, inspect_offer};

/// Permission bits that let others than the owner read.
const READ_BY_OTHERS: u32 = 0o044;
/// The options of a scan: what it reads.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// The roots of this user.
    pub roots: Roots,
    /// True if the files of all users are read.
    pub all_users: bool,
    /// The clients whose files are read.
    pub clients: Vec<&'static Client>,
    /// Directories whose projects and skills are read; if there are none, the current directory is the project.
    pub paths: Vec<PathBuf>,
    /// The current time.
    pub now: Timestamp,
}

/// The reason why a scan failed.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// A pattern of the configuration cannot be used.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// Reads every configuration file, and adds the definitions that wrappers recorded. `progress` is called with the name
/// of each client.
///
/// # Errors
/// [`ScanError`]
pub fn read(
    options: &ScanOptions,
    loaded: &LoadedConfiguration,
    registry: Option<&StoreReader>,
    progress: &mut dyn FnMut(&str),
) -> Result<Scan, ScanError> {
    let mut scan = Scan {
        files: files(
            options,
            &options.all_roots(),
            &projects(&options.paths),
            loaded,
            progress,
        ),
        skills: Vec::new(),
        pins: Vec::new(),
    };
    if let Some(registry) = registry {
        scan.read_definitions(registry, &scanner(loaded)?);
    }
    Ok(scan)
}

fn scanner(loaded: &LoadedConfiguration) -> Result<Scanner, PatternError> {
    let detection = &loaded.policy.inspection;
    Scanner::new(&detection.builtin, &detection.custom)
}

impl ScanOptions {
    fn all_roots(&self) -> Vec<Roots> {
        match self.all_users {
            true => homes::of_all_users(self.roots.clone()),
            false => vec![self.roots.clone()],
        }
    }
}

/// Returns the projects below the given directories; if there are none, the current directory.
fn projects(paths: &[PathBuf]) -> Vec<PathBuf> {
    if paths.is_empty() {
        return std::env::current_dir().into_iter().collect();
    }
    let below = paths.iter().flat_map(|path| projects_below(path));
    below.collect::<BTreeSet<_>>().into_iter().collect()
}

fn files(
    options: &ScanOptions,
    roots: &[Roots],
    projects: &[PathBuf],
    loaded: &LoadedConfiguration,
    progress: &mut dyn FnMut(&str),
) -> Vec<ScannedFile> {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for client in options.clients.iter().copied() {
        progress(&client.name);
        for (number, roots) in roots.iter().enumerate() {
            // Projects belong to no particular user, so they are read once.
            let projects = if number == 0 { projects } else { &[] };
            let found = configured_files(client, roots, projects).into_iter();
            files.extend(
                found
                    .filter(|file| seen.insert((client.id.as_str(), file.path.clone())))
                    .filter_map(|file| scanned_file(file, loaded)),
            );
        }
    }
    files
}

/// Judges a file. Returns `None` if it has no servers and no findings.
fn scanned_file(file: ConfiguredFile, loaded: &LoadedConfiguration) -> Option<ScannedFile> {
    let traits = FileTraits {
        scope: file.scope,
        is_open: file.mode & READ_BY_OTHERS != 0,
        compares_names: loaded.policy.name_similarity.is_on(),
    };
    let mut scanned = ScannedFile {
        client: file.client,
        path: file.path.clone(),
        project: file.project.clone(),
        servers: Vec::new(),
        findings: Vec::new(),
    };
    match &file.servers {
        Ok(servers) => {
            let servers = servers.iter().map(|server| ScannedServer {
                findings: inspect_server(server, &traits)
                    .into_iter()
                    .map(|finding| ScanFinding::new(file.path.clone(), finding))
                    .collect(),
                configured: server.clone(),
                definitions: Definitions::Unknown,
                started: None,
                tools: Vec::new(),
            });
            scanned.servers = servers.collect();
        }
        Err(trouble) => {
            let finding = unreadable(&file, trouble);
            scanned
                .findings
                .push(ScanFinding::new(file.path.clone(), finding));
        }
    }
    (!scanned.servers.is_empty() || !scanned.findings.is_empty()).then_some(scanned)
}

fn unreadable(file: &ConfiguredFile, trouble: &FileTrouble) -> InventoryFinding {
    if file.is_too_large() {
        return InventoryFinding::new("not-read-whole", trouble.to_string(), None);
    }
    match file.mistake() {
        Some(mistake) => {
            let place = mcpmon_clients::Place {
                line: mistake.line,
                column: mistake.column,
            };
            let message = format!("its servers are not known: {}", mistake.reason);
            InventoryFinding::new("unreadable-file", message, Some(place))
        }
        None => {
            let cause =
                std::error::Error::source(trouble).map_or_else(String::new, |cause| format!(": {cause}"));
            InventoryFinding::new("unreadable-file", format!("{trouble}{cause}"), None)
        }
    }
}

impl Scan {
    /// Returns what can be started or asked, each once: servers in files of this user and of projects, but not those in
    /// other users' homes.
    pub fn start_plans(&self, options: &ScanOptions) -> Vec<StartPlan> {
        let home = &options.roots.home;
        let mut plans: Vec<StartPlan> = Vec::new();
        for (file_index, file) in self.files.iter().enumerate() {
            let is_own = file.path.starts_with(home) || file.project.is_some() || !options.all_users;
            let directory = file.project.as_ref().unwrap_or(home);
            for (index, server) in file.servers.iter().enumerate().filter(|_| is_own) {
                let Ok(plan) = StartPlan::new((file_index, index), &server.configured, directory) else {
                    continue;
                };
                match plans.iter_mut().find(|known| known.is_same(&plan)) {
                    Some(known) => known.indexes.extend(plan.indexes),
                    None => plans.push(plan),
                }
            }
        }
        plans
    }

    /// Starts or asks servers one after the other, and inspects their definitions.
    ///
    /// # Errors
    /// Returns an error if a pattern of the configuration cannot be used.
    pub fn start(
        &mut self,
        plans: &[&StartPlan],
        confinement: &StartConfinement,
        loaded: &LoadedConfiguration,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), InspectError> {
        for plan in plans {
            progress(&plan.name);
            let listed = match plan.offer(confinement, loaded.policy.limits.max_line) {
                Ok(offer) => Ok(inspect_offer(&offer, loaded)?),
                Err(fault) => Err(fault),
            };
            for (file, server) in &plan.indexes {
                let file = &mut self.files[*file];
                let server = &mut file.servers[*server];
                server.started = plan.applied(confinement);
                server.take_listed(&file.path, listed.as_deref());
            }
        }
        for server in self.files.iter_mut().flat_map(|file| &mut file.servers) {
            server.tell_obstacle();
        }
        Ok(())
    }

    /// Compares servers with each other, reads every skill, and marks what is accepted.
    ///
    /// # Errors
    /// Returns an error if a pattern of the configuration cannot be used.
    pub fn judge(
        &mut self,
        options: &ScanOptions,
        loaded: &LoadedConfiguration,
        pins: Vec<SkillPin>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), ScanError> {
        self.pins = pins;
        self.compare_tools(&options.clients);
        let projects = projects(&options.paths);
        self.read_skills(
            options,
            &options.all_roots(),
            &projects,
            &scanner(loaded)?,
            progress,
        );
        self.accept_known(loaded, options.now);
        Ok(())
    }

    /// Compares the tools of all servers that a client has.
    fn compare_tools(&mut self, clients: &[&'static Client]) {
        for client in clients {
            let mut found: Vec<(String, String, InventoryFinding)> = Vec::new();
            {
                let servers = self.files.iter().filter(|file| file.client.id == client.id);
                let servers = servers.flat_map(|file| &file.servers);
                let tools: Vec<_> = servers
                    .flat_map(|server| {
                        let id = server.configured.id.as_str();
                        server
                            .tools
                            .iter()
                            .map(move |name| OfferedTool { server: id, name })
                    })
                    .collect();
                for shadowed in shadowed_tools(&tools) {
                    let message = format!(
                        "`{}` of `{}` {} `{}` of `{}`",
                        shadowed.tool.name,
                        shadowed.tool.server,
                        match shadowed.severity {
                            Severity::High => "looks like",
                            Severity::Info | Severity::Low | Severity::Medium | Severity::Critical =>
                                "has the name of",
                        },
                        shadowed.other.name,
                        shadowed.other.server,
                    );
                    let finding = InventoryFinding::new("shadowed-tool", message, None).at(shadowed.severity);
                    let (server, tool) = (shadowed.tool.server, shadowed.tool.name);
                    found.push((server.to_owned(), tool.to_owned(), finding));
                }
            }
            for file in self.files.iter_mut().filter(|file| file.client.id == client.id) {
                for server in &mut file.servers {
                    let id = server.configured.id.as_str();
                    for (_, tool, finding) in found.iter().filter(|(of, ..)| of == id) {
                        let mut finding = ScanFinding::new(file.path.clone(), finding.clone());
                        finding.finding.place = Some(server.configured.place);
                        finding.item.clone_from(tool);
                        server.findings.push(finding);
                    }
                }
            }
        }
    }

    /// Marks the findings that the configuration accepts.
    fn accept_known(&mut self, loaded: &LoadedConfiguration, now: Timestamp) {
        let accept = |finding: &mut ScanFinding, server: &ServerId| {
            let InventoryFinding { rule, name, .. } = &finding.finding;
            finding.is_accepted |=
                loaded
                    .policy
                    .suppresses(&[rule.as_str(), name.as_str()], server, &finding.item, now);
        };
        for server in self.files.iter_mut().flat_map(|file| &mut file.servers) {
            for finding in &mut server.findings {
                accept(finding, &server.configured.id);
            }
        }
        for skill in &mut self.skills {
            let id = skill_id(&skill.name);
            for finding in &mut skill.findings {
                accept(finding, &id);
            }
        }
    }

    /// Returns every finding that is not accepted.
    pub fn open_findings(&self) -> impl Iterator<Item = &ScanFinding> {
        let of_files = self.files.iter().flat_map(|file| {
            let of_servers = file.servers.iter().flat_map(|server| &server.findings);
            file.findings.iter().chain(of_servers)
        });
        let of_skills = self.skills.iter().flat_map(|skill| &skill.findings);
        of_files.chain(of_skills).filter(|finding| !finding.is_accepted)
    }
}

/// Returns the clients with these ids; all clients if `names` is empty.
pub fn chosen_clients(names: &[String]) -> Vec<&'static Client> {
    let is_chosen = |client: &&Client| names.is_empty() || names.contains(&client.id);
    CLIENTS.iter().filter(is_chosen).collect()
}

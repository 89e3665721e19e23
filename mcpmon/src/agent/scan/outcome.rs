//! The outcome of a scan: files with their servers, skills, and the findings in both.

use std::path::PathBuf;

use mcpmon_clients::{Client, ConfiguredServer};
use mcpmon_detect::inventory::InventoryFinding;
use mcpmon_model::Digest;
use mcpmon_store::SkillPin;

use super::started::AppliedConfinement;

/// The outcome.
#[derive(Debug)]
pub struct Scan {
    /// Configuration files, by client.
    pub files: Vec<ScannedFile>,
    /// Skills, by path.
    pub skills: Vec<ScannedSkill>,
    pub(super) pins: Vec<SkillPin>,
}

/// A configuration file.
#[derive(Debug)]
pub struct ScannedFile {
    /// The client that reads it.
    pub client: &'static Client,
    /// Its path.
    pub path: PathBuf,
    /// The project that it belongs to.
    pub project: Option<PathBuf>,
    /// Its servers.
    pub servers: Vec<ScannedServer>,
    /// Findings in the file as a whole.
    pub findings: Vec<ScanFinding>,
}

/// A configured server.
#[derive(Debug)]
pub struct ScannedServer {
    /// As it is configured.
    pub configured: ConfiguredServer,
    /// The origin of its definitions.
    pub definitions: Definitions,
    /// The confinement in which it was started for the scan.
    pub started: Option<AppliedConfinement>,
    /// Names of its tools, where they are known.
    pub tools: Vec<String>,
    /// Findings in it.
    pub findings: Vec<ScanFinding>,
}

/// The origin of a server's definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definitions {
    /// None is known: the server was not started, and no wrapper saw it.
    Unknown,
    /// As a wrapper or proxy saw them: so many.
    Registry(usize),
    /// As the server listed them now: so many.
    Listed(usize),
    /// None is known: it could not be started or asked, for this reason.
    Failed(String),
}

/// A skill.
#[derive(Debug)]
pub struct ScannedSkill {
    /// The clients that read it.
    pub clients: Vec<&'static Client>,
    /// Its name: that of its directory.
    pub name: String,
    /// Its directory, past all links.
    pub path: PathBuf,
    /// The digest of its tree.
    pub digest: Digest,
    /// The state of its pin.
    pub state: SkillState,
    /// Findings in its files.
    pub findings: Vec<ScanFinding>,
}

/// The state of a skill's pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillState {
    /// No pin was there.
    New,
    /// Nothing differs from the pin.
    Unchanged,
    /// Something differs from the pin: these files.
    Changed(Vec<String>),
}

/// A finding with its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanFinding {
    /// The file.
    pub file: PathBuf,
    /// The tool, prompt or resource of a server that it is in; empty where it is in none.
    pub item: String,
    /// The finding.
    pub finding: InventoryFinding,
    /// True if the configuration or a person accepted it.
    pub is_accepted: bool,
    pub(super) is_of_definition: bool,
}

impl ScanFinding {
    pub(super) const fn new(file: PathBuf, finding: InventoryFinding) -> Self {
        Self {
            file,
            item: String::new(),
            finding,
            is_accepted: false,
            is_of_definition: false,
        }
    }
}

//! The outcome of a scan: files with their servers, skills, and the findings in both.

use std::path::PathBuf;

use mcpmon_clients::{Client, ConfiguredServer};
use mcpmon_detect::inventory::InventoryFinding;
use mcpmon_model::Digest;
use mcpmon_store::SkillPin;

use super::started::AppliedConfinement;

/// The outcome of a scan.
#[derive(Debug)]
pub struct Scan {
    /// Configuration files, ordered by client.
    pub files: Vec<ScannedFile>,
    /// Skills, ordered by path.
    pub skills: Vec<ScannedSkill>,
    pub(super) pins: Vec<SkillPin>,
}

/// A configuration file.
#[derive(Debug)]
pub struct ScannedFile {
    /// The client that reads it.
    pub client: &'static Client,
    /// The path.
    pub path: PathBuf,
    /// The project that it belongs to.
    pub project: Option<PathBuf>,
    /// The servers in the file.
    pub servers: Vec<ScannedServer>,
    /// Findings in the file as a whole.
    pub findings: Vec<ScanFinding>,
}

/// A configured server.
#[derive(Debug)]
pub struct ScannedServer {
    /// The configuration.
    pub configured: ConfiguredServer,
    /// The origin of the server's definitions.
    pub definitions: Definitions,
    /// The confinement in which it was started for the scan; `None` if it was not started.
    pub started: Option<AppliedConfinement>,
    /// Names of its tools, if they are known.
    pub tools: Vec<String>,
    /// Findings in the server.
    pub findings: Vec<ScanFinding>,
}

/// The origin of a server's definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definitions {
    /// No definitions are known: the server was not started, and no wrapper recorded it.
    Unknown,
    /// A wrapper or proxy recorded them; their number.
    Registry(usize),
    /// The server listed them now; their number.
    Listed(usize),
    /// No definitions are known: the server could not be started or asked, for this reason.
    Failed(String),
}

/// A skill.
#[derive(Debug)]
pub struct ScannedSkill {
    /// The clients that read it.
    pub clients: Vec<&'static Client>,
    /// The name, which is that of the directory.
    pub name: String,
    /// The directory, with all links resolved.
    pub path: PathBuf,
    /// The digest of the directory's tree.
    pub digest: Digest,
    /// The state of its pin.
    pub state: SkillState,
    /// Findings in its files.
    pub findings: Vec<ScanFinding>,
}

/// The state of a skill's pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillState {
    /// There was no pin.
    New,
    /// It is equal to the pin.
    Unchanged,
    /// These files differ from the pin.
    Changed(Vec<String>),
}

/// A finding, and the file that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanFinding {
    /// The file.
    pub file: PathBuf,
    /// The tool, prompt or resource of a server that it is in; empty if it is in none.
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

//! The content of `mcpmon status`: the current state of the enforcement.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use mcpmon_model::Kills;
use serde::{Deserialize, Serialize};

use super::selftest::SelfTestCheck;
pub use super::{
    engine::Coverage,
    proxy::ProxyStatus,
    runs::RunStatus,
    sandboxes::SandboxStatus,
    tap::{TapStatus, TappedStatus},
};

/// Addresses of a name that a line tells.
const MAX_TOLD: usize = 4;

/// The daemon's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime: u64,
    /// Everything that matters in one word.
    pub state: State,
    /// The degraded components, with their causes.
    pub degraded: BTreeMap<String, String>,
    /// The policy in force.
    pub policy: PolicyStatus,
    /// Address lists.
    pub network: NetworkStatus,
    /// The latest self-test.
    pub checks: Vec<SelfTestCheck>,
    /// The time of the run, RFC 3339.
    pub checked_at: Option<String>,
    /// The way starts of changed servers are refused.
    pub exec_gate: String,
    /// The kill switches in force.
    #[serde(default)]
    pub kills: Kills,
    /// Running servers.
    pub servers: Vec<RunningServer>,
    /// Starts of servers that were seen, and those of them by a wrapper.
    pub coverage: Coverage,
    /// Wrappers that are connected.
    pub wrappers: usize,
    /// The LLM proxy; `None` where it does not run.
    #[serde(default)]
    pub proxy: Option<ProxyStatus>,
    /// The tap; `None` where it is off.
    #[serde(default)]
    pub tap: Option<TapStatus>,
    /// Sessions of `mcpmon run` that are connected.
    #[serde(default)]
    pub runs: Vec<RunStatus>,
    /// Sessions whose models had code run lately: the calls in it are seen on the wire alone.
    #[serde(default)]
    pub code_sessions: Vec<CodeSession>,
    /// The reasons why first starts are not pinned, for each user or for the host.
    pub not_pinned: Vec<String>,
    /// Processes the kernel knows as servers' or agents'.
    pub tracked_processes: usize,
    /// Counters of the kernel programs.
    pub counters: BTreeMap<String, u64>,
    /// Records that sequence numbers prove lost.
    pub missing_records: u64,
    /// Records that could not be parsed.
    pub malformed_records: u64,
    /// The store.
    pub store: StoreStatus,
    /// The cgroup the programs are attached to.
    pub cgroup: PathBuf,
    /// The state that stays in the kernel when the daemon ends; `None` where nothing does.
    #[serde(default)]
    pub kept: Option<KeptStatus>,
}

/// A session whose model calls tools from code that it writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSession {
    /// The session, as others know it.
    pub session: String,
    /// Its user.
    pub uid: u32,
}

/// Everything in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The first self-test is not done: nothing proves yet that anything is enforced.
    Starting,
    /// The policy's refusals are carried out.
    Enforcing,
    /// The policy's refusals are reported, and connections pass.
    Observing,
    /// Something does not work; [`Status::degraded`] says what.
    Degraded,
}

impl State {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Enforcing => "enforcing",
            Self::Observing => "observing",
            Self::Degraded => "degraded",
        }
    }
}

/// The state that stays in the kernel when the daemon ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptStatus {
    /// The directory in which it is pinned.
    pub directory: PathBuf,
    /// Since when the programs are attached without a gap, RFC 3339.
    pub since: String,
}

/// The policy in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Files it came from; empty for the embedded default.
    pub sources: Vec<String>,
    /// Digest over them.
    pub hash: String,
    /// Keys the files set that this version does not enforce.
    pub not_in_force: Vec<String>,
    /// Mistakes of a newer version of the files, which is therefore not in force.
    pub rejected: Vec<String>,
    /// The signed bundle it comes from; `None` where the host takes none.
    #[serde(default)]
    pub bundle: Option<BundleStatus>,
}

/// The signed bundle of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleStatus {
    /// Where it comes from.
    pub url: String,
    /// The serial of the one in force; `None` where none is.
    pub serial: Option<u64>,
    /// Its digest.
    pub digest: Option<String>,
    /// The time at which it expires, RFC 3339.
    pub expires: Option<String>,
    /// The last answer of its server, RFC 3339; `None` before the first since the start.
    pub heard_at: Option<String>,
    /// Why the latest one is not in force.
    pub refused: Option<String>,
}

/// Address lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// Rules.
    pub rules: usize,
    /// Single addresses and ranges in the kernel.
    pub entries: usize,
    /// Servers whose process tree is restricted.
    pub egress_lists: usize,
    /// Names without an address, and why.
    pub unresolved: BTreeMap<String, String>,
    /// Addresses of refused names that only other processes were told, as far as they are refused.
    #[serde(default)]
    pub followed: BTreeMap<String, Vec<FollowedAddress>>,
}

/// An address of a refused name that a DNS server told another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedAddress {
    /// The address.
    pub address: IpAddr,
    /// The DNS server.
    pub server: IpAddr,
    /// The first time, RFC 3339.
    pub since: String,
}

impl NetworkStatus {
    /// A line for each name that has other addresses than the daemon was told.
    pub fn followed_lines(&self) -> Vec<String> {
        let line = |(name, addresses): (&String, &Vec<FollowedAddress>)| {
            let told: Vec<String> = addresses
                .iter()
                .take(MAX_TOLD)
                .map(|followed| format!("{}, told by {}", followed.address, followed.server))
                .collect();
            let more = match addresses.len().saturating_sub(MAX_TOLD) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            format!(
                "{name} also has {}{more}: refused for agents and servers",
                told.join("; ")
            )
        };
        self.followed.iter().map(line).collect()
    }
}

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningServer {
    /// Its name.
    pub server_id: String,
    /// The serving process, or the launcher.
    pub pid: u32,
    /// True if it serves already.
    pub serving: bool,
    /// Its processes.
    pub processes: usize,
    /// The sandbox that a wrapper started it in.
    #[serde(default)]
    pub sandbox: Option<SandboxStatus>,
}

/// The store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// The file.
    pub path: PathBuf,
    /// Events written since the daemon started.
    pub written: u64,
    /// Events lost.
    pub lost: u64,
    /// Events waiting.
    pub queued: usize,
    /// The cause of the latest failed write.
    pub last_error: Option<String>,
    /// Bytes that it takes on the disk.
    #[serde(default)]
    pub size: u64,
    /// The time of the oldest event in the store, RFC 3339.
    #[serde(default)]
    pub oldest: Option<String>,
}

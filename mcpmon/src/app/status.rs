//! The content of `mcpmon status`: the current state of the enforcement.

use std::{collections::BTreeMap, fmt, net::IpAddr, path::PathBuf};

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

/// Most addresses of a name that a line shows.
const MAX_REPORTED: usize = 4;

/// The daemon's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// The user whose servers and sessions are shown alone; `None` if the whole host is shown.
    #[serde(default)]
    pub only_of: Option<u32>,
    /// The daemon's process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime: u64,
    /// The overall state.
    pub state: EnforcementState,
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
    /// Numbers of starts of servers: all that were seen, and those by a wrapper.
    pub coverage: Coverage,
    /// Wrappers that are connected.
    pub wrappers: usize,
    /// Wrappers that the daemon refused in the last hour: they judge by themselves.
    #[serde(default)]
    pub refused_wrappers: Vec<RefusedWrapper>,
    /// The LLM proxy; `None` if it is not running.
    #[serde(default)]
    pub proxy: Option<ProxyStatus>,
    /// The tap; `None` if it is off.
    #[serde(default)]
    pub tap: Option<TapStatus>,
    /// Sessions of `mcpmon run` that are connected.
    #[serde(default)]
    pub runs: Vec<RunStatus>,
    /// Recent sessions whose models had code run: calls from this code are visible on the network only.
    #[serde(default)]
    pub code_sessions: Vec<CodeSession>,
    /// The reasons why first starts are not pinned, for each user or for the host.
    pub not_pinned: Vec<String>,
    /// Processes that the kernel programs know as a server's or an agent's.
    pub tracked_processes: usize,
    /// Counters of the kernel programs.
    pub counters: BTreeMap<String, u64>,
    /// Number of records that are missing by their sequence numbers.
    pub missing_records: u64,
    /// Records that could not be parsed.
    pub malformed_records: u64,
    /// The store.
    pub store: StoreStatus,
    /// The cgroup the programs are attached to.
    pub cgroup: PathBuf,
    /// The state that stays in the kernel when the daemon ends; `None` if none does.
    #[serde(default)]
    pub kept: Option<KeptStatus>,
}

impl Status {
    /// Returns a line for each server whose wrapper the daemon refused, up to `MAX_REPORTED` servers.
    pub fn refused_lines(&self) -> Vec<String> {
        let refused = self.refused_wrappers.iter().rev().take(MAX_REPORTED);
        let line = |refused: &RefusedWrapper| {
            format!(
                "{} of user {}, since {}: its wrapper is not served ({}); the host's policy may not apply to it",
                refused.server_id, refused.uid, refused.at, refused.cause
            )
        };
        refused.map(line).collect()
    }

    /// Returns the state as the user `uid` may see it: what protects every user, and this user's own servers and
    /// sessions. Everything else is left out, so that a new field is shown only if it is named here.
    #[must_use]
    pub fn of_user(&self, uid: u32) -> Self {
        let hidden = || "see `sudo mcpmon status`".to_owned();
        let is_own = |of: u32| of == uid;
        Self {
            version: self.version.clone(),
            only_of: Some(uid),
            pid: self.pid,
            uptime: self.uptime,
            state: self.state,
            degraded: self
                .degraded
                .keys()
                .map(|part| (part.clone(), hidden()))
                .collect(),
            policy: PolicyStatus {
                sources: self.policy.sources.clone(),
                hash: self.policy.hash.clone(),
                not_in_force: Vec::new(),
                rejected: self.policy.rejected.iter().take(1).map(|_| hidden()).collect(),
                bundle: None,
            },
            network: NetworkStatus {
                rules: self.network.rules,
                entries: self.network.entries,
                egress_lists: 0,
                unresolved: BTreeMap::new(),
                followed: BTreeMap::new(),
            },
            checks: self.checks.clone(),
            checked_at: self.checked_at.clone(),
            exec_gate: self.exec_gate.clone(),
            kills: Kills {
                host: self.kills.host.clone(),
                sessions: BTreeMap::new(),
            },
            servers: self
                .servers
                .iter()
                .filter(|server| is_own(server.uid))
                .cloned()
                .collect(),
            coverage: Coverage::default(),
            wrappers: 0,
            refused_wrappers: self
                .refused_wrappers
                .iter()
                .filter(|refused| is_own(refused.uid))
                .cloned()
                .collect(),
            proxy: self.proxy.as_ref().map(ProxyStatus::without_sessions),
            tap: None,
            runs: self.runs.iter().filter(|run| is_own(run.uid)).cloned().collect(),
            code_sessions: self
                .code_sessions
                .iter()
                .filter(|session| is_own(session.uid))
                .cloned()
                .collect(),
            not_pinned: Vec::new(),
            tracked_processes: 0,
            counters: BTreeMap::new(),
            missing_records: 0,
            malformed_records: 0,
            store: StoreStatus {
                path: self.store.path.clone(),
                last_error: self.store.last_error.as_ref().map(|_| hidden()),
                ..StoreStatus::default()
            },
            cgroup: self.cgroup.clone(),
            kept: self.kept.clone(),
        }
    }
}

/// A wrapper that the daemon refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedWrapper {
    /// The server, as the wrapper named it.
    pub server_id: String,
    /// The wrapper's user.
    pub uid: u32,
    /// The reason.
    pub cause: String,
    /// The time of the refusal, RFC 3339.
    pub at: String,
}

/// A session whose model calls tools from code that it writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSession {
    /// The session's id in the records.
    pub session: String,
    /// The session's user.
    pub uid: u32,
}

/// The overall state of the enforcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementState {
    /// The first self-test is not done, so it is not proved yet that anything is enforced.
    Starting,
    /// The policy's refusals are carried out.
    Enforcing,
    /// The policy's refusals are reported but not carried out.
    Observing,
    /// Something does not work; [`Status::degraded`] says what.
    Degraded,
}

/// The components that refuse connections and stop starts. Others lose records, names or conveniences.
const ENFORCEMENT: [&str; 11] = [
    "address tables",
    "exec gate",
    "exec sensor",
    "kernel links",
    "kill switch",
    "network gate",
    "packet gate",
    "pins",
    "process table",
    "self-test",
    "server kills",
];

impl Status {
    /// Returns whether no enforcement is lost, whatever else is degraded.
    pub fn is_ready(&self) -> bool {
        is_ready(&self.degraded)
    }
}

fn is_ready(degraded: &BTreeMap<String, String>) -> bool {
    !degraded
        .keys()
        .any(|component| ENFORCEMENT.contains(&component.as_str()))
}

impl EnforcementState {
    /// Returns the word for the state.
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
    /// The directory in which the state is pinned.
    pub directory: PathBuf,
    /// The time since which the programs are attached without a gap, RFC 3339.
    pub since: String,
}

/// The policy in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Files it came from; empty for the embedded default.
    pub sources: Vec<String>,
    /// Digest of the files.
    pub hash: String,
    /// Keys in the files that have no effect in this version.
    pub not_in_force: Vec<String>,
    /// Mistakes in a newer version of the files, which is not in force because of them.
    pub rejected: Vec<String>,
    /// The signed bundle that the policy comes from; `None` if the host uses no bundle.
    #[serde(default)]
    pub bundle: Option<BundleStatus>,
}

/// The signed bundle of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleStatus {
    /// The address from which it is fetched.
    pub url: String,
    /// The serial number of the bundle in force; `None` if no bundle is in force.
    pub serial: Option<u64>,
    /// The digest of that bundle.
    pub digest: Option<String>,
    /// The time at which it expires, RFC 3339.
    pub expires: Option<String>,
    /// The time of the latest answer of its server, RFC 3339; `None` before the first answer since the start.
    pub heard_at: Option<String>,
    /// The reason why the latest bundle is not in force.
    pub refused: Option<String>,
}

impl fmt::Display for BundleStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.serial, &self.digest) {
            (Some(serial), Some(digest)) => write!(f, "serial {serial}, {digest}")?,
            _ => f.write_str("none in force")?,
        }
        if let Some(at) = &self.expires {
            write!(f, ", expires {at}")?;
        }
        let heard = self.heard_at.as_deref().unwrap_or("not since the start");
        write!(f, "; {} heard {heard}", self.url)
    }
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
    /// Names without an address, and the reasons.
    pub unresolved: BTreeMap<String, String>,
    /// Refused addresses of refused names that only DNS answers to other processes contained.
    #[serde(default)]
    pub followed: BTreeMap<String, Vec<FollowedAddress>>,
}

/// An address of a refused name from the DNS answer to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedAddress {
    /// The address.
    pub address: IpAddr,
    /// The DNS server.
    pub server: IpAddr,
    /// The time of the first such answer, RFC 3339.
    pub since: String,
}

impl NetworkStatus {
    /// Returns a line for each name with addresses that the daemon's own DNS queries did not return.
    pub fn followed_lines(&self) -> Vec<String> {
        let line = |(name, addresses): (&String, &Vec<FollowedAddress>)| {
            let told: Vec<String> = addresses
                .iter()
                .take(MAX_REPORTED)
                .map(|followed| format!("{}, told by {}", followed.address, followed.server))
                .collect();
            let more = match addresses.len().saturating_sub(MAX_REPORTED) {
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
    /// The name.
    pub server_id: String,
    /// The user of the server.
    #[serde(default)]
    pub uid: u32,
    /// The serving process, or the launcher.
    pub pid: u32,
    /// True if the server has started; false while a launcher runs.
    pub serving: bool,
    /// The number of its processes.
    pub processes: usize,
    /// The sandbox in which a wrapper started it.
    #[serde(default)]
    pub sandbox: Option<SandboxStatus>,
}

/// The store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// The file.
    pub path: PathBuf,
    /// Events written since the daemon's start.
    pub written: u64,
    /// Events lost.
    pub lost: u64,
    /// Events waiting.
    pub queued: usize,
    /// The cause of the latest failed write.
    pub last_error: Option<String>,
    /// Size of the file on the disk, bytes.
    #[serde(default)]
    pub size: u64,
    /// The time of the oldest event in the store, RFC 3339.
    #[serde(default)]
    pub oldest: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_case::test_case;

    use super::*;

    const ALICE: u32 = 1000;

    fn status() -> Status {
        let of = |uid: u32, server: &str| json!({"server_id": server, "uid": uid, "pid": 9, "serving": true, "processes": 1});
        serde_json::from_value(json!({
            "version": "0.1.0", "pid": 7, "uptime": 90, "state": "degraded",
            "degraded": {"file watch": "too many of user 1001's servers start"},
            "policy": {"sources": [], "hash": "sha256:00", "not_in_force": [], "rejected": ["bobs-rule: unknown"]},
            "network": {"rules": 1, "entries": 2, "egress_lists": 0, "unresolved": {"bobs.example": "no such name"}},
            "checks": [], "checked_at": null, "exec_gate": "observing",
            "kills": {"host": null, "sessions": {"bob-session": {"by": "root", "at": 7}}},
            "servers": [of(ALICE, "alice-files"), of(1001, "bob-files")],
            "coverage": {"seen": 4, "wrapped": 3}, "wrappers": 2,
            "refused_wrappers": [
                {"server_id": "alice-late", "uid": ALICE, "cause": "too many", "at": "2026-11-20T12:00:00Z"},
                {"server_id": "bob-late", "uid": 1001, "cause": "too many", "at": "2026-11-20T12:00:00Z"},
            ],
            "code_sessions": [{"session": "bob-code", "uid": 1001}],
            "not_pinned": ["bob has too many"], "tracked_processes": 3, "counters": {"x": 1},
            "missing_records": 0, "malformed_records": 0,
            "store": {"path": "/var/lib/mcpmon/mcpmon.db", "written": 5, "lost": 0, "queued": 0,
                      "last_error": "the disk of bob is full"},
            "cgroup": "/sys/fs/cgroup",
        }))
        .expect("a status")
    }

    #[test]
    fn a_user_sees_own_servers_and_nothing_of_others() {
        let own = status().of_user(ALICE);
        let text = serde_json::to_string(&own).expect("JSON");
        assert!(!text.contains("bob") && !text.contains("1001"), "{text}");
        assert!(text.contains("alice-files"), "{text}");
        assert_eq!(own.state, EnforcementState::Degraded, "that protects every user");
        assert_eq!(
            own.refused_lines(),
            [
                "alice-late of user 1000, since 2026-11-20T12:00:00Z: its wrapper is not served (too many); the host's \
              policy may not apply to it"
            ]
        );
    }

    #[test_case(&[] => true; "nothing")]
    #[test_case(&["links in commands", "LLM proxy", "address lists", "exec records"] => true; "records and names")]
    #[test_case(&["links in commands", "exec gate"] => false; "the exec gate")]
    #[test_case(&["address lists", "address tables"] => false; "addresses that were not installed")]
    fn only_lost_enforcement_ends_readiness(degraded: &[&str]) -> bool {
        let degraded = degraded
            .iter()
            .map(|part| ((*part).to_owned(), "slow".to_owned()));
        is_ready(&degraded.collect())
    }
}

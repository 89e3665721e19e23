//! The state of a user's wrappers where no daemon runs: what they enforce, and what needs attention.

use std::path::PathBuf;

use mcpmon_clients::{CLIENTS, PlanOutcome, Roots, SetupDirection, SetupEffect};
use mcpmon_config::{LocalConfig, Search, Trust};
use mcpmon_model::{Severity, Timestamp};
use mcpmon_policy::Mode;
use mcpmon_session::clock;
use mcpmon_store::{Filter, OpenError, Selection, StoreReader};
use serde_json::{Map, Value, json};

use super::{
    CliError, ErrorKind, Globals, Output,
    kernel_state::{KernelState, own_faults},
    output::Form,
};
use crate::app::control::AskError;

/// Alerts of this time are counted.
const RECENT_DAYS: i64 = 7;
/// Most alerts that are counted.
const MAX_ALERTS: u32 = 10_000;

/// Shows what works although no daemon answers, with the `error` about that: the state of the user's wrappers where no
/// daemon ran, or what an ended one left in the kernel.
pub(super) fn show(kernel: &KernelState, error: CliError, output: &mut Output<'_>) -> Result<(), CliError> {
    let is_absent = matches!(
        error.source.downcast_ref::<AskError>(),
        Some(AskError::NotRunning(_))
    );
    let own = (is_absent && !kernel.is_kept()).then(|| OwnState::look(output.globals, clock::now()));
    match output.form {
        Form::Json => {
            let mut object = kernel.object();
            if let Some(own) = &own {
                own.add_to(&mut object);
            }
            output.json(&object)?;
        }
        Form::Table => output.text(&match &own {
            Some(own) => [own.lines(), own_faults(output.globals)].concat(),
            None => kernel.lines(),
        })?,
    }
    output.flush()?;
    match own {
        Some(own) => own.failure().map_or(Ok(()), Err),
        None => Err(error),
    }
}

/// The state of a user's wrappers.
#[derive(Debug)]
struct OwnState {
    policy: Result<OwnPolicy, String>,
    /// The servers in the clients' files; `None` without a home directory.
    servers: Option<ServerCounts>,
    store: PathBuf,
    /// The records; `None` if nothing was recorded yet.
    records: Result<Option<RecordCounts>, String>,
}

#[derive(Debug)]
struct OwnPolicy {
    mode: Mode,
    sources: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ServerCounts {
    wrapped: usize,
    bare: usize,
    /// Servers that are reached over the network without mcpmon.
    remote: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RecordCounts {
    /// Wrapped servers that run now.
    running: usize,
    /// Definitions that are hidden.
    hidden: usize,
    alerts: usize,
    waiting_calls: usize,
}

/// The protection by wrappers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    Enforcing,
    Observing,
    /// The policy or the store cannot be used.
    Degraded,
    /// No server is wrapped.
    None,
}

impl OwnState {
    /// Reads the policy, the clients' files and the store. Nothing is changed.
    fn look(globals: &Globals, now: Timestamp) -> Self {
        let search = Search::of_process(globals.config.clone(), LocalConfig::Ignore);
        let user = nix::unistd::geteuid().as_raw();
        let policy = mcpmon_config::load(&search, Trust::for_user(user));
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let own = mcpmon_store::users_store(variable);
        let store = globals.db.clone().or(own).unwrap_or_default();
        Self {
            policy: policy.map_err(|error| error.to_string()).map(|loaded| OwnPolicy {
                mode: loaded.policy.mode,
                sources: loaded.sources.iter().map(ToString::to_string).collect(),
            }),
            servers: Roots::of_process().and_then(|roots| servers(roots, user)),
            records: records(&store, now),
            store,
        }
    }

    fn protection(&self) -> Protection {
        let wrapped = self.servers.unwrap_or_default().wrapped;
        let running = self.records.as_ref().ok().copied().flatten();
        match (&self.policy, &self.records) {
            _ if wrapped == 0 && running.unwrap_or_default().running == 0 => Protection::None,
            (Err(_), _) | (_, Err(_)) => Protection::Degraded,
            (Ok(policy), Ok(_)) => match policy.mode {
                Mode::Enforce => Protection::Enforcing,
                Mode::Observe => Protection::Observing,
            },
        }
    }

    /// Returns the state as lines, the first of which names it.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut put = |name: &str, value: String| lines.push(format!("{name:<10} {value}"));
        put("state", self.protection().describe().to_owned());
        match &self.policy {
            Ok(policy) => {
                let mode = match policy.mode {
                    Mode::Enforce => "enforce",
                    Mode::Observe => "observe: nothing is blocked; `mcpmon setup --enforce` switches",
                };
                put("mode", mode.to_owned());
                put("policy", policy.sources.join(", "));
            }
            Err(error) => {
                for (number, line) in error.lines().enumerate() {
                    put(if number == 0 { "policy" } else { "" }, line.to_owned());
                }
            }
        }
        put(
            "wrapped",
            self.servers.map_or_else(no_home, ServerCounts::describe),
        );
        match &self.records {
            Ok(Some(records)) => {
                put("running", records.running.to_string());
                put("hidden", with_command(records.hidden, "", "mcpmon tools"));
                let alerts = format!(" of severity high or worse in the last {RECENT_DAYS} days");
                put(
                    "alerts",
                    with_command(records.alerts, &alerts, "mcpmon events --severity high"),
                );
                put(
                    "waiting",
                    with_command(records.waiting_calls, "", "mcpmon approvals list --pending"),
                );
            }
            Ok(None) => put("records", "nothing has been recorded yet".to_owned()),
            Err(error) => put("records", error.clone()),
        }
        put("store", self.store.display().to_string());
        put(
            "no daemon",
            "no refused connections, no record of connections, and no view of servers outside of wrappers; \
             `sudo mcpmon daemon` adds them"
                .to_owned(),
        );
        lines
    }

    /// Adds the state to a JSON object.
    fn add_to(&self, object: &mut Map<String, Value>) {
        object.insert("protection".to_owned(), self.protection().as_str().into());
        let policy = match &self.policy {
            Ok(policy) => json!({
                "mode": match policy.mode { Mode::Enforce => "enforce", Mode::Observe => "observe" },
                "sources": policy.sources,
            }),
            Err(error) => json!({"error": error}),
        };
        object.insert("policy".to_owned(), policy);
        let servers = self.servers.map(|servers| {
            json!({
                "wrapped": servers.wrapped,
                "configured": servers.wrapped + servers.bare,
                "remote": servers.remote,
            })
        });
        object.insert("servers".to_owned(), servers.into());
        let records = match &self.records {
            Ok(None) => Value::Null,
            Ok(Some(records)) => json!({
                "running": records.running,
                "hidden": records.hidden,
                "alerts": records.alerts,
                "waiting_calls": records.waiting_calls,
            }),
            Err(error) => json!({"error": error}),
        };
        object.insert("records".to_owned(), records);
        object.insert("store".to_owned(), json!(self.store));
    }

    /// Returns the error for a state in which servers are not protected as the policy says.
    fn failure(&self) -> Option<CliError> {
        match self.protection() {
            Protection::Enforcing | Protection::Observing => None,
            Protection::Degraded => {
                let cause = self.policy.as_ref().err().or_else(|| self.records.as_ref().err());
                let cause = cause.map_or("", |cause| cause.lines().next().unwrap_or_default());
                let error = anyhow::anyhow!("wrappers do not work as configured: {cause}");
                let error = CliError::new(ErrorKind::Refused, error);
                Some(match self.policy {
                    Err(_) => error.with_hint("run `mcpmon policy check`"),
                    Ok(_) => error.with_hint("run `mcpmon doctor`"),
                })
            }
            Protection::None => {
                let error = anyhow::anyhow!("no server is wrapped, and no daemon runs");
                Some(
                    CliError::new(ErrorKind::Environment, error)
                        .with_hint("run `mcpmon setup` to wrap the servers of your clients")
                        .with_hint("or start the daemon: `sudo mcpmon daemon`"),
                )
            }
        }
    }
}

impl Protection {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Enforcing => "enforcing",
            Self::Observing => "observing",
            Self::Degraded => "degraded",
            Self::None => "none",
        }
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::Enforcing => "enforcing, by wrappers alone",
            Self::Observing => "observing, by wrappers alone",
            Self::Degraded => "degraded: wrappers do not work as configured",
            Self::None => "not protected: no server is wrapped, and no daemon runs",
        }
    }
}

impl ServerCounts {
    fn describe(self) -> String {
        let configured = self.wrapped + self.bare;
        let mut text = format!("{} of {configured} configured servers", self.wrapped);
        if self.bare > 0 {
            text.push_str("; `mcpmon setup` wraps the others");
        }
        if self.remote > 0 {
            text.push_str(&format!(
                "; {} remote: `mcpmon setup --remote` wraps them",
                self.remote
            ));
        }
        text
    }
}

fn no_home() -> String {
    "unknown: HOME is not set to an absolute path".to_owned()
}

/// Returns a count with the command that lists what is counted.
fn with_command(count: usize, of: &str, command: &str) -> String {
    match count {
        0 => format!("0{of}"),
        count => format!("{count}{of}: `{command}`"),
    }
}

/// Counts the servers in the files of this user's clients.
fn servers(roots: Roots, user: u32) -> Option<ServerCounts> {
    let state = mcpmon_store::users_store(|name| std::env::var_os(name).map(PathBuf::from))?;
    let options = mcpmon_clients::Options {
        state: state.parent()?.to_owned(),
        clients: CLIENTS.iter().collect(),
        projects: Vec::new(),
        user,
        roots,
        direction: SetupDirection::Unwrap,
        effect: SetupEffect::Preview,
        confirmed: None,
    };
    let mut counts = ServerCounts::default();
    for server in mcpmon_clients::run(&options)
        .ok()?
        .iter()
        .flat_map(|file| &file.servers)
    {
        match server.outcome {
            PlanOutcome::Unwrap
            | PlanOutcome::Wrap
            | PlanOutcome::Update
            | PlanOutcome::Wrapped
            | PlanOutcome::ByHand => counts.wrapped += 1,
            PlanOutcome::Bare | PlanOutcome::Unclear(_) => counts.bare += 1,
            PlanOutcome::Remote => counts.remote += 1,
        }
    }
    Some(counts)
}

fn records(store: &std::path::Path, now: Timestamp) -> Result<Option<RecordCounts>, String> {
    let reader = match StoreReader::open(store) {
        Ok(reader) => reader,
        Err(OpenError::Missing(_)) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let since = Timestamp(now.0.saturating_sub(RECENT_DAYS * 24 * 3_600 * 1_000_000_000));
    let alerts = Filter {
        severity: Some(Severity::High),
        since: Some(since),
        ..Filter::default()
    };
    let count = || {
        let definitions = reader.definitions(&Selection::default())?;
        Ok::<_, mcpmon_store::QueryError>(RecordCounts {
            running: reader.everybody()?.len(),
            hidden: definitions.iter().filter(|record| record.hidden).count(),
            alerts: reader.events(&alerts, MAX_ALERTS)?.len(),
            waiting_calls: reader.held_calls(now)?.len(),
        })
    };
    count().map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> OwnState {
        OwnState {
            policy: Ok(OwnPolicy {
                mode: Mode::Enforce,
                sources: vec!["/home/me/.config/mcpmon/mcpmon.yaml".to_owned()],
            }),
            servers: Some(ServerCounts {
                wrapped: 3,
                bare: 2,
                remote: 1,
            }),
            store: "/home/me/.local/state/mcpmon/mcpmon.db".into(),
            records: Ok(Some(RecordCounts {
                running: 2,
                hidden: 1,
                alerts: 4,
                waiting_calls: 0,
            })),
        }
    }

    #[test]
    fn wrappers_that_enforce_are_reported_with_what_needs_attention() {
        insta::assert_snapshot!(state().lines().join("\n"), @"
        state      enforcing, by wrappers alone
        mode       enforce
        policy     /home/me/.config/mcpmon/mcpmon.yaml
        wrapped    3 of 5 configured servers; `mcpmon setup` wraps the others; 1 remote: `mcpmon setup --remote` wraps them
        running    2
        hidden     1: `mcpmon tools`
        alerts     4 of severity high or worse in the last 7 days: `mcpmon events --severity high`
        waiting    0
        store      /home/me/.local/state/mcpmon/mcpmon.db
        no daemon  no refused connections, no record of connections, and no view of servers outside of wrappers; `sudo mcpmon daemon` adds them
        ");
        assert!(state().failure().is_none());
    }

    #[test]
    fn invalid_policy_is_degraded_and_nothing_wrapped_is_no_protection() {
        let mut broken = state();
        broken.policy = Err("mcpmon.yaml:3:1: unknown key `netwrok`".to_owned());
        let failure = broken.failure().expect("degraded");
        assert_eq!(failure.kind, ErrorKind::Refused);
        assert_eq!(
            failure.source.to_string(),
            "wrappers do not work as configured: mcpmon.yaml:3:1: unknown key `netwrok`"
        );
        let mut bare = state();
        bare.servers = Some(ServerCounts {
            bare: 5,
            ..ServerCounts::default()
        });
        bare.records = Ok(None);
        let failure = bare.failure().expect("nothing is wrapped");
        assert_eq!(failure.kind, ErrorKind::Environment);
        assert_eq!(
            failure.hints[0],
            "run `mcpmon setup` to wrap the servers of your clients"
        );
        assert!(bare.lines()[0].ends_with("not protected: no server is wrapped, and no daemon runs"));
    }
}

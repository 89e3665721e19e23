//! `mcpmon status`: the current state of the enforcement.

use clap::Args;
use mcpmon_config::{LocalConfig, Search, Trust, load_sources};
use mcpmon_model::Kill;
use mcpmon_store::json::rfc3339;
use serde_json::{Map, Value, json};

use crate::{
    app::{
        control::{DaemonAnswer, DaemonRequest},
        selftest::CheckOutcome,
        status::{CodeSession, Coverage, EnforcementState, Status},
    },
    cli::{
        CliError, ErrorKind, Output,
        daemon::{Socket, ask, unexpected},
        kernel_state::KernelState,
        output::Form,
        own_state, time,
    },
};

/// Show what is enforced right now; exit 1 where enforcement is degraded or not proved yet, 3 where nothing is enforced
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    socket: Socket,
    #[command(flatten)]
    kernel: KernelState,
    /// Exit 0 while connections and starts are enforced, whatever else is degraded (for readiness probes)
    #[arg(long)]
    ready: bool,
}

pub(in crate::cli) fn run(options: &Options, output: &mut Output<'_>) -> Result<(), CliError> {
    let status = match ask(&options.socket.path, &DaemonRequest::Status) {
        Ok(DaemonAnswer::Status(status)) => status,
        Ok(_) => return Err(unexpected()),
        Err(error) => return own_state::show(&options.kernel, error, output),
    };
    match output.form {
        Form::Json => {
            output.json(&object(&status)?)?;
        }
        Form::Table => {
            let mut lines = lines(&status);
            lines.extend(own_policy(&Search::of_process(
                output.globals.config.clone(),
                LocalConfig::Ignore,
            )));
            output.text(&lines)?;
        }
    }
    output.flush()?;
    match status.state {
        EnforcementState::Enforcing | EnforcementState::Observing => Ok(()),
        EnforcementState::Starting => Err(starting()),
        EnforcementState::Degraded if options.ready && status.is_ready() => Ok(()),
        EnforcementState::Degraded => Err(degraded(&status)),
    }
}

/// Returns the status as a JSON object, in which every time is a text.
fn object(status: &Status) -> Result<Map<String, Value>, CliError> {
    let mut value = serde_json::to_value(status).map_err(anyhow::Error::from)?;
    let kill = |kill: &Kill| json!({"by": kill.by, "at": rfc3339(kill.at)});
    let sessions = status.kills.sessions.iter();
    value["kills"] = json!({
        "host": status.kills.host.as_ref().map(kill),
        "sessions": sessions
            .map(|(session, of)| (session.as_str().to_owned(), kill(of)))
            .collect::<Map<_, _>>(),
    });
    let Value::Object(object) = value else {
        unreachable!("a status is an object")
    };
    Ok(object)
}

/// Describes the additions of this user's own policy file to the daemon's policy.
fn own_policy(search: &Search) -> Vec<String> {
    let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
    let told = match search.read_own(trust) {
        Ok(None) => return Vec::new(),
        Ok(Some(own)) => {
            let names: Vec<_> = own.names().map(ToString::to_string).collect();
            let what = match load_sources(&own) {
                Ok(_) => "on top of the daemon's policy: it can only tighten it",
                Err(_) => "has mistakes and is not in force; see `mcpmon policy check`",
            };
            format!("{} {what}", names.join(", "))
        }
        Err(error) => format!("not in force: {error}"),
    };
    vec![format!("{:<10} {told}", "own policy")]
}

fn starting() -> CliError {
    CliError::new(
        ErrorKind::Refused,
        anyhow::anyhow!("the daemon is starting: its first self-test is not done, so nothing is proved yet"),
    )
    .with_hint("ask again in a few seconds")
}

fn degraded(status: &Status) -> CliError {
    let causes: Vec<String> = status
        .degraded
        .iter()
        .map(|(part, cause)| format!("{part}: {cause}"))
        .collect();
    CliError::new(
        ErrorKind::Refused,
        anyhow::anyhow!("enforcement is degraded: {}", causes.join("; ")),
    )
    .with_hint("`mcpmon doctor` shows what this host allows, with the remedy for each gap")
}

fn lines(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    let mut put = |name: &str, value: String| lines.push(format!("{name:<10} {value}"));
    put(
        "mcpmon",
        format!(
            "{}, pid {}, up {}",
            status.version,
            status.pid,
            time::span(status.uptime * 1000)
        ),
    );
    put("state", status.state.as_str().to_owned());
    for (part, cause) in &status.degraded {
        put("", format!("{part}: {cause}"));
    }
    if let Some(kill) = &status.kills.host {
        put(
            "stopped",
            format!("the host, by {} since {}", kill.by, time::short(kill.at)),
        );
    }
    for (session, kill) in &status.kills.sessions {
        let (session, since) = (session.as_str(), time::short(kill.at));
        put(
            "stopped",
            format!("session {session}, by {} since {since}", kill.by),
        );
    }
    put("network", network(status));
    for (name, cause) in &status.network.unresolved {
        put("", format!("{name} has no address: {cause}"));
    }
    for line in status.network.followed_lines() {
        put("", line);
    }
    put(
        "kept",
        status.kept.as_ref().map_or_else(
            || "nothing: the enforcement ends with the daemon".to_owned(),
            |kept| {
                format!(
                    "in {} when the daemon ends, since {}",
                    kept.directory.display(),
                    kept.since
                )
            },
        ),
    );
    put("exec gate", status.exec_gate.clone());
    put("self-test", self_test(status));
    put("policy", status.policy.sources.join(", "));
    if !status.policy.not_in_force.is_empty() {
        put(
            "",
            format!(
                "set, but not in force in this version: {}",
                status.policy.not_in_force.join(", ")
            ),
        );
    }
    for error in &status.policy.rejected {
        for line in error.lines() {
            put("", format!("refused: {line}"));
        }
    }
    if let Some(bundle) = &status.policy.bundle {
        put("bundle", bundle.to_string());
        if let Some(cause) = &bundle.refused {
            put("", format!("the latest is refused: {cause}"));
        }
    }
    put("servers", servers(status));
    for line in sandbox_gaps(status) {
        put("", line);
    }
    if let Some(uid) = status.only_of {
        put(
            "",
            format!("only those of user {uid}; root and the group mcpmon see the whole host"),
        );
    } else {
        put("coverage", coverage(status));
    }
    for line in status.refused_lines() {
        put("bypassed", line);
    }
    for cause in &status.not_pinned {
        put("", format!("first starts are not pinned: {cause}"));
    }
    put("llm proxy", llm_proxy(status));
    if let Some(servers) = mcp_proxy(status) {
        put("mcp proxy", servers);
    }
    if let Some(tap) = &status.tap {
        put("tap", tap.to_string());
    }
    if !status.runs.is_empty() {
        put("sessions", runs(status));
    }
    for session in &status.code_sessions {
        put("code mode", code_mode(session));
    }
    if status.only_of.is_none() {
        put("kernel", kernel(status));
        put("store", store(status));
        put("", stored(status));
    }
    lines
}

/// Describes the remote servers; `None` if none is declared.
fn mcp_proxy(status: &Status) -> Option<String> {
    let proxy = status.proxy.as_ref().filter(|proxy| !proxy.servers.is_empty())?;
    let servers: Vec<&str> = proxy.servers.iter().map(|server| server.as_str()).collect();
    let (listen, servers, conversations) = (proxy.listen, servers.join(", "), proxy.conversations);
    let plural = if conversations == 1 { "" } else { "s" };
    Some(format!(
        "http://{listen}/mcp/SERVER, for {servers}; {conversations} conversation{plural}"
    ))
}

fn llm_proxy(status: &Status) -> String {
    match &status.proxy {
        Some(proxy) => match proxy.sessions {
            0 => proxy.to_string(),
            1 => format!("{proxy}; 1 session"),
            sessions => format!("{proxy}; {sessions} sessions"),
        },
        None => "not running".to_owned(),
    }
}

/// Describes the sessions whose models are behind a proxy.
fn runs(status: &Status) -> String {
    let list = status.runs.iter().map(|run| {
        let proxy = if run.behind_daemon {
            ""
        } else {
            ", a proxy of its own"
        };
        let group = if run.own_group { "" } else { ", no control group" };
        format!(
            "{} (pid {}, user {}{proxy}{group})",
            run.session, run.pid, run.uid
        )
    });
    let list: Vec<String> = list.collect();
    format!("{} behind an LLM proxy: {}", list.len(), list.join(", "))
}

/// Describes what is not seen of a session whose model writes code that calls tools.
fn code_mode(session: &CodeSession) -> String {
    format!(
        "session {} of user {} calls tools from code: the wire is the boundary. The wrapper and the MCP proxy judge each call, \
         the LLM proxy sees the code alone",
        session.session, session.uid
    )
}

fn network(status: &Status) -> String {
    let network = &status.network;
    let lists = match network.egress_lists {
        0 => String::new(),
        lists => format!(", egress of {lists} servers restricted"),
    };
    format!(
        "{} rules, {} addresses and ranges in the kernel{lists}",
        network.rules, network.entries
    )
}

fn self_test(status: &Status) -> String {
    let count = |wanted: fn(&CheckOutcome) -> bool| {
        status
            .checks
            .iter()
            .filter(|check| wanted(&check.outcome))
            .count()
    };
    let passed = count(|outcome| matches!(outcome, CheckOutcome::Passed));
    let failed = count(|outcome| matches!(outcome, CheckOutcome::Failed(_)));
    let impossible = count(|outcome| matches!(outcome, CheckOutcome::Skipped(_) | CheckOutcome::Absent(_)));
    let when = status.checked_at.as_deref().unwrap_or("not yet");
    let others = [(failed, "failed"), (impossible, "not possible on this kernel")];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: String = others
        .map(|(count, outcome)| format!(", {count} {outcome}"))
        .collect();
    format!("{passed} passed{others}, {when}")
}

fn servers(status: &Status) -> String {
    let list: Vec<String> = status
        .servers
        .iter()
        .map(|server| {
            let starting = if server.serving { "" } else { ", starting" };
            let sandbox = server
                .sandbox
                .as_ref()
                .map_or_else(String::new, |sandbox| format!(", sandbox {sandbox}"));
            format!(
                "{} (pid {}, {} processes{starting}{sandbox})",
                server.server_id, server.pid, server.processes
            )
        })
        .collect();
    match list.len() {
        0 => "none running".to_owned(),
        count => format!("{count} running: {}", list.join(", ")),
    }
}

/// Describes what the sandboxes of running servers lack.
fn sandbox_gaps(status: &Status) -> Vec<String> {
    let sandboxed = status
        .servers
        .iter()
        .filter_map(|server| Some((&server.server_id, server.sandbox.as_ref()?)));
    let lacking = sandboxed.filter(|(_, sandbox)| !sandbox.is_whole());
    lacking
        .map(|(server, sandbox)| format!("* the sandbox of {server}: {}", sandbox.gaps.join("; ")))
        .collect()
}

fn coverage(status: &Status) -> String {
    let Coverage { seen, wrapped } = status.coverage;
    let connected = match status.wrappers {
        1 => "1 wrapper connected".to_owned(),
        count => format!("{count} wrappers connected"),
    };
    match seen {
        0 => format!("no start of a server seen yet, {connected}"),
        _ => format!(
            "{wrapped} of {seen} starts wrapped ({}%), {connected}",
            wrapped * 100 / seen
        ),
    }
}

fn kernel(status: &Status) -> String {
    let counter = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    let lost: u64 = ["exec_lost", "process_lost", "connect_lost", "denied_lost"]
        .into_iter()
        .map(counter)
        .sum();
    format!(
        "attached at {}: {} execs, {} connections that concern MCP, {} refused, {lost} records lost, {} processes tracked",
        status.cgroup.display(),
        counter("exec_seen"),
        counter("connect_seen"),
        counter("denied"),
        status.tracked_processes,
    )
}

/// Describes the size of the store.
fn stored(status: &Status) -> String {
    let megabytes = status.store.size.div_ceil(1_000_000);
    match &status.store.oldest {
        Some(oldest) => format!("{megabytes} MB, the oldest event of {oldest}"),
        None => format!("{megabytes} MB, no event"),
    }
}

fn store(status: &Status) -> String {
    let store = &status.store;
    let error = store
        .last_error
        .as_ref()
        .map_or_else(String::new, |error| format!("; failing: {error}"));
    format!(
        "{}: {} events written, {} lost{error}",
        store.path.display(),
        store.written,
        store.lost
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mcpmon_model::{Kills, ServerId, SessionId, Timestamp};

    use super::*;
    use crate::app::{
        selftest::{Component, SelfTestCheck},
        status::{
            BundleStatus, FollowedAddress, KeptStatus, NetworkStatus, PolicyStatus, ProxyStatus, RunStatus,
            RunningServer, SandboxStatus, StoreStatus, TapStatus,
        },
    };

    fn sample() -> Status {
        let check = |outcome| SelfTestCheck {
            component: Component::NetworkGate,
            name: "x".to_owned(),
            outcome,
        };
        let followed = FollowedAddress {
            address: "198.51.100.7".parse().expect("an address"),
            server: "192.0.2.53".parse().expect("an address"),
            since: "2026-11-20T11:30:00Z".to_owned(),
        };
        Status {
            kept: Some(KeptStatus {
                directory: "/sys/fs/bpf/mcpmon".into(),
                since: "2026-11-20T11:00:00Z".to_owned(),
            }),
            version: "0.1.0".to_owned(),
            only_of: None,
            refused_wrappers: Vec::new(),
            pid: 7,
            uptime: 90,
            state: EnforcementState::Degraded,
            degraded: [("network gate".to_owned(), "TCP over IPv4: let through".to_owned())].into(),
            policy: PolicyStatus {
                sources: vec!["/etc/mcpmon/mcpmon.yaml".to_owned()],
                hash: "sha256:00".to_owned(),
                not_in_force: vec!["mcp.rules".to_owned()],
                rejected: vec!["mcpmon.yaml:3:1: unknown key `netwrok`".to_owned()],
                bundle: Some(BundleStatus {
                    url: "https://policy.example.com/laptops.bundle".to_owned(),
                    serial: Some(7),
                    digest: Some("sha256:ab".to_owned()),
                    expires: None,
                    heard_at: Some("2026-11-26T12:00:00Z".to_owned()),
                    refused: Some("it has the serial 6".to_owned()),
                }),
            },
            network: NetworkStatus {
                rules: 3,
                entries: 12,
                egress_lists: 1,
                unresolved: [("api.example.com".to_owned(), "no such name".to_owned())].into(),
                followed: [("evil.example".to_owned(), vec![followed; 5])].into(),
            },
            checks: vec![
                check(CheckOutcome::Passed),
                check(CheckOutcome::Skipped("no IPv6".to_owned())),
            ],
            checked_at: Some("2026-11-20T12:00:00Z".to_owned()),
            kills: Kills::default(),
            exec_gate: "observing".to_owned(),
            servers: vec![RunningServer {
                server_id: "files".to_owned(),
                uid: 1000,
                pid: 9,
                serving: true,
                processes: 2,
                sandbox: Some(SandboxStatus {
                    mode: "strict".to_owned(),
                    network: "off".to_owned(),
                    enforced: true,
                    gaps: vec!["UDP, and DNS with it, is not restricted (Linux 7.2)".to_owned()],
                }),
            }],
            coverage: Coverage { seen: 4, wrapped: 3 },
            wrappers: 2,
            proxy: Some(ProxyStatus {
                listen: "127.0.0.1:8484".parse().expect("an address"),
                listen_unix: None,
                mode: "embedded".to_owned(),
                token: false,
                reserved: Some(false),
                providers: vec!["anthropic".to_owned(), "openai".to_owned()],
                bodies: None,
                sessions: 1,
                servers: vec![ServerId::new("notes").expect("an id")],
                conversations: 2,
            }),
            tap: Some(TapStatus {
                servers: Vec::new(),
                lost: 12,
                left_out: 3,
            }),
            code_sessions: vec![CodeSession {
                session: "codex-1".to_owned(),
                uid: 1000,
            }],
            runs: vec![
                RunStatus {
                    session: "review-1".to_owned(),
                    pid: 20,
                    uid: 1000,
                    behind_daemon: true,
                    own_group: true,
                },
                RunStatus {
                    session: "mcpmon-run-2".to_owned(),
                    pid: 30,
                    uid: 0,
                    behind_daemon: false,
                    own_group: false,
                },
            ],
            not_pinned: vec!["user 7 has 256 pinned packages".to_owned()],
            tracked_processes: 4,
            counters: BTreeMap::from([
                ("exec_seen".to_owned(), 100),
                ("denied".to_owned(), 2),
                ("denied_lost".to_owned(), 1),
            ]),
            missing_records: 1,
            malformed_records: 0,
            store: StoreStatus {
                path: "/var/lib/mcpmon/mcpmon.db".into(),
                written: 5,
                size: 12_345_678,
                oldest: Some("2026-11-01T12:00:00.000000000Z".to_owned()),
                ..StoreStatus::default()
            },
            cgroup: "/sys/fs/cgroup".into(),
        }
    }

    #[test]
    fn the_whole_truth_in_a_few_lines() {
        insta::assert_snapshot!(lines(&sample()).join("\n"), @r#"
        mcpmon     0.1.0, pid 7, up 1.5m
        state      degraded
                   network gate: TCP over IPv4: let through
        network    3 rules, 12 addresses and ranges in the kernel, egress of 1 servers restricted
                   api.example.com has no address: no such name
                   evil.example also has 198.51.100.7, told by 192.0.2.53; 198.51.100.7, told by 192.0.2.53; 198.51.100.7, told by 192.0.2.53; 198.51.100.7, told by 192.0.2.53; and 1 more: refused for agents and servers
        kept       in /sys/fs/bpf/mcpmon when the daemon ends, since 2026-11-20T11:00:00Z
        exec gate  observing
        self-test  1 passed, 1 not possible on this kernel, 2026-11-20T12:00:00Z
        policy     /etc/mcpmon/mcpmon.yaml
                   set, but not in force in this version: mcp.rules
                   refused: mcpmon.yaml:3:1: unknown key `netwrok`
        bundle     serial 7, sha256:ab; https://policy.example.com/laptops.bundle heard 2026-11-26T12:00:00Z
                   the latest is refused: it has the serial 6
        servers    1 running: files (pid 9, 2 processes, sandbox strict, no network *)
                   * the sandbox of files: UDP, and DNS with it, is not restricted (Linux 7.2)
        coverage   3 of 4 starts wrapped (75%), 2 wrappers connected
                   first starts are not pinned: user 7 has 256 pinned packages
        llm proxy  http://127.0.0.1:8484, embedded, for anthropic, openai; any user can take its port while the daemon is away; 1 session
        mcp proxy  http://127.0.0.1:8484/mcp/SERVER, for notes; 2 conversations
        tap        on: no server without a wrapper runs; 12 bytes lost in all; 3 servers or processes left out, for their user has too many; nothing of it can be stopped
        sessions   2 behind an LLM proxy: review-1 (pid 20, user 1000), mcpmon-run-2 (pid 30, user 0, a proxy of its own, no control group)
        code mode  session codex-1 of user 1000 calls tools from code: the wire is the boundary. The wrapper and the MCP proxy judge each call, the LLM proxy sees the code alone
        kernel     attached at /sys/fs/cgroup: 100 execs, 0 connections that concern MCP, 2 refused, 1 records lost, 4 processes tracked
        store      /var/lib/mcpmon/mcpmon.db: 5 events written, 0 lost
                   13 MB, the oldest event of 2026-11-01T12:00:00.000000000Z
        "#);
    }

    #[test]
    fn the_json_is_as_documented_and_times_are_texts() {
        let mut status = sample();
        let kill = Kill {
            by: "ann".to_owned(),
            at: Timestamp(1_795_176_000_000_000_000),
        };
        status.kills.host = Some(kill.clone());
        drop(status.kills.sessions.insert(SessionId::new("s1"), kill));
        let object = object(&status).expect("it serialises");
        let kill = json!({"by": "ann", "at": "2026-11-20T12:00:00.000000000Z"});
        assert_eq!(object["kills"], json!({"host": kill, "sessions": {"s1": kill}}));
        let line = Value::Object(object).to_string();
        crate::cli::commands::scene::assert_documented("status", false, &line);
    }

    #[test]
    fn degraded_is_an_error_that_names_the_cause() {
        let error = degraded(&sample());
        assert_eq!(error.kind, ErrorKind::Refused);
        assert_eq!(
            error.source.to_string(),
            "enforcement is degraded: network gate: TCP over IPv4: let through"
        );
    }
}

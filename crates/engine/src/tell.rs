//! Events, worded: what happened, which rule, why, and what to do about it.

use std::net::SocketAddr;

use mcpmon_detect::mask::mask_arguments;
use mcpmon_model::{
    Action, Checkpoint, Connection, ConnectionOutcome, Denial, Direction, Event, EventKind, Exec, Layer,
    OrphanCause, ProcessId, ProcessRef, ServerId, ServerType, Severity, Timestamp,
};
use mcpmon_policy::{
    Policy, Transport,
    network::table::{RuleInfo, RuleKind},
};

use super::{
    effect::ConnectionCut,
    instances::{Instance, ServingProcess},
    monitor::{RepeatedCuts, ServerClient},
    pins::{PinMismatch, PinVerdict, ServerFiles, pin_denial},
};

/// Describes a process for events; its executable is added later, if it is known.
pub(super) fn process(process: ProcessId, comm: &str, uid: u32) -> ProcessRef {
    ProcessRef {
        pid: process.pid,
        exe: None,
        comm: Some(comm.to_owned()),
        uid: Some(uid),
    }
}

fn about(now: Timestamp, instance: &Instance, serving: &ServingProcess, kind: EventKind) -> Event {
    let mut event = Event::new(now, Layer::Kernel, kind);
    event.server_id = Some(instance.server.clone());
    event.package.clone_from(&instance.package);
    event.process = Some(process(serving.process, &serving.comm, serving.uid));
    event
}

/// Builds the event that a server started, with its files.
pub(super) fn started(
    now: Timestamp,
    instance: &Instance,
    serving: &ServingProcess,
    files: &ServerFiles,
    environment: Vec<String>,
    verdict: &PinVerdict,
) -> Event {
    let mut argv = mask_arguments(&instance.argv);
    let args = argv.split_off(argv.len().min(1));
    let executable = files.executable.hashed();
    let script = files.script.as_ref().and_then(|part| part.hashed());
    let package = files.package.as_ref().and_then(|part| part.hashed());
    let kind = EventKind::ServerStarted {
        command: argv.pop().unwrap_or_default(),
        args,
        wrapped: false,
        exe_sha256: executable.map(|file| file.digest),
        script: script.map(|file| file.path.clone()),
        script_sha256: script.map(|file| file.digest),
        package_path: package.map(|package| package.root().to_owned()),
        package_sha256: package.map(|package| package.digest()),
        package_origin: package.and_then(|package| package.origin().cloned()),
        pin: verdict.state,
        launcher_pid: instance.launcher.pid,
        matched_pattern: instance.pattern.clone(),
        environment,
    };
    let mut event = about(now, instance, serving, kind);
    if let Some(process) = &mut event.process {
        process.exe = executable.map(|file| file.path.clone());
    }
    event.action = verdict.action;
    if verdict.ended {
        event.reason = verdict.reason(&instance.server);
    } else if !verdict.unhashed.is_empty() {
        let parts: Vec<String> = verdict
            .unhashed
            .iter()
            .map(|part| format!("{} {}: {}", part.part.as_str(), part.path.display(), part.cause))
            .collect();
        event.severity = Severity::Medium;
        event.reason = Some(format!(
            "could not be compared with its pin: {}",
            parts.join("; ")
        ));
    } else if verdict.full.is_some() {
        event.severity = Severity::Medium;
        event.reason = verdict.reason(&instance.server);
    }
    event
}

/// Builds one event for each part that differs.
pub(super) fn mismatches(
    now: Timestamp,
    instance: &Instance,
    serving: &ServingProcess,
    verdict: &PinVerdict,
) -> Vec<Event> {
    let tell = |mismatch: &PinMismatch| {
        let kind = EventKind::BinaryMismatch {
            path: mismatch.path.clone(),
            expected_hash: mismatch.expected,
            actual_hash: mismatch.actual,
            part: mismatch.part,
            changed_files: mismatch.changed_files.clone(),
            changes: mismatch.changes.clone(),
        };
        let mut event = about(now, instance, serving, kind);
        event.action = verdict.action;
        event.rule = Some("mcp.version_pinning".to_owned());
        event.severity = match verdict.action {
            Action::Allow => Severity::Low,
            Action::Audit if verdict.is_accepted_upgrade() => Severity::Medium,
            Action::Audit => Severity::High,
            Action::WouldAsk | Action::WouldBlock | Action::Block => Severity::Critical,
        };
        event.reason = verdict.reason(&instance.server);
        event.remedy = verdict.remedy(&instance.server);
        event
    };
    verdict.mismatches.iter().map(tell).collect()
}

/// Builds the event that a server was stopped because of its pins.
pub(super) fn denied_by_pin(
    now: Timestamp,
    instance: &Instance,
    serving: &ServingProcess,
    verdict: &PinVerdict,
) -> Event {
    let (server, cause) = (&instance.server, verdict.cause());
    let mut event = about(now, instance, serving, EventKind::ServerDenied { cause });
    event.action = Action::Block;
    event.severity = Severity::Critical;
    event.rule = Some("mcp.version_pinning".to_owned());
    event.reason = verdict.reason(server);
    event.remedy = verdict.remedy(server);
    event
}

/// Builds the event that a server was killed before it could be compared with its pins.
pub(super) fn denied_uncompared(
    now: Timestamp,
    instance: &Instance,
    serving: &ServingProcess,
    cause: String,
) -> (Event, Denial) {
    let reason = format!("`{}` was killed: {cause}", instance.server);
    let denial = pin_denial(reason.clone(), Some("start it again".to_owned()));
    let mut event = about(now, instance, serving, EventKind::ServerDenied { cause });
    event.action = Action::Block;
    event.severity = Severity::Critical;
    event.rule = Some(denial.rule.clone());
    event.reason = Some(reason);
    event.remedy.clone_from(&denial.remedy);
    (event, denial)
}

/// Returns the denial for the client of a server that is not followed, and therefore may not run.
pub(super) fn too_many_denial(uid: u32, max: usize) -> Denial {
    Denial {
        rule: "servers".to_owned(),
        reason: format!("user {uid} runs more than {max} MCP servers at a time"),
        remedy: Some("end servers that are not needed, and start it again".to_owned()),
        event: None,
    }
}

/// Changes an event about something that was to be stopped and could not be: it continues.
pub fn runs_on(event: &mut Event, cause: &str) {
    if event.action != Action::Block {
        return;
    }
    event.action = Action::Audit;
    event.severity = Severity::Critical;
    let reason = event.reason.take().unwrap_or_default();
    event.reason = Some(format!("it was to be stopped and runs on ({cause}): {reason}"));
}

/// The setting for the treatment of orphans.
const ORPHANS: &str = "exec.orphans";

/// Builds the event that a server outlives its client or session.
pub(super) fn orphaned(
    now: Timestamp,
    instance: &Instance,
    cause: OrphanCause,
    client: Option<&ServerClient>,
    since: Timestamp,
    action: Action,
) -> Event {
    let kind = EventKind::ServerOrphaned {
        cause,
        client: client.map(|client| client.comm.clone()),
        client_pid: client.map(|client| client.process.pid),
        orphaned_ms: u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX),
    };
    let mut event = match instance.serving() {
        Some(serving) => about(now, instance, serving, kind),
        None => {
            let mut event = Event::new(now, Layer::Kernel, kind);
            event.server_id = Some(instance.server.clone());
            event.package.clone_from(&instance.package);
            let name = instance.argv.first().and_then(|name| name.rsplit('/').next());
            event.process = Some(process(instance.launcher, name.unwrap_or_default(), instance.uid));
            event
        }
    };
    event.action = action;
    event.severity = Severity::Low;
    event.rule = Some(ORPHANS.to_owned());
    event.reason = Some(orphan_reason(cause, client, action));
    event.remedy = Some(format!("mcpmon policy explain {ORPHANS}"));
    event
}

fn orphan_reason(cause: OrphanCause, client: Option<&ServerClient>, action: Action) -> String {
    let ended = match (cause, client) {
        (OrphanCause::ClientEnded, Some(client)) => {
            format!(
                "its client {} (pid {}) has ended",
                client.comm, client.process.pid
            )
        }
        (OrphanCause::ClientEnded, None) => "its client has ended".to_owned(),
        (OrphanCause::SessionEnded, _) => "its session has ended".to_owned(),
    };
    let done = match action {
        Action::Allow | Action::Audit | Action::WouldAsk => {
            "it still runs; `exec.orphans: stop` ends such servers"
        }
        Action::WouldBlock => "it would be ended (observing)",
        Action::Block => "it is ended",
    };
    format!("{ended}: {done}")
}

/// Returns the denial that the client of an orphan would get, if there were one.
pub(super) fn orphan_denial(cause: OrphanCause, client: Option<&ServerClient>) -> Denial {
    Denial {
        rule: ORPHANS.to_owned(),
        reason: orphan_reason(cause, client, Action::Block),
        remedy: Some(format!("mcpmon policy explain {ORPHANS}")),
        event: None,
    }
}

/// Builds the event that a server ended.
pub(super) fn exited(
    now: Timestamp,
    instance: &Instance,
    serving: &ServingProcess,
    status: Option<u32>,
) -> Event {
    let signal = status.map(|status| status & 0x7f).filter(|signal| *signal != 0);
    let code = status
        .filter(|_| signal.is_none())
        .map(|status| status >> 8 & 0xff);
    let kind = EventKind::ServerExited {
        exit_status: code.and_then(|code| code.try_into().ok()),
        signal: signal.and_then(|signal| signal.try_into().ok()),
        duration_ms: u64::try_from(now.since(serving.since).as_millis()).unwrap_or(u64::MAX),
    };
    about(now, instance, serving, kind)
}

/// Builds the event that the server policy refuses a server.
pub(super) fn denied_by_policy(now: Timestamp, instance: &Instance) -> Event {
    let cause = "the server policy refuses this server".to_owned();
    let mut event = Event::new(now, Layer::Kernel, EventKind::ServerDenied { cause });
    event.severity = Severity::High;
    event.server_id = Some(instance.server.clone());
    event.package.clone_from(&instance.package);
    event.rule = Some("mcp.server_policy".to_owned());
    event.process = Some(match instance.serving() {
        Some(serving) => process(serving.process, &serving.comm, serving.uid),
        None => process(instance.launcher, &instance.name, instance.uid),
    });
    event.reason = Some(format!(
        "`{}` is refused by mcp.server_policy; change mcp.allowed_servers or mcp.denied_servers to let it run",
        instance.server
    ));
    event
}

/// Builds the event that the launch of a server cannot be compared: more was started meanwhile than is
/// remembered.
pub(super) fn way_forgotten(now: Timestamp, instance: &Instance, serving: &ServingProcess) -> Event {
    let kind = EventKind::EnforcementDegraded {
        component: "launchers".to_owned(),
        cause: format!(
            "more processes were started than are remembered; what started `{}` is not compared with its pin",
            instance.server
        ),
    };
    let mut event = about(now, instance, serving, kind);
    event.severity = Severity::High;
    event
}

/// Builds the event that more servers run than are followed.
pub(super) fn too_many(now: Timestamp, server: &ServerId, exec: &Exec, max: usize) -> Event {
    let kind = EventKind::EnforcementDegraded {
        component: "servers".to_owned(),
        cause: format!(
            "user {} runs more than {max} MCP servers at a time; `{server}` is not followed",
            exec.uid
        ),
    };
    let mut event = Event::new(now, Layer::Kernel, kind);
    event.severity = Severity::High;
    event.server_id = Some(server.clone());
    event.process = Some(process(exec.process, &exec.comm, exec.uid));
    event
}

/// Builds the event about a connection, with the rule that matched and the server that it came from or went to.
pub(super) fn connection(
    now: Timestamp,
    connection: &Connection,
    rule: Option<&RuleInfo>,
    own: Option<&ServerId>,
    policy: &Policy,
) -> Event {
    let remote = rule.and_then(remote_server);
    let direction = direction(remote, own);
    let name = rule.and_then(|rule| rule.remote_names.get(&connection.address));
    let given = connection.given != connection.address;
    let remote_addr = SocketAddr::new(connection.address, connection.port);
    let remote_name = name.map(ToString::to_string);
    let is_bypass = rule.is_some_and(|rule| rule.kind == RuleKind::Bypass);
    let kind = match is_bypass {
        true => EventKind::ProxyBypass {
            remote_addr,
            remote_name,
            count: 1,
        },
        false => EventKind::NetworkConnection {
            remote_addr,
            remote_name,
            direction,
            protocol: connection.transport,
            server_type: remote.and_then(|id| server_type(policy, id)),
            given_addr: given.then(|| SocketAddr::new(connection.given, connection.port)),
            proxied: false,
            socket: connection.socket,
            count: 1,
        },
    };
    let mut event = Event::new(now, Layer::Kernel, kind);
    event.server_id = remote.or(own).cloned();
    // Packets of sockets that were there before their rules have no known sender.
    let is_known = connection.process != ProcessId::default();
    event.process = is_known.then(|| process(connection.process, &connection.comm, connection.uid));
    event.rule = rule.map(|rule| rule.name.clone());
    if connection.checkpoint == Checkpoint::Socket {
        event.rule = Some(UNJUDGED_PROTOCOL.to_owned());
    }
    (event.action, event.severity) = match (connection.outcome, rule) {
        (ConnectionOutcome::Refused, _) => (Action::Block, Severity::High),
        (ConnectionOutcome::WouldRefuse, _) => (Action::WouldBlock, Severity::Medium),
        (ConnectionOutcome::Passed, Some(_)) if is_bypass => (Action::Audit, Severity::Medium),
        (ConnectionOutcome::Passed, Some(_)) => (Action::Audit, Severity::Low),
        (ConnectionOutcome::Passed, None) => (Action::Allow, Severity::Info),
    };
    event.reason = match connection.checkpoint {
        Checkpoint::Call => rule.and_then(|rule| reason(rule, connection, own)),
        Checkpoint::Packet => rule
            .and_then(|rule| reason(rule, connection, own))
            .map(|reason| format!("{reason}; the packet was dropped: no call had named this address")),
        Checkpoint::Socket => unjudged(connection),
    };
    event
}

/// Returns the remote server that a rule is about.
const fn remote_server(rule: &RuleInfo) -> Option<&ServerId> {
    match &rule.kind {
        RuleKind::Server(id) | RuleKind::DeniedServer(id) => Some(id),
        RuleKind::Watch
        | RuleKind::Deny(_)
        | RuleKind::Egress(_)
        | RuleKind::Bypass
        | RuleKind::Kill
        | RuleKind::Canary => None,
    }
}

const fn direction(remote: Option<&ServerId>, own: Option<&ServerId>) -> Direction {
    match (remote, own) {
        (Some(_), _) => Direction::AgentToServer,
        (None, Some(_)) => Direction::ServerEgress,
        (None, None) => Direction::Watch,
    }
}

/// Builds the event about connections of one process to one address that were to be cut, with the same outcome.
pub(super) fn cut(
    now: Timestamp,
    cuts: &RepeatedCuts<'_>,
    rule: Option<&RuleInfo>,
    own: Option<&ServerId>,
) -> Event {
    let ConnectionCut {
        connection, holder, ..
    } = cuts.first;
    let remote = rule.and_then(remote_server);
    let name = rule.and_then(|rule| rule.remote_names.get(&connection.remote.ip().to_canonical()));
    let kind = EventKind::ConnectionCut {
        remote_addr: connection.remote,
        remote_name: name.map(ToString::to_string),
        direction: direction(remote, own),
        protocol: connection.transport,
        socket: (cuts.count == 1).then_some(connection.socket),
        bytes_sent: cuts.traffic.map(|traffic| traffic.sent),
        bytes_received: cuts.traffic.map(|traffic| traffic.received),
        count: cuts.count,
    };
    let mut event = Event::new(now, Layer::Kernel, kind);
    event.server_id = remote.or(own).cloned();
    event.process = holder
        .as_ref()
        .map(|holder| process(holder.process, &holder.comm, holder.uid));
    event.rule = rule.map(|rule| rule.name.clone());
    let reason = rule.map(|rule| reason_of(rule, "an open connection is cut: it is refused", own));
    event.severity = Severity::High;
    (event.action, event.reason) = match cuts.failure {
        None => (Action::Block, reason),
        Some(cause) => (
            Action::Audit,
            Some(format!(
                "it could not be cut and goes on, as far as its packets pass ({cause}): {}",
                reason.unwrap_or_default()
            )),
        ),
    };
    event
}

/// Name, in the place of a rule's, of what refuses sockets whose addresses nothing judges.
const UNJUDGED_PROTOCOL: &str = "unjudged_protocol";

fn unjudged(connection: &Connection) -> Option<String> {
    let protocol = match connection.protocol {
        33 => "DCCP".to_owned(),
        115 => "L2TP/IP".to_owned(),
        132 => "SCTP".to_owned(),
        number => format!("protocol {number}"),
    };
    Some(format!(
        "{} to open a socket of {protocol}: while rules refuse addresses to a process, it gets no socket whose addresses nothing judges; remove those rules to allow it",
        verb(connection.outcome)?
    ))
}

const fn verb(outcome: ConnectionOutcome) -> Option<&'static str> {
    match outcome {
        ConnectionOutcome::Passed => None,
        ConnectionOutcome::Refused => Some("refused"),
        ConnectionOutcome::WouldRefuse => Some("would be refused (observing)"),
    }
}

/// Marks a connection to a declared server that mcpmon itself made on behalf of a judged client: it is no bypass.
pub fn proxied(event: &mut Event) {
    let EventKind::NetworkConnection {
        direction: Direction::AgentToServer,
        proxied,
        ..
    } = &mut event.kind
    else {
        return;
    };
    *proxied = true;
    if event.action == Action::Audit {
        (event.action, event.severity) = (Action::Allow, Severity::Info);
    }
}

fn reason(rule: &RuleInfo, connection: &Connection, own: Option<&ServerId>) -> Option<String> {
    let verb = if connection.outcome == ConnectionOutcome::Passed && rule.kind == RuleKind::Bypass {
        "let through"
    } else {
        verb(connection.outcome)?
    };
    Some(reason_of(rule, verb, own))
}

/// Builds the sentence about the effect of a rule, with the remedy.
fn reason_of(rule: &RuleInfo, verb: &str, own: Option<&ServerId>) -> String {
    let name = &rule.name;
    match &rule.kind {
        RuleKind::Deny(_) | RuleKind::Watch => {
            format!(
                "{verb} by the rule `{name}` in network.deny; narrow or remove that rule to let it through"
            )
        }
        RuleKind::Egress(id) if own.is_none() => format!(
            "{verb} while it was not known yet whether the process belongs to a server: every egress list holds until then, this one is that of `{id}`"
        ),
        RuleKind::Egress(id) => format!(
            "{verb} by the egress list of the server `{id}`; add the address to its egress.allow to let it through"
        ),
        RuleKind::Server(id) | RuleKind::DeniedServer(id) => format!(
            "{verb}: the server `{id}` is refused by mcp.server_policy; change mcp.allowed_servers or mcp.denied_servers"
        ),
        RuleKind::Bypass => format!(
            "{verb}: its session has an LLM proxy, and this goes round it; what is said there is not judged. Let the agent use the base URL it was given, or start it without `mcpmon run`"
        ),
        RuleKind::Kill => format!(
            "{verb}: a person stopped the session; lift it with `mcpmon kill SESSION --off`, or `mcpmon kill --all --off`"
        ),
        RuleKind::Canary => format!("{verb}: this address belongs to mcpmon's self-test"),
    }
}

fn server_type(policy: &Policy, id: &ServerId) -> Option<ServerType> {
    let server = policy.servers.iter().find(|server| server.id == *id)?;
    Some(match &server.transport {
        Transport::Stdio { .. } => ServerType::Stdio,
        Transport::Remote { server_type, .. } => *server_type,
    })
}

#[cfg(test)]
mod tests {
    use mcpmon_model::IpProtocol;
    use test_case::test_case;

    use super::*;

    #[test_case(Direction::AgentToServer, Action::Audit => (true, Action::Allow); "a server that is watched")]
    #[test_case(Direction::AgentToServer, Action::Block => (true, Action::Block); "what was refused stays that")]
    #[test_case(Direction::ServerEgress, Action::Audit => (false, Action::Audit); "of a server")]
    #[test_case(Direction::Watch, Action::Audit => (false, Action::Audit); "watched by a rule")]
    fn connections_of_the_proxy(direction: Direction, action: Action) -> (bool, Action) {
        let kind = EventKind::NetworkConnection {
            remote_addr: "192.0.2.1:443".parse().expect("an address"),
            remote_name: None,
            direction,
            protocol: IpProtocol::Tcp,
            server_type: None,
            given_addr: None,
            proxied: false,
            socket: None,
            count: 1,
        };
        let mut event = Event::new(Timestamp(0), Layer::Kernel, kind);
        event.action = action;
        proxied(&mut event);
        let EventKind::NetworkConnection { proxied: told, .. } = event.kind else {
            panic!("another event");
        };
        (told, event.action)
    }
}

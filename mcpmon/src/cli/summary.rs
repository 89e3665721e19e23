//! Summary of an event, in one line.

use mcpmon_model::{ChangeCause, Digest, EventKind, FileChange};
use mcpmon_store::{StoredEvent, command_line};
use serde_json::Value;

use super::time;

/// Describes an event: the fields of its type in words, then its reason.
pub(super) fn summary(event: &StoredEvent) -> String {
    // An event type of a later version cannot be parsed.
    let what = event.parse_kind().and_then(|kind| describe(kind, event));
    let what = what.unwrap_or_else(|| Value::Object(event.data.clone()).to_string());
    match &event.reason {
        Some(reason) => format!("{what}: {reason}"),
        None => what,
    }
}

/// Describes an event for a row whose server is in another column: the server and the tool are not repeated.
pub(super) fn summary_without_server(event: &StoredEvent) -> String {
    let Some(server) = event.server_id.as_deref() else {
        return summary(event);
    };
    let text = |field| event.data.get(field).and_then(Value::as_str);
    let kind = text("definition").unwrap_or("tool");
    let subject = text("tool_name").map(|tool| format!("{kind} {tool} of {server}"));
    let reason = event.reason.as_ref();
    let reason = reason.map(|reason| match &subject {
        Some(subject) => reason.replacen(subject, "it", 1),
        None => reason.clone(),
    });
    let summary = summary(&StoredEvent {
        reason,
        ..event.clone()
    });
    let prefix = format!("{server}:");
    summary.strip_prefix(&prefix).unwrap_or(&summary).to_owned()
}

/// Describes the end of a process: `exit 0`, `signal 9`.
pub(super) fn ending(exit_status: Option<i32>, signal: Option<i32>) -> String {
    match (exit_status, signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(status), None) => format!("exit {status}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Describes the number of occurrences that an event stands for, if there are several.
pub(super) fn times(count: u64) -> String {
    match count {
        1 => String::new(),
        more => format!(" ×{more}"),
    }
}

/// Formats the other end: `203.0.113.9:443 ×12 evil.example`. The name comes last, because a narrow column is cut at
/// its end.
pub(super) fn remote(name: Option<&str>, address: impl std::fmt::Display, count: u64) -> String {
    let times = times(count);
    match name {
        Some(name) => format!("{address}{times} {name}"),
        None => format!("{address}{times}"),
    }
}

/// Describes the bytes sent and received; empty if they were not counted.
fn traffic(sent: Option<u64>, received: Option<u64>) -> String {
    let bytes = |count: Option<u64>| count.unwrap_or_default();
    match (sent, received) {
        (None, None) => String::new(),
        _ => format!(", {} bytes sent, {} received", bytes(sent), bytes(received)),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other kinds are described by their texts"
)]
fn describe(kind: EventKind, event: &StoredEvent) -> Option<String> {
    let text = match kind {
        EventKind::ServerStarted { command, args, .. } => command_line(&command, &args),
        EventKind::ServerExited {
            exit_status,
            signal,
            duration_ms,
        } => format!(
            "{} after {}",
            ending(exit_status, signal),
            time::span(duration_ms)
        ),
        EventKind::BinaryMismatch {
            path,
            expected_hash,
            actual_hash,
            part,
            changed_files,
            changes,
        } => {
            let is_explained =
                |change: &&FileChange| !matches!(change.cause, ChangeCause::Unknown | ChangeCause::Launcher);
            let explained: Vec<String> = changes
                .iter()
                .filter(is_explained)
                .map(|change| change.text.clone())
                .collect();
            if !explained.is_empty() {
                return Some(format!("{}: {}", part.as_str(), explained.join("; ")));
            }
            let changed = match changed_files.as_slice() {
                [] => String::new(),
                files => format!(" ({})", files.join(", ")),
            };
            format!(
                "{part} {} is {}, pinned {}{changed}",
                path.display(),
                short(actual_hash),
                short(expected_hash),
                part = part.as_str(),
            )
        }
        EventKind::NetworkConnection {
            remote_addr,
            remote_name,
            count,
            ..
        } => remote(remote_name.as_deref(), remote_addr, count),
        EventKind::ConnectionClosed {
            remote_addr,
            remote_name,
            established,
            duration_ms,
            bytes_sent,
            bytes_received,
            count,
            ..
        } => {
            let remote = remote(remote_name.as_deref(), remote_addr, count);
            let life = match established {
                true => format!("after {}", time::span(duration_ms)),
                false => format!("without an answer for {}", time::span(duration_ms)),
            };
            format!("{remote}: {life}{}", traffic(bytes_sent, bytes_received))
        }
        EventKind::ConnectionCut {
            remote_addr,
            remote_name,
            bytes_sent,
            bytes_received,
            count,
            ..
        } => {
            let remote = remote(remote_name.as_deref(), remote_addr, count);
            format!("{remote}{}", traffic(bytes_sent, bytes_received))
        }
        EventKind::ServerUnwrapped {
            command,
            parent_chain,
            ..
        } => format!("{command} (started by {})", parent_chain.join(" < ")),
        EventKind::ServerSandboxed {
            mode,
            network,
            enforced,
            gaps,
            ..
        } => {
            let network = if network == "off" { ", no network" } else { "" };
            let without = if enforced { "" } else { "without its sandbox: " };
            let gaps = gaps.iter().map(|gap| format!("; {gap}"));
            format!("{without}{mode}{network}{}", gaps.collect::<String>())
        }
        EventKind::ServerOrphaned {
            client, orphaned_ms, ..
        } => {
            let client = client.map_or_else(String::new, |client| format!(" by {client}"));
            format!("orphaned{client} {} ago", time::span(orphaned_ms))
        }
        EventKind::NameSimilarity {
            similar_to, method, ..
        } => format!("resembles {similar_to} ({method})"),
        EventKind::ToolSeen {
            tool_name, status, ..
        } => format!("{tool_name} {}", mcpmon_store::name(&status)),
        EventKind::ToolChanged {
            tool_name,
            new_hash: None,
            ..
        } => format!("{tool_name} is no longer listed"),
        EventKind::ToolChanged {
            tool_name, changes, ..
        } => {
            let fields: Vec<_> = changes.iter().map(|change| change.field.as_str()).collect();
            format!("{tool_name}: {}", fields.join(", "))
        }
        EventKind::Detection {
            tool_name,
            detection,
            count,
            ..
        } => {
            let found = format!("{} in {}{}", detection.pattern, detection.field, times(count));
            tool_name.map_or_else(|| found.clone(), |tool| format!("{tool}: {found}"))
        }
        EventKind::ToolCallIntercepted { tool_name, .. } | EventKind::ToolCalled { tool_name, .. } => {
            tool_name
        }
        EventKind::ToolReturned {
            tool_name,
            outcome,
            duration_us,
            ..
        } => format!(
            "{tool_name} {} after {}",
            mcpmon_store::name(&outcome),
            time::span(duration_us / 1000)
        ),
        EventKind::OutputInspection {
            tool_name,
            detections,
            count,
            ..
        } => {
            let patterns: Vec<_> = detections
                .iter()
                .map(|finding| finding.pattern.as_str())
                .collect();
            format!("{tool_name}: {}{}", patterns.join(", "), times(count))
        }
        EventKind::RequestJudged {
            method,
            summary,
            count,
        } => format!("{method}: {summary}{}", times(count)),
        EventKind::CrossServerBlocked {
            blocked_tool_name,
            related_calls,
            ..
        } => match related_calls.first() {
            Some(call) => format!("{blocked_tool_name} after {}:{}", call.server_id, call.tool_name),
            None => blocked_tool_name,
        },
        EventKind::DlpRedaction { kind, count, .. } => format!("{count} {kind} replaced"),
        EventKind::ProxyBypass {
            remote_addr,
            remote_name,
            count,
        } => remote(remote_name.as_deref(), remote_addr, count),
        EventKind::TlsMismatch {
            url,
            expected,
            actual,
        } => format!("{url}: {} instead of {}", actual.short(12), expected.short(12)),
        EventKind::Approval {
            subject, by, state, ..
        } => {
            format!("{subject} {} by {by}", mcpmon_store::name(&state))
        }
        EventKind::Kill { scope, by, state } => format!("{scope} {} by {by}", mcpmon_store::name(&state)),
        EventKind::PolicyLoaded { path, hash, lost, .. } => match lost.as_slice() {
            [] => format!("{path} {}", hash.short(12)),
            [lost] => format!("without {lost}: {path} {}", hash.short(12)),
            [lost, rest @ ..] => format!(
                "without {lost} and {} more: {path} {}",
                rest.len(),
                hash.short(12)
            ),
        },
        EventKind::PolicyRejected { path, errors } => format!("{path}: {}", errors.join("; ")),
        EventKind::DaemonGap {
            duration_ms,
            refused,
            killed,
            missing,
            ..
        } => format!(
            "no daemon for {}: {refused} refused, {killed} killed, {missing} records missing",
            time::span(duration_ms)
        ),
        EventKind::EventsLost { place, count } => format!("{count} lost in the {place}"),
        _ => return texts(event),
    };
    Some(text)
}

/// Returns the texts among an event's own fields, in their order; `None` if there are none.
fn texts(event: &StoredEvent) -> Option<String> {
    let own = event.data.iter().filter(|(key, _)| *key != "remedy");
    let texts: Vec<&str> = own.filter_map(|(_, value)| value.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join(": "))
}

fn short(hash: Option<Digest>) -> String {
    hash.map_or_else(|| "unknown".to_owned(), |hash| hash.short(12))
}

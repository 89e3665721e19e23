//! The content of a report.

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_model::{Action, EventKind, EventType, Layer, Severity};
use mcpmon_store::{Filter, SessionSummary, StoreReader, StoredEvent, json as form};
use serde_json::{Map, Value, json};

use super::{
    seen::WatchedPart,
    stopped,
    timeline::{Timeline, TimelineEntry, ToolChange, ToolChanges},
};
use crate::cli::{CliError, summary};

/// Most blocked uses and detections that a report lists; it also gives their number.
const MAX_LISTED: usize = 50;
/// Most tools, connections and gaps that a report lists; a session can have any number of them.
pub(super) const MAX_ROWS: usize = 1_000;

/// The data of a report on a session.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) session: String,
    pub(super) agent: Option<String>,
    pub(super) started: Option<String>,
    pub(super) ended: Option<String>,
    pub(super) servers: BTreeSet<String>,
    pub(super) tools_seen: BTreeSet<(String, String)>,
    pub(super) tools_changed: BTreeSet<(String, String)>,
    pub(super) detections: BTreeMap<Severity, u64>,
    pub(super) top: Vec<DetectionCount>,
    /// The number of all different detections, those that are left out included.
    pub(super) top_count: usize,
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) blocked: Vec<StoppedUse>,
    /// The uses that passed only because the policy is in observe mode.
    pub(super) would_block: Vec<StoppedUse>,
    pub(super) connections: BTreeMap<(String, &'static str), u64>,
    pub(super) launches: u64,
    pub(super) wrapped: u64,
    pub(super) gaps: Vec<EnforcementGap>,
    pub(super) timeline: Timeline,
    pub(super) tool_changes: ToolChanges,
    /// True if the session has more events than a report reads: the oldest ones are missing.
    pub(super) is_truncated: bool,
    /// The part of the session that a daemon watched.
    pub(super) seen: WatchedPart,
}

/// A pattern that was found, and its frequency.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DetectionCount {
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) pattern: String,
    pub(super) severity: Severity,
    pub(super) count: u64,
}

/// A use that was stopped, or would have been.
#[derive(Debug)]
pub(super) struct StoppedUse {
    pub(super) kind: String,
    pub(super) time: String,
    pub(super) server: String,
    pub(super) what: String,
    pub(super) rule: String,
    pub(super) reason: String,
}

/// A gap in the enforcement, with its time.
#[derive(Clone, Debug)]
pub(super) struct EnforcementGap {
    pub(super) time: String,
    pub(super) what: String,
}

/// Returns the events about the session's servers and host that have no session: those of the kernel and of the daemon.
pub(super) fn surroundings(
    reader: &StoreReader,
    events: &[StoredEvent],
) -> Result<Vec<StoredEvent>, CliError> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Ok(Vec::new());
    };
    let types = [
        EventType::ServerStarted,
        EventType::NetworkConnection,
        EventType::EnforcementDegraded,
        EventType::EnforcementRestored,
        EventType::EventsLost,
    ];
    let filter = Filter {
        types: types.map(|kind| kind.as_str().to_owned()).to_vec(),
        since: Some(first.timestamp),
        until: Some(mcpmon_model::Timestamp(last.timestamp.0.saturating_add(1))),
        ..Filter::default()
    };
    let servers: BTreeSet<&str> = events
        .iter()
        .filter_map(|event| event.server_id.as_deref())
        .collect();
    let mut found = reader.events(&filter, super::LIMIT)?;
    found.retain(|event| {
        let concerns = event
            .server_id
            .as_deref()
            .is_none_or(|server| servers.contains(server));
        event.session_id.is_none() && concerns
    });
    Ok(found)
}

impl Report {
    pub(super) fn of(
        session: &str,
        summary: Option<&SessionSummary>,
        events: &[StoredEvent],
        surroundings: &[StoredEvent],
    ) -> Self {
        let mut report = Self {
            session: session.to_owned(),
            agent: summary.and_then(|summary| summary.agent.clone()),
            ..Self::default()
        };
        let first = events.first().map(|event| event.timestamp);
        let last = events.last().map(|event| event.timestamp);
        let started = summary.map(|summary| summary.started).or(first);
        report.started = started.map(form::rfc3339);
        report.ended = match summary {
            Some(summary) => summary.ended,
            None => last,
        }
        .map(form::rfc3339);
        report.servers.extend(
            summary
                .into_iter()
                .flat_map(|summary| summary.servers.iter().cloned()),
        );
        let mut found = BTreeMap::new();
        for event in events.iter().chain(surroundings) {
            report.count(event, &mut found);
        }
        let all = || events.iter().chain(surroundings);
        let things = |action| stopped::things(all(), action).into_iter().map(blocked);
        report.blocked = things(Action::Block).collect();
        report.would_block = things(Action::WouldBlock).collect();
        report.top_count = found.len();
        report.top = top(found);
        report.timeline = Timeline::from_events(all());
        report
    }

    fn count(&mut self, event: &StoredEvent, found: &mut BTreeMap<(String, String, String, Severity), u64>) {
        let server = event.server_id.clone().unwrap_or_default();
        // A model can name a tool of a server that does not exist, and a client's own tools belong to no server.
        if !server.is_empty() && !matches!(event.layer, Layer::Llm | Layer::Hook) {
            self.servers.insert(server.clone());
        }
        match event.parse_kind() {
            Some(EventKind::ToolSeen { tool_name, .. }) => {
                self.tools_seen.insert((server, tool_name));
            }
            Some(EventKind::ToolChanged {
                tool_name,
                new_hash,
                changes,
                renamed_from,
                ..
            }) => {
                self.tools_changed.insert((server.clone(), tool_name.clone()));
                self.tool_changes.add(ToolChange {
                    time: form::rfc3339(event.timestamp),
                    server,
                    tool: tool_name,
                    renamed_from,
                    is_listed: new_hash.is_some(),
                    fields: changes,
                });
            }
            Some(EventKind::Detection {
                tool_name,
                detection,
                count,
                ..
            }) => {
                *self.detections.entry(detection.severity).or_default() += count;
                let key = (
                    server,
                    tool_name.unwrap_or_default(),
                    detection.pattern,
                    detection.severity,
                );
                *found.entry(key).or_default() += count;
            }
            // A call that was made was allowed; a call that was blocked has no event of this type.
            Some(EventKind::ToolCalled { .. }) => {
                *self.calls.entry(event.action.as_str()).or_default() += 1;
            }
            Some(EventKind::ToolCallIntercepted { .. }) if event.action == Action::Block => {
                *self.calls.entry(event.action.as_str()).or_default() += 1;
            }
            Some(EventKind::NetworkConnection {
                remote_addr,
                remote_name,
                count,
                ..
            }) => {
                let remote = summary::remote(remote_name.as_deref(), remote_addr, 1);
                *self
                    .connections
                    .entry((remote, event.action.as_str()))
                    .or_default() += count;
            }
            Some(EventKind::ServerStarted { wrapped, .. }) => {
                self.launches += 1;
                self.wrapped += u64::from(wrapped);
            }
            Some(
                EventKind::EnforcementDegraded { .. }
                | EventKind::EnforcementRestored { .. }
                | EventKind::EventsLost { .. },
            ) => self.gaps.push(EnforcementGap {
                time: form::rfc3339(event.timestamp),
                what: format!("{}: {}", event.kind, summary::summary(event)),
            }),
            // The findings in a result have events of their own.
            Some(_) | None => {}
        }
    }

    /// Returns the percentage of launches by a wrapper. Returns `None` if none was seen, or if a daemon did not watch
    /// the whole session.
    pub(super) fn coverage(&self) -> Option<u64> {
        (self.launches > 0 && self.seen == WatchedPart::Whole).then(|| self.wrapped * 100 / self.launches)
    }

    /// Returns the gaps, ordered by time; times without a daemon come first.
    pub(super) fn not_enforced(&self) -> Vec<EnforcementGap> {
        let unseen = |time: String, how_long: &str| EnforcementGap {
            time,
            what: format!(
                "no daemon watched {how_long}: connections, and servers that no wrapper started, were neither seen nor stopped"
            ),
        };
        let whole = (self.seen == WatchedPart::Not)
            .then(|| unseen(self.started.clone().unwrap_or_default(), "the session"));
        let times = self.seen.gaps().iter();
        let times = times.map(|gap| {
            let until = format!("until {}", form::rfc3339(gap.until));
            unseen(form::rfc3339(gap.since), &until)
        });
        let observed = self.would_block.first().map(|first| {
            let count = self.would_block.len();
            let uses = if count == 1 { "use" } else { "uses" };
            EnforcementGap {
                time: first.time.clone(),
                what: format!("mode observe: {count} {uses} went on that would have been blocked"),
            }
        });
        let known = self.gaps.iter().cloned();
        whole
            .into_iter()
            .chain(times)
            .chain(observed)
            .chain(known)
            .collect()
    }

    /// Returns a summary in a line; stopped uses are counted by kind.
    pub(super) fn line(&self) -> String {
        let several = |count: u64, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            more => format!("{more} {many}"),
        };
        let blocked = |kind: &str| {
            let of_kind = self.blocked.iter().filter(|blocked| blocked.kind == kind);
            of_kind.count() as u64
        };
        let (calls, hidden) = (blocked("mcp_tool_call_intercepted"), blocked("mcp_tool_seen"));
        let other = self.blocked.len() as u64 - calls - hidden;
        let mut words = vec![
            several(self.servers.len() as u64, "server", "servers"),
            several(self.calls.values().sum(), "call", "calls"),
        ];
        let rest = [
            (calls, "call blocked", "calls blocked"),
            (hidden, "definition hidden", "definitions hidden"),
            (other, "other use blocked", "other uses blocked"),
            (
                self.would_block.len() as u64,
                "use that would have been blocked",
                "uses that would have been blocked",
            ),
        ];
        let rest = rest.into_iter().filter(|(count, ..)| *count > 0);
        words.extend(rest.map(|(count, one, many)| several(count, one, many)));
        words.push(several(self.detections.values().sum(), "finding", "findings"));
        words.join(", ")
    }

    /// Returns the report as a JSON object.
    pub(super) fn object(&self) -> Map<String, Value> {
        let pairs = |pairs: &BTreeSet<(String, String)>| -> Vec<Value> {
            pairs
                .iter()
                .take(MAX_ROWS)
                .map(|(server, tool)| json!({"server_id": server, "tool_name": tool}))
                .collect()
        };
        let list = |blocked: &[StoppedUse]| -> Vec<Value> {
            let object = |blocked: &StoppedUse| {
                json!({
                    "timestamp": blocked.time,
                    "server_id": blocked.server,
                    "what": blocked.what,
                    "rule": blocked.rule,
                    "reason": blocked.reason,
                })
            };
            shown(blocked).iter().map(object).collect()
        };
        // `null` means that connections could not be seen; an empty list means that there were none.
        let connections = (self.seen != WatchedPart::Not || !self.connections.is_empty()).then(|| {
            let connections = self
                .connections
                .iter()
                .take(MAX_ROWS)
                .map(|((remote, action), count)| {
                    json!({
                        "remote": remote,
                        "action": action,
                        "count": count,
                    })
                });
            connections.collect::<Vec<_>>()
        });
        let not_enforced = self.not_enforced();
        let value = json!({
            "session_id": self.session,
            "truncated": self.is_truncated,
            "agent": self.agent,
            "started": self.started,
            "ended": self.ended,
            "servers_connected": self.servers,
            "tools_seen": pairs(&self.tools_seen),
            "tools_seen_count": self.tools_seen.len(),
            "tools_changed": pairs(&self.tools_changed),
            "tools_changed_count": self.tools_changed.len(),
            "detections_by_severity": self.detections.iter()
                .map(|(severity, count)| (severity.as_str().to_owned(), Value::from(*count)))
                .collect::<Map<_, _>>(),
            "top_detections": self.top.iter().map(|detection| json!({
                "server_id": detection.server,
                "tool_name": detection.tool,
                "pattern": detection.pattern,
                "severity": detection.severity.as_str(),
                "count": detection.count,
            })).collect::<Vec<_>>(),
            "top_detections_count": self.top_count,
            "calls": self.calls,
            "blocked": list(&self.blocked),
            "blocked_count": self.blocked.len(),
            "would_block": list(&self.would_block),
            "would_block_count": self.would_block.len(),
            "connections": connections,
            "connections_count": self.connections.len(),
            "coverage": {"seen": self.launches, "wrapped": self.wrapped, "percent": self.coverage()},
            "watched": self.seen.as_str(),
            "not_enforced": not_enforced.iter().take(MAX_ROWS).map(|gap| json!({
                "timestamp": gap.time,
                "what": gap.what,
            })).collect::<Vec<_>>(),
            "not_enforced_count": not_enforced.len(),
            "tool_changes": self.tool_changes.first.iter().map(ToolChange::object).collect::<Vec<_>>(),
            "tool_changes_count": self.tool_changes.count,
            "timeline": self.timeline.entries.iter().map(TimelineEntry::object).collect::<Vec<_>>(),
            "timeline_count": self.timeline.count,
        });
        let Value::Object(object) = value else {
            unreachable!("it was written as an object")
        };
        object
    }
}

/// Returns the blocked uses that a report lists.
pub(super) fn shown(blocked: &[StoppedUse]) -> &[StoppedUse] {
    &blocked[..blocked.len().min(MAX_LISTED)]
}

/// Orders detections by severity, then by frequency.
fn top(found: BTreeMap<(String, String, String, Severity), u64>) -> Vec<DetectionCount> {
    let mut top: Vec<DetectionCount> = found
        .into_iter()
        .map(|((server, tool, pattern, severity), count)| DetectionCount {
            server,
            tool,
            pattern,
            severity,
            count,
        })
        .collect();
    top.sort_by_key(|detection| std::cmp::Reverse((detection.severity, detection.count)));
    top.truncate(MAX_LISTED);
    top
}

fn blocked(event: &StoredEvent) -> StoppedUse {
    StoppedUse {
        kind: event.kind.clone(),
        time: form::rfc3339(event.timestamp),
        server: event.server_id.clone().unwrap_or_default(),
        what: format!("{} {}", event.kind, what(event)),
        rule: event.rule.clone().unwrap_or_default(),
        reason: event.reason.clone().unwrap_or_default(),
    }
}

/// Describes the subject of an event in a few words.
fn what(event: &StoredEvent) -> String {
    let field = ["tool_name", "uri", "method", "remote_addr", "subject"]
        .into_iter()
        .find_map(|name| event.data.get(name)?.as_str());
    field.unwrap_or_default().to_owned()
}

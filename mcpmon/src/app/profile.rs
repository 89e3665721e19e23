//! Profiles: what a session used, read from the store: from the events of the session, and those of the host about its
//! servers.

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_config::{
    CommandArgument, Profile, Provenance, SeenFile, SeenServer, SessionConnections, SessionStart, UsedTool,
};
use mcpmon_detect::{
    arguments::Arguments,
    mask::MASK,
    protected_paths::{FileAccess, Lookup, Places, Protection, named_files, protection},
};
use mcpmon_model::{
    Action, DefinitionKind, DefinitionRecord, Digest, Direction, EventKind, EventType, Layer, Package,
    RawJson, ServerId, Severity, Timestamp,
};
use mcpmon_store::{Filter, QueryError, Selection, SessionSummary, StoreReader, StoredEvent};

/// Most events that are read for one profile; a profile that needs more is marked as cut.
const MAX_EVENTS: usize = 1_000_000;
/// Events that are in memory at a time.
const BATCH: u32 = 5_000;
/// Most files that are noted for one server.
const MAX_FILES: usize = 256;
/// Number of latest starts that are read for a server.
const STARTS: u32 = 1;

/// Types of events that record use.
const TYPES: [EventType; 7] = [
    EventType::ToolSeen,
    EventType::ToolCalled,
    EventType::ToolCallIntercepted,
    EventType::ServerStarted,
    EventType::ServerDenied,
    EventType::ResourceRead,
    EventType::RequestJudged,
];

/// A profile, and whether it covers the whole session.
#[derive(Clone, Debug)]
pub struct DrawnProfile {
    /// The profile.
    pub profile: Profile,
    /// True if there were more events than are read: the latest are missing.
    pub is_cut: bool,
}

/// Draws the profile of a session.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub fn draw(reader: &StoreReader, session: &SessionSummary) -> Result<DrawnProfile, QueryError> {
    let mut sketch = Sketch::default();
    for id in &session.servers {
        sketch.server(id);
    }
    let filter = Filter {
        types: TYPES.map(|kind| kind.as_str().to_owned()).to_vec(),
        sessions: vec![session.id.clone()],
        ..Filter::default()
    };
    let (mut begin, mut last) = (session.started, session.started);
    let mut is_cut = each(reader, &filter, |event| {
        begin = begin.min(event.timestamp);
        last = last.max(event.timestamp);
        sketch.see(event);
    })?;
    let end = session.ended.unwrap_or(last);
    let mut definitions = BTreeMap::new();
    for (id, server) in &mut sketch.servers {
        let after = Timestamp(end.0.saturating_add(1));
        if server.start.is_none() {
            server.start = start_before(reader, id, after)?;
        }
        let (connections, more) = connections(reader, id, &session.id, begin, after)?;
        server.connections = connections;
        is_cut |= more;
        definitions.extend(registered(reader, id)?);
    }
    let mut profile = sketch.finish(&definitions);
    profile.session.clone_from(&session.id);
    profile.provenance = Provenance {
        count: 1,
        first: begin,
        last: end,
    };
    Ok(DrawnProfile { profile, is_cut })
}

/// Calls `look` for each event that matches, oldest first. Returns whether there are more events than are read.
fn each(
    reader: &StoreReader,
    filter: &Filter,
    mut look: impl FnMut(&StoredEvent),
) -> Result<bool, QueryError> {
    let (mut after, mut seen) = (0, 0);
    loop {
        let events = reader.events_after(after, filter, BATCH)?;
        events.iter().for_each(&mut look);
        let Some(last) = events.last() else {
            return Ok(false);
        };
        after = last.seq;
        seen += events.len();
        if seen >= MAX_EVENTS {
            return Ok(true);
        }
    }
}

/// Returns the latest start that the kernel reported, for a server whose start no wrapper recorded.
fn start_before(
    reader: &StoreReader,
    server: &ServerId,
    after: Timestamp,
) -> Result<Option<SessionStart>, QueryError> {
    let filter = Filter {
        server: Some(server.as_str().to_owned()),
        until: Some(after),
        ..Filter::default()
    };
    let launches = reader.launches(&filter, STARTS)?;
    Ok(launches.last().and_then(|launch| started(&launch.started)))
}

/// Returns the connections of a server's processes during the session, without those of other sessions.
fn connections(
    reader: &StoreReader,
    server: &ServerId,
    session: &str,
    begin: Timestamp,
    after: Timestamp,
) -> Result<(Vec<SessionConnections>, bool), QueryError> {
    let filter = Filter {
        types: vec![EventType::NetworkConnection.as_str().to_owned()],
        server: Some(server.as_str().to_owned()),
        since: Some(begin),
        until: Some(after),
        ..Filter::default()
    };
    let mut found: BTreeMap<_, Provenance> = BTreeMap::new();
    let is_cut = each(reader, &filter, |event| {
        if event.session_id.as_deref().is_some_and(|of| of != session) {
            return;
        }
        if let Some(EventKind::NetworkConnection {
            remote_addr,
            remote_name,
            direction: Direction::ServerEgress,
            count,
            ..
        }) = event.parse_kind()
        {
            let key = (is_stopped(event.action), remote_name, remote_addr);
            found.entry(key).or_default().add(Provenance {
                count,
                ..Provenance::once(event.timestamp)
            });
        }
    })?;
    let connection = |((refused, name, address), provenance)| SessionConnections {
        address,
        name,
        refused,
        provenance,
    };
    Ok((found.into_iter().map(connection).collect(), is_cut))
}

/// A server and a tool, by their names.
type Named = (String, String);

fn registered(
    reader: &StoreReader,
    server: &ServerId,
) -> Result<impl Iterator<Item = (Named, DefinitionRecord)>, QueryError> {
    let records = reader.definitions(&Selection {
        server: Some(server.as_str().to_owned()),
        ..Selection::default()
    })?;
    let tools = records
        .into_iter()
        .filter(|record| record.key.kind == DefinitionKind::Tool);
    let named = |record: DefinitionRecord| {
        let name = (
            record.key.identity.server.as_str().to_owned(),
            record.key.name.clone(),
        );
        (name, record)
    };
    Ok(tools.map(named))
}

fn is_stopped(action: Action) -> bool {
    match action {
        Action::Block | Action::WouldBlock => true,
        Action::Allow | Action::Audit | Action::WouldAsk => false,
    }
}

/// The profile so far; events are added in their order.
#[derive(Debug, Default)]
struct Sketch {
    servers: BTreeMap<ServerId, SeenServer>,
    /// Each tool as it was listed last.
    listed: BTreeMap<Named, ListedTool>,
    calls: BTreeMap<(Named, Option<Digest>), Provenance>,
    blocked: BTreeMap<Named, BTreeMap<Stop, Provenance>>,
    resources: BTreeMap<(String, String), Provenance>,
    files: BTreeMap<String, NamedFiles>,
    sampling: Option<Provenance>,
}

/// Paths in the calls of one server, and whether the call writes there.
type NamedFiles = BTreeMap<(String, bool), Provenance>;

#[derive(Debug)]
struct ListedTool {
    hash: Digest,
    severity: Option<Severity>,
}

/// The rule that stopped something, with its reason.
type Stop = (String, String, &'static str);

impl Sketch {
    fn server(&mut self, id: &str) -> Option<&mut SeenServer> {
        let id = ServerId::new(id).ok()?;
        let server = self.servers.entry(id.clone()).or_insert(SeenServer {
            id,
            denied: None,
            start: None,
            connections: Vec::new(),
            files: Vec::new(),
        });
        Some(server)
    }

    fn see(&mut self, event: &StoredEvent) {
        let Some(id) = event.server_id.as_deref() else {
            return;
        };
        let server = id.to_owned();
        self.server(id);
        match event.parse_kind() {
            Some(EventKind::ToolSeen {
                definition: DefinitionKind::Tool,
                tool_name,
                tool_hash,
                max_severity,
                ..
            }) => {
                let name = (server, tool_name);
                if is_stopped(event.action) {
                    let how = match event.action {
                        Action::WouldBlock => "would be hidden",
                        Action::Allow | Action::Audit | Action::WouldAsk | Action::Block => "is hidden",
                    };
                    self.stop(name.clone(), event, how);
                }
                let listed = ListedTool {
                    hash: tool_hash,
                    severity: max_severity,
                };
                self.listed.insert(name, listed);
            }
            Some(EventKind::ToolCalled { tool_name, input, .. }) if !is_stopped(event.action) => {
                self.name_files(&server, &tool_name, input.as_deref(), event.timestamp);
                let name = (server, tool_name);
                let hash = self.listed.get(&name).map(|listed| listed.hash);
                self.calls
                    .entry((name, hash))
                    .or_default()
                    .add(Provenance::once(event.timestamp));
            }
            Some(EventKind::ToolCallIntercepted { tool_name, .. }) if is_stopped(event.action) => {
                let how = match event.action {
                    Action::WouldBlock => "would have been blocked",
                    Action::Allow | Action::Audit | Action::WouldAsk | Action::Block => "was blocked",
                };
                self.stop((server, tool_name), event, how);
            }
            Some(EventKind::ServerStarted { .. }) => {
                let start = started(event);
                if let Some(server) = self.server(id) {
                    server.start = start.or_else(|| server.start.take());
                }
            }
            Some(EventKind::ServerDenied { cause }) => {
                if let Some(server) = self.server(id) {
                    server.denied = Some(event.reason.clone().unwrap_or(cause));
                }
            }
            Some(EventKind::ResourceRead { uri }) if !is_stopped(event.action) => {
                let path = Lookup::of(uri.clone()).map(|lookup| lookup.address);
                self.name_file(
                    &server,
                    path.filter(|_| uri.starts_with("file:")),
                    false,
                    event.timestamp,
                );
                let read = self.resources.entry((server, uri)).or_default();
                read.add(Provenance::once(event.timestamp));
            }
            Some(EventKind::RequestJudged { method, .. })
                if method == "sampling/createMessage" && !is_stopped(event.action) =>
            {
                self.sampling
                    .get_or_insert_default()
                    .add(Provenance::once(event.timestamp));
            }
            Some(_) | None => {}
        }
    }

    /// Notes the files that the arguments of a call name.
    fn name_files(&mut self, server: &str, tool: &str, input: Option<&str>, at: Timestamp) {
        // Arguments that were too long are cut in the record, and are no JSON then.
        let is_whole = |text: &&str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        let Some(input) = input.filter(is_whole) else {
            return;
        };
        for file in named_files(tool, &Arguments::walk(RawJson::trusted(input))) {
            let is_written = match file.access {
                FileAccess::Read => false,
                FileAccess::Write | FileAccess::Remove => true,
            };
            // Creating or removing a file changes its directory.
            let path = match is_written {
                true => file
                    .path
                    .rsplit_once('/')
                    .map(|(directory, _)| directory.to_owned()),
                false => Some(file.path),
            };
            self.name_file(server, path, is_written, at);
        }
    }

    /// Notes a file, if its path is placed (see `is_placed`) and not masked.
    fn name_file(&mut self, server: &str, path: Option<String>, is_written: bool, at: Timestamp) {
        let Some(path) = path.filter(|path| is_placed(path) && !path.contains(MASK)) else {
            return;
        };
        let files = self.files.entry(server.to_owned()).or_default();
        if files.len() < MAX_FILES || files.contains_key(&(path.clone(), is_written)) {
            files
                .entry((path, is_written))
                .or_default()
                .add(Provenance::once(at));
        }
    }

    fn stop(&mut self, name: Named, event: &StoredEvent, how: &'static str) {
        let rule = event.rule.clone().unwrap_or_default();
        let reason = event.reason.clone().unwrap_or_default();
        let stops = self.blocked.entry(name).or_default();
        stops
            .entry((rule, reason, how))
            .or_default()
            .add(Provenance::once(event.timestamp));
    }

    fn finish(mut self, definitions: &BTreeMap<Named, DefinitionRecord>) -> Profile {
        let known = |name: &Named| {
            let listed = self.listed.get(name).map(|listed| listed.hash);
            listed.or_else(|| Some(definitions.get(name)?.seen.hash))
        };
        // A call before the first list of the session is counted for the definition that was listed later, or else for
        // the one in the store.
        let mut calls: BTreeMap<(Named, Option<Digest>), Provenance> = BTreeMap::new();
        for ((name, hash), seen) in std::mem::take(&mut self.calls) {
            let hash = hash.or_else(|| known(&name));
            calls.entry((name, hash)).or_default().add(seen);
        }
        let used: BTreeSet<&Named> = calls.keys().map(|(name, _)| name).collect();
        let tool = |name: &Named, hash: Option<Digest>, calls, remarks| UsedTool {
            server: name.0.clone(),
            tool: name.1.clone(),
            hash,
            calls,
            remarks,
        };
        let stops = |name: &Named| self.blocked.get(name).map(stopped).unwrap_or_default();
        let tools = calls.iter().map(|((name, hash), calls)| {
            let mut remarks = stops(name);
            let severity = self.listed.get(name).and_then(|listed| listed.severity);
            remarks.extend(unaccepted(name, severity, definitions.get(name)));
            tool(name, *hash, Some(*calls), remarks)
        });
        let blocked = self.blocked.keys().filter(|name| !used.contains(name));
        let blocked = blocked.map(|name| tool(name, known(name), None, stops(name)));
        let listed = self.listed.keys();
        let listed = listed.filter(|name| !used.contains(name) && !self.blocked.contains_key(name));
        let listed = listed.map(|name| tool(name, known(name), None, Vec::new()));
        let [tools, blocked, listed] = [tools.collect(), blocked.collect(), listed.collect::<Vec<_>>()];
        let resources = std::mem::take(&mut self.resources).into_iter();
        let used: BTreeSet<String> = used.into_iter().map(|(server, _)| server.clone()).collect();
        let named = std::mem::take(&mut self.files);
        let servers = self.servers.into_values().map(|server| SeenServer {
            denied: server.denied.filter(|_| !used.contains(server.id.as_str())),
            files: files(server.start.as_ref(), named.get(server.id.as_str())),
            ..server
        });
        Profile {
            servers: servers.collect(),
            tools,
            blocked,
            listed,
            resources: resources
                .map(|((server, uri), reads)| (server, uri, reads))
                .collect(),
            sampling: self.sampling,
            ..Profile::default()
        }
    }
}

/// Returns whether a path has a definite place; the meaning of a relative path is known to the server only.
fn is_placed(path: &str) -> bool {
    path.len() > 1 && path.starts_with('/') || path.starts_with("~/")
}

/// Returns the files that were named in a server's command and in calls, without those that lie below others.
fn files(start: Option<&SessionStart>, named: Option<&NamedFiles>) -> Vec<SeenFile> {
    let arguments = start.into_iter().flat_map(|start| {
        let is_own = |path: &&str| start.files.iter().all(|(_, own, _)| own != path);
        let texts = start.arguments.iter().filter(|argument| !argument.is_masked);
        let values = texts.map(|argument| match argument.text.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value,
            Some(_) | None => argument.text.as_str(),
        });
        let paths = values.filter(|value| is_placed(value)).filter(is_own);
        paths.map(|path| (path.to_owned(), false, None))
    });
    let calls = named.into_iter().flatten();
    let calls = calls.map(|((path, is_written), calls)| (path.clone(), *is_written, Some(*calls)));
    let mut found: Vec<SeenFile> = Vec::new();
    let mut candidates: Vec<_> = arguments.chain(calls).collect();
    candidates
        .sort_by_key(|(path, is_written, calls)| (!*is_written, path.len(), path.clone(), calls.is_some()));
    for (path, is_written, calls) in candidates {
        let access = if is_written {
            FileAccess::Write
        } else {
            FileAccess::Read
        };
        let is_protected = calls.is_some() && holds_much_else(&path)
            || matches!(
                protection(&path, access, &Places::default(), &[]),
                Protection::Protected(_)
            );
        let covers = |file: &SeenFile| !file.is_protected && is_below(&path, &file.path);
        if is_protected || !found.iter().any(covers) {
            found.push(SeenFile {
                path,
                is_written,
                is_protected,
                calls,
            });
        }
    }
    found
}

/// Returns whether a directory contains much besides what a call used in it: a home, a directory of homes, or a
/// directory that all programs share.
fn holds_much_else(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) | (Some(_), None, _) => true,
        (Some("home" | "Users"), Some(_), None) => true,
        (Some("var"), Some("tmp"), None) => true,
        (Some(_), Some(_), _) => false,
    }
}

/// Returns whether a path is equal to `above` or lies below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Describes the rules that stopped a tool.
fn stopped(stops: &BTreeMap<Stop, Provenance>) -> Vec<String> {
    let told = |((rule, reason, how), seen): (&Stop, &Provenance)| {
        let times = if seen.count == 1 {
            String::new()
        } else {
            format!(" {} times", seen.count)
        };
        format!("It {how}{times} by {rule}: {reason}")
    };
    stops.iter().map(told).collect()
}

/// Returns a remark if the policy blocks or hides a tool until a person accepts its definition.
fn unaccepted(name: &Named, severity: Option<Severity>, record: Option<&DefinitionRecord>) -> Option<String> {
    let accept = || format!("`mcpmon approve {}:{}`", name.0, name.1);
    if record.is_some_and(|record| record.is_changed()) {
        return Some(format!(
            "Its definition differs from its pin, and is blocked until {}",
            accept()
        ));
    }
    let is_approved = record.is_some_and(|record| record.approved_by.is_some());
    let is_bad = severity.is_some_and(|severity| severity >= Severity::High);
    (is_bad && !is_approved).then(|| {
        format!(
            "Something was found in its definition: it is hidden until {}",
            accept()
        )
    })
}

fn started(event: &StoredEvent) -> Option<SessionStart> {
    let EventKind::ServerStarted {
        command,
        args,
        exe_sha256,
        script,
        script_sha256,
        package_path,
        package_sha256,
        environment,
        ..
    } = event.parse_kind()?
    else {
        return None;
    };
    let executable = event.process.as_ref().and_then(|process| process.exe.clone());
    let files = [
        ("executable", executable, exe_sha256),
        ("script", script, script_sha256),
        ("package", package_path, package_sha256),
    ];
    let file = |(part, path, digest): (_, Option<std::path::PathBuf>, _)| {
        Some((part, path?.display().to_string(), digest))
    };
    let package = event.data.get("package").and_then(|package| package.as_str());
    Some(SessionStart {
        package: package.and_then(Package::parse),
        at: event.timestamp,
        command,
        arguments: args
            .into_iter()
            .map(|text| CommandArgument {
                is_masked: text.contains(MASK),
                text,
            })
            .collect(),
        files: files.into_iter().filter_map(file).collect(),
        environment,
        has_connections_recorded: event.layer == Layer::Kernel,
    })
}

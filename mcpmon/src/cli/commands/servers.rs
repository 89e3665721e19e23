//! `mcpmon servers`: each server once, with its state.

use clap::Args;
use mcpmon_model::{PinState, ServerType, Timestamp};
use mcpmon_store::{ServerStatus, ServerSummary, StoreReader, json};
use serde_json::{Map, Value, json as value};

use super::running::{RunningServers, bytes, milliseconds};
use crate::{
    app::{resources::Usage, sandboxes::SandboxStatus},
    cli::{
        CliError, Output, listing,
        output::Form,
        table::{Column, Row, Table, Tone},
        time,
    },
};

/// List MCP servers: configured, running, stopped, denied
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// Only this server
    #[arg(long, value_name = "ID")]
    server: Option<String>,
}

const TABLE: Table = Table::new(&[
    Column::cut("SERVER", 16),
    Column::whole("TYPE", 5),
    Column::whole("STATUS", 9),
    Column::whole("PIN", 10),
    Column::whole("MEMORY", 6),
    Column::whole("CPU-TIME", 8),
    Column::whole("ORPHANED", 8),
    Column::whole("LAST-SEEN (UTC)", 15),
    Column::cut("PROGRAM", 20),
]);

/// The table for servers of which one runs in a sandbox.
const SANDBOX_TABLE: Table = Table::new(&[
    Column::cut("SERVER", 16),
    Column::whole("TYPE", 5),
    Column::whole("STATUS", 9),
    Column::whole("PIN", 10),
    Column::whole("SANDBOX", 7),
    Column::whole("MEMORY", 6),
    Column::whole("CPU-TIME", 8),
    Column::whole("ORPHANED", 8),
    Column::whole("LAST-SEEN (UTC)", 15),
    Column::cut("PROGRAM", 20),
]);

pub(in crate::cli) fn run(
    options: &Options,
    reader: &StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut servers = reader.servers()?;
    if let Some(wanted) = &options.server {
        servers.retain(|server| server.server_id == *wanted || server.package.as_ref() == Some(wanted));
    }
    let running = RunningServers::read(reader)?;
    match output.form {
        Form::Json => servers.iter().try_for_each(|server| {
            let id = &server.server_id;
            output.json(&object(
                server,
                running.usage(id),
                running.orphaned_since(id),
                running.sandbox(id),
            ))
        })?,
        Form::Table => {
            let is_sandboxed = |server: &ServerSummary| running.sandbox(&server.server_id).is_some();
            let has_sandboxes = servers.iter().any(is_sandboxed);
            let rows = servers
                .iter()
                .map(|server| row(server, &running, has_sandboxes, now));
            let rows: Vec<Row> = rows.collect();
            let table = if has_sandboxes { &SANDBOX_TABLE } else { &TABLE };
            output.table(table, &rows)?;
            for server in &servers {
                let sandbox = running.sandbox(&server.server_id);
                if let Some(sandbox) = sandbox.filter(|sandbox| !sandbox.is_whole()) {
                    output.note(&format!(
                        "* the sandbox of {}: {}",
                        server.server_id,
                        sandbox.gaps.join("; ")
                    ))?;
                }
            }
        }
    }
    listing::note_extent(servers.len(), false, output)?;
    Ok(output.flush()?)
}

/// Returns the state in words, such as `running 2`.
pub(super) fn state(server: &ServerSummary) -> String {
    match server.status {
        ServerStatus::Running(processes) => format!("running {processes}"),
        ServerStatus::Stopped | ServerStatus::Denied | ServerStatus::Seen | ServerStatus::Declared => {
            status_name(server.status).to_owned()
        }
    }
}

fn row(server: &ServerSummary, running: &RunningServers, has_sandboxes: bool, now: Timestamp) -> Row {
    let usage = running.usage(&server.server_id);
    let orphaned = running.orphaned_since(&server.server_id);
    let used = |value: &dyn Fn(&Usage) -> String| usage.as_ref().map_or_else(String::new, value);
    let sandbox = has_sandboxes.then(|| {
        running
            .sandbox(&server.server_id)
            .map_or_else(String::new, ToString::to_string)
    });
    let about = [
        server.server_id.clone(),
        server.server_type.map_or("", type_name).to_owned(),
        state(server),
        server.pin.map_or("", pin_name).to_owned(),
    ];
    let uses = [
        used(&|usage| bytes(usage.memory)),
        used(&|usage| time::span(milliseconds(usage))),
        orphaned.map_or_else(String::new, |since| age(now, since)),
        server.last_seen.map_or_else(String::new, time::short),
        server
            .package
            .clone()
            .or_else(|| server.command.clone())
            .unwrap_or_default(),
    ];
    Row::new(tone(server), about.into_iter().chain(sandbox).chain(uses))
}

pub(super) fn tone(server: &ServerSummary) -> Tone {
    if server.status == ServerStatus::Denied || server.pin == Some(PinState::Mismatch) {
        return Tone::Alarming;
    }
    Tone::Ordinary
}

/// Formats the time between two moments in its largest unit.
pub(super) fn age(now: Timestamp, since: Timestamp) -> String {
    time::span(u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX))
}

/// Returns a server as JSON, with the resources of its processes if some are seen.
pub(super) fn object(
    server: &ServerSummary,
    usage: Option<Usage>,
    orphaned: Option<Timestamp>,
    sandbox: Option<&SandboxStatus>,
) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(name.to_owned(), value);
        }
    };
    let running = match server.status {
        ServerStatus::Running(processes) => processes,
        ServerStatus::Stopped | ServerStatus::Denied | ServerStatus::Seen | ServerStatus::Declared => 0,
    };
    put("server_id", Some(server.server_id.as_str().into()));
    put("package", server.package.as_deref().map(Into::into));
    put(
        "server_type",
        server.server_type.map(|kind| type_name(kind).into()),
    );
    put("status", Some(status_name(server.status).into()));
    put("running", Some(running.into()));
    put("pin", server.pin.map(|pin| pin_name(pin).into()));
    put(
        "exe_sha256",
        server.exe_sha256.map(|digest| digest.to_string().into()),
    );
    put(
        "package_sha256",
        server.package_sha256.map(|digest| digest.to_string().into()),
    );
    put("processes", usage.map(|usage| usage.processes.into()));
    put("memory", usage.map(|usage| usage.memory.into()));
    put(
        "processor_ms",
        usage.as_ref().map(|usage| milliseconds(usage).into()),
    );
    put(
        "orphaned_since",
        orphaned.map(|since| json::rfc3339(since).into()),
    );
    put("sandbox", sandbox.map(|sandbox| value!(sandbox)));
    put("launches", Some(server.launches.into()));
    put("last_pid", server.last_pid.map(Value::from));
    put(
        "first_seen",
        server.first_seen.map(|seen| json::rfc3339(seen).into()),
    );
    put(
        "last_seen",
        server.last_seen.map(|seen| json::rfc3339(seen).into()),
    );
    put("command", server.command.as_deref().map(Value::from));
    object
}

const fn status_name(status: ServerStatus) -> &'static str {
    match status {
        ServerStatus::Running(_) => "running",
        ServerStatus::Stopped => "stopped",
        ServerStatus::Denied => "denied",
        ServerStatus::Seen => "seen",
        ServerStatus::Declared => "declared",
    }
}

const fn type_name(server_type: ServerType) -> &'static str {
    match server_type {
        ServerType::Stdio => "stdio",
        ServerType::Http => "http",
        ServerType::Sse => "sse",
    }
}

const fn pin_name(pin: PinState) -> &'static str {
    match pin {
        PinState::Off => "off",
        PinState::Pinned => "pinned",
        PinState::Match => "match",
        PinState::NotPinned => "not_pinned",
        PinState::Mismatch => "mismatch",
        PinState::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Direction, Event};
    use mcpmon_store::sample;

    use super::*;
    use crate::cli::commands::scene;

    /// Process ids that Linux never assigns, so that processes of the test host do not appear in the listing.
    const PID: u32 = 5_000_000;

    fn events() -> Vec<Event> {
        vec![
            sample::started("files", PID),
            sample::at(60, sample::started("files", PID + 1)),
            sample::started("old", PID + 2),
            sample::at(5, sample::exited("old", PID + 2, 0)),
            sample::denied("swapped"),
            sample::mismatch("swapped", 1),
            sample::connection("weather", 7, "192.0.2.1:443", Direction::AgentToServer),
        ]
    }

    fn shown(form: Form, server: Option<&str>) -> String {
        let options = Options {
            server: server.map(str::to_owned),
        };
        scene::shown(events(), form, |reader, output| {
            run(&options, &reader, Timestamp(sample::NOON), output)
        })
    }

    #[test]
    fn servers_as_a_table() {
        insta::assert_snapshot!(shown(Form::Table, None), @"
        SERVER   TYPE   STATUS     PIN       MEMORY  CPU-TIME  ORPHANED  LAST-SEEN (UTC)  PROGRAM
        files    stdio  running 2  match                                 11-20 12:01:00   npx -y @modelcont…
        old      stdio  stopped    match                                 11-20 12:00:05   npx -y @modelcont…
        swapped         denied     mismatch                              11-20 12:00:00
        weather  http   seen                                             11-20 12:00:00
        ---
        ");
    }

    #[test]
    fn one_server_as_json() {
        scene::assert_documented("servers", false, &shown(Form::Json, None));
        insta::assert_snapshot!(shown(Form::Json, Some("files")), @r#"
        {"server_id":"files","server_type":"stdio","status":"running","running":2,"pin":"match","exe_sha256":"sha256:545ea538461003efdc8c81c244531b003f6f26cfccf6c0073b3239fdedf49446","package_sha256":"sha256:bc4a71180870f7945155fbb02f4b0a2e3faa2a62d6d31b7039013055ed19869a","launches":2,"last_pid":5000001,"first_seen":"2026-11-20T12:00:00.000000000Z","last_seen":"2026-11-20T12:01:00.000000000Z","command":"npx -y @modelcontextprotocol/server-filesystem /home/me"}
        ---
        "#);
    }
}

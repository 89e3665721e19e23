//! `mcpmon execs`: starts of servers, the comparison with their pins, and their ends.

use clap::Args;
use mcpmon_model::{EventKind, Timestamp};
use mcpmon_store::{Filter, Launch, LaunchEnding, StoreReader, command_line, json};
use serde_json::{Map, Value};

use crate::cli::{
    CliError, Output,
    filters::{ListingScope, Range},
    listing,
    output::Form,
    summary,
    table::{Column, Row, Table, Tone},
    time,
};

/// List server starts with their hashes, pins and ends
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    whose: ListingScope,
    #[command(flatten)]
    range: Range,
}

const TABLE: Table = Table::new(&[
    Column::whole("TIME (UTC)", 14),
    Column::cut("SERVER", 16),
    Column::whole("PID", 7),
    Column::whole("STATUS", 9),
    Column::whole("SHA256", 12),
    Column::whole("PIN", 10),
    Column::cut("COMMAND", 20),
]);

pub(in crate::cli) fn run(
    options: Options,
    reader: &StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut filter = Filter::default();
    options.whose.restrict(&mut filter);
    options.range.restrict(&mut filter, now);
    show(reader, &filter, options.range.limit, output)
}

fn show(reader: &StoreReader, filter: &Filter, limit: u32, output: &mut Output<'_>) -> Result<(), CliError> {
    let (launches, more) = listing::newest(limit, |limit| reader.launches(filter, limit))?;
    match output.form {
        Form::Json => launches
            .iter()
            .try_for_each(|launch| output.json(&object(launch)))?,
        Form::Table => output.table(&TABLE, &launches.iter().map(row).collect::<Vec<_>>())?,
    }
    listing::note_extent(launches.len(), more, output)?;
    Ok(output.flush()?)
}

fn row(launch: &Launch) -> Row {
    let started = &launch.started;
    let (hash, pin, command) = match started.parse_kind() {
        Some(EventKind::ServerStarted {
            command,
            args,
            exe_sha256,
            ..
        }) => (
            exe_sha256.map(|digest| digest.short(12)),
            field(launch, "pin"),
            command_line(&command, &args),
        ),
        // The event is of a later version.
        Some(_) | None => (None, field(launch, "pin"), summary::summary(started)),
    };
    let mismatch = launch.mismatches.iter().map(listing::tone).max();
    Row::new(
        listing::tone(started).max(mismatch.unwrap_or(Tone::Ordinary)),
        [
            time::short(started.timestamp),
            started.server_id.clone().unwrap_or_default(),
            started
                .process
                .as_ref()
                .map_or_else(String::new, |process| process.pid.to_string()),
            status(&launch.ending),
            hash.unwrap_or_else(|| "unknown".to_owned()),
            pin,
            command,
        ],
    )
}

fn status(ending: &LaunchEnding) -> String {
    match (ending, ending.seen()) {
        (LaunchEnding::Running, _) => "running".to_owned(),
        (LaunchEnding::Exited(_), Some((exit_status, signal, _))) => summary::ending(exit_status, signal),
        (LaunchEnding::Exited(_), None) => "ended".to_owned(),
        (LaunchEnding::Unseen, _) => "unknown".to_owned(),
    }
}

fn field(launch: &Launch, name: &str) -> String {
    let value = launch.started.data.get(name).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

/// Returns the start as JSON, with its status, its end and its mismatches.
fn object(launch: &Launch) -> Map<String, Value> {
    let mut object = json::to_json(&launch.started);
    let status = match &launch.ending {
        LaunchEnding::Running => "running",
        LaunchEnding::Exited(_) => "exited",
        LaunchEnding::Unseen => "unknown",
    };
    object.insert("status".to_owned(), status.into());
    if let LaunchEnding::Exited(event) = &launch.ending {
        object.insert("exit".to_owned(), json::to_json(event).into());
    }
    if !launch.mismatches.is_empty() {
        let mismatches: Vec<Value> = launch
            .mismatches
            .iter()
            .map(|event| json::to_json(event).into())
            .collect();
        object.insert("mismatches".to_owned(), mismatches.into());
    }
    object
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Event, PinState};
    use mcpmon_store::sample;

    use super::*;
    use crate::cli::commands::scene;

    fn shown(events: Vec<Event>, form: Form) -> String {
        scene::shown(events, form, |reader, output| {
            show(&reader, &Filter::default(), 3, output)
        })
    }

    #[test]
    fn starts_as_a_table() {
        let mut changed = sample::started("files", 300);
        if let EventKind::ServerStarted { pin, .. } = &mut changed.kind {
            *pin = PinState::Mismatch;
        }
        let events = vec![
            sample::started("oldest", 2),
            sample::at(1, sample::started("files", 100)),
            sample::at(2, sample::started("weather", 200)),
            sample::at(3, sample::exited("files", 100, 1)),
            sample::at(4, changed),
            sample::at(4, sample::mismatch("files", 300)),
        ];
        insta::assert_snapshot!(shown(events, Form::Table), @"
        TIME (UTC)      SERVER   PID  STATUS   SHA256        PIN       COMMAND
        11-20 12:00:01  files    100  exit 1   545ea5384610  match     npx -y @modelcontextprotocol/server-…
        11-20 12:00:02  weather  200  running  545ea5384610  match     npx -y @modelcontextprotocol/server-…
        11-20 12:00:04  files    300  running  545ea5384610  mismatch  npx -y @modelcontextprotocol/server-…
        ---
        only the newest 3 are shown: --limit N shows more
        ");
    }

    #[test]
    fn a_start_as_json_has_its_end_and_its_mismatches() {
        let events = vec![
            sample::started("files", 100),
            sample::mismatch("files", 100),
            sample::at(2, sample::exited("files", 100, 0)),
        ];
        scene::assert_documented("execs", true, &shown(events.clone(), Form::Json));
        insta::assert_snapshot!(shown(events, Form::Json), @r#"
        {"id":"00000000-0000-0000-0000-000000000001","type":"mcp_server_started","timestamp":"2026-11-20T12:00:00.000000000Z","host":"laptop","server_id":"files","layer":"kernel","severity":"info","action":"allow","pid":100,"exe":"/usr/bin/node","comm":"node","uid":1000,"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/home/me"],"wrapped":false,"exe_sha256":"sha256:545ea538461003efdc8c81c244531b003f6f26cfccf6c0073b3239fdedf49446","package_path":"/home/me/.npm/_npx/1/node_modules","package_sha256":"sha256:bc4a71180870f7945155fbb02f4b0a2e3faa2a62d6d31b7039013055ed19869a","pin":"match","launcher_pid":99,"matched_pattern":"npx","status":"exited","exit":{"id":"00000000-0000-0000-0000-000000000003","type":"mcp_server_exited","timestamp":"2026-11-20T12:00:02.000000000Z","host":"laptop","server_id":"files","layer":"kernel","severity":"info","action":"allow","pid":100,"exe":"/usr/bin/node","comm":"node","uid":1000,"exit_status":0,"duration_ms":1500},"mismatches":[{"id":"00000000-0000-0000-0000-000000000002","type":"mcp_server_binary_mismatch","timestamp":"2026-11-20T12:00:00.000000000Z","host":"laptop","server_id":"files","layer":"kernel","severity":"high","action":"audit","pid":100,"exe":"/usr/bin/node","comm":"node","uid":1000,"path":"/home/me/.npm/_npx/1/node_modules","expected_hash":"sha256:bc4a71180870f7945155fbb02f4b0a2e3faa2a62d6d31b7039013055ed19869a","actual_hash":"sha256:b546622ee855bf07613305ac3afb43141452b0b6829e8edd0d2114e5164a93ae","part":"package","changed_files":["lodash/lodash.js"]}]}
        ---
        "#);
    }
}

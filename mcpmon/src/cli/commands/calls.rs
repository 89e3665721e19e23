//! `mcpmon calls`: tool calls with their judgement and outcome.

use std::collections::BTreeSet;

use clap::Args;
use mcpmon_model::{Action, Timestamp};
use mcpmon_store::{CallPlaces, Filter, MAX_WAIT, StoreReader, StoredEvent, ToolCall, json};
use serde_json::{Map, Value};

use crate::cli::{
    CliError, Output,
    filters::{CallScope, Range},
    listing::{self, Rows},
    output::Form,
    summary,
    table::{Column, Row, Table},
    time,
};

/// List tool calls with their judgement and their outcome
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    whose: CallScope,
    /// Everything recorded of one call: the client's id of it, or a trace id
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
}

pub(super) const TABLE: Table = Table::new(&[
    Column::whole("TIME (UTC)", 14),
    Column::cut("SERVER", 14),
    Column::cut("TOOL", 18),
    Column::whole("ACTION", 11),
    Column::whole("OUTCOME", 17),
    Column::whole("TOOK", 7),
    Column::cut("REASON", 20),
]);

pub(in crate::cli) fn run(
    options: Options,
    reader: &StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut filter = Filter {
        trace: options.trace,
        ..options.whose.filter(reader)?
    };
    options.range.restrict(&mut filter, now);
    match filter.trace.is_some() {
        true => trace(reader, &filter, options.range.limit, output),
        false => show(reader, &filter, options.range.limit, output),
    }
}

fn show(reader: &StoreReader, filter: &Filter, limit: u32, output: &mut Output<'_>) -> Result<(), CliError> {
    let (calls, more) = listing::newest(limit, |limit| reader.calls(filter, limit))?;
    print(reader, &calls, output)?;
    listing::note_extent(calls.len(), more, output)?;
    Ok(output.flush()?)
}

/// Shows the calls of one id: the model's intent, the call, and the connections that were made during it.
fn trace(reader: &StoreReader, filter: &Filter, limit: u32, output: &mut Output<'_>) -> Result<(), CliError> {
    let calls = calls_of(reader.events(filter, limit)?, |around| {
        Ok(reader.calls(around, MAX_AROUND)?)
    })?;
    print(reader, &calls, output)?;
    for places in &calls {
        let call = reader.call(places)?;
        let connections = connections(reader, &call, limit)?;
        match output.form {
            Form::Json => connections
                .iter()
                .try_for_each(|event| output.json(&json::to_json(event)))?,
            Form::Table => {
                let line = |event: &StoredEvent| {
                    format!(
                        "{}  connection  {}",
                        time::short(event.timestamp),
                        summary::summary(event)
                    )
                };
                let lines = call.intent.iter().map(intent).chain(connections.iter().map(line));
                output.text(&lines.collect::<Vec<_>>())?;
            }
        }
    }
    listing::note_extent(calls.len(), false, output)?;
    Ok(output.flush()?)
}

/// Returns the calls to which the events in `found` belong, from what `load` finds around them. Events that are near
/// one another are handled with one `load`, because an id that a model counts is in many calls.
fn calls_of(
    mut found: Vec<StoredEvent>,
    mut load: impl FnMut(&Filter) -> Result<Vec<CallPlaces>, CliError>,
) -> Result<Vec<CallPlaces>, CliError> {
    found.sort_by_key(|event| (event.timestamp, event.seq));
    let mut found = found.as_slice();
    let mut calls: Vec<CallPlaces> = Vec::new();
    let mut taken: BTreeSet<i64> = BTreeSet::new();
    while let Some((first, rest)) = found.split_first() {
        if taken.contains(&first.seq) {
            found = rest;
            continue;
        }
        let last = first.timestamp.0.saturating_add(MAX_WAIT);
        let (near, later) = found.split_at(found.partition_point(|event| event.timestamp.0 <= last));
        // The other events of a call may have other ids, another session or none; only their time is known.
        let around = Filter {
            since: Some(Timestamp(first.timestamp.0.saturating_sub(MAX_WAIT))),
            until: Some(Timestamp(last.saturating_add(MAX_WAIT))),
            ..Filter::default()
        };
        let wanted: BTreeSet<i64> = near.iter().map(|event| event.seq).collect();
        let wanted = &wanted - &taken;
        for call in load(&around)? {
            if call.positions().any(|position| wanted.contains(&position)) {
                taken.extend(call.positions());
                calls.push(call);
            }
        }
        found = later;
    }
    Ok(calls)
}

/// Most calls that are read around the events of an id, within three times the longest wait.
const MAX_AROUND: u32 = 15_000;
/// Most nanoseconds between a call and a connection that belongs to it.
const NEAR: i64 = 100 * 1_000_000;

/// Describes the intent of the model, with the names that the model used.
fn intent(event: &StoredEvent) -> String {
    let name = match text(event, "visible_name") {
        name if name.is_empty() => text(event, "tool_name"),
        name => name,
    };
    format!(
        "{}  intent      {name} ({} {}): {}",
        time::short(event.timestamp),
        text(event, "dialect"),
        text(event, "request_id"),
        event.action.as_str()
    )
}

/// Returns the connections of the call's server while it ran.
fn connections(reader: &StoreReader, call: &ToolCall, limit: u32) -> Result<Vec<StoredEvent>, CliError> {
    let Some(called) = &call.called else {
        return Ok(Vec::new());
    };
    let end = call.returned.as_ref().unwrap_or(called).timestamp;
    Ok(reader.events(
        &Filter {
            types: vec!["mcp_network_connection".to_owned()],
            server: called.server_id.clone(),
            since: Some(Timestamp(called.timestamp.0.saturating_sub(NEAR))),
            until: Some(Timestamp(end.0.saturating_add(NEAR))),
            ..Filter::default()
        },
        limit,
    )?)
}

fn print(reader: &StoreReader, calls: &[CallPlaces], output: &mut Output<'_>) -> Result<(), CliError> {
    match output.form {
        Form::Json => {
            for places in calls {
                output.json(&object(&reader.call(places)?))?;
            }
        }
        Form::Table => {
            let mut rows = Rows::new(&TABLE, calls.len(), output)?;
            for places in calls {
                if let Some(row) = row(&reader.call(places)?) {
                    rows.add(row, output)?;
                }
            }
            rows.finish(output)?;
        }
    }
    Ok(())
}

pub(super) fn row(call: &ToolCall) -> Option<Row> {
    let main = call.main()?;
    Some(Row::new(
        listing::tone(main),
        [
            time::short(main.timestamp),
            main.server_id.clone().unwrap_or_default(),
            text(main, "tool_name"),
            main.action.as_str().to_owned(),
            outcome(call),
            duration(call),
            main.reason.clone().unwrap_or_default(),
        ],
    ))
}

fn outcome(call: &ToolCall) -> String {
    match (&call.returned, &call.called) {
        (Some(returned), _) => text(returned, "outcome"),
        (None, Some(_)) => "no answer yet".to_owned(),
        (None, None) if is_left(call) => "left to the agent".to_owned(),
        (None, None) => "not sent".to_owned(),
    }
}

/// Returns whether a call is only an intent that was not stopped: the tool may be the agent's own, or that of a server
/// without a wrapper.
fn is_left(call: &ToolCall) -> bool {
    let is_all = call.judged.is_none() && call.called.is_none() && call.returned.is_none();
    let intent = call.intent.as_ref().filter(|_| is_all);
    intent.is_some_and(|intent| intent.action != Action::Block)
}

fn duration(call: &ToolCall) -> String {
    let microseconds = call
        .returned
        .as_ref()
        .and_then(|returned| returned.data.get("duration_us")?.as_u64());
    microseconds.map_or_else(String::new, |microseconds| time::span(microseconds / 1000))
}

fn text(event: &StoredEvent, field: &str) -> String {
    let value = event.data.get(field).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

/// Returns the main event of a call as JSON, with its intent and result as members.
pub(super) fn object(call: &ToolCall) -> Map<String, Value> {
    let mut object = call.main().map(json::to_json).unwrap_or_default();
    let sent = match is_left(call) {
        true => Value::Null,
        false => call.called.is_some().into(),
    };
    object.insert("sent".to_owned(), sent);
    if let Some(intent) = call.intent.as_ref().filter(|intent| call.main() != Some(intent)) {
        object.insert("intent".to_owned(), json::to_json(intent).into());
    }
    if let Some(returned) = &call.returned {
        object.insert("returned".to_owned(), json::to_json(returned).into());
    }
    object
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{CallOutcome, Direction, Event, EventKind};
    use mcpmon_store::sample;

    use super::*;
    use crate::cli::commands::scene;

    fn events() -> Vec<Event> {
        vec![
            sample::called("read_file", 1),
            sample::connection("files", 10, "192.0.2.1:443", Direction::ServerEgress),
            sample::returned("read_file", 1, CallOutcome::Ok),
            sample::at(1, sample::intercepted("write_file", 2, Action::Block)),
            sample::at(2, sample::called("list", 3)),
        ]
    }

    fn shown(form: Form, filter: Filter) -> String {
        scene::shown(events(), form, |reader, output| match filter.trace.is_some() {
            true => trace(&reader, &filter, 10, output),
            false => show(&reader, &filter, 2, output),
        })
    }

    #[test]
    fn calls_as_a_table() {
        insta::assert_snapshot!(shown(Form::Table, Filter::default()), @"
        TIME (UTC)      SERVER  TOOL        ACTION  OUTCOME        TOOK  REASON
        11-20 12:00:01  files   write_file  block   not sent             its definition changed; run `mcpmo…
        11-20 12:00:02  files   list        allow   no answer yet
        ---
        only the newest 2 are shown: --limit N shows more
        ");
    }

    #[test]
    fn everything_of_one_call() {
        let filter = Filter {
            trace: Some("toolu_1".to_owned()),
            ..Filter::default()
        };
        insta::assert_snapshot!(shown(Form::Table, filter.clone()), @"
        TIME (UTC)      SERVER  TOOL       ACTION  OUTCOME  TOOK  REASON
        11-20 12:00:00  files   read_file  allow   ok       12ms
        11-20 12:00:00  connection  192.0.2.1:443
        ---
        ");
        let json = shown(Form::Json, filter);
        assert_eq!(json.lines().count(), 3);
        scene::assert_documented("calls", true, json.lines().next().expect("a call"));
    }

    #[test]
    fn what_a_model_wanted_the_call_and_its_connections_are_shown_together() {
        let events = || {
            vec![
                sample::at(0, sample::wanted("read_file", Some("toolu_1"), Action::Allow)),
                sample::at(1, sample::called("read_file", 1)),
                sample::at(
                    1,
                    sample::connection("files", 10, "192.0.2.1:443", Direction::ServerEgress),
                ),
                sample::at(
                    1,
                    sample::connection("mail", 11, "192.0.2.2:443", Direction::ServerEgress),
                ),
                sample::at(1, sample::returned("read_file", 1, CallOutcome::Ok)),
                sample::at(2, sample::wanted("write_file", Some("toolu_2"), Action::Block)),
                sample::at(
                    3,
                    sample::connection("files", 10, "192.0.2.3:443", Direction::ServerEgress),
                ),
            ]
        };
        let traced = |form, id: &str| {
            let filter = Filter {
                trace: Some(id.to_owned()),
                ..Filter::default()
            };
            scene::shown(events(), form, |reader, output| {
                trace(&reader, &filter, 10, output)
            })
        };
        insta::assert_snapshot!(traced(Form::Table, "toolu_1"), @"
        TIME (UTC)      SERVER  TOOL       ACTION  OUTCOME  TOOK  REASON
        11-20 12:00:01  files   read_file  allow   ok       12ms
        11-20 12:00:00  intent      mcp__files__read_file (anthropic req_1): allow
        11-20 12:00:01  connection  192.0.2.1:443
        ---
        ");
        insta::assert_snapshot!(traced(Form::Table, "toolu_2"), @"
        TIME (UTC)      SERVER  TOOL        ACTION  OUTCOME   TOOK  REASON
        11-20 12:00:02  files   write_file  block   not sent        its definition changed; run `mcpmon app…
        11-20 12:00:02  intent      mcp__files__write_file (anthropic req_1): block
        ---
        ");
        let json: Vec<Value> = traced(Form::Json, "toolu_1")
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        assert_eq!(json.len(), 2);
        assert_eq!(json[0]["intent"]["visible_name"], "mcp__files__read_file");
        assert_eq!(json[0]["intent"]["dialect"], "anthropic");
        assert_eq!(
            (&json[0]["layer"], &json[0]["returned"]["outcome"]),
            (&"stdio".into(), &"ok".into())
        );
        assert_eq!(json[1]["remote_addr"], "192.0.2.1:443");
    }

    #[test]
    fn what_a_model_wanted_and_nobody_stopped_is_left_to_the_agent() {
        let events = || {
            [Action::Block, Action::WouldBlock, Action::Audit, Action::Allow]
                .into_iter()
                .zip(0..)
                .map(|(action, second)| sample::at(second, sample::wanted("run_shell", None, action)))
                .collect()
        };
        let shown = |form| {
            scene::shown(events(), form, |reader, output| {
                show(&reader, &Filter::default(), 10, output)
            })
        };
        let table = shown(Form::Table);
        let outcomes = table.lines().map(|line| {
            let outcomes = ["not sent", "left to the agent"];
            outcomes.into_iter().find(|outcome| line.contains(outcome))
        });
        let left = "left to the agent";
        assert_eq!(
            outcomes.flatten().collect::<Vec<_>>(),
            ["not sent", left, left, left],
            "{table}"
        );
        let sent: Vec<Value> = shown(Form::Json)
            .lines()
            .filter_map(|line| Some(serde_json::from_str::<Value>(line).ok()?["sent"].clone()))
            .collect();
        assert_eq!(sent, [false.into(), Value::Null, Value::Null, Value::Null]);
    }

    #[test]
    fn what_only_one_layer_knew_does_not_part_an_intent_from_its_call() {
        let mut wanted = sample::at(0, sample::wanted("read_file", Some("toolu_1"), Action::Allow));
        (wanted.server_id, wanted.session_id) = (None, None);
        let call = || {
            vec![
                sample::at(1, sample::called("read_file", 1)),
                sample::at(1, sample::returned("read_file", 1, CallOutcome::Ok)),
            ]
        };
        let intent_first = [vec![wanted.clone()], call()].concat();
        let intent_last = [call(), vec![wanted]].concat();
        let traced = |events| {
            let filter = Filter {
                trace: Some("toolu_1".to_owned()),
                ..Filter::default()
            };
            scene::shown(events, Form::Json, |reader, output| {
                trace(&reader, &filter, 10, output)
            })
        };
        for events in [intent_first, intent_last] {
            let shown = traced(events);
            let mut calls = shown.lines().filter_map(|line| serde_json::from_str(line).ok());
            let call: Value = calls.next().expect("a call");
            assert_eq!(calls.next(), None, "{shown}");
            let layers = (&call["layer"], &call["intent"]["layer"]);
            assert_eq!(layers, (&"stdio".into(), &"llm".into()), "{shown}");
            assert_eq!(call["returned"]["outcome"], "ok", "{shown}");
        }
    }

    #[test]
    fn calls_of_an_id_that_models_count_to_are_loaded_once() {
        const CALLS: u32 = 30;
        const APART: i64 = 20;
        let events = (0..CALLS).flat_map(|number| {
            let second = i64::from(number) * APART;
            let mut called = sample::called("read_file", number);
            if let EventKind::ToolCalled { tool_call_id, .. } = &mut called.kind {
                *tool_call_id = Some("call_0".to_owned());
            }
            [
                sample::at(second, sample::wanted("read_file", Some("call_0"), Action::Allow)),
                sample::at(second + 1, called),
                sample::at(second + 2, sample::called("another", CALLS + number)),
                sample::at(
                    second + APART - 1,
                    sample::returned("read_file", number, CallOutcome::Ok),
                ),
            ]
        });
        let (directory, mut store) = sample::store();
        sample::fill(&mut store, events);
        let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
        let filter = Filter {
            trace: Some("call_0".to_owned()),
            ..Filter::default()
        };
        let found = reader.events(&filter, 200).unwrap();
        assert_eq!(found.len(), 2 * CALLS as usize);
        let mut windows = 0;
        let calls = calls_of(found, |around| {
            windows += 1;
            Ok(reader.calls(around, MAX_AROUND)?)
        })
        .unwrap();
        // Ten minutes of calls, five minutes in each window.
        assert_eq!(windows, 2);
        let ids = calls.iter().map(|call| call.positions().collect::<Vec<_>>());
        let expected =
            (0..i64::from(CALLS)).map(|number| vec![4 * number + 1, 4 * number + 2, 4 * number + 4]);
        assert_eq!(ids.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_call_as_json_says_whether_it_was_sent() {
        let json = shown(Form::Json, Filter::default());
        let lines: Vec<Value> = json
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        assert_eq!(
            (&lines[0]["tool_name"], &lines[0]["sent"]),
            (&"write_file".into(), &false.into())
        );
        assert_eq!(
            (&lines[1]["tool_name"], &lines[1]["sent"]),
            (&"list".into(), &true.into())
        );
    }
}

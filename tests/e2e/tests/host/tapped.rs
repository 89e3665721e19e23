//! Servers that no wrapper carries, recorded by the tap: its record compared with the wrapper's, and its report of lost
//! data.

use std::{
    fs,
    os::unix::{fs::symlink, process::CommandExt as _},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{is, number, text},
    program,
    real::{Known, Real, SERVERS, Scene, Sdk},
    servers::ToolServer,
    wait,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// The servers for which both records are compared.
const COMPARED: [(&str, Sdk); 5] = [
    ("mcp-server-everything", Sdk::TypeScript),
    ("mcp-server-filesystem", Sdk::Python),
    ("mcp-server-memory", Sdk::TypeScript),
    ("mcp-server-sqlite", Sdk::Python),
    ("mcp-server-time", Sdk::TypeScript),
];
/// The compared fields of a message's event. Time, number and process differ.
const FIELDS: [&str; 15] = [
    "type",
    "severity",
    "rule",
    "definition",
    "tool_name",
    "tool_hash",
    "status",
    "detections",
    "detection",
    "input",
    "outcome",
    "bytes",
    "uri",
    "method",
    "summary",
];
/// The largest number of tapped servers of one user, as in docs/tap.md.
const MAX_SERVERS_OF_USER: usize = 64;
/// A user without other servers.
const OTHER_USER: u32 = 65534;
/// Messages that together do not fit into the ring of the tap.
const FLOODS: usize = 24;
const FLOOD: usize = 1 << 20;

/// Returns a policy that looks only for the installed servers, wherever they are started from.
fn of_real(real: &Real, unwrapped: &str) -> String {
    let npm = real.npm("mcp-*").display().to_string();
    let python = real.python("mcp-*").display().to_string();
    format!(
        "version: 1\nexec: {{unwrapped: {unwrapped}}}\nmcp:\n  version_pinning: {{on_change: alert}}\n  detection: \
         {{server_patterns: [\"{npm}\", \"{python}\"]}}\n"
    )
}

/// Returns a policy that looks only for servers of this run.
fn policy(unwrapped: &str) -> String {
    let own = std::process::id();
    format!(
        "version: 1\nexec: {{unwrapped: {unwrapped}}}\nmcp:\n  version_pinning: {{on_change: alert}}\n  blocked_tools: [secrets]\n  \
         detection: {{server_patterns: [\"mcp-server-e2e{own}x*\"]}}\n"
    )
}

/// Returns a layer's records of a server's messages, sorted.
fn records(events: &[Value], layer: &str, server: &str, scene: &Scene) -> Vec<String> {
    let own = scene.directory().display().to_string();
    let is_told = |event: &&Value| text(event, "layer") == layer && text(event, "server_id") == server;
    let told = events
        .iter()
        .filter(is_told)
        .filter(|event| !text(event, "type").starts_with("mcp_server_"));
    let mut records: Vec<String> = told
        .map(|event| {
            let said = FIELDS.map(|field| format!("{field}={}", event[field]));
            said.join(" ").replace(&own, "@")
        })
        .collect();
    records.sort();
    records
}

fn known(name: &str) -> Result<&'static Known> {
    let known = SERVERS.iter().find(|known| known.command == name);
    known.context("it is one of them")
}

#[test]
fn the_taps_record_beside_the_wrappers() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let Some(host) = Host::take(&["node", "python3"])? else {
        return Ok(());
    };
    let mut of_wrapper = Vec::new();
    let daemon = Daemon::start(&host, &of_real(&real, "observe"))?;
    for (name, sdk) in COMPARED {
        let (known, scene) = (known(name)?, Scene::new()?);
        let wrap = daemon
            .site
            .wrap(program::path()?, real.command(known, &scene.data()));
        let mut command = vec![wrap.get_program().to_string_lossy().into_owned()];
        command.extend(wrap.get_args().map(|word| word.to_string_lossy().into_owned()));
        real.drive(sdk, &scene, known.calls, &command)?;
        let started = daemon.event("its start", |event| {
            text(event, "type") == "mcp_server_started" && event.to_string().contains(name)
        })?;
        let id = text(&started, "server_id").to_owned();
        daemon.event_of("mcp_server_exited", &id)?;
        let told = records(&daemon.site.events()?, "stdio", &id, &scene);
        of_wrapper.push((id, told));
    }
    let events = daemon.site.events()?;
    ensure!(
        !events.iter().any(|event| text(event, "layer") == "tap"),
        "what a wrapper carries is tapped, too"
    );
    drop(daemon.end()?);

    let daemon = Daemon::start(&host, &of_real(&real, "observe"))?;
    for ((name, sdk), (id, expected)) in COMPARED.into_iter().zip(of_wrapper) {
        let (known, scene) = (known(name)?, Scene::new()?);
        real.drive(sdk, &scene, known.calls, &real.command(known, &scene.data()))?;
        let told = || Ok::<_, anyhow::Error>(records(&daemon.site.events()?, "tap", &id, &scene));
        let same = wait::until("the same record", || Ok((told()? == expected).then_some(())));
        same.with_context(|| {
            let told = told().unwrap_or_default().join("\n");
            format!("{name}: the wrapper:\n{}\nthe tap:\n{told}", expected.join("\n"))
        })?;
        let calls: Vec<Value> = serde_json::from_str(known.calls)?;
        let called = expected
            .iter()
            .filter(|record| record.contains("mcp_tool_called"));
        assert_eq!(called.count(), calls.len(), "{name}: {expected:?}");
    }
    let unwrapped = daemon.site.events()?;
    let unwrapped = unwrapped
        .iter()
        .filter(|event| text(event, "type") == "mcp_server_unwrapped");
    assert_eq!(unwrapped.count(), COMPARED.len());
    let status = daemon.status()?;
    assert_eq!(number(&status["tap"], "lost"), 0, "{status}");
    Ok(())
}

/// Returns the names of the tapped servers; `None` while the tap is off.
fn tapped(daemon: &Daemon) -> Result<Option<Vec<String>>> {
    let status = daemon.status()?;
    let servers = status["tap"]["servers"].as_array();
    Ok(servers.map(|servers| {
        let names = servers.iter().map(|server| text(server, "server_id").to_owned());
        names.collect()
    }))
}

fn until_tapped(daemon: &Daemon, expected: Option<&[&str]>) -> Result<()> {
    let found = wait::until("the tap", || {
        let found = tapped(daemon)?;
        let names: Option<Vec<&str>> = found
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect());
        Ok((names.as_deref() == expected).then_some(()))
    });
    found.with_context(|| format!("{:?} instead of {expected:?}:\n{}", tapped(daemon), daemon.log()))
}

#[test]
fn the_tap_is_on_while_the_policy_says_so_and_stops_nothing() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("alert"))?;
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[("towns", "Lists towns."), ("secrets", "Lists secrets.")])?;
    let mut running = Client::start(&mut server.command())?;
    running.initialize()?;
    daemon.event_of("mcp_server_unwrapped", &server.name)?;
    until_tapped(&daemon, None)?;

    // A running server is recorded from the middle of its conversation on.
    daemon.adopt(&policy("observe"))?;
    until_tapped(&daemon, Some(&[&server.name]))?;
    running.tools()?;
    running.call("secrets")?;
    let called = daemon.event("a call that the tap heard", |event| {
        is(event, "mcp_tool_call_intercepted", &server.name)
    })?;
    assert_eq!(
        (
            text(&called, "layer"),
            text(&called, "action"),
            text(&called, "tool_name")
        ),
        ("tap", "would_block", "secrets"),
        "{called}"
    );

    // Servers behind a wrapper are not tapped.
    let wrapped = ToolServer::write(&daemon.site.path("wrapped"))?;
    wrapped.offer(&[("rivers", "Lists rivers.")])?;
    let mut client = Client::start(&mut daemon.site.wrap(program::path()?, wrapped.words()))?;
    client.initialize()?;
    client.tools()?;
    client.call("rivers")?;
    let called = daemon.event_of("mcp_tool_called", &wrapped.name)?;
    assert_eq!(text(&called, "layer"), "stdio", "{called}");
    until_tapped(&daemon, Some(&[&server.name]))?;
    client.close()?;

    // A server that starts later is recorded from its first message on, and removed when it ends.
    let mut other = Client::start(&mut server.command())?;
    other.initialize()?;
    other.tools()?;
    until_tapped(&daemon, Some(&[&server.name, &server.name]))?;
    other.close()?;
    until_tapped(&daemon, Some(&[&server.name]))?;

    daemon.adopt(&policy("allow"))?;
    until_tapped(&daemon, None)?;
    running.call("towns")?;
    running.close()?;
    daemon.event_of("mcp_server_exited", &server.name)?;
    let events = daemon.site.events()?;
    let heard = |event: &&Value| is(event, "mcp_tool_called", &server.name);
    assert_eq!(events.iter().filter(heard).count(), 1, "{events:?}");
    assert!(
        !events
            .iter()
            .any(|event| text(event, "layer") == "tap" && text(event, "action") == "block"),
        "the tap stopped something"
    );
    Ok(())
}

/// A wrapper connects to a new daemon only after its server counted as unwrapped; from then on only the wrapper records
/// it.
#[test]
fn a_late_wrapper_ends_the_tap_of_its_server() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("observe"))?;
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[("towns", "Lists towns."), ("rivers", "Lists rivers.")])?;
    let socket = daemon.site.path("late.sock");
    symlink(daemon.site.socket(), &socket)?;
    let mut wrap = Command::new(program::path()?);
    wrap.arg("wrap").arg("--socket").arg(&socket);
    wrap.arg("--db").arg(daemon.site.own_store()).arg("--");
    wrap.args(server.words())
        .env("XDG_CONFIG_HOME", daemon.site.path("own"))
        .env_remove("MCPMON_CONFIG")
        .env_remove("RUST_LOG");
    let mut client = Client::start(&mut wrap)?;
    client.initialize()?;
    daemon.start_of(&server.name, 1)?;
    fs::remove_file(&socket)?;
    let daemon = daemon.restart_anew(&host)?;
    until_tapped(&daemon, Some(&[&server.name]))?;
    client.call("towns")?;
    let called = |layer, tool| {
        daemon.event("the call", |event| {
            is(event, "mcp_tool_called", &server.name)
                && text(event, "layer") == layer
                && text(event, "tool_name") == tool
        })
    };
    called("tap", "towns")?;

    symlink(daemon.site.socket(), &socket)?;
    until_tapped(&daemon, Some(&[]))?;
    client.call("rivers")?;
    called("stdio", "rivers")?;
    client.close()?;
    daemon.event_of("mcp_server_exited", &server.name)?;
    let twice = |event: &&Value| text(event, "layer") == "tap" && text(event, "tool_name") == "rivers";
    assert_eq!(daemon.site.events()?.iter().filter(twice).count(), 0);
    Ok(())
}

#[test]
fn a_user_with_too_many_servers_takes_nobody_elses_place() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("observe"))?;
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[("towns", "Lists towns.")])?;
    let counted = |servers, left_out| {
        let found = wait::until("the tapped servers", || {
            let status = daemon.status()?;
            let tapped = tapped(&daemon)?.map(|names| names.len());
            let is_so = tapped == Some(servers) && number(&status["tap"], "left_out") == left_out;
            Ok(is_so.then_some(()))
        });
        found.with_context(|| {
            format!(
                "{servers} and {left_out}: {:?}\n{}",
                daemon.status(),
                daemon.log()
            )
        })
    };
    let mut running = Vec::new();
    for _ in 0..MAX_SERVERS_OF_USER {
        running.push(Client::start(&mut server.command())?);
    }
    counted(MAX_SERVERS_OF_USER, 0)?;
    let mut beyond = Client::start(&mut server.command())?;
    beyond.initialize()?;
    counted(MAX_SERVERS_OF_USER, 1)?;
    let left_out = daemon.event("the one that is left out", |event| {
        is(event, "mcp_events_lost", &server.name) && text(event, "where") == "tap: servers"
    })?;
    assert_eq!(number(&left_out, "count"), 1, "{left_out}");

    // Another user has a separate share, and a place that becomes free is given to the next server.
    let mut others = server.command();
    let mut others = Client::start(others.uid(OTHER_USER).gid(OTHER_USER))?;
    others.initialize()?;
    counted(MAX_SERVERS_OF_USER + 1, 1)?;
    running.pop().context("a server")?.close()?;
    counted(MAX_SERVERS_OF_USER, 1)?;
    let mut next = Client::start(&mut server.command())?;
    next.initialize()?;
    counted(MAX_SERVERS_OF_USER + 1, 1)?;
    for mut client in running.into_iter().chain([beyond, others, next]) {
        client.close()?;
    }
    counted(0, 1)
}

#[test]
fn what_the_tap_loses_is_counted_and_the_rest_is_heard() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("observe"))?;
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[("towns", "Lists towns.")])?;
    let mut client = Client::start(&mut server.command())?;
    client.initialize()?;
    client.tools()?;
    daemon.event_of("mcp_tool_seen", &server.name)?;

    daemon.signal(Signal::SIGSTOP)?;
    let mut flood = || -> Result<()> {
        for _ in 0..FLOODS {
            client.ask(
                "tools/call",
                &json!({"name": "towns", "arguments": {"text": "x".repeat(FLOOD)}}),
            )?;
        }
        Ok(())
    };
    let flooded = flood();
    daemon.signal(Signal::SIGCONT)?;
    flooded?;
    let lost = daemon.event("what was lost", |event| {
        is(event, "mcp_events_lost", &server.name) && text(event, "layer") == "tap"
    })?;
    assert!(number(&lost, "count") > 0, "{lost}");

    client.ask(
        "tools/call",
        &json!({"name": "towns", "arguments": {"text": "after"}}),
    )?;
    daemon.event("a call after the loss", |event| {
        is(event, "mcp_tool_called", &server.name) && text(event, "input").contains("after")
    })?;
    let status = daemon.status()?;
    let tapped = &status["tap"]["servers"][0];
    assert!(number(tapped, "lost") >= number(&lost, "count"), "{status}");
    assert!(number(tapped, "read") > (FLOODS * FLOOD) as u64, "{status}");
    client.close()?;
    Ok(())
}

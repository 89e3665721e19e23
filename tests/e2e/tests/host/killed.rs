//! The kill switch: calls and connections stop, and work again after it is lifted.

use std::{
    io::{self, Write as _},
    net::TcpStream,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    background::free_address,
    client::{Called, Client},
    daemon::Daemon,
    host::Host,
    json::text,
    network::Listener,
    program,
    raw::{RawServer, begin, chunk, post, response, say},
    servers::{PythonServer, ToolServer},
    wait,
};
use serde_json::json;

/// Returns a policy that looks only for servers of this run.
fn policy(mode: &str) -> String {
    let own = std::process::id();
    format!(
        r#"
version: 1
mode: {mode}
mcp:
  version_pinning: {{on_change: alert}}
  detection: {{server_patterns: ["mcp-server-e2e{own}x*", "mcp_server_e2e{own}x*"]}}
"#
    )
}

/// Starts a server behind a wrapper and one without, in one session, and returns them with the session's id.
fn session(daemon: &Daemon) -> Result<(Client, Client, String)> {
    let inside = ToolServer::write(&daemon.site.path(""))?;
    inside.offer(&[("towns", "Lists towns.")])?;
    let outside = PythonServer::write(&daemon.site.path(""))?;
    let mut behind = Client::start(&mut daemon.site.wrap(program::path()?, inside.words()))?;
    behind.initialize()?;
    behind.tools()?;
    let mut direct = Client::start(&mut outside.python())?;
    direct.initialize()?;
    let wrapped = daemon.event_of("mcp_server_started", &inside.name)?;
    let unwrapped = daemon.event_of("mcp_server_started", &outside.id)?;
    let id = text(&wrapped, "session_id").to_owned();
    assert_eq!(text(&unwrapped, "session_id"), id, "both are of one session");
    Ok((behind, direct, id))
}

fn is_stopped(called: &Called) -> bool {
    matches!(called, Called::Failed(text) if text.contains("kill_switch"))
}

fn stops_and_goes_on(mode: &str, scope: impl Fn(&str) -> String) -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy(mode))?;
    let (mut behind, mut direct, id) = session(&daemon)?;
    let listener = Listener::open()?;
    let target = listener.target();
    assert_eq!(behind.call("towns")?, Called::Returned("called towns".to_owned()));
    assert_eq!(direct.connect(target)?, "connected");

    let scope = scope(&id);
    let said = daemon.site.ask(&["kill", &scope])?;
    assert_eq!(said.code, Some(0), "{said:?}");
    let called = behind.call("towns")?;
    assert!(is_stopped(&called), "{called:?}");
    assert_eq!(direct.connect(target)?, "EPERM");
    let refused = daemon.event("the refused connection", |event| {
        event["rule"] == "kill_switch" && event["type"] == "mcp_network_connection"
    })?;
    assert_eq!(text(&refused, "action"), "block", "{refused}");
    let shown = daemon.site.ask(&["status"])?.stdout;
    assert!(shown.contains("stopped"), "{shown}");

    let daemon = daemon.restart(&host)?;
    wait::until("the kernel sense knows the server again", || {
        Ok((direct.connect(target)? == "EPERM").then_some(()))
    })
    .context("a restart does not lift it")?;

    let said = daemon.site.ask(&["kill", &scope, "--off"])?;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(direct.connect(target)?, "connected");
    wait::until("the wrapper hears that it may go on", || {
        Ok((behind.call("towns")? == Called::Returned("called towns".to_owned())).then_some(()))
    })
}

#[test]
fn a_session_is_stopped_until_that_is_lifted() -> Result<()> {
    stops_and_goes_on("enforce", str::to_owned)
}

#[test]
fn the_host_is_stopped_where_everything_else_is_only_observed() -> Result<()> {
    stops_and_goes_on("observe", |_| "--all".to_owned())
}

/// Starts a server over HTTP that lists a tool, and begins every other answer without finishing it.
fn unfinished() -> Result<RawServer> {
    RawServer::start(|asked, stream| {
        let body = asked.json();
        if body["method"] == "tools/list" {
            let tools = json!([{"name": "wait", "description": "Waits.", "inputSchema": {"type": "object"}}]);
            let listed = json!({"jsonrpc": "2.0", "id": body["id"], "result": {"tools": tools}});
            return say(stream, "application/json", &listed.to_string());
        }
        begin(stream, "text/event-stream")?;
        chunk(stream, b": here\n\n")?;
        // Blocks until the proxy closes the connection.
        io::copy(stream, &mut io::sink()).map(drop)
    })
}

fn ends_what_is_open(scope: impl Fn(&str) -> String) -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let server = unfinished()?;
    let listen = free_address()?;
    let url = server.url();
    let daemon = Daemon::start(
        &host,
        &format!(
            "version: 1\nproxy: {{listen: \"{listen}\"}}\nmcp: {{discovery: {{enabled: false}}, servers: [{{id: unfinished, url: \"{url}\"}}]}}\n"
        ),
    )?;
    let open = |bytes: &[u8]| {
        wait::until("the proxy", || Ok(TcpStream::connect(listen).ok())).and_then(|mut stream| {
            stream.set_read_timeout(Some(wait::TIMEOUT))?;
            stream.write_all(bytes)?;
            Ok(stream)
        })
    };
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "wait", "arguments": {}}});
    let called = open(&post(listen, "/mcp/unfinished", &[], &call.to_string()))?;
    let listening = open(
        format!("GET /mcp/unfinished HTTP/1.1\r\nhost: {listen}\r\naccept: text/event-stream\r\nconnection: close\r\n\r\n").as_bytes(),
    )?;
    wait::until("both are under way", || {
        let is_listening = server.received().iter().any(|one| one.line.starts_with("GET"));
        Ok((is_listening && !server.asked("tools/call").is_empty()).then_some(()))
    })?;
    let event = daemon.event_of("mcp_tool_called", "unfinished")?;
    let said = daemon.site.ask(&["kill", &scope(text(&event, "session_id"))])?;
    assert_eq!(said.code, Some(0), "{said:?}");
    // The call would end by itself with another error, and the stream never. The delay of both is measured elsewhere,
    // with only the proxy running.
    let (called, listening) = (response(called)?, response(listening)?);
    let told = called.events();
    assert_eq!(told.len(), 1, "{}", called.text());
    assert_eq!(told[0]["id"], 7, "{told:?}");
    assert_eq!(told[0]["error"]["code"], -32003, "{told:?}");
    assert!(told[0].to_string().contains("kill_switch"), "{told:?}");
    assert_eq!((listening.status(), listening.events().len()), ("200", 0));
    Ok(())
}

#[test]
fn streams_of_a_session_end() -> Result<()> {
    ends_what_is_open(str::to_owned)
}

#[test]
fn streams_of_the_host_end() -> Result<()> {
    ends_what_is_open(|_| "--all".to_owned())
}

#[test]
fn a_session_that_is_not_there_is_an_error() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("enforce"))?;
    for (arguments, expected) in [
        (["kill", "nobody"].as_slice(), "there is no session nobody"),
        (&["kill", "--all", "--off"], "host is not stopped"),
    ] {
        let said = daemon.site.ask(arguments)?;
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains(expected), "{said:?}");
    }
    Ok(())
}

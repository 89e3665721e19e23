//! Remote servers behind the daemon's proxy: connections through it, and connections that bypass it.

use std::process::{Command, Stdio};

use anyhow::Result;
use mcpmon_e2e::{
    background::free_address,
    client::{Called, Client},
    daemon::Daemon,
    host::Host,
    json::{number, text},
    network::Listener,
    notes_server::{Remote, call, tool},
    program, wait,
};
use serde_json::{Value, json};

/// Returns the connection events to a server.
fn connections(daemon: &Daemon, server: &Remote) -> Result<Vec<Value>> {
    let mut listed = daemon.site.list(&["connections", "--limit", "10000"])?;
    listed.retain(|event| text(event, "remote_addr") == server.address().to_string());
    Ok(listed)
}

/// A server that is declared by a host name: the proxy lists its tools before any client asks, and then a stdio client
/// uses it.
#[test]
fn a_named_server_is_listed_and_wrapped_beside_the_daemon() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let server = Remote::start(&json!([
        tool("read", "Reads a note"),
        tool("remove", "Removes a note")
    ]))?;
    let listen = free_address()?;
    let url = format!("http://localhost:{}/mcp", server.address().port());
    let daemon = Daemon::start(
        &host,
        &format!(
            "version: 1\nproxy: {{listen: \"{listen}\"}}\nmcp: {{blocked_tools: [remove], servers: [{{id: notes, url: \"{url}\"}}]}}\n"
        ),
    )?;
    let listed = daemon.event_of("mcp_tool_seen", "notes")?;
    assert_eq!(text(&listed, "layer"), "mcp_http", "{listed}");
    assert!(
        server
            .heard()?
            .iter()
            .all(|heard| !heard.starts_with("tools/call"))
    );

    let mut wrap = daemon.site.wrap_url(program::path()?, &url);
    let mut client = Client::start(wrap.args(["--server", "notes"]))?;
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "e2e", "version": "1"}});
    client.ask("initialize", &params)?;
    assert_eq!(client.tools()?, ["read"]);
    assert_eq!(client.call("read")?, Called::Returned("done: read".to_owned()));
    assert!(matches!(client.call("remove")?, Called::Failed(told) if told.contains("mcp.blocked_tools")));
    assert!(!server.heard()?.contains(&"tools/call remove".to_owned()));
    let called = daemon.event_of("mcp_tool_called", "notes")?;
    assert_eq!(text(&called, "layer"), "mcp_http", "{called}");
    let blocked = daemon.event_of("mcp_tool_call_intercepted", "notes")?;
    assert_eq!(text(&blocked, "tool_name"), "remove", "{blocked}");
    assert_eq!(daemon.status()?["wrappers"], 1);
    let wrapper = wait::until("the wrapper's connection", || {
        let all = connections(&daemon, &server)?;
        Ok(all
            .into_iter()
            .find(|event| number(event, "pid") != u64::from(daemon.pid())))
    })?;
    assert_eq!(text(&wrapper, "server_id"), "notes", "{wrapper}");
    let through = call(&format!("http://{listen}/mcp/notes"), "read")?;
    assert_eq!(through.text(), "done: read");
    Ok(())
}

#[test]
fn through_the_proxy_and_round_it() -> Result<()> {
    let Some(host) = Host::take(&["bash", "python3"])? else {
        return Ok(());
    };
    // An address that no other process of this host connects to.
    let place = Listener::open()?;
    let server = Remote::start_at(place.ip().into(), &json!([tool("read", "Reads a note")]))?;
    let listen = free_address()?;
    let url = server.url();
    let daemon = Daemon::start(
        &host,
        &format!(
            "version: 1\nproxy: {{listen: \"{listen}\"}}\nmcp: {{discovery: {{enabled: false}}, servers: [{{id: notes, url: \"{url}\"}}]}}\n"
        ),
    )?;
    let called = wait::until("the proxy", || {
        Ok(call(&format!("http://{listen}/mcp/notes"), "read").ok())
    })?;
    assert_eq!(called.text(), "done: read");
    let through = wait::until("the proxy's connection", || {
        Ok(connections(&daemon, &server)?.pop())
    })?;
    assert_eq!(text(&through, "server_id"), "notes");
    assert_eq!(text(&through, "direction"), "agent_to_server");
    assert_eq!(text(&through, "server_type"), "http");
    assert_eq!(number(&through, "pid"), u64::from(daemon.pid()));
    assert_eq!(through["proxied"], true);
    assert_eq!(text(&through, "action"), "allow");

    let target = server.address();
    let line = format!("exec 3<>/dev/tcp/{}/{}", target.ip(), target.port());
    let mut bash = Command::new("bash")
        .args(["-c", &line])
        .stdin(Stdio::null())
        .spawn()?;
    let pid = u64::from(bash.id());
    assert!(bash.wait()?.success());
    let round = wait::until("the connection round the proxy", || {
        let all = connections(&daemon, &server)?;
        Ok(all.into_iter().find(|event| number(event, "pid") == pid))
    })?;
    assert_eq!(text(&round, "server_id"), "notes");
    assert_eq!(text(&round, "action"), "audit");
    assert_eq!(round.get("proxied"), None);

    // Events of the daemon's own judgements are in its store, as those of wrappers are.
    let event = daemon.event_of("mcp_tool_called", "notes")?;
    assert_eq!(text(&event, "layer"), "mcp_http");
    let status = daemon.status()?;
    assert_eq!(status["proxy"]["servers"], json!(["notes"]));
    assert_eq!(status["proxy"]["conversations"], 1);
    assert_eq!(status["wrappers"], 0);
    Ok(())
}

//! Calls that wait for a person, with a daemon: only root answers.

use std::{os::unix::process::CommandExt as _, process::Command, thread};

use anyhow::{Result, anyhow};
use mcpmon_e2e::{
    client::{Called, Client},
    daemon::Daemon,
    host::Host,
    json::{is, text},
    program,
    servers::ToolServer,
    wait,
};
use serde_json::Value;

fn policy() -> String {
    let own = std::process::id();
    format!(
        r#"
version: 1
mcp:
  version_pinning: {{on_change: alert}}
  detection: {{server_patterns: ["mcp-server-e2e{own}x*", "mcp_server_e2e{own}x*"]}}
  rules: [{{id: ask-pay, match: {{tool_name: pay}}, decision: ASK}}]
"#
    )
}

fn held(daemon: &Daemon) -> Result<Value> {
    wait::until("a held call", || {
        let list = daemon.site.list(&["approvals", "list", "--pending"])?;
        Ok(list.into_iter().next().map(|mut event| event["waiting"].take()))
    })
}

#[test]
fn root_answers_and_nobody_else() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[("pay", "Pays.")])?;
    let mut client = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
    client.initialize()?;
    client.tools()?;
    let calling = thread::spawn(move || {
        let called = client.call("pay");
        (client, called)
    });
    let call = held(&daemon)?;
    assert_eq!(text(&call, "server_id"), server.name);
    let id = text(&call, "id");
    let socket = daemon.site.socket();
    let answer = |word: &str| -> Result<Command> {
        let mut command = Command::new(program::path()?);
        command.args(["approvals", word, id, "--socket"]).arg(&socket);
        Ok(command)
    };
    let by_nobody = answer("allow")?.uid(65_534).gid(65_534).output()?;
    assert_eq!(
        by_nobody.status.code().map(|code| code == 0),
        Some(false),
        "{by_nobody:?}"
    );
    assert!(!calling.is_finished(), "it still waits");
    let by_root = answer("allow")?.output()?;
    assert_eq!(by_root.status.code(), Some(0), "{by_root:?}");
    let (mut client, called) = calling
        .join()
        .map_err(|panic| anyhow!("the client failed: {panic:?}"))?;
    assert_eq!(called?, Called::Returned("called pay".to_owned()));
    let granted = daemon.event("a grant", |event| {
        is(event, "mcp_approval", &server.name) && text(event, "state") == "granted"
    })?;
    assert_eq!((text(&granted, "by"), text(&granted, "held_call")), ("root", id));

    let calling = thread::spawn(move || client.call("pay"));
    let second = held(&daemon)?;
    let denied = daemon.site.ask(&["approvals", "deny", text(&second, "id")])?;
    assert_eq!(denied.code, Some(0), "{denied:?}");
    let called = calling
        .join()
        .map_err(|panic| anyhow!("the client failed: {panic:?}"))??;
    let Called::Failed(said) = called else {
        panic!("it is refused: {called:?}");
    };
    assert!(said.contains("denied by root"), "{said}");
    Ok(())
}

//! A user's own policy file on a host with a daemon: it can make the policy stricter, and nothing else.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::PathBuf,
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use mcpmon_e2e::{
    background::free_address,
    client::{Called, Client},
    daemon::Daemon,
    host::Host,
    json::{is, text},
    notes_server::{Remote, tool},
    program,
    servers::ToolServer,
    site::Site,
    wait,
};
use serde_json::json;

/// Returns a policy that looks only for servers of this run.
fn policy() -> String {
    let own = std::process::id();
    format!(
        r#"
version: 1
mcp:
  version_pinning: {{on_change: alert}}
  detection: {{server_patterns: ["mcp-server-e2e{own}x*", "mcp_server_e2e{own}x*"]}}
  blocked_tools: [of_the_host]
"#
    )
}

/// Replaces the user's own file in one step, as editors do.
fn own(daemon: &Daemon, text: &str) -> Result<PathBuf> {
    let path = daemon.site.path("own/mcpmon/mcpmon.yaml");
    fs::create_dir_all(path.parent().context("a directory")?)?;
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, &path)?;
    Ok(path)
}

fn is_refused(client: &mut Client, tool: &str) -> Result<bool> {
    Ok(matches!(client.call(tool)?, Called::Failed(_)))
}

#[test]
fn a_file_of_the_user_tightens_and_is_followed() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[
        ("of_the_host", "One."),
        ("of_the_user", "Two."),
        ("free", "Three."),
    ])?;
    // Permissions and exceptions in it have no effect.
    let lifts = "  rules: [{id: all, match: {tool_name: '*'}, decision: ALLOW}]\n";
    own(
        &daemon,
        &format!("mcp:\n  enforce_policy: true\n  blocked_tools: [of_the_user]\n{lifts}"),
    )?;
    let mut client = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
    client.initialize()?;
    assert_eq!(client.tools()?, ["free"]);
    assert!(is_refused(&mut client, "of_the_host")? && is_refused(&mut client, "of_the_user")?);
    assert!(!is_refused(&mut client, "free")?);

    own(&daemon, "mcp: {blocked_tools: [free]}\n")?;
    wait::until("what the file says now", || {
        Ok((client.tools()? == ["of_the_user"]).then_some(()))
    })?;

    let path = own(&daemon, "mcp: {blocked_toolz: [free]}\n")?;
    let told = daemon.event("the mistake", |event| {
        is(event, "policy_rejected", &server.name) && event.to_string().contains("blocked_toolz")
    })?;
    assert_eq!(text(&told, "path"), path.display().to_string());
    assert_eq!(client.tools()?, ["of_the_user"], "what was in force stays so");

    fs::remove_file(path)?;
    daemon.event("its end", |event| {
        is(event, "policy_rejected", &server.name) && event.to_string().contains("is gone")
    })?;
    assert_eq!(client.tools()?, ["of_the_user"]);
    Ok(())
}

#[test]
fn a_mistake_of_the_user_disables_nothing() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[("of_the_host", "One."), ("free", "Two.")])?;
    own(&daemon, "mode: loud\n")?;
    let mut client = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
    client.initialize()?;
    assert_eq!(client.tools()?, ["free"]);
    let told = daemon.event("the mistake", |event| is(event, "policy_rejected", &server.name))?;
    assert!(told.to_string().contains("loud"), "{told}");
    assert_eq!(text(&told, "severity"), "high");

    own(&daemon, "mode: observe\n")?;
    daemon.event("a file that can be used", |event| {
        is(event, "policy_loaded", &server.name)
    })?;
    assert!(
        is_refused(&mut client, "of_the_host")?,
        "who observes takes nothing away"
    );
    Ok(())
}

/// Calls a tool at `url` as the user `uid`, and returns whether the call was allowed.
fn calls_as(uid: u32, url: &str, tool: &str) -> Result<bool> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {"path": "a"}}});
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "20", "--data", &body.to_string(), url]);
    for header in [
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        "mcp-protocol-version: 2025-06-18",
    ] {
        curl.args(["--header", header]);
    }
    let output = curl.uid(uid).gid(uid).current_dir("/").output()?;
    let answer = String::from_utf8(output.stdout)?;
    match (
        answer.contains("done: "),
        answer.contains("[mcpmon]") || answer.contains("blocked"),
    ) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        (true, true) | (false, false) => bail!("neither called nor refused: {answer}"),
    }
}

#[test]
fn a_file_of_the_user_tightens_what_goes_through_the_daemons_proxy() -> Result<()> {
    const USER: u32 = 64_321;
    let Some(host) = Host::take(&["curl", "python3", "unshare"])? else {
        return Ok(());
    };
    let tools = ["of_the_host", "of_the_user", "free"].map(|name| tool(name, "Reads a note"));
    let server = Remote::start(&json!(tools))?;
    let listen = free_address()?;
    let site = Site::new(&format!(
        "version: 1\nproxy: {{listen: \"{listen}\"}}\nmcp: {{blocked_tools: [of_the_host], discovery: {{enabled: false}}, servers: [{{id: notes, url: \"{}\"}}]}}\n",
        server.url()
    ))?;
    let directory = site.path("home/.config/mcpmon");
    fs::create_dir_all(&directory)?;
    for above in [site.path("home"), site.path("home/.config"), directory.clone()] {
        chown(above, Some(USER), Some(USER))?;
    }
    let own = |text: &str| -> Result<()> {
        let (new, path) = (directory.join("new"), directory.join("mcpmon.yaml"));
        fs::write(&new, text)?;
        chown(&new, Some(USER), Some(USER))?;
        Ok(fs::rename(new, path)?)
    };
    own(
        "mcp: {blocked_tools: [of_the_user], rules: [{id: all, match: {tool_name: '*'}, decision: ALLOW}]}\n",
    )?;
    let daemon = Daemon::start_with_user(&host, site, USER, "home")?;
    let url = format!("http://{listen}/mcp/notes");
    wait::until("the proxy", || Ok(calls_as(0, &url, "free").ok()))?;
    for (uid, tool, is_called) in [
        (0, "of_the_user", true),
        (0, "of_the_host", false),
        (USER, "of_the_user", false),
        (USER, "of_the_host", false),
        (USER, "free", true),
    ] {
        assert_eq!(calls_as(uid, &url, tool)?, is_called, "{tool} as {uid}");
    }

    own("mcp: {blocked_tools: [free]}\n")?;
    wait::until("what the file says now", || {
        Ok((!calls_as(USER, &url, "free")?).then_some(()))
    })?;
    assert!(calls_as(USER, &url, "of_the_user")? && calls_as(0, &url, "free")?);

    own("mcp: {blocked_toolz: [free]}\n")?;
    let told = daemon.event("the mistake", |event| {
        text(event, "type") == "policy_rejected" && event.to_string().contains("blocked_toolz")
    })?;
    assert!(told.to_string().contains(&format!("user {USER}")), "{told}");
    assert!(!calls_as(USER, &url, "free")?, "what was in force stays so");
    Ok(())
}

//! A user's own policy file where a daemon rules: it tightens, and can do nothing else.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    client::{Called, Client},
    daemon::Daemon,
    host::Host,
    json::{is, text},
    program,
    servers::ToolServer,
    wait,
};

/// Only this run's servers are looked for.
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

/// Puts a text in the place of the user's own file, in one step as editors do.
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
    // What it allows and accepts counts for nothing.
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
    daemon.event("the mistake", |event| {
        is(event, "policy_rejected", &server.name) && event.to_string().contains("blocked_toolz")
    })?;
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

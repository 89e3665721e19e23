//! Servers with more files of code than are watched by themselves.

use std::{
    fs,
    io::Read as _,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{daemon::Daemon, host::Host, json::text, servers};
use serde_json::Value;

/// More than the 12,288 of one server.
const FILES: usize = 12_500;

/// Returns whether an event is about watched files.
fn is_watch(event: &Value, kind: &str) -> bool {
    text(event, "type") == kind && text(event, "component") == "file watch"
}

#[test]
fn files_beyond_the_watches_are_told_once_for_a_server() -> Result<()> {
    let Some(host) = Host::take(&["node"])? else {
        return Ok(());
    };
    let own = std::process::id();
    let daemon = Daemon::start(
        &host,
        &format!(
            "version: 1\nmcp:\n  version_pinning: {{on_change: block}}\n  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\"]}}\n"
        ),
    )?;
    let name = servers::name();
    let package = daemon.site.path(&name);
    let library = package.join("library");
    fs::create_dir_all(&library)?;
    fs::write(package.join("package.json"), format!(r#"{{"name": "{name}"}}"#))?;
    let server = package.join(&name);
    fs::write(&server, "process.stdin.resume()\n")?;
    for number in 0..FILES {
        fs::write(library.join(format!("{number}.js")), "")?;
    }
    let serve = || -> Result<Option<i32>> {
        let mut command = Command::new("node");
        let command = command.arg(&server).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn()?;
        drop(server.stdin.take());
        server
            .stdout
            .take()
            .context("a pipe")?
            .read_to_end(&mut Vec::new())?;
        Ok(server.wait()?.signal())
    };
    for (number, pin) in [(1, "pinned"), (2, "match"), (3, "match")] {
        assert_eq!(serve()?, None, "{}", daemon.log());
        let started = daemon.start_of(&name, number)?;
        assert_eq!(text(&started, "pin"), pin, "{started}");
        if number > 1 {
            let told = |event: &Value| is_watch(event, "mcp_enforcement_degraded");
            let told = daemon.event("files that are not watched", told)?;
            assert!(text(&told, "cause").contains(&name), "{told}");
        }
    }
    // With as many as can be watched it is another package, and that is over.
    for number in 0..FILES / 2 {
        fs::remove_file(library.join(format!("{number}.js")))?;
    }
    assert_eq!(serve()?, Some(9), "{}", daemon.log());
    let over = |event: &Value| is_watch(event, "mcp_enforcement_restored");
    daemon.event("files that are watched again", over)?;
    let events = daemon.site.events()?;
    let told = events
        .iter()
        .filter(|event| is_watch(event, "mcp_enforcement_degraded"));
    assert_eq!(told.count(), 1, "{events:?}");
    Ok(())
}

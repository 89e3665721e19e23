//! The event files of a root daemon in OCSF format: events of the kernel and of wrappers, through rotations.

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::Result;
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{is, text},
    network::{Attempt, Listener, connect},
    ocsf::Ocsf,
    program,
    servers::ToolServer,
};
use serde_json::{Value, json};

/// The number of calls in a session. Their events do not fit into one file.
const CALLS: usize = 100;

#[test]
fn every_line_of_a_daemon_follows_the_schema() -> Result<()> {
    let (Some(ocsf), Some(host)) = (Ocsf::installed()?, Host::take(&["python3"])?) else {
        return Ok(());
    };
    let refused = Listener::open()?;
    let own = std::process::id();
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("events.jsonl");
    let policy = format!(
        "version: 1\nrecord: {{jsonl: {}, format: ocsf, jsonl_max_size: 64KiB, jsonl_keep: 50}}\n\
         exec: {{unwrapped: alert}}\nnetwork:\n  deny: [{{name: refused-e2e, cidrs: [\"{}\"]}}]\nmcp:\n  blocked_tools: [remove]\n  \
         detection: {{server_patterns: [\"mcp-server-e2e{own}x*\"]}}\n",
        file.display(),
        refused.ip(),
    );
    let daemon = Daemon::start(&host, &policy)?;
    assert_eq!(connect(refused.target())?, Attempt::Refused);
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[("read", "Reads a note."), ("remove", "Removes a note.")])?;
    let mut unwrapped = Client::start(&mut server.command())?;
    unwrapped.initialize()?;
    daemon.event_of("mcp_server_unwrapped", &server.name)?;
    unwrapped.close()?;
    let mut wrapped = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
    wrapped.initialize()?;
    wrapped.tools()?;
    for number in 0..CALLS {
        let arguments = json!({"name": "read", "arguments": {"path": format!("note-{number}")}});
        wrapped.ask("tools/call", &arguments)?;
    }
    wrapped.ask("tools/call", &json!({"name": "remove", "arguments": {}}))?;
    wrapped.close()?;
    daemon.event("the refused call", |event| {
        is(event, "mcp_tool_call_intercepted", &server.name)
    })?;
    let (site, status) = daemon.end()?;
    assert!(status.success(), "{status}");

    let kept = (1..).map(|number| directory.path().join(format!("events.jsonl.{number}")));
    let mut files: Vec<PathBuf> = kept.take_while(|file| file.exists()).collect();
    assert!(files.len() > 1, "nothing was put aside: {files:?}");
    files.push(file);
    let (mut count, mut found) = (0, BTreeSet::new());
    for file in &files {
        let events = ocsf.check(file)?;
        assert_eq!(events.len(), fs::read_to_string(file)?.lines().count());
        count += events.len();
        for event in events {
            assert_eq!(event["wrong"], json!([]), "{event} in {}", file.display());
            found.insert(text(&event, "type").to_owned());
        }
    }
    let recorded: Vec<Value> = site.events()?;
    assert_eq!(count, recorded.len(), "every event once, in one of {files:?}");
    let expected = recorded.iter().map(|event| text(event, "type").to_owned());
    assert_eq!(found, expected.collect());
    for kind in [
        "mcp_network_connection",
        "mcp_server_unwrapped",
        "mcp_tool_called",
        "mcp_tool_call_intercepted",
    ] {
        assert!(found.contains(kind), "{kind} in {found:?}");
    }
    Ok(())
}

//! Changed servers: reported, stopped before they serve, and allowed again when they are pinned anew.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::PathBuf,
    process::Command,
};

use anyhow::Result;
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{is, text},
    servers::{NpmServer, ProgramServer, PythonServer, SystemShell, change, sha256, shell_script},
};
use serde_json::Value;

/// Returns a policy that looks only for servers of this run, because others on this machine must not be stopped.
fn policy(pinning: &str) -> String {
    let own = std::process::id();
    format!(
        r#"
version: 1
mcp:
  version_pinning: {{{pinning}}}
  detection: {{server_patterns: ["mcp-server-e2e{own}x*", "mcp_server_e2e{own}x*"]}}
"#
    )
}

/// Starts a server, talks to it, and ends it. Returns its version and the event of its start.
fn serve(daemon: &Daemon, server: &str, number: usize, mut client: Client) -> Result<(String, Value)> {
    let version = client.initialize()?.version;
    let started = daemon.start_of(server, number)?;
    client.close()?;
    Ok((version, started))
}

fn own(daemon: &Daemon, kind: &str, server: &str) -> Result<Vec<Value>> {
    let mut events = daemon.site.events()?;
    events.retain(|event| is(event, kind, server));
    Ok(events)
}

#[test]
fn a_dependency_changed_behind_the_same_npx() -> Result<()> {
    let Some(host) = Host::take(&["node", "npm", "npx"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let server = NpmServer::install()?;
    let start = || Client::start(&mut server.npx());
    let (version, first) = serve(&daemon, &server.name, 1, start()?)?;
    assert_eq!((version.as_str(), text(&first, "pin")), ("1.0.0", "pinned"));
    let (_, second) = serve(&daemon, &server.name, 2, start()?)?;
    assert_eq!(text(&second, "pin"), "match");
    assert_eq!(second["package_sha256"], first["package_sha256"]);

    let daemon = daemon.restart(&host)?;
    let (_, third) = serve(&daemon, &server.name, 3, start()?)?;
    assert_eq!(text(&third, "pin"), "match", "pins outlive the daemon");

    server.change_dependency()?;
    let mut client = start()?;
    client.initialize().expect_err("it must not serve");
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", &server.name)?;
    assert_eq!(text(&mismatch, "part"), "package", "{mismatch}");
    assert_eq!(text(&mismatch, "action"), "block");
    assert_eq!(mismatch["expected_hash"], first["package_sha256"]);
    assert_ne!(mismatch["actual_hash"], first["package_sha256"]);
    let changed = mismatch["changed_files"].as_array().map(Vec::as_slice);
    let [Value::String(file)] = changed.unwrap_or_default() else {
        panic!("one file changed: {mismatch}")
    };
    assert!(file.ends_with("-version/index.js"), "{file}");
    let denied = daemon.event_of("mcp_server_denied", &server.name)?;
    assert_eq!(text(&denied, "action"), "block");
    assert!(
        text(&denied, "reason").contains("mcpmon pins trust --server"),
        "{denied}"
    );
    let exited = daemon.event("its end by a signal", |event| {
        is(event, "mcp_server_exited", &server.name) && event["signal"] == 9
    })?;
    assert_eq!(exited["pid"], denied["pid"]);

    let reset = daemon.site.ask(&["pins", "reset", "--server", &server.name])?;
    assert_eq!(reset.code, Some(0), "{reset:?}");
    assert_eq!(
        daemon.site.list(&["pins", "list", "--server", &server.name])?,
        Vec::<Value>::new()
    );
    let (version, fifth) = serve(&daemon, &server.name, 5, start()?)?;
    assert_eq!((version.as_str(), text(&fifth, "pin")), ("1.0.1", "pinned"));
    assert_eq!(fifth["package_sha256"], mismatch["actual_hash"]);
    Ok(())
}

/// The command has a path relative to a working directory that is not the daemon's.
#[test]
fn a_changed_launcher_of_the_working_directory() -> Result<()> {
    let Some(host) = Host::take(&["node", "npm", "npx"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let server = NpmServer::install()?;
    let launcher = server.project.join("bin/npx");
    fs::create_dir(server.project.join("bin"))?;
    let write = |text: &str| {
        fs::write(&launcher, text)?;
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))
    };
    let start = || {
        let mut command = Command::new("./bin/npx");
        command.args(["--no-install", &server.name]);
        Client::start(command.current_dir(&server.project))
    };
    write("#!/bin/sh\nexec npx \"$@\"\n")?;
    let (_, first) = serve(&daemon, &server.name, 1, start()?)?;
    assert_eq!(text(&first, "pin"), "pinned", "{first}");
    let (_, second) = serve(&daemon, &server.name, 2, start()?)?;
    assert_eq!(text(&second, "pin"), "match", "{second}");

    write("#!/bin/sh\nexec npx  \"$@\"\n")?;
    let mut client = start()?;
    client.initialize().expect_err("it must not serve");
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", &server.name)?;
    assert_eq!(text(&mismatch, "part"), "launcher", "{mismatch}");
    assert!(text(&mismatch, "path").ends_with("/bin/npx"), "{mismatch}");
    assert_eq!(text(&mismatch, "action"), "block", "{mismatch}");
    Ok(())
}

#[test]
fn a_change_that_only_alerts() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: alert"))?;
    let server = PythonServer::write(&daemon.site.path("python"))?;
    serve(&daemon, &server.id, 1, Client::start(&mut server.python())?)?;
    let file = server.directory.join(&server.module).join("__main__.py");
    fs::write(&file, format!("{}# changed\n", fs::read_to_string(&file)?))?;

    let (_, started) = serve(&daemon, &server.id, 2, Client::start(&mut server.python())?)?;
    assert_eq!(text(&started, "pin"), "mismatch");
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", &server.id)?;
    assert_eq!(text(&mismatch, "action"), "audit");
    assert_eq!(text(&mismatch, "severity"), "high");
    assert_eq!(
        own(&daemon, "mcp_server_denied", &server.id)?,
        Vec::<Value>::new()
    );
    Ok(())
}

/// The first start is stopped and compared; after that the kernel kills every start of the file.
#[test]
fn a_changed_program_is_killed_at_exec() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let server = ProgramServer::make(&daemon.site.path(""))?;
    let mark = |name: &str| -> PathBuf { daemon.site.path(name) };
    let first = mark("first");
    let (_, started) = serve(
        &daemon,
        &server.name,
        1,
        Client::start(&mut server.command(&first))?,
    )?;
    assert!(first.exists(), "what runs leaves its mark");
    server.change()?;

    let mut client = Client::start(&mut server.command(&mark("second")))?;
    assert_eq!(client.ended()?.signal(), Some(9));
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", &server.name)?;
    assert_eq!(text(&mismatch, "part"), "executable");
    assert_eq!(mismatch["expected_hash"], started["exe_sha256"]);
    assert_eq!(text(&mismatch, "actual_hash"), sha256(&server.program)?);

    for attempt in ["third", "fourth"] {
        let mark = mark(attempt);
        let mut client = Client::start(&mut server.command(&mark))?;
        assert_eq!(client.ended()?.signal(), Some(9));
        assert!(!mark.exists(), "the {attempt} start got to run");
    }

    let reset = daemon.site.ask(&["pins", "reset", "--server", &server.name])?;
    assert_eq!(reset.code, Some(0), "{reset:?}");
    let fifth = mark("fifth");
    let mut client = Client::start(&mut server.command(&fifth))?;
    client.initialize()?;
    assert!(fifth.exists());
    daemon.event("that it is pinned anew", |event| {
        is(event, "mcp_server_started", &server.name)
            && text(event, "pin") == "pinned"
            && event["exe_sha256"] == mismatch["actual_hash"]
    })?;
    Ok(())
}

/// An administrator trusts an upgraded executable before it was started and refused.
#[test]
fn a_changed_executable_is_trusted_by_its_path() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let server = ProgramServer::make(&daemon.site.path(""))?;
    let start = |mark: &str| Client::start(&mut server.command(&daemon.site.path(mark)));
    serve(&daemon, &server.name, 1, start("first")?)?;
    let trust = || {
        let program = server.program.to_str().unwrap_or_default();
        daemon.site.ask(&["pins", "trust", "--executable", program])
    };
    let nothing = trust()?;
    assert!(
        nothing.stderr.contains("no server is pinned with another"),
        "{nothing:?}"
    );
    server.change()?;
    let trusted = trust()?;
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    assert!(
        trusted.stderr.contains("1 more set of pins is accepted"),
        "{trusted:?}"
    );
    let (_, second) = serve(&daemon, &server.name, 2, start("second")?)?;
    assert_eq!(text(&second, "pin"), "match");

    let daemon = daemon.restart(&host)?;
    let mut client = Client::start(&mut server.command(&daemon.site.path("third")))?;
    client.initialize()?;
    let third = daemon.start_of(&server.name, 3)?;
    assert_eq!(text(&third, "pin"), "match", "it outlives the daemon");
    let pins = daemon.site.list(&["pins", "list", "--server", &server.name])?;
    let by: Vec<&str> = pins.iter().map(|pin| text(pin, "pinned_by")).collect();
    assert_eq!(by, ["first_use", "root"]);
    Ok(())
}

/// Only the shell serves here, so it is compared once it has been alone for long enough.
#[test]
fn a_changed_script_that_a_shell_serves() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let script = shell_script(&daemon.site.path(""))?;
    let name = script
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let start = || Client::start(Command::new(&script).arg(daemon.site.path("mark")));
    for (number, pin) in [(1, "pinned"), (2, "match")] {
        let (_, started) = serve(&daemon, name, number, start()?)?;
        assert_eq!(text(&started, "pin"), pin);
        assert_eq!(text(&started, "script_sha256"), sha256(&script)?);
    }
    fs::write(&script, format!("{}# changed\n", fs::read_to_string(&script)?))?;
    let mut client = start()?;
    assert_eq!(client.ended()?.signal(), Some(9));
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", name)?;
    assert_eq!(text(&mismatch, "part"), "script");
    Ok(())
}

/// An upgrade of an interpreter that only root can change does not stop its servers; the same change by another user
/// does.
#[test]
fn an_upgraded_interpreter() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let script = shell_script(&daemon.site.path(""))?;
    let name = script
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let shell = SystemShell::make()?;
    let start = || {
        let mut command = Command::new(shell.path());
        Client::start(command.arg(&script).arg(daemon.site.path("mark")))
    };
    let (_, first) = serve(&daemon, name, 1, start()?)?;
    assert_eq!(text(&first, "pin"), "pinned");

    change(&shell.path())?;
    let (_, second) = serve(&daemon, name, 2, start()?)?;
    assert_eq!(
        (text(&second, "pin"), text(&second, "action")),
        ("mismatch", "audit")
    );
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", name)?;
    assert_eq!(
        (text(&mismatch, "part"), text(&mismatch, "severity")),
        ("executable", "medium")
    );
    assert_eq!(own(&daemon, "mcp_server_denied", name)?, Vec::<Value>::new());
    let (_, third) = serve(&daemon, name, 3, start()?)?;
    assert_eq!(text(&third, "pin"), "match", "it is accepted by now");

    shell.open_to_everyone()?;
    change(&shell.path())?;
    let mut client = start()?;
    assert_eq!(client.ended()?.signal(), Some(9));
    assert_eq!(
        text(&daemon.event_of("mcp_server_denied", name)?, "action"),
        "block"
    );
    Ok(())
}

#[test]
fn nothing_is_trusted_at_first_sight() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("auto_trust_first: false"))?;
    let server = ProgramServer::make(&daemon.site.path(""))?;
    let mut client = Client::start(&mut server.command(&daemon.site.path("mark")))?;
    assert_eq!(client.ended()?.signal(), Some(9));
    let started = daemon.event_of("mcp_server_started", &server.name)?;
    assert_eq!(text(&started, "pin"), "not_pinned");
    let denied = daemon.event_of("mcp_server_denied", &server.name)?;
    assert!(text(&denied, "reason").contains("not pinned"), "{denied}");
    assert!(text(&denied, "reason").contains("auto_trust_first"), "{denied}");
    Ok(())
}

//! Servers started in every usual way: they are found and hashed, and their end is reported.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{number, text},
    servers::{NpmServer, ProgramServer, PythonServer, python_script, sha256},
};
use serde_json::Value;

/// A policy with the built-in patterns. It stops nothing, because other servers run on the machines of developers.
const POLICY: &str = "version: 1\nmcp: {version_pinning: {on_change: alert}}\n";
const SECRET: &str = "s3cr3t-7f3a9c";

/// Lets the server introduce itself, checks the event of its start, ends it, and checks the event of its end.
fn check(daemon: &Daemon, server: &str, client: &mut Client) -> Result<Value> {
    let serving = client.initialize()?;
    let started = daemon.event_of("mcp_server_started", server)?;
    assert_eq!(number(&started, "pid"), u64::from(serving.pid), "{started}");
    let running = format!("/proc/{}/exe", serving.pid);
    assert_eq!(text(&started, "exe_sha256"), sha256(Path::new(&running))?);
    assert_eq!(
        text(&started, "exe"),
        fs::read_link(&running)?.display().to_string()
    );
    assert_eq!(text(&started, "pin"), "pinned", "{started}");
    assert_eq!(text(&started, "action"), "allow");
    assert_eq!(
        number(&started, "launcher_pid"),
        u64::from(client.pid()),
        "{started}"
    );

    let status = client.close()?;
    ensure!(status.success(), "the server ended with {status}");
    let exited = daemon.event_of("mcp_server_exited", server)?;
    assert_eq!(number(&exited, "pid"), u64::from(serving.pid));
    assert_eq!(exited["exit_status"], 0);
    assert!(exited["duration_ms"].is_u64(), "{exited}");
    Ok(started)
}

#[test]
fn npx() -> Result<()> {
    let Some(host) = Host::take(&["node", "npm", "npx"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, POLICY)?;
    let server = NpmServer::install()?;
    let mut command = server.npx();
    command
        .args(["--token", SECRET, "/data"])
        .env("NOTES_TOKEN", SECRET);
    let mut client = Client::start(&mut command)?;
    let started = check(&daemon, &server.name, &mut client)?;

    let names = started["environment"].as_array().context("names")?;
    assert!(names.iter().any(|name| name == "NOTES_TOKEN"), "{started}");
    assert!(!started.to_string().contains(SECRET), "{started}");

    assert_eq!(text(&started, "script"), server.script().display().to_string());
    assert_eq!(text(&started, "script_sha256"), sha256(&server.script())?);
    assert!(text(&started, "package_path").contains(&server.name), "{started}");
    assert!(
        text(&started, "package_sha256").starts_with("sha256:"),
        "{started}"
    );
    let args = started["args"].to_string();
    assert!(args.contains(r#""--token","***","/data""#), "{args}");
    for name in ["mcpmon.db", "mcpmon.db-wal"] {
        let bytes = fs::read(daemon.site.path("store").join(name))?;
        let secret = SECRET.as_bytes();
        assert!(
            !bytes.windows(secret.len()).any(|window| window == secret),
            "{name}"
        );
    }

    let servers = daemon.site.list(&["servers", "--server", &server.name])?;
    let [listed] = &servers[..] else {
        panic!("listed more than once: {servers:?}")
    };
    assert_eq!(text(listed, "status"), "stopped");
    assert_eq!(text(listed, "pin"), "pinned");
    assert_eq!(number(listed, "launches"), 1);
    assert_eq!(listed["package_sha256"], started["package_sha256"]);

    let execs = daemon.site.list(&["execs", "--server", &server.name])?;
    let [exec] = &execs[..] else {
        panic!("listed more than once: {execs:?}")
    };
    assert_eq!(exec["id"], started["id"]);
    assert_eq!(text(exec, "status"), "exited");
    assert_eq!(exec["exit"]["exit_status"], 0);
    drop(daemon);

    let daemon = Daemon::start(&host, POLICY)?;
    let mut command = Command::new("npx");
    command.arg("--prefix").arg(&server.project);
    command.args(["--no-install", &server.name]);
    let from_elsewhere = check(&daemon, &server.name, &mut Client::start(&mut command)?)?;
    assert_eq!(from_elsewhere["script"], started["script"]);
    assert_eq!(from_elsewhere["package_sha256"], started["package_sha256"]);
    Ok(())
}

/// Shells, `env` and other commands in front of the interpreter do not change the server's name.
#[test]
fn python_behind_shells_and_env() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, POLICY)?;
    let lines: [&[&str]; 4] = [
        &["python3", "-m", "@"],
        &["sh", "-c", "python3 -m @"],
        &["sh", "-c", "cd / && exec python3 -u -m @ --verbose"],
        &["env", "E2E_UNUSED=1", "python3", "-m", "@"],
    ];
    for line in lines {
        let server = PythonServer::write(&daemon.site.path("python"))?;
        let words: Vec<String> = line
            .iter()
            .map(|word| word.replace('@', &server.module))
            .collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        server.prepare(&mut command);
        let mut client = Client::start(&mut command)?;
        let started = check(&daemon, &server.id, &mut client).with_context(|| format!("{line:?}"))?;
        let package = server.directory.join(&server.module);
        assert_eq!(text(&started, "package_path"), package.display().to_string());
        assert!(
            text(&started, "package_sha256").starts_with("sha256:"),
            "{started}"
        );
    }
    Ok(())
}

#[test]
fn a_script_by_its_first_line() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, POLICY)?;
    let script = python_script(&daemon.site.path(""))?;
    let name = script
        .file_name()
        .and_then(|name| name.to_str())
        .context("a name")?;
    let started = check(&daemon, name, &mut Client::start(&mut Command::new(&script))?)?;
    assert_eq!(
        text(&started, "script"),
        script.canonicalize()?.display().to_string()
    );
    assert_eq!(text(&started, "script_sha256"), sha256(&script)?);
    Ok(())
}

#[test]
fn a_program_of_its_own() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, POLICY)?;
    let server = ProgramServer::make(&daemon.site.path(""))?;
    let mark = daemon.site.path("mark");
    let started = check(
        &daemon,
        &server.name,
        &mut Client::start(&mut server.command(&mark))?,
    )?;
    assert_eq!(text(&started, "exe_sha256"), sha256(&server.program)?);
    assert_eq!(started.get("script"), None, "{started}");
    Ok(())
}

/// The events tell a server that is killed from one that fails.
#[test]
fn ends_are_told_as_they_were() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, POLICY)?;
    let killed = ProgramServer::make(&daemon.site.path(""))?;
    let mut client = Client::start(&mut killed.command(&daemon.site.path("mark")))?;
    client.initialize()?;
    daemon.event_of("mcp_server_started", &killed.name)?;
    drop(client);
    let exited = daemon.event_of("mcp_server_exited", &killed.name)?;
    assert_eq!(exited["signal"], 9, "{exited}");
    assert_eq!(exited.get("exit_status"), None, "{exited}");

    let failing = PythonServer::write(&daemon.site.path("python"))?;
    let mut client = Client::start(&mut failing.python())?;
    client.initialize()?;
    daemon.event_of("mcp_server_started", &failing.id)?;
    client.send("this is no request")?;
    let status = client.ended()?;
    let exited = daemon.event_of("mcp_server_exited", &failing.id)?;
    assert_eq!(
        exited["exit_status"].as_i64(),
        status.code().map(i64::from),
        "{exited}"
    );
    assert_eq!(exited["exit_status"], 1);
    Ok(())
}

#[test]
fn what_is_no_server_is_not_reported() -> Result<()> {
    let Some(host) = Host::take(&["node", "python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, POLICY)?;
    let server = ProgramServer::make(&daemon.site.path(""))?;
    for line in [
        ["node", "-e", "0"],
        ["python3", "-c", "0"],
        ["ls", "-d", &server.name],
    ] {
        Command::new(line[0]).args(&line[1..]).output()?;
    }
    // Earlier records in the kernel's ring have been judged when this one is.
    let mut client = Client::start(&mut server.command(&daemon.site.path("mark")))?;
    check(&daemon, &server.name, &mut client)?;
    let own = |event: &&Value| ["node", "python3", "ls"].contains(&text(event, "command"));
    assert_eq!(daemon.site.events()?.iter().find(own), None);
    Ok(())
}

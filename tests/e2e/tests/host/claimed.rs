//! A process that a wrapper starts is a server, whatever its name and however soon it ends; and the reason
//! why it was killed is reported.

use std::{
    ffi::OsString,
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{is, number, text},
    network::Listener,
    program,
    servers::{self, ProgramServer, PythonServer, change, sha256},
    site::Site,
    wrapped::Wrapped,
};
use serde_json::Value;
use test_case::test_case;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}"#;

/// Returns a policy in which no pattern matches any process of this test.
fn policy(pinning: &str) -> String {
    format!(
        "version: 1\nmcp:\n  version_pinning: {{{pinning}}}\n  detection: {{server_patterns: [\"nothing-e2e-is-called-so\"]}}\n"
    )
}

/// Writes the Python server under a name that no pattern matches; the name is also its id.
fn nameless_script(site: &Site) -> Result<(PathBuf, String)> {
    let written = servers::python_script(&site.path(""))?;
    let name = format!("plain{}", servers::name().replace("mcp-server-", ""));
    let path = site.path(&format!("{name}.py"));
    fs::rename(written, &path)?;
    Ok((path, name))
}

fn wrap(daemon: &Daemon, words: &[&Path]) -> Result<Command> {
    Ok(daemon.site.wrap(program::path()?, words))
}

#[test]
fn a_server_that_no_pattern_knows_is_known_by_its_wrapper() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let (script, name) = nameless_script(&daemon.site)?;
    let mut client = Client::start(&mut wrap(&daemon, &[Path::new("python3"), &script])?)?;
    let serving = client.initialize()?;

    let started = daemon.event_of("mcp_server_started", &name)?;
    assert_eq!(started["wrapped"], true, "{started}");
    assert_eq!(number(&started, "pid"), u64::from(serving.pid), "{started}");
    assert_eq!(text(&started, "layer"), "kernel", "{started}");
    assert_eq!(text(&started, "pin"), "pinned", "{started}");
    assert_eq!(text(&started, "script_sha256"), sha256(&script)?, "{started}");
    let exe = format!("/proc/{}/exe", serving.pid);
    assert_eq!(text(&started, "exe_sha256"), sha256(exe.as_ref())?);
    let status = daemon.status()?;
    assert_eq!(number(&status["coverage"], "seen"), 1, "{status}");
    assert_eq!(number(&status["coverage"], "wrapped"), 1, "{status}");
    assert_eq!(text(&status["servers"][0], "server_id"), name, "{status}");
    let pins = daemon.site.list(&["pins", "list"])?;
    assert!(pins.iter().any(|pin| text(pin, "server_id") == name), "{pins:?}");

    assert_eq!(client.connect(listener.target())?, "connected");
    let connection = daemon.event_of("mcp_network_connection", &name)?;
    assert_eq!(text(&connection, "remote_addr"), listener.target().to_string());
    client.close()?;
    daemon.event_of("mcp_server_exited", &name)?;
    Ok(())
}

/// A daemon that was not running learns which server a wrapper had started, and finds it.
#[test]
fn a_server_that_was_wrapped_before_the_daemon_came() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: alert"))?;
    let (script, name) = nameless_script(&daemon.site)?;
    let mut client = Client::start(&mut wrap(&daemon, &[Path::new("python3"), &script])?)?;
    let serving = client.initialize()?;
    daemon.start_of(&name, 1)?;
    let daemon = daemon.restart_anew(&host)?;
    let found = daemon.start_of(&name, 2)?;
    assert_eq!(number(&found, "pid"), u64::from(serving.pid), "{found}");
    assert_eq!(found["wrapped"], true, "{found}");
    assert_eq!(text(&found, "pin"), "match", "{found}");
    Ok(())
}

/// The part of the server that is changed.
#[derive(Clone, Copy)]
enum Server {
    Script,
    BelowShell,
    Program,
}

#[test_case(Server::Script; "a script")]
#[test_case(Server::BelowShell; "a script that a shell starts, in its first two seconds")]
#[test_case(Server::Program; "a program, killed by the kernel as well")]
fn the_client_of_a_changed_server_is_answered(server: Server) -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let (words, changed, name): (Vec<OsString>, PathBuf, String) = match server {
        Server::Script => {
            let (script, name) = nameless_script(&daemon.site)?;
            (vec!["python3".into(), script.clone().into()], script, name)
        }
        Server::BelowShell => {
            let (script, _) = nameless_script(&daemon.site)?;
            let line = format!("python3 {}; :", script.display());
            let words = vec!["sh".into(), "-c".into(), line.into()];
            (words, script, "sh".to_owned())
        }
        Server::Program => {
            let server = ProgramServer::make(&daemon.site.path(""))?;
            let command = server.command(Path::new("/dev/null"));
            let words = [command.get_program()].into_iter().chain(command.get_args());
            let words = words.map(ToOwned::to_owned).collect();
            (words, server.program.clone(), server.name)
        }
    };
    let start = || Wrapped::start(&mut daemon.site.wrap(program::path()?, &words));
    let mut first = start()?;
    first.send(INITIALIZE)?;
    assert!(first.line()?.contains("serverInfo"));
    assert_eq!(text(&daemon.start_of(&name, 1)?, "pin"), "pinned");
    first.finish()?;
    change(&changed)?;

    // The second start is compared. If the file is the server's own, the kernel kills every later start.
    for _ in 0..3 {
        let mut refused = start()?;
        refused.send(INITIALIZE)?;
        let answer: Value = serde_json::from_str(&refused.line()?).context("an answer")?;
        assert_eq!(number(&answer, "id"), 1, "{answer}");
        let message = text(&answer["error"], "message");
        assert!(message.contains(&name) && message.contains("changed"), "{answer}");
        // The command that lifts the refusal is meant for a person, so the model does not get it.
        assert!(message.contains("(rule mcp.version_pinning, event "), "{answer}");
        assert!(!message.contains("mcpmon pins trust"), "{answer}");
        let (code, rest, errors) = refused.finish()?;
        assert_eq!((code, rest.as_str()), (1, ""), "{errors}");
        assert!(errors.contains("mcp.version_pinning"), "{errors}");
        assert!(
            errors.contains(&format!("mcpmon pins trust --server {name}")),
            "{errors}"
        );
    }
    daemon.event_of("mcp_server_denied", &name)?;
    let run = daemon.site.ask(&["pins", "trust", "--server", &name])?;
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut trusted = start()?;
    trusted.send(INITIALIZE)?;
    assert!(trusted.line()?.contains("serverInfo"));
    Ok(())
}

/// A server that another process killed ends its wrapper as without a daemon.
#[test]
fn a_server_that_a_person_killed_ends_by_that_signal() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    let (script, _) = nameless_script(&daemon.site)?;
    let mut client = Client::start(&mut wrap(&daemon, &[Path::new("python3"), &script])?)?;
    let serving = client.initialize()?;
    let pid = nix::unistd::Pid::from_raw(serving.pid.cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL)?;
    let ended = client.ended()?;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9));
    Ok(())
}

/// The server ends before anything can examine it, so the files are hashed from which its wrapper started it.
#[test]
fn a_server_that_ends_at_once_is_hashed() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("on_change: block"))?;
    for number in 0..9 {
        let name = format!("blink{number}{}", servers::name().replace("mcp-server-", ""));
        let program = daemon.site.path(&name);
        let interpreter = match number % 3 {
            0 => None,
            1 => Some("/usr/bin/env python3"),
            _ => Some("/bin/sh"),
        };
        let hashed = match interpreter {
            None => {
                program::copy("/bin/true", &program)?;
                "exe_sha256"
            }
            Some(interpreter) => {
                fs::write(&program, format!("#!{interpreter}\n# {name}\n"))?;
                fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
                "script_sha256"
            }
        };
        let status = wrap(&daemon, &[&program])?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        assert!(status.success(), "{status}");
        let started = daemon.event_of("mcp_server_started", &name)?;
        assert_eq!(text(&started, "pin"), "pinned", "{started}");
        assert_eq!(text(&started, hashed), sha256(&program)?, "{started}");
        assert_eq!(started["wrapped"], true, "{started}");
    }
    Ok(())
}

/// Starts a program under this process title, with a pipe as standard input.
fn titled(title: &str) -> Result<Child> {
    Command::new("cat")
        .arg0(title)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cat does not start")
}

#[test]
fn an_install_that_runs_already_is_no_server() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let site = Site::new("version: 1\nmcp: {version_pinning: {on_change: alert}}\n")?;
    let package = servers::name();
    let mut install = titled(&format!("npm i @example/{package}"))?;
    let server = PythonServer::write(&site.path("python"))?;
    let mut client = Client::start(&mut server.python())?;
    client.initialize()?;
    let daemon = Daemon::start_at(&host, site)?;
    // This server was started later, and is therefore judged later.
    daemon.event_of("mcp_server_started", &server.id)?;
    let status = daemon.status()?;
    let running = status["servers"].as_array().context("a list")?;
    let is_install = |server: &Value| text(server, "server_id").contains(&package);
    assert!(!running.iter().any(is_install), "{status}");
    let events = daemon.site.events()?;
    assert!(
        !events
            .iter()
            .any(|event| is(event, "mcp_server_started", &package))
    );
    install.kill()?;
    install.wait()?;
    Ok(())
}

/// Root lacks the right to signal others: the changed server continues to run, and the event says so.
#[test]
fn a_kill_that_fails_is_no_block() -> Result<()> {
    let Some(host) = Host::take(&["setpriv"])? else {
        return Ok(());
    };
    let daemon = Daemon::start_without(
        &host,
        "kill",
        &policy("on_change: block").replace("nothing-e2e-is-called-so", "mcp-server-e2e*"),
    )?;
    let status = daemon.status()?;
    assert_eq!(text(&status, "state"), "degraded", "{status}");
    assert!(
        text(&status["degraded"], "exec gate").contains("CAP_KILL"),
        "{status}"
    );

    let server = ProgramServer::make(&daemon.site.path(""))?;
    let start = || {
        let command = server.command(Path::new("/dev/null"));
        let mut member = Command::new("setpriv");
        member.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        member.arg(command.get_program()).args(command.get_args());
        Client::start(&mut member)
    };
    let mut first = start()?;
    first.initialize()?;
    assert_eq!(text(&daemon.start_of(&server.name, 1)?, "pin"), "pinned");
    first.close()?;
    server.change()?;

    let mut second = start()?;
    let serving = second.initialize()?;
    let denied = daemon.event_of("mcp_server_denied", &server.name)?;
    assert_eq!(text(&denied, "action"), "audit", "{denied}");
    assert_eq!(text(&denied, "severity"), "critical", "{denied}");
    assert!(text(&denied, "reason").contains("runs on"), "{denied}");
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", &server.name)?;
    assert_eq!(text(&mismatch, "action"), "audit", "{mismatch}");
    let lost = daemon.event("that it could not be killed", |event| {
        text(event, "type") == "mcp_enforcement_degraded" && text(event, "component") == "server kills"
    })?;
    assert_eq!(text(&lost, "severity"), "high", "{lost}");
    assert!(text(&lost, "cause").contains("Operation not permitted"), "{lost}");
    let events = daemon.site.events()?;
    let blocks = events.iter().filter(|event| text(event, "action") == "block");
    assert_eq!(blocks.count(), 0, "nothing was blocked: {events:?}");
    assert!(Path::new(&format!("/proc/{}", serving.pid)).exists());
    assert_eq!(daemon.site.ask(&["status"])?.code, Some(1));
    Ok(())
}

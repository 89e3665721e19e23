//! Pinned servers are stopped in the kernel before their first instruction, until they are compared.

use std::{
    fs,
    io::{ErrorKind, Read as _},
    net::UdpSocket,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::{is, number, text},
    program,
    servers::{self, NativeServer, change},
    wait,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const STARTS: usize = 60;
const SWAPS: usize = 3;

fn policy() -> String {
    let own = std::process::id();
    format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: block}}\n  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\"]}}\n"
    )
}

/// The receiver of the servers' datagrams.
struct Mailbox(UdpSocket);

impl Mailbox {
    fn open() -> Result<Self> {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    fn port(&self) -> Result<u16> {
        Ok(self.0.local_addr()?.port())
    }

    /// Returns the number of datagrams that came since the last call.
    fn empty(&self) -> Result<usize> {
        let mut came = 0;
        loop {
            match self.0.recv(&mut [0; 16]) {
                Ok(_) => came += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(came),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Pins the server at its first start.
fn pin(daemon: &Daemon, server: &NativeServer, mailbox: &Mailbox) -> Result<()> {
    let mut first = server.start(mailbox.port()?)?;
    let started = daemon.start_of(&server.name, 1)?;
    assert_eq!(text(&started, "pin"), "pinned", "{started}");
    assert_eq!(finish(&mut first)?, ("ran".to_owned(), None));
    assert_eq!(mailbox.empty()?, 1);
    Ok(())
}

/// Closes the server's input and waits for its end. Returns its output, and the signal that ended it.
fn finish(server: &mut Child) -> Result<(String, Option<i32>)> {
    drop(server.stdin.take());
    outcome(server)
}

fn outcome(server: &mut Child) -> Result<(String, Option<i32>)> {
    let mut output = String::new();
    let mut stdout = server.stdout.take().context("a pipe")?;
    stdout.read_to_string(&mut output)?;
    Ok((output, server.wait()?.signal()))
}

/// Waits until the daemon knows the server and holds it stopped.
fn until_held(daemon: &Daemon, server: &NativeServer, process: &Child) -> Result<()> {
    wait::until("the server to be held", || {
        let status = daemon.status()?;
        let servers = status["servers"].as_array().map_or(&[][..], Vec::as_slice);
        let is_known = servers
            .iter()
            .any(|known| text(known, "server_id") == server.name);
        Ok((is_known && is_stopped(process)?).then_some(()))
    })
}

/// Each start has another change, so that the kernel refuses none because of an earlier comparison.
#[test]
fn a_changed_native_server_runs_nothing() -> Result<()> {
    let Some(host) = Host::take(&["cc"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = NativeServer::compile(&daemon.site.path(""))?;
    let mailbox = Mailbox::open()?;
    pin(&daemon, &server, &mailbox)?;
    for number in 2..5 {
        let mut unchanged = server.start(mailbox.port()?)?;
        let started = daemon.start_of(&server.name, number)?;
        assert_eq!(text(&started, "pin"), "match", "{started}");
        assert_eq!(finish(&mut unchanged)?, ("ran".to_owned(), None));
    }
    assert_eq!(mailbox.empty()?, 3);

    let mut ran = 0;
    for _ in 0..STARTS {
        change(&server.program)?;
        let (output, signal) = outcome(&mut server.start(mailbox.port()?)?)?;
        assert_eq!(signal, Some(9));
        ran += usize::from(!output.is_empty());
    }
    assert_eq!((ran, mailbox.empty()?), (0, 0), "of {STARTS} starts");
    let held = number(&daemon.status()?["counters"], "exec_held");
    assert!(held >= u64::try_from(STARTS)?, "{held}");
    Ok(())
}

#[test]
fn a_server_that_somebody_resumes_is_killed() -> Result<()> {
    let Some(host) = Host::take(&["cc"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = NativeServer::compile(&daemon.site.path(""))?;
    let mailbox = Mailbox::open()?;
    pin(&daemon, &server, &mailbox)?;
    server.inflate()?;
    let mut changed = server.start(mailbox.port()?)?;
    until_held(&daemon, &server, &changed)?;
    kill(Pid::from_raw(changed.id().cast_signed()), Signal::SIGCONT)?;
    let (_, signal) = outcome(&mut changed)?;
    assert_eq!(signal, Some(9));
    assert_eq!(mailbox.empty()?, 0, "nothing leaves it");
    let denied = daemon.event_of("mcp_server_denied", &server.name)?;
    let reason = text(&denied, "reason");
    let own = format!("process {} ", std::process::id());
    assert!(reason.contains("SIGCONT") && reason.contains(&own), "{denied}");
    assert_eq!(text(&denied, "action"), "block", "{denied}");
    Ok(())
}

/// A server that is held cannot escape when the daemon ends.
#[test]
fn a_server_that_is_held_when_the_daemon_ends_is_killed() -> Result<()> {
    let Some(host) = Host::take(&["cc"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = NativeServer::compile(&daemon.site.path(""))?;
    let mailbox = Mailbox::open()?;
    pin(&daemon, &server, &mailbox)?;
    server.inflate()?;
    let mut changed = server.start(mailbox.port()?)?;
    until_held(&daemon, &server, &changed)?;
    let (site, status) = daemon.end()?;
    assert!(status.success(), "{status}");
    assert_eq!(outcome(&mut changed)?, (String::new(), Some(9)));
    assert_eq!(mailbox.empty()?, 0);
    let events = site.events()?;
    let denied = events
        .iter()
        .find(|event| is(event, "mcp_server_denied", &server.name))
        .context("it is told")?;
    assert_eq!(text(denied, "action"), "block", "{denied}");
    Ok(())
}

/// A daemon that is killed leaves nothing stopped, and nothing is stopped for it any more.
#[test]
fn a_server_that_is_held_when_the_daemon_is_killed_is_killed() -> Result<()> {
    let Some(host) = Host::take(&["cc"])? else {
        return Ok(());
    };
    let mut daemon = Daemon::start(&host, &policy())?;
    let server = NativeServer::compile(&daemon.site.path(""))?;
    let mailbox = Mailbox::open()?;
    pin(&daemon, &server, &mailbox)?;
    server.inflate()?;
    let mut changed = server.start(mailbox.port()?)?;
    until_held(&daemon, &server, &changed)?;
    daemon.signal(Signal::SIGKILL)?;
    daemon.ended()?;
    assert_eq!(outcome(&mut changed)?, (String::new(), Some(9)));
    assert_eq!(mailbox.empty()?, 0);

    let mut unwatched = server.start(mailbox.port()?)?;
    assert_eq!(finish(&mut unwatched)?, ("ran".to_owned(), None));
    Ok(())
}

/// The daemon and its helper process are both killed: a held server stays stopped until all programs are detached,
/// which resumes it.
#[test]
fn a_server_that_is_held_when_nobody_lives_goes_on_at_detach() -> Result<()> {
    let Some(host) = Host::take(&["cc"])? else {
        return Ok(());
    };
    let mut daemon = Daemon::start(&host, &policy())?;
    let server = NativeServer::compile(&daemon.site.path(""))?;
    let mailbox = Mailbox::open()?;
    pin(&daemon, &server, &mailbox)?;
    server.inflate()?;
    let mut held = server.start(mailbox.port()?)?;
    until_held(&daemon, &server, &held)?;
    // The helper must not act between the ends of the two.
    daemon.signal(Signal::SIGSTOP)?;
    kill(releaser(&daemon)?, Signal::SIGKILL)?;
    daemon.signal(Signal::SIGKILL)?;
    daemon.ended()?;
    let site = daemon.into_site();
    assert!(is_stopped(&held)?, "somebody let it go");

    let directory = site.bpffs().display().to_string();
    let detached = program::run(["detach", "--bpffs", &directory])?;
    assert_eq!(detached.code, Some(0), "{detached:?}");
    assert!(!detached.stdout.contains("may still be stopped"), "{detached:?}");
    assert!(!site.bpffs().exists(), "it is still there");
    assert_eq!(finish(&mut held)?, ("ran".to_owned(), None));
    assert_eq!(mailbox.empty()?, 1);
    Ok(())
}

/// Returns the daemon's helper process.
fn releaser(daemon: &Daemon) -> Result<Pid> {
    let of_daemon = format!("PPid:\t{}\n", daemon.pid());
    let read = |pid: &str, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let is_releaser = |pid: &String| {
        read(pid, "cmdline").contains("release-held") && read(pid, "status").contains(&of_daemon)
    };
    let processes = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pid = processes
        .filter(|name| name.parse::<u32>().is_ok())
        .find(is_releaser);
    Ok(Pid::from_raw(
        pid.context("no process beside the daemon")?.parse()?,
    ))
}

fn is_stopped(process: &Child) -> Result<bool> {
    Ok(fs::read_to_string(format!("/proc/{}/stat", process.id()))?.contains(") T "))
}

#[test]
fn a_daemon_that_hangs_holds_nothing_for_long() -> Result<()> {
    let Some(host) = Host::take(&["cc"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = NativeServer::compile(&daemon.site.path(""))?;
    let mailbox = Mailbox::open()?;
    pin(&daemon, &server, &mailbox)?;
    server.inflate()?;
    let mut changed = server.start(mailbox.port()?)?;
    until_held(&daemon, &server, &changed)?;
    daemon.signal(Signal::SIGSTOP)?;
    let ended = outcome(&mut changed);
    daemon.signal(Signal::SIGCONT)?;
    assert_eq!(ended?, (String::new(), Some(9)));
    assert_eq!(mailbox.empty()?, 0);
    Ok(())
}

/// A script equals its pin when it is compared, and is replaced just afterwards.
#[test]
fn a_script_that_is_swapped_after_its_hash_does_not_run_for_long() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    for _ in 0..SWAPS {
        let script = servers::python_script(&daemon.site.path(""))?;
        let name = script
            .file_name()
            .and_then(|name| name.to_str())
            .context("a name")?;
        let mut first = start(&script)?;
        daemon.start_of(name, 1)?;
        assert_eq!(finish(&mut first)?.1, None);

        let other = script.with_extension("other");
        fs::copy(&script, &other)?;
        fs::write(
            &other,
            "#!/usr/bin/env python3\nimport sys\nprint('ran', flush=True)\nsys.stdin.read()\n",
        )?;
        let mut swapped = start(&script)?;
        let compared = daemon.start_of(name, 2)?;
        assert_eq!(text(&compared, "pin"), "match", "{compared}");
        fs::rename(&other, &script)?;
        let (output, signal) = outcome(&mut swapped)?;
        assert_eq!(signal, Some(9), "{output}");
        let denied = daemon.event_of("mcp_server_denied", name)?;
        assert!(
            text(&denied, "reason").contains("was replaced or written while the server started"),
            "{denied}"
        );
    }
    Ok(())
}

fn start(script: &Path) -> Result<Child> {
    let mut command = Command::new("python3");
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().context("it does not start")
}

//! The self-test detects lost enforcement, and servers that were started before the daemon are found.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{is, number, text},
    kernel::{CgroupHook, StoppedThread, detach_cgroup_program, detach_cgroup_programs},
    network::{Attempt, Listener, connect},
    servers::{PythonServer, sha256},
    site::Site,
    wait,
};
use nix::sys::signal::Signal;
use test_case::test_case;

/// The longest time until a detached program is attached again (SECURITY.md).
const MENDED_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn lost_enforcement_is_mended_and_told() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let policy = format!(
        "version: 1\nnetwork: {{deny: [{{name: lost-e2e, cidrs: [\"{}\"]}}]}}\n",
        listener.ip()
    );
    let daemon = Daemon::start(&host, &policy)?;
    let healthy = daemon.site.ask(&["doctor", "--json"])?;
    assert_eq!(healthy.code, Some(0), "{healthy:?}");
    assert_eq!(daemon.site.ask(&["status"])?.code, Some(0));

    // Four programs for calls, two for reserved addresses, one for new sockets, one for closed ones, one for packets.
    assert_eq!(detach_cgroup_programs(daemon.pid())?, 9);
    let detached = Instant::now();
    wait::until("the enforcement", || {
        Ok((connect(listener.target())? == Attempt::Refused).then_some(()))
    })?;
    assert!(detached.elapsed() < MENDED_WITHIN, "{:?}", detached.elapsed());
    for program in [
        "connect4",
        "connect6",
        "sendmsg4",
        "sendmsg6",
        "bind4",
        "bind6",
        "sock_create",
        "sock_release",
        "egress",
    ] {
        for kind in ["mcp_enforcement_degraded", "mcp_enforcement_restored"] {
            daemon.event(program, |event| {
                text(event, "type") == kind
                    && text(event, "component") == "kernel links"
                    && text(event, "cause") == format!("another process detached the program `{program}`")
            })?;
        }
    }
    wait::until("a state that is enforced", || {
        Ok((text(&daemon.status()?, "state") == "enforcing").then_some(()))
    })?;

    // A link that is attached again is pinned in the kernel like the first one.
    let set = fs::read_dir(daemon.site.bpffs())?
        .next()
        .context("a set of pins")??;
    fs::remove_file(set.path().join("link_connect4"))?;
    daemon.event("the link that was not kept", |event| {
        text(event, "cause") == "another process removed `connect4` from where it is kept"
    })?;
    let (_site, status) = daemon.end()?;
    assert!(status.success());
    assert_eq!(connect(listener.target())?, Attempt::Refused);
    Ok(())
}

/// No self-test is requested, and the other programs refuse as before.
#[test_case(CgroupHook::Egress, "egress"; "packets")]
#[test_case(CgroupHook::SocketCreate, "sock_create"; "new sockets")]
#[test_case(CgroupHook::Connect6, "connect6"; "connections over IPv6")]
fn one_program_that_is_detached_is_attached_again(hook: CgroupHook, program: &str) -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let policy = format!(
        "version: 1\nnetwork: {{deny: [{{name: hook-e2e, cidrs: [\"{}\"]}}]}}\n",
        listener.ip()
    );
    let daemon = Daemon::start(&host, &policy)?;
    assert_eq!(daemon.site.ask(&["status"])?.code, Some(0), "{}", daemon.log());

    detach_cgroup_program(daemon.pid(), hook)?;
    let detached = Instant::now();
    let degraded = daemon.event("the lost program", |event| {
        text(event, "type") == "mcp_enforcement_degraded" && text(event, "component") == "kernel links"
    })?;
    assert_eq!(text(&degraded, "severity"), "high");
    let named = format!("another process detached the program `{program}`");
    assert_eq!(text(&degraded, "cause"), named, "{degraded}");
    let restored = daemon.event("that it is attached again", |event| {
        text(event, "type") == "mcp_enforcement_restored" && text(event, "component") == "kernel links"
    })?;
    assert_eq!(text(&restored, "cause"), named, "{restored}");
    assert!(detached.elapsed() < MENDED_WITHIN, "{:?}", detached.elapsed());
    assert_eq!(connect(listener.target())?, Attempt::Refused);
    let doctor = daemon.site.ask(&["doctor"])?;
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    Ok(())
}

/// A thread that hangs stops neither the daemon's answers nor its end.
#[test]
fn a_stuck_engine_is_told() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let policy = format!(
        "version: 1\nnetwork: {{deny: [{{name: stuck-e2e, cidrs: [\"{}\"]}}]}}\n",
        listener.ip()
    );
    let mut daemon = Daemon::start(&host, &policy)?;
    let stopped = StoppedThread::stop(daemon.pid(), "engine")?;
    assert_eq!(
        connect(listener.target())?,
        Attempt::Refused,
        "the kernel needs nobody"
    );
    let broken = daemon.site.ask(&["doctor"])?;
    assert_eq!(broken.code, Some(3), "{broken:?}");
    assert!(broken.stdout.contains("has ended or is stuck"), "{broken:?}");
    let status = daemon.site.ask(&["status"])?;
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(
        status.stderr.contains("the engine thread does not answer"),
        "{status:?}"
    );
    for component in ["network gate", "exec sensor"] {
        daemon.event(component, |event| {
            text(event, "type") == "mcp_enforcement_degraded" && text(event, "component") == component
        })?;
    }

    drop(stopped);
    let recovered = daemon.site.ask(&["doctor"])?;
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    daemon.event("that it works again", |event| {
        text(event, "type") == "mcp_enforcement_restored" && text(event, "component") == "network gate"
    })?;
    // Addresses of names that arrived while the thread was stopped are installed a little later.
    wait::until("a state that is enforced", || {
        Ok((daemon.site.ask(&["status"])?.code == Some(0)).then_some(()))
    })?;

    let stopped = StoppedThread::stop(daemon.pid(), "engine")?;
    daemon.signal(Signal::SIGTERM)?;
    stopped.ended()?;
    assert_eq!(daemon.ended()?.code(), Some(0));
    Ok(())
}

/// A server that was started before the daemon is treated as if the daemon had been there.
#[test]
fn servers_that_already_run_are_found() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let site = Site::new("version: 1\nmcp: {version_pinning: {on_change: alert}}\n")?;
    let server = PythonServer::write(&site.path("python"))?;
    let mut client = Client::start(&mut server.python())?;
    let serving = client.initialize()?;

    let daemon = Daemon::start_at(&host, site)?;
    let started = daemon.event_of("mcp_server_started", &server.id)?;
    assert_eq!(number(&started, "pid"), u64::from(serving.pid));
    let exe = format!("/proc/{}/exe", serving.pid);
    assert_eq!(text(&started, "exe_sha256"), sha256(exe.as_ref())?);
    assert_eq!(text(&started, "pin"), "pinned");

    assert_eq!(client.connect(listener.target())?, "connected");
    let connection = daemon.event("its connection", |event| {
        is(event, "mcp_network_connection", &server.id)
    })?;
    assert_eq!(text(&connection, "direction"), "server_egress");
    assert_eq!(text(&connection, "remote_addr"), listener.target().to_string());
    client.close()?;
    let exited = daemon.event_of("mcp_server_exited", &server.id)?;
    assert_eq!(number(&exited, "pid"), u64::from(serving.pid));
    Ok(())
}

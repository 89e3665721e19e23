//! Policy changes while a daemon runs, and the daemon's end.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::Result;
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::text,
    network::{Attempt, Listener, connect},
    wait,
};
use nix::sys::signal::Signal;

fn deny(listeners: &[&Listener]) -> String {
    let addresses: Vec<String> = listeners
        .iter()
        .map(|listener| listener.ip().to_string())
        .collect();
    format!(
        "version: 1\nnetwork: {{deny: [{{name: reload-e2e, cidrs: [{}]}}]}}\n",
        addresses.join(", ")
    )
}

/// The daemon watches the file itself, without a signal.
#[test]
fn a_changed_file_takes_effect_by_itself() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let [first, second] = [Listener::open()?, Listener::open()?];
    let daemon = Daemon::start(&host, &deny(&[&first]))?;
    assert_eq!(connect(second.target())?, Attempt::Connected);
    daemon.site.write_policy(&deny(&[&first, &second]))?;
    wait::until("the new policy", || {
        Ok((connect(second.target())? == Attempt::Refused).then_some(()))
    })?;
    daemon.event("two policies", |event| {
        text(event, "type") == "policy_loaded" && text(event, "hash") == daemon_hash(&daemon)
    })?;
    Ok(())
}

fn daemon_hash(daemon: &Daemon) -> String {
    let status = daemon.status().unwrap_or_default();
    text(&status["policy"], "hash").to_owned()
}

/// An address is refused at every moment, while policies are replaced and while an invalid one is refused.
#[test]
fn no_moment_without_policy() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let [always, sometimes] = [Listener::open()?, Listener::open()?];
    let daemon = Daemon::start(&host, &deny(&[&always]))?;
    let (done, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let hammer = scope.spawn(|| -> Result<()> {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(connect(always.target())?, Attempt::Refused);
                refused.fetch_add(1, Ordering::Relaxed);
                // A pause, so that every event is kept.
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        // A failed check must end the other thread as well, because the scope would wait for it for ever.
        let reloads = catch_unwind(AssertUnwindSafe(|| reload_often(&daemon, &always, &sometimes)));
        done.store(true, Ordering::Relaxed);
        let reloads = reloads.unwrap_or_else(|panic| resume_unwind(panic));
        let hammered = hammer.join().expect("every attempt was refused");
        reloads.and(hammered)
    })?;
    assert!(refused.load(Ordering::Relaxed) > 100, "{refused:?} attempts only");
    Ok(())
}

fn reload_often(daemon: &Daemon, always: &Listener, sometimes: &Listener) -> Result<()> {
    for _ in 0..5 {
        daemon.adopt(&deny(&[sometimes, always]))?;
        daemon.adopt(&deny(&[always]))?;
    }
    daemon
        .site
        .write_policy("version: 1\nnetwork: {deny: 7}\nnetwrok: {}\n")?;
    daemon.signal(Signal::SIGHUP)?;
    let rejected = daemon.event("policy_rejected", |event| {
        text(event, "type") == "policy_rejected"
    })?;
    assert!(rejected["errors"].to_string().contains("netwrok"), "{rejected}");
    assert_eq!(text(&rejected, "severity"), "high");

    let shown = daemon.site.ask(&["status"])?;
    assert_eq!(
        shown.code,
        Some(1),
        "a refused policy is no good state: {shown:?}"
    );
    assert!(shown.stdout.contains("netwrok"), "{}", shown.stdout);
    let status = daemon.status()?;
    assert_eq!(text(&status, "state"), "degraded");
    assert_eq!(
        status["policy"]["rejected"].as_array().map(Vec::len),
        Some(2),
        "{status}"
    );

    daemon.adopt(&deny(&[always, sometimes]))?;
    let status = daemon.status()?;
    assert_eq!(text(&status, "state"), "enforcing");
    Ok(())
}

#[test]
fn an_end_by_signal_leaves_the_kernel_enforcing_until_it_is_told_otherwise() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let daemon = Daemon::start(&host, &deny(&[&listener]))?;
    assert_eq!(connect(listener.target())?, Attempt::Refused);
    let bpffs = daemon.site.bpffs().display().to_string();
    let detach = || mcpmon_e2e::program::run(["detach", "--bpffs", &bpffs]);
    let under_its_hands = detach()?;
    assert_eq!(under_its_hands.code, Some(1), "{under_its_hands:?}");
    assert!(
        under_its_hands.stderr.contains("a daemon runs"),
        "{under_its_hands:?}"
    );

    let (site, status) = daemon.end()?;
    assert_eq!(status.code(), Some(0));
    assert!(!site.socket().exists());
    assert_eq!(connect(listener.target())?, Attempt::Refused);
    let shown = site.ask(&["status", "--bpffs", &bpffs])?;
    assert_eq!(shown.code, Some(3), "{shown:?}");
    for told in [
        "13 programs of mcpmon",
        "since 20",
        "self-test's address is refused",
    ] {
        assert!(shown.stdout.contains(told), "{shown:?}");
    }
    let shown = site.ask(&["status", "--bpffs", &bpffs, "--json"])?;
    let objects = shown.objects()?;
    assert_eq!(objects[0]["refusing"], true, "{shown:?}");
    let examined = site.ask(&["doctor", "--bpffs", &bpffs])?;
    assert!(
        examined.stdout.contains("ok        kernel state: 13 programs"),
        "{examined:?}"
    );

    let removed = detach()?;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(
        removed.stdout.contains("nothing is refused any more"),
        "{removed:?}"
    );
    assert_eq!(connect(listener.target())?, Attempt::Connected);
    assert!(detach()?.stdout.contains("nothing is kept"));

    let refusal = site.list(&["connections", "--action", "block"])?;
    let target = listener.target().to_string();
    assert!(
        refusal.iter().any(|event| text(event, "remote_addr") == target),
        "what was queued is written: {refusal:?}"
    );
    Ok(())
}

/// In observe mode everything is reported, and nothing is refused or stopped.
#[test]
fn observing_lets_everything_pass() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let daemon = Daemon::start(&host, &format!("mode: observe\n{}", deny(&[&listener])))?;
    assert_eq!(text(&daemon.status()?, "state"), "observing");
    assert_eq!(connect(listener.target())?, Attempt::Connected);
    let event = daemon.event("a connection", |event| {
        text(event, "remote_addr") == listener.target().to_string()
    })?;
    assert_eq!(text(&event, "action"), "would_block");
    assert_eq!(text(&event, "rule"), "reload-e2e");

    let server = mcpmon_e2e::servers::ProgramServer::make(&daemon.site.path(""))?;
    let mark = daemon.site.path("mark");
    let serve = |number| -> Result<_> {
        let mut client = mcpmon_e2e::client::Client::start(&mut server.command(&mark))?;
        client.initialize()?;
        let started = daemon.start_of(&server.name, number)?;
        assert!(client.close()?.success());
        Ok(started)
    };
    serve(1)?;
    server.change()?;
    let started = serve(2)?;
    assert_eq!(text(&started, "pin"), "mismatch");
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", &server.name)?;
    assert_eq!(text(&mismatch, "action"), "would_block");
    Ok(())
}

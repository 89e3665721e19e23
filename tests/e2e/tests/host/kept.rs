//! Enforcement that stays in the kernel while no daemon runs, and that the next daemon takes over.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{is, number, text},
    network::{Attempt, Listener, connect},
    program,
    servers::{self, ProgramServer},
    site::Site,
    wait,
};
use nix::sys::signal::Signal;

fn deny(listener: &Listener) -> String {
    format!(
        "version: 1\nnetwork: {{deny: [{{name: kept-e2e, cidrs: [\"{}\"]}}]}}\n",
        listener.ip()
    )
}

/// Ends a daemon as a crash does, and returns its files.
fn crash(mut daemon: Daemon) -> Result<Site> {
    daemon.signal(Signal::SIGKILL)?;
    daemon.ended()?;
    Ok(daemon.into_site())
}

#[test]
fn a_refused_address_is_refused_through_a_crash_and_a_restart() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let daemon = Daemon::start(&host, &deny(&listener))?;
    let (ended, attempts, reached) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let daemon = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                // A pause, so that the ring of records does not fill up.
                thread::sleep(Duration::from_millis(1));
                attempts.fetch_add(1, Ordering::Relaxed);
                if connect(listener.target()).ok() != Some(Attempt::Refused) {
                    reached.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let restarted = (|| {
            let site = crash(daemon)?;
            let so_far = attempts.load(Ordering::Relaxed);
            wait::until("attempts without a daemon", || {
                Ok((attempts.load(Ordering::Relaxed) > so_far + 100).then_some(()))
            })?;
            Daemon::start_at(&host, site)
        })();
        ended.store(true, Ordering::Relaxed);
        restarted
    })?;
    let (attempts, reached) = (attempts.into_inner(), reached.into_inner());
    assert_eq!(reached, 0, "of {attempts}");

    let gap = daemon.event("the time without a daemon", |event| {
        text(event, "type") == "mcp_daemon_gap"
    })?;
    assert_eq!(gap["stopped"], false, "{gap}");
    assert!(number(&gap, "refused") >= 100, "{gap}");
    assert_eq!(number(&gap, "missing"), 0, "{gap}");
    let refused = wait::until("every attempt", || {
        let events = daemon.site.list(&["connections", "--limit", "100000"])?;
        let of_rule = events.iter().filter(|event| text(event, "rule") == "kept-e2e");
        let told: u64 = of_rule.map(|event| event["count"].as_u64().unwrap_or(1)).sum();
        Ok((told >= attempts).then_some(told))
    })?;
    assert_eq!(refused, attempts, "each is told once");
    assert_eq!(text(&daemon.status()?, "state"), "enforcing");
    assert_eq!(number(&daemon.status()?, "missing_records"), 0);
    Ok(())
}

#[test]
fn a_stop_leaves_everything_in_force() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let daemon = Daemon::start(&host, &deny(&listener))?;
    let (site, status) = daemon.end()?;
    assert!(status.success());
    assert_eq!(connect(listener.target())?, Attempt::Refused);
    let log = fs::read_to_string(site.path("daemon.log"))?;
    assert!(log.contains("the kernel goes on refusing"), "{log}");

    let daemon = Daemon::start_at(&host, site)?;
    let gap = daemon.event("the time without a daemon", |event| {
        text(event, "type") == "mcp_daemon_gap"
    })?;
    assert_eq!(
        (&gap["stopped"], text(&gap, "severity")),
        (&true.into(), "info"),
        "{gap}"
    );
    Ok(())
}

#[test]
fn a_changed_program_is_killed_without_a_daemon() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, "version: 1\n")?;
    let server = ProgramServer::make(&daemon.site.path(""))?;
    let mark = daemon.site.path("mark");
    let mut client = Client::start(&mut server.command(&mark))?;
    client.initialize()?;
    daemon.start_of(&server.name, 1)?;
    assert!(client.close()?.success());
    server.change()?;
    let mut refused = server.command(&mark).stdin(Stdio::piped()).spawn()?;
    // While its input is open, only a kill ends it.
    let input = refused.stdin.take();
    let status = refused.wait()?;
    drop(input);
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "{status}");
    daemon.event_of("mcp_server_binary_mismatch", &server.name)?;
    wait::until("the file is refused", || {
        let status = server.command(&mark).stdin(Stdio::null()).status()?;
        let killed = daemon.status()?["counters"]["exec_killed"].as_u64();
        Ok((!status.success() && killed > Some(0)).then_some(()))
    })?;

    let site = crash(daemon)?;
    fs::remove_file(&mark).ok();
    for _ in 0..20 {
        let status = server.command(&mark).stdin(Stdio::null()).status()?;
        assert!(!status.success(), "{status}");
    }
    assert!(!mark.exists(), "it ran");
    let daemon = Daemon::start_at(&host, site)?;
    let gap = daemon.event("the time without a daemon", |event| {
        text(event, "type") == "mcp_daemon_gap"
    })?;
    assert!(number(&gap, "killed") >= 20, "{gap}");
    let status = server.command(&mark).stdin(Stdio::null()).status()?;
    assert!(!status.success(), "{status}");

    // A server that is trusted again runs, even if it was refused by an earlier daemon.
    let trusted = daemon.site.ask(&["pins", "reset", "--server", &server.name])?;
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let mut client = Client::start(&mut server.command(&mark))?;
    client.initialize()?;
    assert!(client.close()?.success());
    Ok(())
}

/// A process whose server has ended stays bound by the server's list, and so do the processes that it starts.
#[test]
fn members_of_a_server_stay_members() -> Result<()> {
    let Some(host) = Host::take(&["bash", "setsid"])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let name = servers::name();
    let policy = format!(
        "version: 1\nmcp:\n  servers:\n    - {{id: {name}, command: {name}, egress: {{default: deny}}}}\n"
    );
    let daemon = Daemon::start(&host, &policy)?;
    let shell = daemon.site.path(&name);
    program::copy(fs::canonicalize("/bin/bash")?, &shell)?;
    let (asked, said) = (daemon.site.path("asked"), daemon.site.path("said"));
    // The server's child outlives it, waits for the file, and tries to connect, first itself and then through a
    // program.
    let orphan = format!(
        "for _ in $(seq 600); do test -e {asked} && break; sleep 0.1; done; \
         {{ ({connect}) 2>/dev/null && echo reached || echo refused; \
         bash -c '{connect}' 2>/dev/null && echo reached || echo refused; }} > {said}.new; mv {said}.new {said}",
        asked = asked.display(),
        said = said.display(),
        connect = listener.bash(),
    );
    let script = daemon.site.path("orphan.sh");
    fs::write(&script, orphan)?;
    let status = Command::new(&shell)
        .arg("-c")
        .arg(format!(
            "setsid bash {} </dev/null >/dev/null 2>&1 & exit 0",
            script.display()
        ))
        .stdin(Stdio::null())
        .status()?;
    assert!(status.success(), "{status}");
    wait::until("the server's process", || {
        let servers = daemon.status()?["servers"].to_string();
        Ok(servers.contains(&name).then_some(()))
    })?;

    let site = crash(daemon)?;
    let daemon = Daemon::start_at(&host, site)?;
    let servers = daemon.status()?["servers"].to_string();
    assert!(servers.contains(&name), "{servers}");
    fs::write(&asked, "")?;
    let result = wait::until("what the orphan says", || Ok(fs::read_to_string(&said).ok()))?;
    assert_eq!(result, "refused\nrefused\n");
    let event = daemon.event("its connection", |event| {
        text(event, "remote_addr") == listener.target().to_string()
    })?;
    assert_eq!(
        (text(&event, "server_id"), text(&event, "action")),
        (&*name, "block"),
        "{event}"
    );
    Ok(())
}

/// A function that prepares a daemon's directory in an unusual way.
type Prepare = fn(&Site) -> Result<()>;

#[test]
fn a_directory_of_others_is_not_used() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let prepare: [(&str, Prepare); 2] = [
        ("belongs to user 65534", |site| {
            fs::create_dir(site.bpffs())?;
            Ok(std::os::unix::fs::chown(site.bpffs(), Some(65534), None)?)
        }),
        ("a link", |site| {
            fs::create_dir(site.path("bpf/elsewhere"))?;
            Ok(std::os::unix::fs::symlink(
                site.path("bpf/elsewhere"),
                site.bpffs(),
            )?)
        }),
    ];
    for (fault, prepare) in prepare {
        let site = Site::new(&deny(&listener))?;
        site.mount_bpffs()?;
        prepare(&site)?;
        let daemon = Daemon::start_at(&host, site)?;
        let degraded = daemon.event("the degradation", |event| {
            text(event, "type") == "mcp_enforcement_degraded" && text(event, "component") == "kernel state"
        })?;
        assert!(text(&degraded, "cause").contains(fault), "{degraded}");
        assert_eq!(connect(listener.target())?, Attempt::Refused);
        let site = crash(daemon)?;
        wait::until("the end of the enforcement", || {
            Ok((connect(listener.target())? == Attempt::Connected).then_some(()))
        })?;
        drop(site);
    }
    Ok(())
}

/// Two daemons would undo each other's work.
#[test]
fn a_second_daemon_on_the_directory_is_refused() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, "version: 1\n")?;
    let other = Site::new("version: 1\n")?;
    let mut arguments = other.daemon_arguments();
    let directory = arguments.last_mut().context("an argument")?;
    *directory = daemon.site.bpffs().into();
    let refused = program::run(arguments)?;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.stderr.contains("another daemon keeps its state"),
        "{refused:?}"
    );
    assert!(
        !daemon
            .site
            .events()?
            .iter()
            .any(|event| is(event, "mcp_daemon_gap", ""))
    );
    Ok(())
}

/// Tries to listen at an address, as `squat.py ADDRESS PORT ATTEMPTS`; prints the errors, each once.
const SQUATTER: &str = r#"
import errno, socket, sys
errors = set()
for _ in range(int(sys.argv[3])):
    listener = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((sys.argv[1], int(sys.argv[2])))
        listener.listen()
        errors.add("listens")
    except OSError as error:
        errors.add(errno.errorcode[error.errno])
    listener.close()
print(*sorted(errors))
"#;

/// Clients send their keys to whoever listens at the address that they are set to.
#[test]
fn no_other_user_takes_the_proxys_port_while_the_daemon_is_away() -> Result<()> {
    let Some(host) = Host::take(&["python3", "setpriv"])? else {
        return Ok(());
    };
    // Ports that the kernel chooses itself cannot be reserved.
    let free = (18_484..18_584).find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    let listen = free.context("a free port")?.local_addr()?;
    let port = listen.port().to_string();
    let squat = |address: &str| -> Result<String> {
        let run = program::run_as_nobody(
            "/usr/bin/python3".as_ref(),
            ["-c", SQUATTER, address, &port, "200"],
        )?;
        anyhow::ensure!(run.code == Some(0), "{run:?}");
        Ok(run.stdout.trim().to_owned())
    };
    let daemon = Daemon::start(&host, &format!("version: 1\nproxy: {{listen: \"{listen}\"}}\n"))?;
    assert_eq!(daemon.status()?["proxy"]["reserved"], true);
    let site = crash(daemon)?;
    for address in ["127.0.0.1", "0.0.0.0", "::"] {
        assert_eq!(squat(address)?, "EPERM", "{address}");
    }
    assert_eq!(squat("127.0.0.2")?, "listens", "another address with this port");

    // A proxy of this user's own says why it cannot listen.
    let own = format!("version: 1\nproxy: {{listen: \"{listen}\"}}\n");
    let config = site.path("nobody.yaml");
    fs::write(&config, own)?;
    let mut arguments: Vec<String> = ["proxy", "--config"].map(str::to_owned).into();
    arguments.push(config.display().to_string());
    let store = format!("/tmp/mcpmon-e2e-nobody-{}/mcpmon.db", std::process::id());
    arguments.extend([
        "--db".to_owned(),
        store,
        "--socket".to_owned(),
        "/nonexistent".to_owned(),
    ]);
    let refused = program::run_as_nobody(program::path()?.as_os_str(), &arguments)?;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.stderr.contains(&format!(
            "cannot listen on {listen}, which is reserved for the proxy of this host's daemon; name another address in `proxy.listen`"
        )),
        "{refused:?}"
    );

    let daemon = Daemon::start_at(&host, site)?;
    wait::until("the proxy", || {
        Ok((connect(listen)? == Attempt::Connected).then_some(()))
    })?;
    assert_eq!(squat("127.0.0.1")?, "EPERM", "while the proxy listens");
    let (site, _) = daemon.end()?;
    assert_eq!(squat("127.0.0.1")?, "EPERM", "after an orderly stop");
    let detached = program::run(["detach", "--bpffs", &site.bpffs().display().to_string()])?;
    assert_eq!(detached.code, Some(0), "{detached:?}");
    assert_eq!(squat("127.0.0.1")?, "listens");
    Ok(())
}

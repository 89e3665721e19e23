//! Access rights of the files that a daemon leaves, and messages to users without rights.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Result;
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    program::{self, Run},
};

const POLICY: &str = "version: 1\n";

/// The number of a group that the host does not have.
const GROUP: u32 = 47_110;

#[test]
fn modes_and_groups() -> Result<()> {
    let Some(host) = Host::take(&["unshare"])? else {
        return Ok(());
    };
    for has_group in [false, true] {
        let daemon = if has_group {
            Daemon::start_with_group(&host, POLICY, GROUP)?
        } else {
            Daemon::start(&host, POLICY)?
        };
        // Without that group, only root may read it.
        let private = if has_group { 0o777 } else { 0o707 };
        for (name, expected) in [
            ("store", 0o750 & private),
            ("store/mcpmon.db", 0o640 & private),
            ("store/mcpmon.db-wal", 0o640 & private),
            ("store/mcpmon.db-shm", 0o640 & private),
            ("run/mcpmon.sock", 0o666),
            ("run/mcpmon.sock.root", 0o600),
            ("run/changes", 0o644),
        ] {
            let found = fs::metadata(daemon.site.path(name))?;
            let mode = found.permissions().mode() & 0o7777;
            assert_eq!(mode, expected, "{name} has mode {mode:o}");
            let is_of_group = has_group && name.starts_with("store");
            let group = if is_of_group { GROUP } else { 0 };
            assert_eq!((found.uid(), found.gid()), (0, group), "{name}");
        }
        let directory = fs::metadata(daemon.site.path("run"))?;
        assert_eq!(directory.permissions().mode() & 0o7777, 0o755);
    }
    Ok(())
}

/// Copies the program to a place where every user can execute it, because the build directory may be closed.
fn for_everybody(daemon: &Daemon) -> Result<PathBuf> {
    let copy = daemon.site.path("mcpmon");
    program::copy(program::path()?, &copy)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    Ok(copy)
}

/// Checks the exit status and the message of a refusal, and that the program did not crash.
fn refused(run: &Run, code: i32, says: &[&str]) {
    assert_eq!(run.code, Some(code), "{run:?}");
    assert!(!run.stderr.contains("panicked"), "{run:?}");
    for text in says {
        assert!(
            run.stderr.contains(text) || run.stdout.contains(text),
            "no `{text}` in {run:?}"
        );
    }
}

#[test]
fn without_root() -> Result<()> {
    let Some(host) = Host::take(&["setpriv"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, POLICY)?;
    let program = for_everybody(&daemon)?;
    let run = |arguments: &[&str]| program::run_as_nobody(program.as_os_str(), arguments);
    let (store, socket) = (daemon.site.store(), daemon.site.socket());
    let (store, socket) = (store.display().to_string(), socket.display().to_string());

    let status = run(&["status", "--socket", &socket])?;
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.stdout.contains("only those of user 65534"), "{status:?}");
    let reset = run(&["pins", "reset", "--server", "x", "--socket", &socket])?;
    refused(&reset, 1, &["error: only root may ask for this"]);
    let events = run(&["events", "--db", &store])?;
    refused(&events, 3, &["error: no permission to read the store", "hint:"]);
    let doctor = run(&["doctor", "--socket", &socket])?;
    refused(
        &doctor,
        3,
        &[
            "broken    privileges:",
            "ok        daemon: answers on",
            "TCP over IPv4 is refused",
        ],
    );

    let own = daemon.site.path("own");
    fs::create_dir(&own)?;
    std::os::unix::fs::chown(&own, Some(65534), Some(65534))?;
    let path = |name: &str| own.join(name).display().to_string();
    let (own_store, own_socket) = (path("mcpmon.db"), path("mcpmon.sock"));
    let policy = daemon.site.policy().display().to_string();
    let second = run(&[
        "daemon",
        "--config",
        &policy,
        "--db",
        &own_store,
        "--socket",
        &own_socket,
    ])?;
    refused(&second, 3, &["error:", "privilege", "hint:"]);
    assert!(
        !Path::new(&own_socket).exists(),
        "a daemon that does not start leaves no socket"
    );

    let check = run(&["policy", "check", &policy])?;
    assert_eq!(
        check.code,
        Some(0),
        "what needs no rights works without: {check:?}"
    );
    Ok(())
}

/// Members of the group read the store and ask the daemon, but only root changes its pins.
#[test]
fn members_of_the_group() -> Result<()> {
    let Some(host) = Host::take(&["setpriv", "unshare"])? else {
        return Ok(());
    };
    let daemon = Daemon::start_with_group(&host, POLICY, GROUP)?;
    let program = for_everybody(&daemon)?;
    let (store, socket) = (daemon.site.store(), daemon.site.socket());
    let (store, socket) = (store.display().to_string(), socket.display().to_string());
    let run = |arguments: &[&str]| program::run_as_member(GROUP, program.as_os_str(), arguments);
    let status = run(&["status", "--socket", &socket])?;
    assert_eq!(status.code, Some(0), "{status:?}");
    let events = run(&["events", "--db", &store, "--json"])?;
    assert_eq!(events.code, Some(0), "{events:?}");
    assert!(events.stdout.contains("policy_loaded"), "{events:?}");
    let reset = run(&["pins", "reset", "--server", "x", "--socket", &socket])?;
    refused(&reset, 1, &["only root may ask for this"]);
    Ok(())
}

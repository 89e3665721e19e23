//! Mistakes on the command line: the messages and exit statuses.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use anyhow::Result;
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    program::{self, Run},
    site::Site,
};

/// Checks the exit status and the message on standard error.
fn told(run: &Run, code: i32, says: &[&str]) {
    assert_eq!(run.code, Some(code), "{run:?}");
    for text in says {
        assert!(run.stderr.contains(text), "no `{text}` in {run:?}");
    }
    assert!(!run.stderr.contains("panicked"), "{run:?}");
}

#[test]
fn command_lines() -> Result<()> {
    let Some(_host) = Host::take(&[])? else {
        return Ok(());
    };
    told(
        &program::run(["evnets"])?,
        2,
        &["unrecognized subcommand 'evnets'", "events"],
    );
    told(
        &program::run(["events", "--since", "yesterday"])?,
        2,
        &["'yesterday' for '--since", "1h or 2d"],
    );
    told(
        &program::run(["events", "--limit", "0"])?,
        2,
        &["0 is not in 1..="],
    );
    told(
        &program::run(["connections", "--action", "blocked"])?,
        2,
        &["blocked", "would_block"],
    );
    told(&program::run(["pins", "reset"])?, 2, &["--server"]);
    let odd_name = program::run(["pins", "reset", "--server", "\u{1b}[2J"])?;
    told(&odd_name, 2, &["a server id cannot contain '\\u{1b}'"]);
    // Like every release, this build has kernel programs without a log.
    told(
        &program::run(["daemon", "--kernel-log", "--config", "/nonexistent"])?,
        2,
        &["were built without a log", "build-ebpf --kernel-log"],
    );
    Ok(())
}

#[test]
fn stores() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let site = Site::new("version: 1\n")?;
    told(
        &site.read(&["events"])?,
        3,
        &["there is no store at", "start `mcpmon daemon`", "--db FILE"],
    );
    fs::create_dir(site.path("store"))?;
    fs::write(site.store(), "no database at all, whatever its name says")?;
    told(&site.read(&["events"])?, 3, &["error:", "mcpmon.db"]);
    let before = fs::read(site.store())?;
    let daemon = Daemon::start_at(&host, site)?;
    let status = daemon.status()?;
    assert_eq!(status["state"], "degraded", "{status:#}");
    let cause = status["degraded"]["store file"].to_string();
    assert!(cause.contains("not a database"), "{status:#}");
    let (site, ended) = daemon.end()?;
    assert!(ended.success(), "{ended}");
    assert_eq!(
        fs::read(site.store())?,
        before.as_slice(),
        "the file is untouched"
    );

    fs::remove_file(site.store())?;
    let elsewhere = site.path("elsewhere");
    fs::write(&elsewhere, "")?;
    symlink(&elsewhere, site.store())?;
    told(
        &program::run(site.daemon_arguments())?,
        3,
        &[
            "no regular file; a store is never opened through a link",
            "--db FILE",
        ],
    );
    assert_eq!(
        fs::read(&elsewhere)?,
        b"",
        "the file behind the link is untouched"
    );
    Ok(())
}

/// A database of another program is neither read nor written.
#[test]
fn a_database_of_another_program() -> Result<()> {
    let Some(_host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let site = Site::new("version: 1\n")?;
    fs::create_dir(site.path("store"))?;
    let script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('create table notes (text)')";
    let made = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(site.store())
        .status()?;
    assert!(made.success());
    let before = fs::read(site.store())?;
    told(&site.read(&["events"])?, 3, &["error:", "mcpmon.db", "--db FILE"]);
    told(
        &program::run(site.daemon_arguments())?,
        3,
        &["error:", "mcpmon.db", "--db FILE"],
    );
    assert_eq!(fs::read(site.store())?, before);
    Ok(())
}

#[test]
fn policies() -> Result<()> {
    let Some(_host) = Host::take(&[])? else {
        return Ok(());
    };
    let site = Site::new(
        "version: 1\nnetwrok: {}\nmode: enforced\nnetwork: {deny: [{name: x, cidrs: [\"203.0.113.1/24\"]}]}\n",
    )?;
    let mistakes = [
        "mcpmon.yaml:2:1",
        "did you mean `network`",
        "mcpmon.yaml:3:",
        "enforced",
        "mcpmon.yaml:4:",
        "203.0.113.0/24",
    ];
    told(&program::run(site.daemon_arguments())?, 2, &mistakes);
    let policy = site.policy().display().to_string();
    let check = program::run(["policy", "check", &policy])?;
    assert_eq!(check.code, Some(2), "{check:?}");
    for mistake in mistakes {
        assert!(
            check.stderr.contains(mistake) || check.stdout.contains(mistake),
            "no `{mistake}` in {check:?}"
        );
    }
    assert!(!site.socket().exists() && !site.store().exists());

    site.write_policy("version: 1\n")?;
    fs::set_permissions(site.policy(), fs::Permissions::from_mode(0o666))?;
    let remedy = format!("run `chmod go-w {policy}`");
    told(
        &program::run(site.daemon_arguments())?,
        2,
        &["policy is not taken from where others can change it", &remedy],
    );

    fs::remove_file(site.policy())?;
    told(
        &program::run(site.daemon_arguments())?,
        2,
        &["cannot read", &policy],
    );
    Ok(())
}

#[test]
fn daemons() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let site = Site::new("version: 1\n")?;
    let nobody = [
        "error: no daemon is listening on",
        "hint: start it: `sudo mcpmon daemon`",
    ];
    // Without a daemon, it is the state of this user's wrappers.
    told(&site.ask(&["status"])?, 3, &["run `mcpmon setup`"]);
    told(&site.ask(&["pins", "reset", "--server", "x"])?, 3, &nobody);

    let daemon = Daemon::start_at(&host, site)?;
    told(
        &program::run(daemon.site.daemon_arguments())?,
        3,
        &["a daemon is already listening on", "--socket"],
    );
    assert_eq!(
        daemon.site.ask(&["status"])?.code,
        Some(0),
        "the first one is unharmed"
    );
    Ok(())
}

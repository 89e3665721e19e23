//! Sessions of servers, with processes started as agents and editors start them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{json::text, program, wrapped::Home};

/// A server that sends one message and ends.
const SERVER: &str = r#"echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'"#;

/// Makes a copy of the shell with another name.
fn shell_called(home: &Home, name: &str) -> Result<PathBuf> {
    let path = home.path(name);
    program::copy(fs::canonicalize("/bin/sh")?, &path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Returns the shell command that runs `mcpmon wrap` for the server.
fn wrap(home: &Home, server: &str) -> Result<String> {
    let quoted = |path: &Path| format!("'{}'", path.display());
    Ok(format!(
        "{} wrap --socket {} --db {} --server {server} -- sh -c \"$SERVER\"",
        quoted(program::path()?),
        quoted(&home.path("no-daemon")),
        quoted(&home.path("store.db")),
    ))
}

/// Runs a line in a new shell, to its end.
fn run(home: &Home, shell: &Path, line: &str) -> Result<()> {
    let mut command = Command::new(shell);
    command.arg("-c").arg(line);
    command
        .env("SERVER", SERVER)
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env_remove("MCPMON_CONFIG")
        .env_remove("MCPMON_SESSION")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let status = command.status().context("cannot start the shell")?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// Returns the session in which this server was started.
fn session_of(home: &Home, server: &str) -> Result<String> {
    let store = home.path("store.db").display().to_string();
    let listed = program::run([
        "events",
        "--json",
        "--type",
        "mcp_server_started",
        "--server",
        server,
        "--db",
        &store,
    ])?;
    let events = listed.objects()?;
    let [started] = events.as_slice() else {
        anyhow::bail!("one start of {server} was expected: {events:?}");
    };
    Ok(text(started, "session_id").to_owned())
}

#[test]
fn servers_of_one_agent_share_a_session_and_those_of_two_do_not() -> Result<()> {
    let home = Home::new()?;
    let (editor, helper) = (shell_called(&home, "cursor")?, shell_called(&home, "helper")?);
    let (helped, shelled, direct) = (
        wrap(&home, "helped")?,
        wrap(&home, "shelled")?,
        wrap(&home, "direct")?,
    );
    // Directly, through `sh -c`, and through another process of the editor.
    let line = format!(
        "{direct} & sh -c '{shelled}; exit' & '{helper}' -c '{helped}; exit' & wait",
        helper = helper.display(),
        shelled = shelled.replace('\'', "'\\''"),
        helped = helped.replace('\'', "'\\''"),
    );
    run(&home, &editor, &line)?;
    let session = session_of(&home, "direct")?;
    assert!(session.starts_with("cursor-"), "{session}");
    assert_eq!(session_of(&home, "shelled")?, session);
    assert_eq!(session_of(&home, "helped")?, session);

    run(&home, &editor, &format!("{}; exit", wrap(&home, "other-window")?))?;
    let other = session_of(&home, "other-window")?;
    assert!(other.starts_with("cursor-") && other != session, "{other}");
    Ok(())
}

/// Clients pass few variables of their environment to servers, and their configuration files name no store.
#[test]
fn wrappers_of_a_run_write_to_its_store() -> Result<()> {
    let home = Home::new()?;
    let own = home.path("own.yaml");
    fs::write(
        &own,
        format!(
            "version: 1\nrecord: {{path: {}}}\n",
            home.path("own.db").display()
        ),
    )?;
    let program = program::path()?.display();
    let client = home.path("client");
    let wrapper = format!("'{program}' wrap --config '{}' --server notes", own.display());
    fs::write(
        &client,
        format!("env -i PATH=\"$PATH\" {wrapper} -- sh -c \"$SERVER\"\n"),
    )?;
    let line = format!(
        "'{program}' run --socket '{}' --db '{}' -- sh '{}'",
        home.path("no-daemon").display(),
        home.path("store.db").display(),
        client.display(),
    );
    run(&home, Path::new("/bin/sh"), &line)?;
    let session = session_of(&home, "notes")?;
    assert!(session.starts_with("mcpmon-run-"), "{session}");
    assert!(!home.path("own.db").exists());
    Ok(())
}

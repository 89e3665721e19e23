//! Refused servers: they end with every process that they started, whatever their names are.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{Read as _, pipe},
    os::unix::{
        ffi::OsStringExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::Result;
use mcpmon_e2e::{daemon::Daemon, host::Host, program, servers};

/// Starts a daemon that refuses a server, and makes this server: a shell under its name.
fn refused(host: &Host, ending: &[u8]) -> Result<(Daemon, PathBuf)> {
    let name = servers::name();
    let policy = format!(
        r#"
version: 1
mcp:
  detection: {{server_patterns: ["{name}*"]}}
  server_policy: denylist
  denied_servers: [{{id: "{name}*"}}]
"#
    );
    let daemon = Daemon::start(host, &policy)?;
    let mut file = name.into_bytes();
    file.extend_from_slice(ending);
    let program = daemon.site.path("").join(OsString::from_vec(file));
    program::copy(fs::canonicalize("/bin/sh")?, &program)?;
    Ok((daemon, program))
}

#[test]
fn a_name_that_is_no_text_protects_nobody() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let (_daemon, program) = refused(&host, b"\xff")?;
    // The server reads from a pipe that stays open, so only a signal ends it.
    let (standard_input, _open) = pipe()?;
    let status = Command::new(program).stdin(standard_input).status()?;
    assert_eq!(status.signal(), Some(9), "{status}");
    Ok(())
}

#[test]
fn a_child_forked_at_once_does_not_survive() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let (_daemon, program) = refused(&host, b"")?;
    // A process that starts a server is an agent from then on.
    let (standard_input, open) = pipe()?;
    Command::new(&program).stdin(standard_input).status()?;
    drop(open);
    for _ in 0..10 {
        let (mut survived, standard_output) = pipe()?;
        let mut command = Command::new(&program);
        command
            .args(["-c", "(sleep 2 && echo survived) & exit 0"])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(standard_output)
            .stderr(OpenOptions::new().write(true).open("/dev/null")?);
        command.status()?;
        drop(command); // Closes the command's end of the pipe.
        let mut said = String::new();
        survived.read_to_string(&mut said)?;
        assert_eq!(said, "");
    }
    Ok(())
}

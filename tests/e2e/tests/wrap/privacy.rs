//! No other process of the same user can read a wrapper's memory, and this protection breaks nothing.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    program,
    wrapped::{Home, Wrapped, children},
};
use test_case::test_case;

/// An unprivileged user, for a test that runs as root, because root may read any process.
const NOBODY: u32 = 65_534;

const NOTICE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Copies the program to a place where an unprivileged user can execute it, and makes that user's home.
pub(super) fn for_a_user(home: &Home) -> Result<PathBuf> {
    let copy = home.path("mcpmon");
    program::copy(program::path()?, &copy)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    let directory = home.path("");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
    if nix::unistd::geteuid().is_root() {
        chown(&directory, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(copy)
}

/// Starts `PROGRAM wrap -- COMMAND` as that user.
fn wrap(home: &Home, program: &Path, command: &[&str]) -> Result<Wrapped> {
    let mut wrap = Command::new(program);
    wrap.arg("wrap").arg("--socket").arg(home.path("no-daemon"));
    wrap.arg("--db").arg(home.path("own/store.db"));
    wrap.arg("--").args(command);
    start(home, &mut wrap)
}

/// Starts any command as that user.
pub(super) fn start(home: &Home, command: &mut Command) -> Result<Wrapped> {
    command
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("own"))
        .env_remove("MCPMON_CONFIG")
        .process_group(0);
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    Wrapped::start(command)
}

#[test]
fn a_wrapper_belongs_to_nobody_while_it_relays() -> Result<()> {
    let home = Home::new()?;
    let program = for_a_user(&home)?;
    let mut wrapped = wrap(&home, &program, &["cat"])?;
    wrapped.send(NOTICE)?;
    assert_eq!(wrapped.line()?, NOTICE);
    let watcher = wrapped.pid().as_raw().cast_unsigned();
    let relay = *children(watcher)?.first().context("a process that relays")?;
    let server = *children(relay)?.first().context("a server")?;
    // The owner of these files is the user who may trace the process; it is 0 if only root may.
    let owner = |pid: u32| fs::metadata(format!("/proc/{pid}/mem")).map(|file| file.uid());
    assert_eq!(owner(relay)?, 0);
    assert_ne!(
        owner(server)?,
        0,
        "the server is as it would be without a wrapper"
    );
    Ok(())
}

#[test]
fn one_wrapper_is_enough_for_a_user_too() -> Result<()> {
    let home = Home::new()?;
    let program = for_a_user(&home)?;
    let inner = program.display().to_string();
    let socket = home.path("no-daemon").display().to_string();
    for command in [
        vec![&inner, "wrap", "--socket", &socket, "--", "cat"],
        vec![
            "sh",
            "-c",
            r#""$0" wrap --socket "$1" -- cat; exit"#,
            &inner,
            &socket,
        ],
    ] {
        let mut wrapped = wrap(&home, &program, &command)?;
        wrapped.send(NOTICE)?;
        assert_eq!(wrapped.line()?, NOTICE);
        let (code, _, errors) = wrapped.finish()?;
        assert_eq!(code, 0, "{errors}");
        assert!(errors.contains("wrapped already"), "{command:?}: {errors}");
    }
    Ok(())
}

/// A server that starts servers has wrappers below its own wrapper that do not wrap the server itself.
#[test]
fn a_server_of_a_server_is_wrapped() -> Result<()> {
    let home = Home::new()?;
    let program = for_a_user(&home)?;
    let inner = program.display().to_string();
    let socket = home.path("no-daemon").display().to_string();
    let script = format!("printf '%s\\n' '{NOTICE}' | \"$0\" wrap --socket \"$1\" -- cat; exit");
    let mut wrapped = wrap(&home, &program, &["sh", "-c", &script, &inner, &socket])?;
    assert_eq!(wrapped.line()?, NOTICE);
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!((code, errors.contains("wrapped already")), (0, false), "{errors}");
    Ok(())
}

/// Makes a shell whose processes only root can examine, as with every program that its user may execute but not read.
fn closed_shell(home: &Home) -> Result<PathBuf> {
    let shell = home.path("closed-sh");
    program::copy("/bin/sh", &shell)?;
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o111))?;
    Ok(shell)
}

/// A program below `mcpmon run` that cannot be examined does not count as a relaying wrapper, whichever pipe
/// it reads from.
#[test_case(r#"stat -c %u /proc/$$/mem >&2; "$0" wrap --socket "$1" -- cat; exit"#; "it hands its input on")]
#[test_case(r#"stat -c %u /proc/$$/mem >&2; cat | "$0" wrap --socket "$1" -- cat; exit"#; "it makes the pipe")]
fn a_closed_program_is_no_wrapper(script: &str) -> Result<()> {
    let home = Home::new()?;
    let program = for_a_user(&home)?;
    let mut run = Command::new(&program);
    run.args(["run", "--no-shims", "--socket"])
        .arg(home.path("no-daemon"));
    run.arg("--db").arg(home.path("own/store.db"));
    run.arg("--").arg(closed_shell(&home)?).args(["-c", script]);
    run.arg(&program).arg(home.path("no-daemon"));
    let mut wrapped = start(&home, &mut run)?;
    wrapped.send(NOTICE)?;
    assert_eq!(wrapped.line()?, NOTICE);
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 0, "{errors}");
    assert!(errors.lines().any(|line| line == "0"), "it is closed: {errors}");
    assert!(!errors.contains("wrapped already"), "{errors}");
    Ok(())
}

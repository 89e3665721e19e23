//! Standard error of a server: it reaches the client unchanged, and is kept for `mcpmon logs` without its secrets.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, anyhow};
use mcpmon_e2e::{
    program, wait,
    wrapped::{Home, Wrapped, children, is_gone},
};
use nix::sys::signal::Signal;

/// A server that writes each line it gets to standard error, and answers.
const ECHO: &str =
    r#"while read -r line; do echo "$line" >&2; echo '{"jsonrpc":"2.0","method":"notifications/x"}'; done"#;

/// Returns a message for such a server.
fn message(name: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/{name}"}}"#)
}

fn start(home: &Home, server: &str, script: &str) -> Result<Wrapped> {
    Wrapped::start(&mut home.wrap(&["--server", server], &["sh", "-c", script])?)
}

fn logs(home: &Home, arguments: &[&str]) -> Result<program::Run> {
    let store = home.path("store.db").display().to_string();
    program::run(["logs", "--db", &store].iter().chain(arguments))
}

#[test]
fn a_client_gets_the_bytes_and_the_log_has_no_secret() -> Result<()> {
    let home = Home::new()?;
    let token = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let script = format!(r"printf 'up\033[31m \377\ntoken {token} loaded\nand no end' >&2; cat");
    let mut wrapped = start(&home, "notes", &script)?;
    let (code, _, errors) = wrapped.finish_bytes()?;
    assert_eq!(code, 0);
    let expected = [
        b"up\x1b[31m \xff\ntoken ",
        token.as_bytes(),
        b" loaded\nand no end",
    ]
    .concat();
    assert_eq!(errors, expected);

    let shown = logs(&home, &["notes"])?;
    let lines: Vec<_> = shown.stdout.lines().filter_map(|line| line.get(16..)).collect();
    assert_eq!(
        lines,
        ["up \u{fffd}", "token *** loaded", "and no end"],
        "{shown:?}"
    );
    assert!(
        shown.stderr.starts_with("notes: process ") && shown.stderr.ends_with("ended\n"),
        "{shown:?}"
    );
    let objects = logs(&home, &["notes", "--json", "--lines", "1"])?.objects()?;
    let [object] = objects.as_slice() else {
        panic!("one line: {objects:?}");
    };
    assert_eq!(
        (&object["server_id"], &object["line"]),
        (&"notes".into(), &"and no end".into())
    );

    let directory = home.path("server-logs");
    let mode = |path| anyhow::Ok(fs::metadata(path)?.permissions().mode() & 0o777);
    assert_eq!(mode(directory.clone())?, 0o700);
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        assert_eq!(mode(path.clone())?, 0o600);
        assert!(!fs::read_to_string(path)?.contains(&token));
    }
    Ok(())
}

#[test]
fn an_unknown_server_is_an_error_that_names_those_with_a_log() -> Result<()> {
    let home = Home::new()?;
    let none = logs(&home, &["notes"])?;
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.stderr.contains("there are no logs at all"), "{none:?}");
    assert_eq!(start(&home, "notes", "exec cat")?.finish()?.0, 0);
    let other = logs(&home, &["note"])?;
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stderr.contains("servers with one: notes"), "{other:?}");
    let quiet = logs(&home, &["notes"])?;
    assert_eq!((quiet.code, quiet.stdout.as_str()), (Some(0), ""), "{quiet:?}");
    assert!(quiet.stderr.contains("wrote nothing"), "{quiet:?}");
    let session = logs(&home, &["notes", "--session", "nonesuch"])?;
    assert_eq!(session.code, Some(1), "{session:?}");
    assert!(session.stderr.contains("sessions with one: "), "{session:?}");
    Ok(())
}

#[test]
fn a_log_outlives_a_killed_wrapper() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = start(&home, "notes", ECHO)?;
    wrapped.send(&message("before_the_crash"))?;
    wait::until("the line in the log", || {
        let shown = logs(&home, &["notes"])?;
        Ok((shown.stdout.contains("before_the_crash") && shown.stderr.contains("running")).then_some(()))
    })?;
    let relay = *children(wrapped.pid().as_raw().cast_unsigned())?
        .first()
        .context("a process that relays")?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(relay.cast_signed()), Signal::SIGKILL)?;
    wrapped.ended()?;
    wait::until("its end", || Ok(is_gone(relay).then_some(())))?;
    let shown = logs(&home, &["notes"])?;
    assert!(
        shown.stdout.contains("before_the_crash") && shown.stderr.contains("ended"),
        "{shown:?}"
    );
    Ok(())
}

/// A process that is killed at the end.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_log_is_followed_over_runs() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = start(&home, "notes", ECHO)?;
    wrapped.send(&message("one"))?;
    wrapped.line()?;
    wait::until("the first line", || {
        Ok(logs(&home, &["notes"])?.stdout.contains("one").then_some(()))
    })?;
    let mut follow = Command::new(program::path()?);
    follow
        .args(["logs", "notes", "--follow", "--json", "--db"])
        .arg(home.path("store.db"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut following = Following(follow.spawn()?);
    let mut lines = BufReader::new(following.0.stdout.take().context("a pipe")?);
    let mut next = || -> Result<String> {
        if lines.buffer().is_empty() {
            wait::readable("a line of the log", lines.get_ref())?;
        }
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let object: serde_json::Value = serde_json::from_str(&line)?;
        Ok(object["line"].as_str().context("a line")?.to_owned())
    };
    assert_eq!(next()?, message("one"));
    wrapped.send(&message("two"))?;
    assert_eq!(next()?, message("two"));
    assert_eq!(wrapped.finish()?.0, 0);
    let mut again = start(&home, "notes", ECHO)?;
    again.send(&message("three"))?;
    assert_eq!(next()?, message("three"));
    Ok(())
}

#[test]
fn a_client_that_does_not_read_errors_still_gets_messages() -> Result<()> {
    let home = Home::new()?;
    // More than all pipes on the way can hold.
    let script = "yes 'an error that nobody reads' >&2 & exec cat";
    let mut wrapped = start(&home, "notes", script)?;
    let line = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    for _ in 0..100 {
        wrapped.send(line)?;
        assert_eq!(wrapped.line()?, line);
    }
    // Both the server and the wrapper end, although their errors were not read.
    drop(wrapped.stdin.take());
    assert_eq!(wrapped.ended()?.code(), Some(0));
    let mut kept = 0;
    for file in fs::read_dir(home.path("server-logs"))? {
        kept += file?.metadata()?.len();
    }
    assert!((1..=512 << 10).contains(&kept), "{kept} bytes");
    Ok(())
}

#[test]
fn a_flood_passes_whole_and_is_kept_within_its_bounds() -> Result<()> {
    let home = Home::new()?;
    let script = "head -c 20000000 /dev/zero | tr '\\0' x | fold -w 99 >&2; echo >&2; echo last >&2; \
                  echo '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}'; exec cat";
    let mut wrapped = start(&home, "notes", script)?;
    let errors = wrapped.errors();
    // If the client closes its end first, the server has ten seconds left, and its last output one.
    assert_ne!(wrapped.line()?, "");
    wait::until("the last line in the log", || {
        let latest = logs(&home, &["notes", "--json", "--lines", "1"])?.objects()?;
        Ok(latest.iter().find(|line| line["line"] == "last").map(drop))
    })?;
    let (code, ..) = wrapped.finish_bytes()?;
    assert_eq!(code, 0);
    let errors = errors
        .join()
        .map_err(|_panic| anyhow!("standard error could not be read"))??;
    assert_eq!(
        errors.len(),
        20_000_000 + 20_000_000_usize.div_ceil(99) + "last\n".len()
    );
    let objects = logs(&home, &["notes", "--json", "--lines", "100000"])?.objects()?;
    assert_eq!(objects.last().context("a line")?["line"], "last");
    let files: Vec<_> = fs::read_dir(home.path("server-logs"))?.collect::<Result<_, _>>()?;
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        assert!(file.metadata()?.len() <= 256 << 10);
    }
    Ok(())
}

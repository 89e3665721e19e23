//! Ends of the server, of the client and of the wrapper: each reaches the other two, and no process is left running.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    wait,
    wrapped::{Home, Wrapped, children, is_gone},
};
use nix::sys::signal::Signal;

#[test]
fn a_server_that_ends_is_told_as_it_ended() -> Result<()> {
    let home = Home::new()?;
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 128 + 15),
        ("kill -KILL $$", 128 + 9),
        ("kill -SEGV $$", 128 + 11),
        ("kill -PIPE $$", 128 + 13),
    ] {
        let (code, _, errors) = home.start(&["sh", "-c", script])?.finish()?;
        assert_eq!((code, errors.as_str()), (expected, ""), "{script}");
    }
    Ok(())
}

#[test]
fn what_a_server_said_before_its_end_arrives() -> Result<()> {
    let home = Home::new()?;
    let script = "i=0; while [ $i -lt 5000 ]; do echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"notifications/$i\\\"}\"; i=$((i+1)); done; exit 4";
    let (code, output, _) = home.start(&["sh", "-c", script])?.finish()?;
    assert_eq!(code, 4);
    assert_eq!(output.lines().count(), 5000);
    assert!(
        output.ends_with("notifications/4999\"}\n"),
        "{:?}",
        output.lines().last()
    );
    Ok(())
}

#[test]
fn a_program_that_does_not_start_is_told_by_its_cause() -> Result<()> {
    let home = Home::new()?;
    let (code, output, errors) = home.start(&["mcpmon-e2e-no-such-program"])?.finish()?;
    assert_eq!((code, output.as_str()), (3, ""));
    assert!(
        errors.contains("there is no program") && errors.contains("PATH"),
        "{errors}"
    );
    Ok(())
}

/// Starts a server and a child process of it, neither of which ends by SIGTERM. Returns the wrapper, and the numbers of the
/// relaying process and of these two.
fn deaf(home: &Home) -> Result<(Wrapped, Vec<u32>)> {
    let mut wrapped = home.start(&[
        "sh",
        "-c",
        "trap '' TERM; sleep 1000 & echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"ready\\\"}\"; wait; wait; sleep 1000",
    ])?;
    assert!(wrapped.line()?.contains("ready"));
    let relay = *children(wrapped.pid().as_raw().cast_unsigned())?
        .first()
        .context("a process that relays")?;
    let server = *children(relay)?.first().context("a server")?;
    let below = *children(server)?.first().context("a process below it")?;
    Ok((wrapped, vec![relay, server, below]))
}

fn all_gone(pids: &[u32]) -> Result<()> {
    wait::until("nothing to be left", || {
        Ok(pids.iter().all(|pid| is_gone(*pid)).then_some(()))
    })
}

#[test]
fn a_wrapper_that_is_killed_leaves_nothing_behind() -> Result<()> {
    let home = Home::new()?;
    let (mut wrapped, below) = deaf(&home)?;
    wrapped.signal(Signal::SIGKILL)?;
    wrapped.ended()?;
    all_gone(&below)
}

#[test]
fn a_relay_that_is_killed_leaves_nothing_behind() -> Result<()> {
    let home = Home::new()?;
    let (mut wrapped, below) = deaf(&home)?;
    let relay = nix::unistd::Pid::from_raw(below[0].cast_signed());
    nix::sys::signal::kill(relay, Signal::SIGKILL)?;
    let (code, _, _) = wrapped.finish()?;
    assert_eq!(code, 128 + 9);
    all_gone(&below)
}

#[test]
fn a_server_that_hears_nothing_ends_when_its_client_is_gone() -> Result<()> {
    let home = Home::new()?;
    let (mut wrapped, below) = deaf(&home)?;
    wrapped.stdin = None;
    wrapped.stdout = None;
    wrapped.ended()?;
    all_gone(&below)
}

#[test]
fn a_server_that_ignores_the_end_of_its_input_is_ended_while_its_client_lives() -> Result<()> {
    let home = Home::new()?;
    let (mut wrapped, below) = deaf(&home)?;
    wrapped.stdin = None;
    wrapped.ended()?;
    let mut rest = String::new();
    wrapped
        .stdout
        .take()
        .context("the pipe is open")?
        .read_to_string(&mut rest)?;
    assert_eq!(rest, "");
    all_gone(&below)
}

#[test]
fn a_server_that_owes_an_answer_has_the_time_it_needs() -> Result<()> {
    let home = Home::new()?;
    // Longer than a server without open requests is given.
    let script = r#"read line; sleep 12; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; sleep 1000"#;
    let mut wrapped = home.start(&["sh", "-c", script])?;
    wrapped.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)?;
    wrapped.stdin = None;
    assert!(wrapped.line()?.contains(r#""id":1"#));
    wrapped.ended().map(drop)
}

#[test]
fn what_a_server_leaves_behind_ends_with_it() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = home.start(&[
        "sh",
        "-c",
        "setsid sleep 1000 & echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"n/$!\\\"}\"; read line; exit 6",
    ])?;
    let line = wrapped.line()?;
    let pid: u32 = line
        .rsplit('/')
        .next()
        .and_then(|rest| rest.strip_suffix("\"}"))
        .context("a number")?
        .parse()?;
    let (code, _, _) = wrapped.finish()?;
    assert_eq!(code, 6);
    all_gone(&[pid])
}

#[test]
fn a_server_that_closes_its_output_may_go_on() -> Result<()> {
    let home = Home::new()?;
    let file = home.path("heard");
    let script = "exec >&-; read line; echo \"$line\" > \"$0\"; exit 5";
    let mut wrapped = home.start(&["sh", "-c", script, &file.display().to_string()])?;
    let mut output = String::new();
    wrapped
        .stdout
        .take()
        .context("the pipe is open")?
        .read_to_string(&mut output)?;
    assert_eq!(output, "");
    let line = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    wrapped.send(line)?;
    let (code, _, _) = wrapped.finish()?;
    assert_eq!(code, 5);
    assert_eq!(std::fs::read_to_string(file)?.trim_end(), line);
    Ok(())
}

#[test]
fn a_client_that_closes_its_output_may_still_listen() -> Result<()> {
    let home = Home::new()?;
    let script =
        "while read line; do :; done; echo '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/last\"}'; exit 3";
    let (code, output, _) = home.start(&["sh", "-c", script])?.finish()?;
    assert_eq!(code, 3);
    assert!(output.contains("notifications/last"), "{output}");
    Ok(())
}

#[test]
fn a_server_whose_client_does_not_listen_any_more_is_told_by_the_pipe() -> Result<()> {
    let home = Home::new()?;
    let script = "while echo '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/more\"}'; do :; done";
    let mut wrapped = home.start(&["sh", "-c", script])?;
    assert!(wrapped.line()?.contains("more"));
    wrapped.stdout = None;
    let (code, _, _) = wrapped.finish()?;
    assert_eq!(code, 128 + 13, "as without a wrapper: SIGPIPE");
    Ok(())
}

#[test]
fn a_client_whose_server_does_not_listen_any_more_is_told_by_the_pipe() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = home.start(&["sh", "-c", "exec <&-; sleep 1000"])?;
    let refused = wait::until("a broken pipe", || {
        let line = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        Ok(wrapped.send(line).err())
    })?;
    assert!(refused.to_string().contains("Broken pipe"), "{refused}");
    Ok(())
}

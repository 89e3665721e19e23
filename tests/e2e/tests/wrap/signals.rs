//! Signals reach the server exactly once, as if there were no wrapper between the server and the sender.

use std::os::unix::process::ExitStatusExt as _;

use anyhow::{Context as _, Result};
use mcpmon_e2e::wrapped::{Home, Wrapped};
use nix::sys::signal::Signal;

/// A server that reports every signal, and ends with the number of signals that it received. It receives them through a
/// descriptor, because a Python handler would run only after the next read if the signal comes just before one.
const SERVER: &str = "
import os, select, signal, sys
signals, woken = os.pipe()
os.set_blocking(woken, False)
signal.set_wakeup_fd(woken)
for name in ('HUP', 'INT', 'QUIT', 'TERM', 'USR1', 'USR2', 'WINCH', 'CONT'):
    signal.signal(getattr(signal, 'SIG' + name), lambda number, frame: None)
def say(line):
    os.write(1, line)
say(b'{\"jsonrpc\":\"2.0\",\"method\":\"ready\"}\\n')
got = 0
while True:
    ready, _, _ = select.select([signals, 0], [], [])
    if signals in ready:
        for number in os.read(signals, 64):
            got += 1
            say(b'{\"jsonrpc\":\"2.0\",\"method\":\"got/%d\"}\\n' % number)
    if 0 in ready:
        said = os.read(0, 4096)
        if not said:
            sys.exit(got)
        say(said)
";

const PASSED_ON: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

fn started(home: &Home) -> Result<Wrapped> {
    let mut wrapped = home.start(&["python3", "-c", SERVER])?;
    assert!(wrapped.line()?.contains("ready"));
    Ok(wrapped)
}

fn got(wrapped: &mut Wrapped, signal: Signal) -> Result<()> {
    let line = wrapped.line()?;
    let expected = format!("got/{}\"", signal as i32);
    assert!(line.contains(&expected), "{signal}: {line}");
    Ok(())
}

#[test]
fn to_the_process_that_the_client_started() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = started(&home)?;
    for signal in PASSED_ON {
        wrapped.signal(signal)?;
        got(&mut wrapped, signal)?;
    }
    assert_eq!(wrapped.finish()?.0, 8);
    Ok(())
}

#[test]
fn to_the_whole_process_group() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = started(&home)?;
    for signal in PASSED_ON {
        wrapped.signal_group(signal)?;
        got(&mut wrapped, signal)?;
        // A second signal would have come before this is answered, or is counted at the end.
        let line = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        wrapped.send(line)?;
        assert_eq!(wrapped.line()?, line);
    }
    assert_eq!(wrapped.finish()?.0, 8);
    Ok(())
}

#[test]
fn a_server_that_dies_of_one_is_told_so() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = home.start(&["cat"])?;
    let line = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    wrapped.send(line)?;
    assert_eq!(wrapped.line()?, line);
    wrapped.signal(Signal::SIGTERM)?;
    // Standard input stays open, because closing it would end the server too.
    let status = wrapped.ended()?;
    let told = status.signal().or_else(|| Some(status.code()? - 128));
    assert_eq!(told, Some(Signal::SIGTERM as i32));
    Ok(())
}

#[test]
fn the_server_is_in_its_client_s_process_group_and_blocks_no_signal() -> Result<()> {
    let home = Home::new()?;
    let script = "set -- $(cat /proc/$$/stat); mask=$(grep SigBlk /proc/$$/status | tr -dc '0-9'); echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"$5 $mask\\\"}\"";
    let mut wrapped = home.start(&["sh", "-c", script])?;
    let line = wrapped.line()?;
    let method = line.rsplit('"').nth(1).context("a method")?;
    assert_eq!(method, format!("{} 0000000000000000", wrapped.pid()));
    Ok(())
}

//! The agent's process: it gets the terminal and the streams of `mcpmon run`, and the signals that are sent to it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::PathBuf,
    process::ExitStatus,
};

use nix::{
    sys::signal::{SigHandler, Signal, kill, signal},
    unistd::Pid,
};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal as on_signal},
};

/// The signals that are passed on. Those of a terminal are not among them, because it sends them to the whole group.
const HANDED_ON: [(fn() -> SignalKind, Signal); 4] = [
    (SignalKind::terminate, Signal::SIGTERM),
    (SignalKind::hangup, Signal::SIGHUP),
    (SignalKind::user_defined1, Signal::SIGUSR1),
    (SignalKind::user_defined2, Signal::SIGUSR2),
];

/// Starts the agent. From now on, this process ignores the signals that a terminal sends to the whole group.
///
/// # Errors
/// Returns an error if the program does not exist or cannot be executed.
pub(super) fn start(
    program: &OsStr,
    arguments: &[OsString],
    variables: &BTreeMap<&'static str, OsString>,
    group: Option<PathBuf>,
) -> io::Result<Child> {
    let mut command = std::process::Command::new(program);
    command.args(arguments).envs(variables);
    let entrance = group
        .map(|path| fs::OpenOptions::new().write(true).open(path))
        .transpose()?;
    let prepare = move || {
        // This process ignores these signals while the agent runs; the agent starts with their default actions.
        for ignored in [Signal::SIGINT, Signal::SIGQUIT] {
            restore(ignored)?;
        }
        match &entrance {
            Some(entrance) => nix::unistd::write(entrance, b"0")
                .map(drop)
                .map_err(io::Error::from),
            None => Ok(()),
        }
    };
    #[expect(
        unsafe_code,
        reason = "a control group is entered by the process itself, before it is the agent"
    )]
    // SAFETY: between fork and exec only `sigaction` and `write` are called, both of which are safe there.
    unsafe {
        command.pre_exec(prepare);
    }
    ignore(Signal::SIGINT)?;
    ignore(Signal::SIGQUIT)?;
    Command::from(command).spawn()
}

#[expect(unsafe_code, reason = "the default action calls nothing of this program")]
fn restore(number: Signal) -> io::Result<()> {
    // SAFETY: no handler is installed.
    unsafe { signal(number, SigHandler::SigDfl) }
        .map(drop)
        .map_err(io::Error::from)
}

#[expect(unsafe_code, reason = "to ignore calls nothing of this program")]
fn ignore(number: Signal) -> io::Result<()> {
    // SAFETY: no handler is installed.
    unsafe { signal(number, SigHandler::SigIgn) }
        .map(drop)
        .map_err(io::Error::from)
}

/// Waits for the agent's end, and passes signals on meanwhile.
///
/// # Errors
/// Returns an error if signals cannot be received.
pub(super) async fn wait(mut child: Child) -> io::Result<ExitStatus> {
    let pid = child
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .map(Pid::from_raw);
    let (sender, mut signals) = tokio::sync::mpsc::channel(8);
    for (kind, number) in HANDED_ON {
        let mut stream = on_signal(kind())?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(number).await.is_err() {
                    return;
                }
            }
        });
    }
    loop {
        tokio::select! {
            status = child.wait() => return status,
            Some(number) = signals.recv() => {
                if let Some(pid) = pid
                    && let Err(error) = kill(pid, number)
                {
                    tracing::debug!(%error, %number, "the agent is gone already");
                }
            }
        }
    }
}

/// Returns an agent's exit status in the form that shells use.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|number| 128 + number));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn run(script: &str) -> io::Result<ExitStatus> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let variables = BTreeMap::from([("MCPMON_TEST", OsString::from("7"))]);
            let child = start(OsStr::new("sh"), &["-c".into(), script.into()], &variables, None)?;
            wait(child).await
        })
    }

    #[test_case("exit $MCPMON_TEST" => 7; "a status")]
    #[test_case("kill -KILL $$" => 137; "a signal")]
    #[test_case("trap 'exit 9' INT; kill -INT $$; exit 1" => 9; "signals that are ignored here are not there")]
    fn an_agent_ends_as_it_ends(script: &str) -> u8 {
        code(run(script).expect("it runs"))
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let start = |_| start(OsStr::new("/nonexistent/agent"), &[], &BTreeMap::new(), None).map(drop);
        let error = runtime.expect("a runtime").block_on(async { start(()) });
        assert_eq!(error.expect_err("no such file").kind(), io::ErrorKind::NotFound);
    }
}

//! Clean-up steps: done once, in reverse order, whether the demo ends, fails or is interrupted.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{SigSet, Signal, killpg},
    unistd::Pid,
};

use crate::shell::{self, say};

/// The longest wait for a process to end after it was asked to.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest wait for a process to start its work.
const START: Duration = Duration::from_secs(60);

/// A clean-up step.
#[derive(Debug)]
pub(super) enum Action {
    /// Ends a process and all processes of its group.
    End(Pid),
    /// Ends the processes in a network namespace, and removes it with its interfaces.
    RemoveNamespace(&'static str),
    RemoveDirectory(PathBuf),
    /// Removes what a daemon left in the kernel: its program, and the directory.
    Detach(PathBuf, &'static str),
}

impl Action {
    /// Performs the step; there may be nothing to do.
    pub(super) fn perform(&self) {
        match self {
            Self::End(group) => end(*group),
            Self::RemoveNamespace(name) => {
                let pids = shell::ask("ip", &["netns", "pids", name]).unwrap_or_default();
                for pid in pids.split_whitespace() {
                    shell::ask("kill", &["-KILL", pid]);
                }
                shell::ask("ip", &["netns", "delete", name]);
            }
            Self::RemoveDirectory(directory) => {
                if let Err(error) = fs::remove_dir_all(directory) {
                    say(format_args!("could not remove {}: {error}", directory.display()));
                }
            }
            Self::Detach(mcpmon, directory) => detach(mcpmon, directory),
        }
    }
}

/// Removes what a daemon left in the kernel. One that was just killed may hold the directory for a moment.
fn detach(mcpmon: &Path, directory: &str) {
    let mut detach = Command::new(mcpmon);
    detach.args(["detach", "--bpffs", directory]);
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match detach.output() {
            Ok(output) if output.status.success() => return,
            _ if Instant::now() < deadline => thread::park_timeout(Duration::from_millis(100)),
            outcome => return say(format_args!("{detach:?} failed: {outcome:?}")),
        }
    }
}

/// Ends a group: first by SIGTERM, then by SIGKILL.
fn end(group: Pid) {
    if killpg(group, Signal::SIGTERM).is_err() {
        return;
    }
    let deadline = Instant::now() + TIMEOUT;
    // A child that has ended stays in its group until its parent waits for it.
    while Instant::now() < deadline && lives(group) {
        thread::park_timeout(Duration::from_millis(20));
    }
    let _gone_already = killpg(group, Signal::SIGKILL).is_err();
}

/// Returns whether the first process of a group exists and is not a zombie.
fn lives(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The standard streams of a started process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// Connected to the parent.
    Piped,
    /// Input from nowhere, and output to the log.
    Logged,
}

/// The actions so far; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo(Arc<Mutex<Vec<Action>>>);

impl Undo {
    /// Starts a thread that performs the steps on SIGINT, SIGTERM and SIGHUP, and then ends the process.
    pub(super) fn on_signals() -> Result<Self> {
        let undo = Self::default();
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        signals.thread_block().context("could not block signals")?;
        let interrupted = undo.clone();
        thread::spawn(move || {
            if let Ok(signal) = signals.wait() {
                say(format_args!("\n{signal}: taking everything away"));
                interrupted.run();
                exit(128 + signal as i32);
            }
        });
        Ok(undo)
    }

    /// Adds a step.
    pub(super) fn later(&self, action: Action) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(action);
    }

    /// Performs all steps, the last one first.
    pub(super) fn run(&self) {
        let mut actions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(action) = actions.pop() {
            action.perform();
        }
    }

    /// Starts a process in its own group, with standard error in `log`; a step will end it.
    pub(super) fn spawn(&self, mut command: Command, streams: Streams, log: &Path) -> Result<Child> {
        let shown = shell::shown(&command);
        say(format_args!("$ {shown}"));
        let log = fs::File::create(log).with_context(|| format!("could not create {}", log.display()))?;
        match streams {
            Streams::Piped => command.stdin(Stdio::piped()).stdout(Stdio::piped()),
            Streams::Logged => command.stdin(Stdio::null()).stdout(log.try_clone()?),
        };
        command.stderr(log).process_group(0);
        let child = command
            .spawn()
            .with_context(|| format!("could not start {shown}"))?;
        let pid = i32::try_from(child.id()).context("process ids fit an i32")?;
        self.later(Action::End(Pid::from_raw(pid)));
        Ok(child)
    }
}

/// Waits until a started process works. If it ends or takes too long, the error contains its log.
pub(super) fn wait_until(
    works: impl Fn() -> bool,
    name: &str,
    process: &mut Child,
    log: &Path,
) -> Result<()> {
    let deadline = Instant::now() + START;
    while !works() {
        let ended = process
            .try_wait()
            .with_context(|| format!("could not wait for {name}"))?;
        let failure = match ended {
            Some(status) => format!("{name} ended ({status})"),
            None if Instant::now() > deadline => {
                format!("{name} has not started after {} s", START.as_secs())
            }
            None => {
                thread::park_timeout(Duration::from_millis(100));
                continue;
            }
        };
        let log = fs::read_to_string(log).with_context(|| format!("could not read {}", log.display()))?;
        let lines: Vec<&str> = log.lines().collect();
        bail!(
            "{failure}; its last lines:\n{}",
            lines[lines.len().saturating_sub(10)..].join("\n")
        );
    }
    Ok(())
}

#[expect(clippy::exit, reason = "the main thread may be waiting for anything")]
fn exit(code: i32) -> ! {
    std::process::exit(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_process_is_ended_with_what_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let undo = Undo::default();
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]);
        let mut child = undo
            .spawn(shell, Streams::Piped, &directory.path().join("log"))
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap());
        assert!(lives(grandchild));

        undo.run();

        assert!(!child.wait().unwrap().success());
        let deadline = Instant::now() + TIMEOUT;
        while lives(grandchild) {
            assert!(Instant::now() < deadline, "{grandchild} is still there");
            thread::yield_now();
        }
    }

    #[test]
    fn a_process_that_does_not_start_shows_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let undo = Undo::default();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo no such option; exit 2"]);
        let mut child = undo.spawn(shell, Streams::Logged, &log).unwrap();
        let error = wait_until(|| false, "the shell", &mut child, &log).expect_err("it ends");
        assert!(error.to_string().ends_with("no such option"), "{error}");
        wait_until(|| true, "the shell", &mut child, &log).unwrap();
    }

    #[test]
    fn the_last_goes_first_and_only_once() {
        let directory = tempfile::tempdir().unwrap();
        let (outer, inner) = (
            directory.path().join("outer"),
            directory.path().join("outer/inner"),
        );
        fs::create_dir_all(&inner).unwrap();
        let undo = Undo::default();
        undo.later(Action::RemoveDirectory(outer.clone()));
        undo.later(Action::RemoveDirectory(inner));
        undo.clone().run();
        assert!(!outer.exists());
        assert!(undo.0.lock().unwrap().is_empty());
    }
}

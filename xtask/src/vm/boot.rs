//! Boot of one machine under software emulation; the result of the tests is read from its serial line.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::image::Image;

/// The prefix of the init script's own lines.
const MARKER: &str = "mcpmon-vm: ";
/// The time limit for a machine to reach its init script: about ten times as long as it takes on a busy host.
pub(crate) const START: Duration = Duration::from_secs(120);
/// The time limit for a machine that has reported its result to power off.
const POWER_OFF: Duration = Duration::from_secs(10);

/// Numbers in the last line of the test program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Tests that passed.
    pub(crate) passed: u32,
    /// Tests that failed.
    pub(crate) failed: u32,
    /// Tests that could not run.
    pub(crate) skipped: u32,
}

/// The report on a machine's serial line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// `uname -r`.
    pub(crate) release: Option<String>,
    /// The security modules that run.
    pub(crate) security: Option<String>,
    /// Exit status of the test program; `None` if the machine did not report it.
    pub(crate) exit: Option<i32>,
    /// The counts in the last line of the test program.
    pub(crate) counts: Option<Counts>,
    /// The tests that ran to their end, in their order.
    pub(crate) tests: Vec<TestResult>,
    /// The parts that a test found missing in the kernel, until the result of that test arrives.
    pub(crate) lacking: Vec<String>,
}

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestResult {
    /// The name.
    pub(crate) name: String,
    /// True if it passed.
    pub(crate) passed: bool,
    /// The parts of it that this kernel does not support.
    pub(crate) lacks: Vec<String>,
}

impl Report {
    /// Handles one line of the serial log.
    pub(crate) fn take(&mut self, line: &str) {
        // The kernel may write in the middle of a line, so the marker can be anywhere in it.
        if let Some((_, said)) = line.split_once(MARKER) {
            if let Some(release) = said.strip_prefix("kernel ") {
                self.release = Some(release.to_owned());
            } else if let Some(modules) = said.strip_prefix("lsm ") {
                self.security = Some(modules.to_owned());
            } else if let Some(status) = said.strip_prefix("exit ") {
                self.exit = status.parse().ok();
            }
        } else if let Some((_, text)) = line.strip_prefix("lacks ").and_then(|said| said.split_once(": ")) {
            self.lacking.push(text.to_owned());
        } else if let Some((name, result)) = line
            .strip_prefix("test ")
            .and_then(|said| said.split_once(" ... "))
        {
            self.tests.push(TestResult {
                name: name.to_owned(),
                passed: result == "ok",
                lacks: std::mem::take(&mut self.lacking),
            });
        } else if let Some(counts) = parse_counts(line) {
            self.counts = Some(counts);
        }
    }

    /// Returns whether the machine reached its init script.
    pub(crate) const fn started(&self) -> bool {
        self.release.is_some() || self.exit.is_some()
    }

    /// Returns whether all tests ran to their end, and none failed or was skipped.
    pub(crate) fn passed(&self) -> bool {
        self.exit == Some(0)
            && self
                .counts
                .is_some_and(|counts| counts.failed == 0 && counts.skipped == 0 && counts.passed > 0)
    }
}

/// Parses `N passed, N failed, N skipped`.
fn parse_counts(line: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    let mut parts = line.trim().split(", ");
    for (word, place) in [
        ("passed", &mut counts.passed),
        ("failed", &mut counts.failed),
        ("skipped", &mut counts.skipped),
    ] {
        let (number, found) = parts.next()?.split_once(' ')?;
        if found != word {
            return None;
        }
        *place = number.parse().ok()?;
    }
    parts.next().is_none().then_some(counts)
}

/// Returns the command that starts a machine; `parameters` are for its kernel.
pub(crate) fn command(image: &Image, initramfs: &Path, parameters: &str) -> Command {
    let architecture = image.architecture;
    // Tests that run at the same time have time limits; a machine can wait.
    let mut command = Command::new("nice");
    command.arg(architecture.emulator());
    if let Some(board) = architecture.board() {
        command.args(["-machine", board]);
    }
    command
        // Hardware virtualisation may be offered but hang, so it is never used.
        .args([
            "-accel",
            "tcg",
            "-cpu",
            image.processor,
            "-m",
            "1024",
            "-smp",
            "2",
        ])
        .args([
            "-nodefaults",
            "-no-reboot",
            "-display",
            "none",
            "-serial",
            "stdio",
            "-monitor",
            "none",
        ])
        .arg("-kernel")
        .arg(&image.kernel)
        .arg("-initrd")
        .arg(initramfs)
        .args([
            "-append",
            format!("{} {parameters}", architecture.parameters()).trim_end(),
        ]);
    command
}

/// Time limits of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The time until its init script starts.
    pub(crate) start: Duration,
    /// The time until it powers off.
    pub(crate) end: Duration,
}

/// Runs the machine until it powers off, or until one of the limits is reached. Every serial line is written to `log`.
pub(crate) fn boot(mut command: Command, log: &Path, limits: Limits) -> Result<Report> {
    let mut file = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut machine = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let lines = serial_lines(machine.stdout.take().expect("stdout is piped"));
    let watched = watch(&lines, &mut file, limits);
    stop(&mut machine)?;
    watched
}

/// Returns the serial lines, read by another thread, so that waiting for one can have a limit.
fn serial_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if sender
                .send(String::from_utf8_lossy(&line).trim_end().to_owned())
                .is_err()
            {
                return;
            }
            line.clear();
        }
    });
    lines
}

fn watch(lines: &Receiver<String>, log: &mut File, limits: Limits) -> Result<Report> {
    let mut report = Report::default();
    let limit = Instant::now() + limits.end;
    let mut deadline = limit.min(Instant::now() + limits.start);
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                writeln!(log, "{line}").context("cannot write the serial log")?;
                report.take(&line);
                if report.exit.is_some() {
                    deadline = deadline.min(Instant::now() + POWER_OFF);
                } else if report.started() {
                    deadline = limit;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(report),
            Err(RecvTimeoutError::Timeout) => {
                writeln!(log, "xtask: stopped the machine: time limit")
                    .context("cannot write the serial log")?;
                return Ok(report);
            }
        }
    }
}

fn stop(machine: &mut Child) -> Result<()> {
    if machine
        .try_wait()
        .context("cannot ask for the machine's state")?
        .is_none()
    {
        machine.kill().context("cannot stop the machine")?;
    }
    machine.wait().context("cannot wait for the machine")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[&str]) -> Report {
        let mut report = Report::default();
        lines.iter().for_each(|line| report.take(line));
        report
    }

    #[test]
    fn a_finished_run_is_read_from_the_log() {
        let report = report(&[
            "mcpmon-vm: kernel 6.1.0-50-cloud-amd64",
            "mcpmon-vm: lsm lockdown,bpf",
            "lacks scope: it has no such socket",
            "test scope ... ok",
            "test egress ... FAILED: nothing came",
            "21 passed, 0 failed, 0 skipped",
            "[   12.0] noise mcpmon-vm: exit 0",
        ]);
        assert_eq!(report.release.as_deref(), Some("6.1.0-50-cloud-amd64"));
        assert_eq!(report.security.as_deref(), Some("lockdown,bpf"));
        assert_eq!(
            report.counts,
            Some(Counts {
                passed: 21,
                failed: 0,
                skipped: 0
            })
        );
        assert!(report.passed());
        let result = |name: &str, passed, lacks: &[&str]| TestResult {
            name: name.to_owned(),
            passed,
            lacks: lacks.iter().map(|&text| text.to_owned()).collect(),
        };
        let expected = [
            result("scope", true, &["it has no such socket"]),
            result("egress", false, &[]),
        ];
        assert_eq!(report.tests, expected);
    }

    #[test]
    fn what_did_not_run_to_its_end_or_ran_nothing_fails() {
        let all = "3 passed, 0 failed, 0 skipped";
        let cases: [&[&str]; 6] = [
            &[],
            &[all],
            &["mcpmon-vm: exit 0"],
            &[all, "mcpmon-vm: exit 1"],
            &["0 passed, 0 failed, 0 skipped", "mcpmon-vm: exit 0"],
            &["3 passed, 0 failed, 1 skipped", "mcpmon-vm: exit 0"],
        ];
        for lines in cases {
            assert!(!report(lines).passed(), "{lines:?}");
        }
    }

    #[test]
    fn only_the_summary_line_counts() {
        for line in [
            "3 passed",
            "3 passed, 1 failed",
            "test 3 passed, 0 failed, 0 skipped",
            "x passed, 0 failed, 0 skipped",
        ] {
            assert_eq!(parse_counts(line), None, "{line}");
        }
    }
}

//! `mcpmon detach`: removes the state that a daemon left in the kernel, and resumes the processes that are stopped in
//! it.

use std::{
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use mcpmon_kernel::{
    others,
    pinned::{PinDirectory, PinError},
};

use crate::{
    app::{kept, releaser},
    cli::{CliError, ErrorKind, Output, kernel_state::KernelState},
};

/// The longest wait for the kernel to unload programs that have no holder any more.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Remove what stays in the kernel after the daemon; exit 1 while a daemon runs
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    kernel: KernelState,
}

pub(in crate::cli) fn run(options: &Options, output: &mut Output<'_>) -> Result<(), CliError> {
    let directory = options.kernel.directory.display();
    let Some(pins) = PinDirectory::find(&options.kernel.directory).map_err(explain)? else {
        // The directory is gone with a BPF file system that was unmounted lazily, and its programs are not.
        let outcome = kept::is_refusing().then(still_refusing);
        let outcome = outcome.map_or_else(String::new, |outcome| format!(": {outcome}"));
        output.text(&[format!("nothing is kept in {directory}{outcome}")])?;
        return Ok(output.flush()?);
    };
    let faults = releaser::let_kept_go(&pins).map_err(explain)?;
    pins.remove().map_err(explain)?;
    let deadline = Instant::now() + TIMEOUT;
    while kept::is_refusing() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    let outcome = if kept::is_refusing() {
        still_refusing()
    } else {
        "nothing is refused any more".to_owned()
    };
    output.text(&[format!("removed what was kept in {directory}: {outcome}")])?;
    for fault in faults {
        output.text(&[format!(
            "a process may still be stopped (`kill -CONT PID` lets it go on): {fault}"
        )])?;
    }
    Ok(output.flush()?)
}

/// Describes who still refuses connections after the directory is removed.
fn still_refusing() -> String {
    if others::is_daemon_alive().unwrap_or(false) {
        return "another daemon, which keeps its state in another directory, still enforces".to_owned();
    }
    let links = others::links().unwrap_or_default();
    leftover(&links)
}

/// Describes programs that no daemon has: what holds them, and how to remove them.
fn leftover(links: &[u32]) -> String {
    let mut text = "programs of an earlier daemon still enforce, and no daemon runs. A BPF file system that was unmounted \
                    lazily, or a copy of it in another mount namespace, holds them"
        .to_owned();
    if links.is_empty() {
        text.push_str("; `bpftool link list` shows them, and a restart of the host removes them");
        return text;
    }
    let commands: Vec<String> = links
        .iter()
        .map(|link| format!("bpftool link detach id {link}"))
        .collect();
    text.push_str(&format!(
        "; end the processes of that namespace, or run: {}. A tracepoint cannot be detached that way: its program ends \
         with the namespace, or at a restart of the host",
        commands.join("; ")
    ));
    text
}

fn explain(error: PinError) -> CliError {
    match error {
        PinError::Taken { .. } => CliError::new(
            ErrorKind::Refused,
            anyhow::anyhow!("a daemon runs: nothing is removed under its hands"),
        )
        .with_hint("stop it first: `sudo systemctl stop mcpmon`"),
        error @ (PinError::NotMounted { .. } | PinError::Unsafe { .. } | PinError::Io { .. }) => {
            CliError::new(ErrorKind::Environment, error).with_hint("run the command with sudo")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_a_daemon_are_named_with_what_removes_them() {
        let text = leftover(&[12, 15]);
        assert!(text.contains("no daemon runs"), "{text}");
        assert!(text.contains("unmounted lazily"), "{text}");
        assert!(
            text.contains("run: bpftool link detach id 12; bpftool link detach id 15. A tracepoint"),
            "{text}"
        );
        assert!(leftover(&[]).contains("bpftool link list"));
    }
}

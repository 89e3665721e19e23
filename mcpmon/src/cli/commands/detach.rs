//! `mcpmon detach`: removes the state that a daemon left in the kernel, and resumes the processes that are stopped in
//! it.

use std::{
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use mcpmon_kernel::pinned::{PinDirectory, PinError};

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
        output.text(&[format!("nothing is kept in {directory}")])?;
        return Ok(output.flush()?);
    };
    let faults = releaser::let_kept_go(&pins).map_err(explain)?;
    pins.remove().map_err(explain)?;
    let deadline = Instant::now() + TIMEOUT;
    while kept::is_refusing() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    let told = match kept::is_refusing() {
        false => "nothing is refused any more",
        true => "another daemon, with a directory of its own, goes on refusing",
    };
    output.text(&[format!("removed what was kept in {directory}: {told}")])?;
    for fault in faults {
        output.text(&[format!(
            "a process may still be stopped (`kill -CONT PID` lets it go on): {fault}"
        )])?;
    }
    Ok(output.flush()?)
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

//! `cargo xtask redteam`: runs the suite of attacks and near misses, and prints a table.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::{
    run,
    shell::{self, step},
};

/// Builds mcpmon and the suite, and runs it. The exit status shows whether every case has its expected outcome.
pub(crate) fn run(options: &[OsString]) -> Result<ExitCode> {
    run::build()?;
    step("build the suite", || {
        shell::run(shell::cargo().args(["build", "--locked", "--package", "mcpmon-redteam"]))
    })?;
    let mut suite = shell::command(shell::target().join("debug/mcpmon-redteam"));
    suite.args(options);
    run::exit_code_of(suite)
}

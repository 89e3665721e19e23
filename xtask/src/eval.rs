//! `cargo xtask eval`: measures detection on folders of labelled texts.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::{
    run,
    shell::{self, step},
};

/// Builds the measurement, with optimisation if its speed matters, and runs it in the current directory.
pub(crate) fn run(options: &[OsString], is_release: bool) -> Result<ExitCode> {
    let mut cargo = shell::cargo();
    cargo.args(["build", "--locked", "--package", "mcpmon-eval"]);
    if is_release {
        cargo.arg("--release");
    }
    step("build the measurement", || shell::run(&mut cargo))?;
    let profile = if is_release { "release" } else { "debug" };
    let program = shell::target().join(profile).join("mcpmon-eval");
    let mut measurement = shell::command(program);
    // Folders on the command line are relative to that directory.
    measurement.args(options).current_dir(std::env::current_dir()?);
    run::exit_code_of(measurement)
}

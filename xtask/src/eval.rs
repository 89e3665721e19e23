//! `cargo xtask eval`: what detection finds in folders of labelled texts, and what it takes for an attack.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::{
    run,
    shell::{self, step},
};

/// Builds the measurement, with optimisation where the speed is to be believed, and runs it where it was asked for.
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
    // Folders are named from there.
    measurement.args(options).current_dir(std::env::current_dir()?);
    run::exit_code_of(measurement)
}

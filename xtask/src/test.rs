//! `cargo xtask test`: every test, on a machine that has nothing but Rust and apt to begin with.

use anyhow::Result;

use crate::{
    build_ebpf, packages,
    privilege::Privilege,
    shell::{self, Environment, say, step},
};

/// What the tests themselves use.
const PACKAGES: [&str; 3] = ["iproute2", "procps", "python3"];

/// The package whose tests load kernel programs and make network namespaces.
const KERNEL_TESTS: &str = "mcpmon-kernel-tests";

/// Prepares, builds and tests.
pub(crate) fn run() -> Result<()> {
    packages::require("the tests", &PACKAGES)?;
    build_ebpf::run()?;
    step("tests", || {
        shell::run(tests().args([
            "--workspace",
            "--exclude",
            "mcpmon-ebpf",
            "--exclude",
            KERNEL_TESTS,
        ]))
    })?;
    step("kernel tests", kernel_tests)
}

/// `cargo test`, or `cargo nextest run` where that is installed.
fn tests() -> std::process::Command {
    let mut cargo = shell::cargo();
    if shell::which("cargo-nextest").is_some() {
        cargo.args(["nextest", "run", "--locked", "--no-tests=pass"]);
    } else {
        cargo.args(["test", "--locked"]);
    }
    cargo
}

/// Kernel tests run as root, one at a time: they share the host's root cgroup.
fn kernel_tests() -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.args(["test", "--locked", "--package", KERNEL_TESTS]);
    match (Privilege::current(), shell::is_ci()) {
        (Privilege::Root, _) => {}
        (Privilege::Sudo, _) => {
            say("the kernel tests run as root, through sudo");
            cargo.env(runner_variable(), "sudo --preserve-env");
        }
        (Privilege::None, true) => {
            return Err(
                Environment("under CI the kernel tests must run, and they need root".to_owned()).into(),
            );
        }
        (Privilege::None, false) => {
            say("SKIPPED: the kernel tests need root, and there is no sudo; run `cargo xtask test` as root");
            return Ok(());
        }
    }
    shell::run(cargo.args(["--", "--test-threads=1"]))
}

/// The variable by which Cargo wraps every test binary of this host.
fn runner_variable() -> String {
    let host = format!("{}_unknown_linux_gnu", std::env::consts::ARCH);
    format!("CARGO_TARGET_{}_RUNNER", host.to_ascii_uppercase())
}

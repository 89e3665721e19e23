//! Execution of a plan, one step at a time, with another probe after each: rustup, apt, `cargo install`.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::Result;

use super::{
    plan::{Compiler, DISTRIBUTION, Linker, LlvmSource, NIGHTLY, NoPlan, Plan, Rustup, Toolchain, choose},
    probe,
};
use crate::{
    packages,
    privilege::{self, Change},
    shell::{self, Environment, say, step},
};

/// Returns a compiler with its sources and a linker for its LLVM; missing parts are installed.
///
/// # Errors
/// [`Environment`] if no compiler, LLVM and linker fit together, or no person can agree to apt.
pub(super) fn toolchain() -> Result<Toolchain> {
    let mut rustup = None;
    let mut packages = Packages::default();
    loop {
        match choose(&probe::probe(rustup)) {
            Ok(Plan::Build(toolchain)) => {
                install_linker(&toolchain)?;
                return Ok(toolchain);
            }
            Ok(Plan::FetchNightly) => {
                let fetched = step(&format!("fetch {NIGHTLY} with rust-src"), fetch_nightly);
                if let Err(error) = fetched {
                    say(format_args!(
                        "{error:#}; trying the distribution's packages instead"
                    ));
                }
                // The next probe shows whether this worked; it is not tried again.
                rustup = Some(Rustup::CannotFetch);
            }
            Ok(Plan::InstallPackages {
                packages: names,
                replaces,
            }) => packages.install(&names, &replaces)?,
            Err(NoPlan(_)) if packages::apt_exists() && !packages::lists_are_fresh() => refresh_lists()?,
            Err(NoPlan(reasons)) => return Err(Environment(explain(&reasons)).into()),
        }
    }
}

/// Returns the path of the bpf-linker built for this LLVM.
pub(super) fn linker_path(linker: Linker) -> PathBuf {
    root(linker).join("bin/bpf-linker")
}

/// Makes sure that the compiler's clippy is installed.
pub(super) fn clippy(compiler: &Compiler) -> Result<()> {
    if compiler.bin.join("cargo-clippy").exists() {
        return Ok(());
    }
    if compiler.name == DISTRIBUTION[0] {
        return packages::require("checking the kernel programs", &["rust-web-clippy"]);
    }
    shell::run(shell::command("rustup").args(["component", "add", "clippy", "--toolchain", &compiler.name]))
}

fn fetch_nightly() -> Result<()> {
    let mut rustup = shell::command("rustup");
    rustup.args([
        "toolchain",
        "install",
        NIGHTLY,
        "--no-self-update",
        "--profile",
        "minimal",
    ]);
    shell::run(rustup.args(["--component", "rust-src", "--component", "clippy"]))
}

/// The progress of package installation.
#[derive(Debug, Default)]
enum Packages {
    #[default]
    Unasked,
    Agreed,
    Installed,
}

impl Packages {
    /// Does one step: asks for consent with the names known so far; then updates the package lists (which may bring a
    /// newer compiler with another LLVM, hence other names); then installs.
    fn install(&mut self, names: &[String], replaces: &BTreeSet<String>) -> Result<()> {
        match self {
            Self::Unasked => {
                let change = if replaces.is_empty() {
                    Change::Adds
                } else {
                    Change::Removes
                };
                privilege::consent(
                    &purpose(replaces),
                    &[packages::update(), packages::install(names)],
                    change,
                )?;
                *self = Self::Agreed;
                packages::refresh()
            }
            Self::Agreed => {
                *self = Self::Installed;
                step("install the compiler's packages", || {
                    packages::run(&mut packages::install(names))
                })
            }
            Self::Installed => {
                let list = names.join(" ");
                Err(Environment(format!(
                    "the packages {list} are installed, but give no usable compiler"
                ))
                .into())
            }
        }
    }
}

fn purpose(replaces: &BTreeSet<String>) -> String {
    let needs =
        "The build of the kernel programs needs the distribution's compiler, its sources and its LLVM";
    if replaces.is_empty() {
        return needs.to_owned();
    }
    let list = replaces.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "{needs}; {} conflicts with installed packages: apt will REMOVE {list}",
        DISTRIBUTION[0]
    )
}

fn refresh_lists() -> Result<()> {
    let purpose = "No compiler for the kernel programs is known; apt's package lists may be out of date";
    privilege::consent(purpose, &[packages::update()], Change::Adds)?;
    packages::refresh()
}

fn install_linker(Toolchain { compiler, linker }: &Toolchain) -> Result<()> {
    if linker_path(*linker).exists() {
        return Ok(());
    }
    let (version, feature) = (linker.version, linker.feature());
    say(format_args!(
        "compiler: {} {} with LLVM {}",
        compiler.name, compiler.version, compiler.llvm
    ));
    step(
        &format!("install bpf-linker {version} ({feature}) under target/tools; half a minute"),
        || {
            let mut install = shell::cargo();
            install.args([
                "install",
                "bpf-linker",
                "--version",
                &format!("={version}"),
                "--locked",
                "--quiet",
            ]);
            // Nearly all of its work is LLVM's, which is optimised anyway.
            install
                .args([
                    "--debug",
                    "--no-default-features",
                    "--features",
                    &feature,
                    "--root",
                ])
                .arg(root(*linker));
            if linker.source == LlvmSource::Package {
                install.env("LLVM_PREFIX", probe::llvm_prefix(linker.llvm));
            }
            shell::run(&mut install)
        },
    )
}

fn root(linker: Linker) -> PathBuf {
    shell::target().join(format!(
        "tools/bpf-linker-{}-{}",
        linker.version,
        linker.feature()
    ))
}

fn explain(reasons: &[String]) -> String {
    let list: Vec<String> = reasons.iter().map(|reason| format!("    {reason}")).collect();
    format!(
        "no compiler, LLVM and bpf-linker that fit together:\n{}\n\
         hint: `rustup toolchain install {NIGHTLY} --component rust-src`, or set MCPMON_BPF_OBJECT to a prebuilt object",
        list.join("\n")
    )
}

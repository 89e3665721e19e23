//! `cargo xtask day`: performs honest actions of ordinary days before servers behind mcpmon, and prints a table. Their
//! tools and packages are in `target/day-packages`: exact versions, fetched once, and again if a list changes.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{
    packages,
    privilege::Privilege,
    run,
    shell::{self, repository, say, step},
};

/// The directory of the lists.
const LISTS: &str = "tests/day/packages";
/// The list of programs from PyPI.
const TOOLS: &str = "tools.txt";
/// Lists of wheels. A list has one version of each package.
const WHEELS: [&str; 2] = ["wheels.txt", "wheels-earlier.txt"];
/// The list of npm packages.
const NPM: &str = "npm.txt";
/// The npm package that is a program.
const FORMATTER: &str = "prettier";
/// Commands that the actions run, and the Debian packages that contain them.
const USED: [(&str, &str); 6] = [
    ("git", "git"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("python3", "python3"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
];

/// Builds mcpmon and the suite, fetches the packages, and performs the actions; as root if possible, because a part of
/// the configurations has a daemon. The exit status shows whether every action has its expected result.
pub(crate) fn run(options: &[OsString]) -> Result<ExitCode> {
    prerequisites()?;
    install()?;
    run::build()?;
    step("build the suite", || {
        shell::run(shell::cargo().args(["build", "--locked", "--package", "mcpmon-day"]))
    })?;
    let mut suite = shell::command(shell::target().join("debug/mcpmon-day"));
    suite.args(options);
    run::exit_code_of(match Privilege::current() {
        privilege @ (Privilege::Root | Privilege::Sudo) => privilege.elevate(suite),
        Privilege::None => suite,
    })
}

/// Installs what the actions need of the distribution; may ask for consent.
pub(crate) fn prerequisites() -> Result<()> {
    packages::require_commands("a working day", &USED)?;
    packages::require("the Python environments of a working day", &["python3-venv"])
}

/// Fetches what is missing.
pub(crate) fn install() -> Result<()> {
    step("tools and packages of a working day", || {
        let root = shell::target().join("day-packages");
        let lists = [TOOLS, WHEELS[0], WHEELS[1], NPM];
        let wanted = lists
            .iter()
            .map(|list| read(&source(list)))
            .collect::<Result<String>>()?;
        let ready = root.join("ready");
        if fs::read_to_string(&ready).is_ok_and(|installed| installed == wanted) {
            say("installed already");
            return Ok(());
        }
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("could not remove {}", root.display()))?;
        }
        fs::create_dir_all(root.join("bin"))?;
        fetch(&root)?;
        fs::write(&ready, wanted).with_context(|| format!("could not write {}", ready.display()))
    })
}

fn fetch(root: &Path) -> Result<()> {
    let environment = root.join("tools");
    shell::run(shell::command("python3").args(["-m", "venv"]).arg(&environment))?;
    let pip = |arguments: &[&str], list: &str| {
        let mut pip = Command::new(environment.join("bin/pip"));
        pip.args(arguments)
            .args(["--quiet", "--disable-pip-version-check", "--requirement"]);
        shell::run(pip.arg(source(list)).current_dir(root))
    };
    pip(&["install"], TOOLS)?;
    for list in WHEELS {
        pip(&["download", "--no-deps", "--dest", "wheels"], list)?;
    }
    let tarballs = root.join("npm");
    fs::create_dir(&tarballs)?;
    let npm = read(&source(NPM))?;
    let mut pack = shell::command("npm");
    pack.args(["pack", "--silent", "--pack-destination", "."]);
    shell::run(pack.args(npm.split_whitespace()).current_dir(&tarballs))?;
    let formatter = npm
        .split_whitespace()
        .find(|package| package.starts_with(FORMATTER))
        .context("a formatter is in the list")?;
    let mut install = shell::command("npm");
    install.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
    shell::run(install.arg(root.join("node")).arg(formatter))?;
    for tool in ["pip", "ruff", "uv", "uvx"] {
        symlink(environment.join("bin").join(tool), root.join("bin").join(tool))?;
    }
    let formatter = root.join("node/node_modules/.bin").join(FORMATTER);
    Ok(symlink(formatter, root.join("bin").join(FORMATTER))?)
}

fn source(name: &str) -> PathBuf {
    repository().join(LISTS).join(name)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

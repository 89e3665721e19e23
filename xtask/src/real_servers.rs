//! Real MCP servers, SDKs, clients and agents for the end-to-end tests, in `target/real-servers`: exact versions,
//! installed once, and again if the list changes, so that no test needs the network.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    packages,
    shell::{self, repository, say, step},
};

/// The directory of the lists and scripts.
const SOURCES: &str = "tests/e2e/fixtures/real";
/// Lists of packages: if one changes, everything is installed anew.
const LISTS: [&str; 5] = [
    "package.json",
    "requirements.txt",
    "requirements-v2.txt",
    "requirements-llm.txt",
    "requirements-launchers.txt",
];

/// Python environments: the directory, and the list of its packages.
const PYTHON: [(&str, &str); 4] = [
    ("python", "requirements.txt"),
    ("python2", "requirements-v2.txt"),
    ("python-llm", "requirements-llm.txt"),
    ("python-launchers", "requirements-launchers.txt"),
];

/// Installs the system packages that the installation needs; may ask for consent.
pub(crate) fn prerequisites() -> Result<()> {
    packages::require("the Python environments of real servers", &["python3-venv"])
}

/// Installs what is missing, and copies the scripts. It asks nothing, so it can run in parallel with other work.
pub(crate) fn install() -> Result<()> {
    step("real servers and SDKs for the end-to-end tests", || {
        let root = shell::target().join("real-servers");
        let wanted = wanted()?;
        let ready = root.join("ready");
        if fs::read_to_string(&ready).is_ok_and(|installed| installed == wanted) {
            say("installed already");
        } else {
            if root.exists() {
                fs::remove_dir_all(&root).with_context(|| format!("could not remove {}", root.display()))?;
            }
            install_all(&root)?;
        }
        copy_scripts(&root)?;
        fs::write(&ready, wanted).with_context(|| format!("could not write {}", ready.display()))
    })
}

/// Installs all in parallel, because most of the time is spent waiting for the network.
fn install_all(root: &Path) -> Result<()> {
    std::thread::scope(|scope| {
        let python = |(directory, list): (&'static str, &'static str)| {
            scope.spawn(move || install_python(&root.join(directory), list))
        };
        let python = PYTHON.map(python);
        let npm = install_npm(&root.join("npm"));
        python.into_iter().try_for_each(shell::join)?;
        npm
    })
}

fn wanted() -> Result<String> {
    LISTS.iter().map(|list| read(&source(list))).collect()
}

fn install_npm(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    fs::copy(source("package.json"), directory.join("package.json"))?;
    let mut npm = shell::command("npm");
    npm.args([
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--loglevel=error",
    ]);
    shell::run(npm.current_dir(directory))
}

fn install_python(directory: &Path, list: &str) -> Result<()> {
    shell::run(shell::command("python3").args(["-m", "venv"]).arg(directory))?;
    let mut pip = Command::new(directory.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
    ]);
    shell::run(pip.arg(source(list)))
}

/// Copies the scripts beside the packages, because node looks for packages from a script's own directory.
fn copy_scripts(root: &Path) -> Result<()> {
    for entry in fs::read_dir(repository().join(SOURCES))? {
        let path = entry?.path();
        let target = match path.extension().and_then(|extension| extension.to_str()) {
            Some("mjs") => root.join("npm"),
            Some("py") => root.to_owned(),
            _ => continue,
        };
        let name = path.file_name().context("an entry has a name")?;
        fs::copy(&path, target.join(name))?;
    }
    Ok(())
}

fn source(name: &str) -> PathBuf {
    repository().join(SOURCES).join(name)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

//! A collector of OpenTelemetry and ClickHouse's engine, from PyPI, in `target/tools/collector`: exact versions, installed
//! once, again when the list changes.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::shell::{self, repository, step};

const LIST: &str = "tests/e2e/fixtures/telemetry/requirements.txt";

/// Installs both where they are not there. Needs python3 with venv.
pub(crate) fn install() -> Result<()> {
    let root = shell::target().join("tools/collector");
    let list = repository().join(LIST);
    let wanted = fs::read_to_string(&list).with_context(|| format!("could not read {}", list.display()))?;
    let ready = root.join("ready");
    if fs::read_to_string(&ready).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    step("a collector for the tests of telemetry", || {
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("could not remove {}", root.display()))?;
        }
        shell::run(shell::command("python3").args(["-m", "venv"]).arg(&root))?;
        let mut pip = Command::new(root.join("bin/pip"));
        pip.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ]);
        shell::run(pip.arg(&list))?;
        link_agent(&root)?;
        fs::write(&ready, &wanted).with_context(|| format!("could not write {}", ready.display()))
    })
}

/// The package has the program in a directory that is named after the version of Python.
fn link_agent(root: &Path) -> Result<()> {
    let python = root.join("bin/python");
    let place = "import rotel, os; print(os.path.join(os.path.dirname(rotel.__file__), 'rotel-agent'))";
    let python = python.to_str().context("a path of target/ is text")?;
    let agent = shell::ask(python, &["-c", place]).context("rotel does not say where its program is")?;
    std::os::unix::fs::symlink(agent.trim(), root.join("rotel-agent"))?;
    Ok(())
}

//! Programs and libraries from PyPI for tests, below `target/tools`. Each list has an environment: exact versions,
//! installed once, and again if the list changes.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::shell::{self, repository, step};

/// Installs the packages of `list` in `target/tools/NAME` if they are not installed, and then calls `finish`. Needs
/// python3 with venv.
pub(crate) fn install(
    name: &str,
    purpose: &str,
    list: &str,
    finish: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let root = shell::target().join("tools").join(name);
    let list = repository().join(list);
    let wanted = fs::read_to_string(&list).with_context(|| format!("could not read {}", list.display()))?;
    let ready = root.join("ready");
    if fs::read_to_string(&ready).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    step(purpose, || {
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
        finish(&root)?;
        fs::write(&ready, &wanted).with_context(|| format!("could not write {}", ready.display()))
    })
}

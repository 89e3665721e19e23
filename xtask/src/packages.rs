//! The distribution's packages: which are installed, which are offered, and their installation.

use std::{
    collections::BTreeSet,
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Result;

use crate::{
    privilege::{self, Change, Privilege},
    shell::{self, Environment},
};

/// True once `apt-get update` has run in this process.
static LISTS_ARE_FRESH: AtomicBool = AtomicBool::new(false);

/// One apt at a time, because a second one fails.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a command of apt, after any other one.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    shell::run(command)
}

/// Returns whether this distribution has apt.
pub(crate) fn apt_exists() -> bool {
    shell::which("apt-get").is_some()
}

/// Returns those of `names` that are installed.
pub(crate) fn installed(names: &[&str]) -> BTreeSet<String> {
    let is_installed = |name: &&&str| {
        shell::ask(
            "dpkg-query",
            &["--show", "--showformat=${db:Status-Status}", name],
        )
        .is_some_and(|status| status == "installed")
    };
    names
        .iter()
        .filter(is_installed)
        .map(|name| (*name).to_owned())
        .collect()
}

/// Returns whether the package lists offer this package.
pub(crate) fn is_offered(name: &str) -> bool {
    shell::ask("apt-cache", &["show", "--no-all-versions", name]).is_some_and(|text| !text.trim().is_empty())
}

/// Returns whether the package lists are known to be current.
pub(crate) fn lists_are_fresh() -> bool {
    LISTS_ARE_FRESH.load(Ordering::Relaxed)
}

/// Updates the package lists; consent was given before.
pub(crate) fn refresh() -> Result<()> {
    run(&mut update())?;
    LISTS_ARE_FRESH.store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns the command `apt-get update`, run as root.
pub(crate) fn update() -> Command {
    let mut update = shell::command("apt-get");
    update.args(["update", "--quiet"]);
    Privilege::current().elevate(update)
}

/// Returns the command `apt-get install`, run as root, for these packages and their dependencies, but not recommended
/// ones.
pub(crate) fn install(names: &[String]) -> Command {
    let mut install = shell::command("apt-get");
    install
        .args(["install", "--yes", "--quiet", "--no-install-recommends"])
        .args(names);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    Privilege::current().elevate(install)
}

/// Installs the packages of those commands that are missing, after asking once.
///
/// # Errors
/// Returns the errors of [`require`].
pub(crate) fn require_commands(purpose: &str, commands: &[(&str, &str)]) -> Result<()> {
    let missing = commands
        .iter()
        .filter(|(command, _)| shell::which(command).is_none());
    let packages: BTreeSet<&str> = missing.map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    require(purpose, &packages.into_iter().collect::<Vec<_>>())
}

/// Installs the missing packages of `names`, after asking once.
///
/// # Errors
/// [`Environment`] if there is no apt, or no person can consent or the answer is no.
pub(crate) fn require(purpose: &str, names: &[&str]) -> Result<()> {
    let present = installed(names);
    let missing: Vec<String> = names
        .iter()
        .filter(|name| !present.contains(**name))
        .map(|name| (*name).to_owned())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !apt_exists() {
        let list = missing.join(", ");
        return Err(Environment(format!(
            "{purpose} needs these, and there is no apt to install them: {list}"
        ))
        .into());
    }
    let purpose = format!("{purpose} needs {}", missing.join(", "));
    if lists_are_fresh() {
        privilege::consent(&purpose, &[install(&missing)], Change::Adds)?;
    } else {
        privilege::consent(&purpose, &[update(), install(&missing)], Change::Adds)?;
        refresh()?;
    }
    run(&mut install(&missing))
}

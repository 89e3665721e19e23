//! The Prometheus of the distribution, unpacked beside the build: installed, it would run as a service of this host.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::{
    packages,
    shell::{self, Environment, step},
};

const PACKAGE: &str = "prometheus";

/// Unpacks it where that was not done, and returns its root.
///
/// # Errors
/// [`Environment`] where there is no apt.
pub(crate) fn unpack() -> Result<PathBuf> {
    let root = shell::target().join("tools").join(PACKAGE);
    if root.join("usr/bin/promtool").exists() {
        return Ok(root);
    }
    if !packages::apt_exists() {
        let message =
            format!("metrics are tested with Debian's package `{PACKAGE}`, and there is no apt to fetch it");
        return Err(Environment(message).into());
    }
    step("Prometheus, for the tests of metrics", || {
        let partial = root.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        fs::create_dir_all(&partial)?;
        shell::run(
            shell::command("apt-get")
                .args(["download", "--quiet", PACKAGE])
                .current_dir(&partial),
        )?;
        let archive = fs::read_dir(&partial)?
            .next()
            .context("apt-get downloaded nothing")??
            .path();
        let unpacked = partial.join("root");
        shell::run(
            shell::command("dpkg-deb")
                .arg("--extract")
                .args([&archive, &unpacked]),
        )?;
        ensure!(
            unpacked.join("usr/bin/promtool").exists(),
            "{PACKAGE} has no promtool"
        );
        fs::rename(&unpacked, &root)?;
        Ok(fs::remove_dir_all(&partial)?)
    })?;
    Ok(root)
}

/// Checks the alert rules and the dashboard with promtool.
pub(crate) fn check_rules() -> Result<()> {
    let promtool = unpack()?.join("usr/bin/promtool");
    shell::run(shell::command("deploy/grafana/validate.sh").env("PROMTOOL", promtool))
}

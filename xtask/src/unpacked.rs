//! Programs of the distribution, unpacked in the build directory: installed packages would run as services of this
//! host.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::{
    packages,
    shell::{self, Environment, step},
};

/// A package of Debian, and the program in it that is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnpackedPackage {
    name: &'static str,
    program: &'static str,
    /// The subject of the tests that need it.
    subject: &'static str,
}

/// Prometheus, with promtool.
pub(crate) const PROMETHEUS: UnpackedPackage = UnpackedPackage {
    name: "prometheus",
    program: "usr/bin/promtool",
    subject: "metrics",
};

/// nginx, which terminates TLS in front of a collector.
pub(crate) const NGINX: UnpackedPackage = UnpackedPackage {
    name: "nginx",
    program: "usr/sbin/nginx",
    subject: "exports over TLS",
};

impl UnpackedPackage {
    /// Unpacks the package if that was not done before, and returns its root.
    ///
    /// # Errors
    /// [`Environment`] if there is no apt.
    pub(crate) fn unpack(self) -> Result<PathBuf> {
        let Self {
            name,
            program,
            subject,
        } = self;
        let root = shell::target().join("tools").join(name);
        if root.join(program).exists() {
            return Ok(root);
        }
        if !packages::apt_exists() {
            let message = format!(
                "{subject} are tested with Debian's package `{name}`, and there is no apt to fetch it"
            );
            return Err(Environment(message).into());
        }
        step(&format!("{name}, for the tests of {subject}"), || {
            let partial = root.with_extension("partial");
            if partial.exists() {
                fs::remove_dir_all(&partial)?;
            }
            fs::create_dir_all(&partial)?;
            packages::run(
                shell::command("apt-get")
                    .args(["download", "--quiet", name])
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
            ensure!(unpacked.join(program).exists(), "{name} has no {program}");
            fs::rename(&unpacked, &root)?;
            Ok(fs::remove_dir_all(&partial)?)
        })?;
        Ok(root)
    }
}

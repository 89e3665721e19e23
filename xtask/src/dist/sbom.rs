//! The software bill of materials: every crate of the binary, in CycloneDX format.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{build::Source, target::Target, tool};
use crate::shell;

/// Writes the bill to `to`. The tool writes beside each `Cargo.toml`, so it gets a copy of the sources.
pub(super) fn write(source: &Source, target: Target, scratch: &Path, to: &Path) -> Result<()> {
    let tool = tool::provide(tool::CYCLONEDX)?;
    let copy = scratch.join("sbom");
    shell::run(
        Command::new("git")
            .args(["clone", "--quiet", "--shared"])
            .arg(&source.directory)
            .arg(&copy),
    )?;
    let mut cyclonedx = Command::new(tool);
    cyclonedx
        .args([
            "cyclonedx",
            "--format",
            "json",
            "--spec-version",
            "1.5",
            "--no-build-deps",
            "--quiet",
        ])
        .args(["--target", target.triple, "--override-filename", "bill"])
        .args(["--manifest-path", "mcpmon/Cargo.toml"])
        .current_dir(&copy);
    shell::run(source.date(&mut cyclonedx))?;
    let written = copy.join("mcpmon/bill.json");
    let bill =
        fs::read_to_string(&written).with_context(|| format!("could not read {}", written.display()))?;
    // Crates of the workspace are identified by their directories.
    let bill = bill.replace(&copy.display().to_string(), "/mcpmon");
    fs::write(to, bill).with_context(|| format!("could not write {}", to.display()))
}

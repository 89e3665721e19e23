//! Checksums of all files of a release, and the signature of the checksums.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::tarball::hexadecimal;
use crate::{packages, shell};

const SUMS: &str = "SHA256SUMS";

/// Writes the checksums of every file in the directory, sorted by name, and returns all names.
pub(super) fn write(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().into_string();
        names.push(name.ok().context("a name that is no text")?);
    }
    names.sort();
    let mut sums = String::new();
    for name in &names {
        sums += &format!("{}  {name}\n", hexadecimal(&fs::read(directory.join(name))?));
    }
    fs::write(directory.join(SUMS), sums).context("could not write the checksums")?;
    names.push(SUMS.to_owned());
    Ok(names)
}

/// Signs the checksums with minisign. A fixed comment replaces minisign's own, which has the time. Asks for the
/// password if the key has one.
pub(super) fn sign(directory: &Path, key: &Path, version: &str) -> Result<String> {
    packages::require_commands("signing", &[("minisign", "minisign")])?;
    let mut minisign = Command::new("minisign");
    minisign.arg("-S").arg("-s").arg(key);
    minisign.args(["-t", &format!("mcpmon {version}")]);
    minisign.arg("-m").arg(directory.join(SUMS));
    shell::run(&mut minisign)?;
    Ok(format!("{SUMS}.minisig"))
}

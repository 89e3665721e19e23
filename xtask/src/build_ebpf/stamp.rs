//! The stamp of an object: the sources and the compiler from which it was built.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use mcpmon_model::Digest;

use super::{BuildOptions, KERNEL_LOG, plan::NIGHTLY, probe};

/// The inputs of the object, relative to the repository.
const INPUTS: [&str; 4] = ["Cargo.lock", "Cargo.toml", "mcpmon-common", "mcpmon-ebpf"];

/// Returns one digest of all inputs: paths, contents and options.
pub(super) fn inputs(repository: &Path, options: BuildOptions) -> Result<Digest> {
    let mut files = Vec::new();
    for input in INPUTS {
        collect(&repository.join(input), &mut files)?;
    }
    files.sort();
    let mut manifest = format!("{NIGHTLY}\n");
    if options.kernel_log {
        manifest += &format!("{KERNEL_LOG}\n");
    }
    for file in files {
        let contents = fs::read(&file).with_context(|| format!("could not read {}", file.display()))?;
        let path = file.strip_prefix(repository).unwrap_or(&file);
        manifest += &format!("{} {}\n", Digest::of(&contents), path.display());
    }
    Ok(Digest::of(manifest.as_bytes()))
}

/// Returns whether the object was built from `inputs`, by a compiler that has not changed.
pub(super) fn is_current(object: &Path, inputs: &Digest) -> bool {
    let Ok(written) = fs::read_to_string(path(object)) else {
        return false;
    };
    let mut lines = written.lines();
    let bin = lines.next().map(Path::new);
    bin.and_then(|bin| text(inputs, bin))
        .is_some_and(|now| now == written)
}

/// Writes the stamp for an object.
pub(super) fn write(object: &Path, inputs: &Digest, bin: &Path) -> Result<()> {
    let text = text(inputs, bin).context("the compiler that has just been used cannot be run")?;
    fs::write(path(object), text).context("could not write the stamp of the object")
}

fn text(inputs: &Digest, bin: &Path) -> Option<String> {
    Some(format!(
        "{}\n{inputs}\n{}",
        bin.display(),
        probe::verbose_version(bin)?
    ))
}

fn path(object: &Path) -> PathBuf {
    object.with_extension("stamp")
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| format!("could not read {}", path.display()))? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_edit_changes_the_digest() {
        let repository = tempfile::tempdir().unwrap();
        for input in INPUTS {
            fs::write(repository.path().join(input), "same").unwrap();
        }
        let plain = BuildOptions::default();
        let before = inputs(repository.path(), plain).unwrap();
        assert_eq!(inputs(repository.path(), plain).unwrap(), before);
        let logging = BuildOptions { kernel_log: true };
        assert_ne!(inputs(repository.path(), logging).unwrap(), before);
        fs::write(repository.path().join("mcpmon-ebpf"), "edit").unwrap();
        assert_ne!(inputs(repository.path(), plain).unwrap(), before);
    }

    #[test]
    fn a_stamp_holds_for_its_inputs_and_compiler_only() {
        let directory = tempfile::tempdir().unwrap();
        let object = directory.path().join("object");
        let rustc = directory.path().join("rustc");
        compiler(&rustc, "rustc 1.0");
        let (these, others) = (Digest::of(b"these"), Digest::of(b"others"));
        write(&object, &these, directory.path()).unwrap();
        assert!(is_current(&object, &these));
        assert!(!is_current(&object, &others));
        compiler(&rustc, "rustc 2.0");
        assert!(!is_current(&object, &these));
    }

    fn compiler(path: &Path, version: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        fs::write(path, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

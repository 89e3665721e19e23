//! The package of a command, by the files that its words lead to.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use mcpmon_detect::launch::{CodePlace, LaunchRules};
use mcpmon_model::{Package, PackageKind};
use mcpmon_pins::{EntryKind, Root, owner_of_command, owner_of_module};

use super::linked::found;

/// Bytes of a program that show whether it is a script.
const SCRIPT_MARK: &[u8] = b"#!";
/// Largest program that is looked at for that mark, bytes. Scripts are smaller.
const MAX_SCRIPT: u64 = 64 << 10;

/// Returns the package of what `argv` runs, as a process with this root and this working directory finds it; `linked` is
/// `argv` with links into installed packages resolved. A bare program name is looked up on `search_path`.
pub(super) fn package_of(
    root: &Root,
    directory: &Path,
    search_path: Option<&OsStr>,
    argv: &[String],
    linked: &[String],
) -> Option<Package> {
    let named = LaunchRules::package(argv, linked)?;
    // What a registry names needs no file, and is the same wherever it lies.
    if matches!(named.kind(), PackageKind::Npm | PackageKind::Oci) {
        return Some(named);
    }
    let words = if linked.is_empty() { argv } else { linked };
    let place = LaunchRules::code_place(words);
    let real = |path: &str| {
        let path = root.canonical(&directory.join(path)).ok()?;
        path.to_str().map(str::to_owned)
    };
    let of_file = match place {
        Some(CodePlace::Module(module)) => {
            let top = module.split('.').next().unwrap_or(&module);
            let own = [directory.join(format!("{top}.py")), directory.join(top)];
            // Python looks in the working directory first.
            if let Some(own) = own.iter().find(|path| root.find(path).is_ok()) {
                return Package::new(PackageKind::Script, &real(own.to_str()?)?);
            }
            let interpreter = words
                .first()
                .and_then(|word| program(root, directory, search_path, word));
            let owner = interpreter.and_then(|interpreter| owner_of_module(root, &interpreter, top));
            owner.and_then(|owner| Package::new(PackageKind::Pypi, &owner))
        }
        Some(CodePlace::Script(path)) => real(&path).and_then(|path| script(root, &path)),
        Some(CodePlace::Program(name)) => {
            let path = program(root, directory, search_path, &name);
            path.and_then(|path| {
                let path = real(path.to_str()?)?;
                let content = root.read(Path::new(&path), MAX_SCRIPT).ok()?;
                content.starts_with(SCRIPT_MARK).then(|| script(root, &path))?
            })
        }
        // A launcher is given a directory or a file by its path.
        None if named.kind() == PackageKind::Script => {
            real(named.name()).and_then(|path| Package::new(PackageKind::Script, &path))
        }
        None => None,
    };
    of_file.or(Some(named))
}

/// Returns the package of a script at a path without links.
fn script(root: &Root, path: &str) -> Option<Package> {
    if let Some(owner) = owner_of_command(root, Path::new(path)) {
        return Package::new(PackageKind::Pypi, &owner);
    }
    LaunchRules::package_of_file(path)
}

/// Returns the path of a program, whose links are not followed.
fn program(root: &Root, directory: &Path, search_path: Option<&OsStr>, name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = directory.join(name);
        return root.is(&path, EntryKind::File).then_some(path);
    }
    found(root, directory, search_path?, name)
}

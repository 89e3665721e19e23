//! The modules in a script's directory, which Python searches first.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::{
    package::{PackageError, unreadable},
    root::{EntryKind, Root},
};

/// Endings of files that can be imported: source, extension module, and compiled without its source.
const ENDINGS: [&str; 3] = [".py", ".so", ".pyc"];
/// Files that make a directory a package.
const PACKAGE_FILES: [&str; 3] = ["__init__.py", "__init__.pyc", "__main__.py"];
/// A script in the `bin` directory of an environment: it contains the environment's path, and no server loads it.
const ACTIVATION: &str = "activate_this";
/// Python's own tests. Many projects have tests with that name, which no server loads.
const TESTS: &str = "test";

/// The modules of one directory.
#[derive(Debug, Default)]
pub(super) struct DirectoryModules {
    /// Files and packages by the name of their module, including links and their targets.
    modules: BTreeMap<String, BTreeSet<PathBuf>>,
    /// Other directories: they are packages only if nothing else has their name.
    directories: BTreeMap<String, BTreeSet<PathBuf>>,
}

impl DirectoryModules {
    /// Reads the entries of `directory`.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub(super) fn read(root: &Root, directory: &Path) -> Result<Self, PackageError> {
        let mut local = Self::default();
        for name in root.names(directory).map_err(unreadable(directory))? {
            let path = directory.join(&name);
            let paths = || {
                [Some(path.clone()), root.canonical(&path).ok()]
                    .into_iter()
                    .flatten()
            };
            if root.is(&path, EntryKind::Directory) {
                let Some(module) = name.to_str().filter(|name| is_identifier(name)) else {
                    continue;
                };
                let is_package = PACKAGE_FILES
                    .iter()
                    .any(|file| root.is(&path.join(file), EntryKind::File));
                let of_kind = match is_package {
                    true => &mut local.modules,
                    false => &mut local.directories,
                };
                of_kind.entry(module.to_owned()).or_default().extend(paths());
            } else if let Some(module) = module_of_file(&name).filter(|module| *module != ACTIVATION) {
                local
                    .modules
                    .entry(module.to_owned())
                    .or_default()
                    .extend(paths());
            }
        }
        Ok(local)
    }

    /// Returns whether there is a module with that name.
    pub(super) fn has(&self, module: &str) -> bool {
        self.modules.contains_key(module)
    }

    /// Returns the names of the modules.
    pub(super) fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    /// Returns the files that are imported as `module` from here; `is_elsewhere` is true if another directory has the
    /// module.
    pub(super) fn paths(&self, module: &str, is_elsewhere: bool) -> Option<&BTreeSet<PathBuf>> {
        let bare = || self.directories.get(module).filter(|_| !is_elsewhere);
        self.modules.get(module).or_else(bare)
    }
}

/// Returns the names of the modules in a directory that Python searches later; none if it cannot be read.
pub(super) fn module_names(root: &Root, directory: &Path) -> Vec<String> {
    let names = root.names(directory).unwrap_or_default();
    let modules = names.iter().filter_map(|name| {
        let module = module_of_file(name).or_else(|| name.to_str().filter(|name| is_identifier(name)))?;
        (module != TESTS).then(|| module.to_owned())
    });
    modules.collect()
}

/// Returns `a` of `a.py`, `a.pyc`, `a.so` and `a.cpython-311-x86_64-linux-gnu.so`.
fn module_of_file(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    ENDINGS.iter().find(|ending| name.ends_with(*ending))?;
    name.split('.').next().filter(|module| is_identifier(module))
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c == '_' || c.is_alphanumeric()) && name != "__pycache__"
}

//! Programs that a dynamic loader was told to run: the kernel executes the loader, which opens the program by its path,
//! as an interpreter opens its script.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use mcpmon_model::{Writers, is_loader};

use super::{
    EntryPoint,
    process::Executable,
    root::{EntryKind, Root},
};

/// A process as it is compared: its executable, the name by which it was started, and its entry point.
#[derive(Debug)]
pub(super) struct ComparedProgram<'e> {
    pub(super) executable: Executable,
    pub(super) name: OsString,
    pub(super) entry: &'e EntryPoint,
}

impl<'e> ComparedProgram<'e> {
    /// Replaces the loader by the program. If the loader is not one of root's, or the program is not found, the loader
    /// remains: no server has its content, so it matches no pin.
    pub(super) fn of(
        root: &Root,
        working_directory: &Path,
        executable: Executable,
        name: OsString,
        entry: &'e EntryPoint,
    ) -> Self {
        let EntryPoint::Loaded(program, entry) = entry else {
            return Self {
                executable,
                name,
                entry,
            };
        };
        let loaded = match is_roots_loader(root, &executable) {
            // A bare name is looked up among the libraries, so it is not resolved here.
            true if program.as_os_str().as_bytes().contains(&b'/') => {
                find(root, &working_directory.join(program)).ok()
            }
            true | false => None,
        };
        let name = match &loaded {
            Some(_) => program.clone().into_os_string(),
            None => name,
        };
        Self {
            executable: loaded.unwrap_or(executable),
            name,
            entry,
        }
    }
}

fn find(root: &Root, path: &Path) -> io::Result<Executable> {
    let path = root.canonical(path)?;
    let node = root.find(&path)?;
    if node.kind() != EntryKind::File {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    root.watch_file(&path, &node);
    Ok(Executable {
        path,
        deleted: false,
        node,
    })
}

/// Returns whether an executable is a dynamic loader that only root can change. Any process can give itself a loader's
/// arguments.
fn is_roots_loader(root: &Root, executable: &Executable) -> bool {
    let path = root.canonical(&executable.path);
    let path: &PathBuf = path.as_ref().unwrap_or(&executable.path);
    let name = path.file_name().and_then(|name| name.to_str());
    let is_called_so = name.is_some_and(is_loader);
    is_called_so && root.writers(path, &executable.node) == Writers::Root
}

//! Files of a package that can be code, as opposed to data for that code; they are recognised by their names, or
//! because they are executable.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

use nix::sys::stat::FileStat;

use super::root::EntryKind;

/// Extensions of files that runtimes load or execute.
const ENDINGS: [&str; 26] = [
    "bash", "class", "cjs", "cts", "egg", "jar", "js", "jsx", "lua", "mjs", "mts", "node", "phar", "php",
    "pl", "pm", "pth", "py", "pyc", "rb", "sh", "so", "ts", "tsx", "wasm", "zip",
];
/// Files that determine which code is loaded.
const NAMES: [&str; 3] = ["entry_points.txt", "package.json", "pyvenv.cfg"];

/// Returns whether a file of this name can be code.
pub(super) fn is_code_name(name: &OsStr) -> bool {
    let listed = |names: &[&str], name: &OsStr| names.iter().any(|listed| name == *listed);
    let ending = Path::new(name).extension();
    let is_versioned_library = name.as_bytes().windows(4).any(|part| part == b".so.");
    listed(&NAMES, name) || is_versioned_library || ending.is_some_and(|ending| listed(&ENDINGS, ending))
}

/// Returns whether an entry of a directory affects which code runs: code, or a link or directory that may lead to code.
pub(super) fn leads_to_code(name: &OsStr, stat: &FileStat) -> bool {
    match EntryKind::of(stat) {
        EntryKind::Directory | EntryKind::Link => true,
        EntryKind::File => is_code_name(name) || stat.st_mode & 0o111 != 0,
        EntryKind::Pipe | EntryKind::Socket | EntryKind::Device => false,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("server.py" => true)]
    #[test_case("index.mjs" => true)]
    #[test_case("package.json" => true)]
    #[test_case("libssl.so.3" => true)]
    #[test_case("native.node" => true)]
    #[test_case("memory.json" => false)]
    #[test_case("server.log" => false)]
    #[test_case(".lock" => false)]
    #[test_case("py" => false)]
    #[test_case("state.db-journal" => false)]
    fn names_of_code(name: &str) -> bool {
        is_code_name(OsStr::new(name))
    }

    #[test]
    fn what_can_be_executed_is_code_whatever_its_name() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("server");
        std::fs::write(&path, "")?;
        let leads = || -> nix::Result<bool> {
            Ok(leads_to_code(OsStr::new("server"), &nix::sys::stat::stat(&path)?))
        };
        assert!(!leads()?);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode)?;
        assert!(leads()?);
        Ok(())
    }
}

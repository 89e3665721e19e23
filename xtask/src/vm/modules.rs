//! Kernel modules from an unpacked kernel package, in the order in which they are loaded.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// The modules that tests use and that Debian does not build in: protocols, pairs of devices, a network file system,
/// lists of sockets, and a checksum that SCTP requests by its algorithm. A kernel that lacks one or has it built in has
/// no such file.
const WANTED: [&str; 7] = [
    "crc32c_generic",
    "sctp",
    "l2tp_ip",
    "veth",
    "nfsv4",
    "tcp_diag",
    "udp_diag",
];

/// A module to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// Its name, as `insmod` shows it.
    pub(crate) name: String,
    /// The uncompressed file.
    pub(crate) content: Vec<u8>,
}

/// Returns the modules that tests want, each after those that it depends on.
pub(crate) fn wanted(root: &Path) -> Result<Vec<Module>> {
    let mut files = BTreeMap::new();
    // Debian releases before 13 have them in /lib, later ones in /usr/lib.
    for directory in ["lib/modules", "usr/lib/modules"] {
        index(&root.join(directory), &mut files)?;
    }
    let mut ordered = Vec::new();
    for name in WANTED {
        add(name, &mut files, &mut ordered)?;
    }
    Ok(ordered)
}

/// Notes every module below `directory` by its name.
fn index(directory: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    let listed = || format!("cannot list {}", directory.display());
    for entry in fs::read_dir(directory).with_context(listed)? {
        let entry = entry.with_context(listed)?;
        if entry.file_type().with_context(listed)?.is_dir() {
            index(&entry.path(), files)?;
        } else if let Some((name, "ko" | "ko.xz")) = entry.file_name().to_string_lossy().split_once('.') {
            files.insert(name.replace('-', "_"), entry.path());
        }
    }
    Ok(())
}

/// Adds a module after those that it depends on. It is removed from `files`, so that it is added once.
fn add(name: &str, files: &mut BTreeMap<String, PathBuf>, ordered: &mut Vec<Module>) -> Result<()> {
    let Some(path) = files.remove(name) else {
        return Ok(());
    };
    let content = read(&path)?;
    for dependency in dependencies(&content) {
        add(&dependency, files, ordered)?;
    }
    ordered.push(Module {
        name: name.to_owned(),
        content,
    });
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let unpacked = Command::new("xz")
        .arg("-dc")
        .arg(path)
        .output()
        .context("cannot run xz")?;
    ensure!(unpacked.status.success(), "cannot unpack {}", path.display());
    Ok(unpacked.stdout)
}

/// Returns the names in `depends=` among the strings of a module's `.modinfo`.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let found = module.windows(KEY.len()).position(|window| window == KEY);
    let value = found.map(|at| &module[at + KEY.len()..]).unwrap_or_default();
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_once_and_behind_what_it_depends_on() {
        let root = tempfile::tempdir().expect("a directory");
        let directory = root.path().join("lib/modules/6.1.0/kernel/net");
        fs::create_dir_all(&directory).expect("a directory");
        for (name, depends) in [
            ("sctp.ko", "udp-tunnel,libcrc32c"),
            ("l2tp_ip.ko", "udp_tunnel"),
            ("udp_tunnel.ko", ""),
            ("libcrc32c.ko", ""),
            ("unwanted.ko", "sctp"),
            ("modules.order", ""),
        ] {
            let content = format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0");
            fs::write(directory.join(name), content).expect("a file");
        }
        let found = wanted(root.path()).expect("modules");
        let names: Vec<_> = found.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["udp_tunnel", "libcrc32c", "sctp", "l2tp_ip"]);
        assert_eq!(wanted(&root.path().join("elsewhere")).expect("none"), []);
    }
}

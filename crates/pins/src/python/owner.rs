//! The distribution that installed a command or a module, by the records of its installer.

use std::{cell::Cell, path::Path};

use super::{
    distribution::{distribution_name, normalise},
    environment::{site_directories, system_sites, virtual_prefix},
};
use crate::root::{EntryKind, Root};

/// Largest record that is read, bytes.
const MAX_RECORD: u64 = 1 << 20;
/// Most distributions whose records are read.
const MAX_READ: usize = 500;
/// Most module directories that are looked at.
const MAX_SITES: usize = 16;
/// Most names in one of them that are looked at.
const MAX_NAMES: usize = 20_000;
/// Most bytes of all records that are read for one command.
const MAX_BYTES: usize = 16 << 20;
/// Largest script of a command that an installer writes, bytes.
const MAX_SCRIPT: u64 = 16 << 10;

/// Returns the normalised name of the distribution that installed the command at `script`, which is an absolute path without
/// links.
#[must_use]
pub fn owner_of_command(root: &Root, script: &Path) -> Option<String> {
    let directory = script.parent()?;
    let name = script.file_name()?.to_str()?;
    if directory.file_name()? != "bin" || !is_for_python(root, script) {
        return None;
    }
    let prefix = directory.parent()?;
    let sites = site_directories(root, prefix, None);
    let records = Records::new(root);
    owner(root, sites.iter().map(AsRef::as_ref), name, |metadata| {
        let points = records.text(&metadata.join("entry_points.txt"));
        points.is_some_and(|points| has_entry_point(&points, name))
            || records
                .text(&metadata.join("RECORD"))
                .is_some_and(|record| has_command(&record, name))
    })
}

/// Returns the normalised name of the distribution with the top-level module `module`, of the interpreter that is started as
/// `interpreter`: an absolute path, whose links are not followed.
#[must_use]
pub fn owner_of_module(root: &Root, interpreter: &Path, module: &str) -> Option<String> {
    let sites = match virtual_prefix(root, interpreter) {
        Some(prefix) => site_directories(root, &prefix, None),
        None => {
            let real = root.canonical(interpreter).ok()?;
            system_sites(root, real.parent()?.parent()?, None)
        }
    };
    let records = Records::new(root);
    owner(root, sites.iter().map(AsRef::as_ref), module, |metadata| {
        let is_of = |line: &str| {
            let rest = line.strip_prefix(module);
            rest.is_some_and(|rest| rest.starts_with('/') || rest.starts_with(".py,"))
        };
        let modules = records.text(&metadata.join("top_level.txt"));
        match modules {
            Some(modules) => modules.lines().any(|line| line.trim() == module),
            None => {
                let record = records.text(&metadata.join("RECORD"));
                record.is_some_and(|record| record.lines().any(is_of))
            }
        }
    })
}

/// Returns the distribution whose metadata `owns` the thing: the one of the same name first.
fn owner<'d>(
    root: &Root,
    sites: impl Iterator<Item = &'d Path> + Clone,
    thing: &str,
    owns: impl Fn(&Path) -> bool,
) -> Option<String> {
    let same = normalise(thing);
    let found = || {
        sites.clone().take(MAX_SITES).flat_map(|site| {
            let mut names = root.names(site).unwrap_or_default();
            names.truncate(MAX_NAMES);
            let named = names.into_iter().filter_map(|entry| {
                let name = distribution_name(entry.to_str()?)?;
                Some((name, site.join(entry)))
            });
            named.collect::<Vec<_>>()
        })
    };
    let namesake = found().filter(|(name, _)| *name == same);
    let others = found().filter(|(name, _)| *name != same);
    let mut all = namesake.chain(others).take(MAX_READ);
    all.find(|(_, metadata)| owns(metadata)).map(|(name, _)| name)
}

/// Reads records until they are too many.
struct Records<'r> {
    root: &'r Root,
    left: Cell<usize>,
}

impl<'r> Records<'r> {
    const fn new(root: &'r Root) -> Self {
        Self {
            root,
            left: Cell::new(MAX_BYTES),
        }
    }

    fn text(&self, path: &Path) -> Option<String> {
        let limit = MAX_RECORD.min(self.left.get() as u64);
        let content = self.root.read(path, limit).ok()?;
        self.left.set(self.left.get().saturating_sub(content.len()));
        Some(String::from_utf8_lossy(&content).into_owned())
    }
}

fn is_for_python(root: &Root, script: &Path) -> bool {
    root.is(script, EntryKind::File)
        && root.read(script, MAX_SCRIPT).is_ok_and(|content| {
            // An interpreter with a long path is started by way of a shell, in the second line.
            let head = content.split(|byte| *byte == b'\n').take(2).collect::<Vec<_>>();
            content.starts_with(b"#!") && String::from_utf8_lossy(&head.concat()).contains("python")
        })
}

/// Returns whether an `entry_points.txt` has a command of this name
/// (<https://packaging.python.org/en/latest/specifications/entry-points/>).
fn has_entry_point(points: &str, name: &str) -> bool {
    let mut is_in_commands = false;
    points.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            is_in_commands = matches!(line, "[console_scripts]" | "[gui_scripts]");
        }
        is_in_commands && line.split_once('=').is_some_and(|(own, _)| own.trim() == name)
    })
}

/// Returns whether a `RECORD` has a command of this name, beside the modules.
fn has_command(record: &str, name: &str) -> bool {
    record.lines().any(|line| {
        let path = line.split(',').next().unwrap_or(line);
        path.starts_with("../")
            && path
                .strip_suffix(name)
                .is_some_and(|directory| directory.ends_with("/bin/"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use test_case::test_case;

    use super::*;

    fn environment() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        };
        let site = "v/lib/python3.12/site-packages";
        write("v/pyvenv.cfg", "home = /usr/bin\n");
        write("v/bin/python", "");
        for command in ["weather-mcp", "notes", "own", "old"] {
            write(&format!("v/bin/{command}"), "#!/v/bin/python\nimport sys\n");
        }
        write("v/bin/shell", "#!/bin/sh\n");
        write(
            &format!("{site}/weather_mcp-1.0.dist-info/entry_points.txt"),
            "[console_scripts]\nweather-mcp = weather:main\n",
        );
        write(
            &format!("{site}/weather_mcp-1.0.dist-info/RECORD"),
            "weather/__init__.py,,\n../../../bin/weather-mcp,,\n",
        );
        write(
            &format!("{site}/Notes.Server-2.dist-info/entry_points.txt"),
            "[x]\nown = a:b\n[console_scripts]\nnotes = notes:main\n",
        );
        write(
            &format!("{site}/Notes.Server-2.dist-info/top_level.txt"),
            "notes_store\n",
        );
        write(
            &format!("{site}/old-1.dist-info/RECORD"),
            "old.py,,\n../../../bin/old,,\n",
        );
        directory
    }

    #[test_case("weather-mcp" => Some("weather-mcp".to_owned()); "of the same name")]
    #[test_case("notes" => Some("notes-server".to_owned()); "of another name")]
    #[test_case("old" => Some("old".to_owned()); "in the record alone")]
    #[test_case("own" => None; "of nobody")]
    #[test_case("shell" => None; "a script of another interpreter")]
    fn commands(name: &str) -> Option<String> {
        let directory = environment();
        let root = Root::at(directory.path()).expect("a root");
        owner_of_command(&root, Path::new(&format!("/v/bin/{name}")))
    }

    #[test_case("weather" => Some("weather-mcp".to_owned()); "in the record")]
    #[test_case("notes_store" => Some("notes-server".to_owned()); "in the list of modules")]
    #[test_case("old" => Some("old".to_owned()); "a file")]
    #[test_case("missing" => None; "of nobody")]
    fn modules(name: &str) -> Option<String> {
        let directory = environment();
        let root = Root::at(directory.path()).expect("a root");
        owner_of_module(&root, Path::new("/v/bin/python"), name)
    }
}

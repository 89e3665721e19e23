//! Versions of clients, read from their installed files; nothing is started.

use std::{
    cmp::Ordering,
    env,
    ffi::OsStr,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::table::Client;

/// Most directories above a program in which its package is searched for.
const MAX_ABOVE: usize = 4;
/// Most bytes of a package's description.
const MAX_DESCRIPTION_BYTES: u64 = 1 << 20;

/// Returns the version of the client on this `PATH`, if its package or its file name shows it.
pub fn installed_version(client: &Client, path: Option<&OsStr>) -> Option<String> {
    let package = client.hooks.as_ref()?.package.as_deref()?;
    let found = client.processes.iter().find_map(|name| on_path(name, path?))?;
    let program = fs::canonicalize(found).ok()?;
    let own_name = program
        .file_name()
        .and_then(OsStr::to_str)
        .filter(|name| numbers(name).is_some());
    let above = program.ancestors().skip(1).take(MAX_ABOVE);
    own_name.map(str::to_owned).or_else(|| {
        above
            .into_iter()
            .find_map(|directory| version_of(package, directory))
    })
}

/// Returns whether a version is older than another one.
pub fn is_older(version: &str, other: &str) -> bool {
    match (numbers(version), numbers(other)) {
        (Some(version), Some(other)) => version.cmp(&other) == Ordering::Less,
        (Some(_), None) | (None, _) => false,
    }
}

/// Returns the numbers of a version, without what follows them, such as the name of a preview.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.split(['-', '+']).next()?;
    let mut numbers = [0; 3];
    let parts: Vec<_> = plain.split('.').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    for (number, part) in numbers.iter_mut().zip(parts) {
        *number = part.parse().ok()?;
    }
    Some(numbers)
}

fn on_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

fn version_of(package: &str, directory: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Description {
        name: String,
        version: String,
    }
    let file = File::open(directory.join("package.json")).ok()?;
    let mut text = Vec::new();
    file.take(MAX_DESCRIPTION_BYTES).read_to_end(&mut text).ok()?;
    let Description { name, version } = serde_json::from_slice(&text).ok()?;
    (name == package).then_some(version)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("0.123.9", "0.124.0" => true)]
    #[test_case("0.124.0", "0.124.0" => false)]
    #[test_case("0.124.0-alpha.1", "0.124.0" => false; "a preview")]
    #[test_case("1.6", "1.7" => true; "two numbers")]
    #[test_case("2.1.329", "1.0.38" => false)]
    #[test_case("nightly", "1.7" => false; "no version")]
    fn versions_are_ordered(version: &str, other: &str) -> bool {
        is_older(version, other)
    }

    #[test]
    fn a_package_or_the_name_of_the_file_tells() {
        let home = tempfile::tempdir().expect("directory");
        let path = |name: &str| home.path().join(name);
        for directory in ["bin", "modules/@openai/codex/bin", "claude/versions"] {
            fs::create_dir_all(path(directory)).expect("made");
        }
        fs::write(
            path("modules/@openai/codex/package.json"),
            r#"{"name": "@openai/codex", "version": "0.100.0"}"#,
        )
        .expect("written");
        fs::write(path("modules/@openai/codex/bin/codex.js"), "").expect("written");
        fs::write(path("claude/versions/2.1.329"), "").expect("written");
        std::os::unix::fs::symlink(path("modules/@openai/codex/bin/codex.js"), path("bin/codex"))
            .expect("linked");
        std::os::unix::fs::symlink(path("claude/versions/2.1.329"), path("bin/claude")).expect("linked");
        let version = |id| {
            installed_version(
                crate::client(id).expect("a client"),
                Some(path("bin").as_os_str()),
            )
        };
        assert_eq!(version("codex").as_deref(), Some("0.100.0"));
        assert_eq!(version("claude-code").as_deref(), Some("2.1.329"));
        assert_eq!(version("gemini-cli"), None);
        assert_eq!(version("cursor"), None);
    }
}

//! Lock files of other installers than npm and uv: pnpm, yarn and poetry. A lock file is used only if its installer has
//! recorded next to the packages that it installed them.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

use super::{
    origin::{MAX_ABOVE, Source, has_tag, location, short, text},
    python::normalise,
    root::{EntryKind, Root},
};

/// Largest lock file that is read, bytes; all of it is in memory for a moment.
const MAX_LOCK: u64 = 4 << 20;

/// Most values in a lock file of pnpm: no file of [`MAX_LOCK`] bytes in pnpm's form has more.
const MAX_NODES: usize = 1_000_000;
/// Deepest nesting, and most aliases; pnpm writes none.
const MAX_DEPTH: usize = 16;
const MAX_ALIASES: usize = 16;

/// Returns the source of an npm package: from pnpm's copy of the lock file from which it installed, or else from yarn's
/// lock file.
pub(super) fn of_node(
    root: &Root,
    base: &Path,
    directory: &str,
    name: &str,
    version: &str,
) -> Option<Source> {
    let modules = base.join("node_modules");
    if let Some(lock) = text(root, &modules.join(".pnpm/lock.yaml"), MAX_LOCK) {
        return pnpm(&lock, name, version);
    }
    // The records of yarn 1, and of later versions that install into `node_modules`.
    let notes = [".yarn-integrity", ".yarn-state.yml"];
    if !notes
        .iter()
        .any(|note| root.is(&modules.join(note), EntryKind::File))
    {
        return None;
    }
    yarn(
        &text(root, &base.join("yarn.lock"), MAX_LOCK)?,
        directory,
        version,
    )
}

/// The fields of a lock file of pnpm that are read.
#[derive(Debug, Deserialize)]
struct PnpmLock {
    #[serde(default)]
    packages: BTreeMap<String, PnpmPackage>,
}

#[derive(Debug, Deserialize)]
struct PnpmPackage {
    #[serde(default)]
    resolution: PnpmResolution,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct PnpmResolution {
    integrity: Option<String>,
    tarball: Option<String>,
}

fn pnpm(lock: &str, name: &str, version: &str) -> Option<Source> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_depth: MAX_DEPTH,
            max_events: MAX_NODES * 2,
            max_nodes: MAX_NODES,
        },
    };
    let lock: PnpmLock = serde_saphyr::from_str_with_options(lock, options).ok()?;
    // The forms are `name@1.0.0`, before version 9 `/name@1.0.0(peer@2.0.0)`, and before version 6
    // `/name/1.0.0_peer@2.0.0`.
    let is_it = |key: &str| {
        let rest = key.strip_prefix('/').unwrap_or(key).strip_prefix(name);
        let rest = rest.and_then(|rest| rest.strip_prefix(['@', '/'])?.strip_prefix(version));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '_']))
    };
    let found = lock.packages.into_iter().filter(|(key, _)| is_it(key));
    let found = one(found.map(|(_, package)| package.resolution))?;
    Some((
        found.tarball.as_deref().and_then(location),
        found.integrity.as_deref().and_then(short),
    ))
}

/// The fields of an entry in a lock file of yarn that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct YarnEntry {
    version: String,
    resolved: Option<String>,
    /// The digest of the registry's archive.
    integrity: Option<String>,
    /// The digest of the archive that yarn makes from it, since version 2.
    checksum: Option<String>,
}

/// Parses a lock file of yarn. Both forms have an entry's ranges on one line, and its fields on indented lines: `name
/// "value"` in version 1, `name: value` in later ones.
fn yarn(lock: &str, directory: &str, version: &str) -> Option<Source> {
    let mut entries = Vec::new();
    let mut current: Option<YarnEntry> = None;
    for line in lock.lines() {
        let is_field = line.starts_with("  ") && !line.starts_with("   ");
        if let (true, Some(entry)) = (is_field, &mut current) {
            let Some((name, value)) = line.trim().split_once([' ', ':']) else {
                continue;
            };
            let value = value.trim().trim_matches('"').to_owned();
            match name {
                "version" => entry.version = value,
                "resolved" => entry.resolved = Some(value),
                "integrity" => entry.integrity = Some(value),
                "checksum" => entry.checksum = Some(value),
                _ => {}
            }
        } else if let Some(ranges) = line
            .strip_suffix(':')
            .filter(|line| !line.starts_with([' ', '#']))
        {
            entries.extend(current.take());
            let mut ranges = ranges.trim_matches('"').split(", ");
            let is_of_it = |range: &str| {
                let rest = range.trim_matches('"').strip_prefix(directory);
                rest.is_some_and(|rest| rest.starts_with('@'))
            };
            current = ranges.any(is_of_it).then(YarnEntry::default);
        }
    }
    entries.extend(current);
    let found = one(entries.into_iter().filter(|entry| entry.version == version))?;
    let integrity = found.integrity.as_deref().and_then(short);
    let checksum = || short(&format!("yarn:{}", found.checksum.as_deref()?));
    Some((
        found.resolved.as_deref().and_then(location),
        integrity.or_else(checksum),
    ))
}

/// The fields of a lock file of poetry that are read.
#[derive(Debug, Deserialize)]
struct PoetryLock {
    #[serde(default)]
    package: Vec<PoetryPackage>,
}

#[derive(Debug, Deserialize)]
struct PoetryPackage {
    name: String,
    version: String,
    #[serde(default)]
    files: Vec<PoetryFile>,
}

#[derive(Debug, Deserialize)]
struct PoetryFile {
    file: String,
    hash: String,
}

/// Returns the source of a Python distribution that poetry installed, which has no URL: from the wheel with one of the
/// tags, or from the source distribution.
pub(super) fn of_poetry(
    root: &Root,
    environment: &Path,
    name: &str,
    version: &str,
    tags: &[&str],
) -> Option<Source> {
    let mut above = environment.ancestors().skip(1).take(MAX_ABOVE);
    let lock = above.find_map(|directory| text(root, &directory.join("poetry.lock"), MAX_LOCK))?;
    let lock: PoetryLock = toml::from_str(&lock).ok()?;
    let normal = normalise(name);
    let is_it = |package: &&PoetryPackage| normalise(&package.name) == normal && package.version == version;
    let mut found = lock.package.iter().filter(is_it);
    let (package, None) = (found.next()?, found.next()) else {
        return None;
    };
    let is_wheel = |file: &&PoetryFile| file.file.ends_with(".whl");
    let of_tag = |file: &&PoetryFile| tags.iter().any(|tag| has_tag(&file.file, tag));
    let file = match package.files.iter().any(|file| is_wheel(&file)) {
        true => package.files.iter().find(of_tag)?,
        false => package.files.first()?,
    };
    Some((None, short(&file.hash)))
}

/// Returns the only entry, or one of several equal ones.
fn one<T: PartialEq>(mut entries: impl Iterator<Item = T>) -> Option<T> {
    let first = entries.next()?;
    entries.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const NINE: &str = "lockfileVersion: '9.0'\npackages:\n  '@acme/mail@1.2.3':\n    resolution: {integrity: sha512-AA==}\n  \
        'mail@1.2.3':\n    resolution: {integrity: sha512-BB==, tarball: 'https://me:secret@r.example/mail.tgz?token=1'}\nsnapshots:\n  \
        '@acme/mail@1.2.3(zod@3.0.0)': {}\n";
    const SIX: &str = "lockfileVersion: '6.0'\npackages:\n  /@acme/mail@1.2.3(zod@3.0.0):\n    resolution: {integrity: sha512-AA==}\n  \
        /@acme/mail@1.2.3(zod@4.0.0):\n    resolution: {integrity: sha512-AA==}\n  /mail@1.2.30:\n    resolution: {integrity: sha512-CC==}\n";
    const FIVE: &str = "lockfileVersion: 5.4\npackages:\n  /@acme/mail/1.2.3_zod@3.0.0:\n    resolution: {integrity: sha512-AA==}\n";
    const OTHERS: &str = "packages:\n  'mail@1.2.3(a@1.0.0)':\n    resolution: {integrity: sha512-AA==}\n  \
        'mail@1.2.3(b@1.0.0)':\n    resolution: {integrity: sha512-BB==}\n";

    fn told(source: Option<Source>) -> String {
        let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        source.map_or_else(
            || "none".to_owned(),
            |(resolved, integrity)| format!("{} {}", or(resolved), or(integrity)),
        )
    }

    #[test]
    fn a_lock_of_pnpm_is_read_up_to_its_bound() {
        use std::fmt::Write as _;
        let mut lock = NINE.to_owned();
        for number in 0.. {
            if lock.len() as u64 > MAX_LOCK - 64 {
                break;
            }
            writeln!(lock, "  'p{number}@1.0.0': {{}}").expect("a text grows");
        }
        assert_eq!(told(pnpm(&lock, "@acme/mail", "1.2.3")), "- sha512-AA==");
    }

    #[test_case(NINE, "@acme/mail" => "- sha512-AA=="; "version 9")]
    #[test_case(NINE, "mail" => "https://r.example/mail.tgz sha512-BB=="; "an archive elsewhere")]
    #[test_case(SIX, "@acme/mail" => "- sha512-AA=="; "version 6, twice the same")]
    #[test_case(SIX, "mail" => "none"; "another version")]
    #[test_case(FIVE, "@acme/mail" => "- sha512-AA=="; "version 5")]
    #[test_case(OTHERS, "mail" => "none"; "not one")]
    #[test_case("packages: [", "mail" => "none"; "no lock file")]
    fn locks_of_pnpm(lock: &str, name: &str) -> String {
        told(pnpm(lock, name, "1.2.3"))
    }

    const ONE: &str = "# yarn lockfile v1\n\n\n\"@acme/mail@^1.2.0\", \"@acme/mail@^1.2.1\":\n  version \"1.2.3\"\n  \
        resolved \"https://me:secret@r.example/mail-1.2.3.tgz#abc\"\n  integrity sha512-AA==\n  dependencies:\n    \
        version \"9.9.9\"\n\nmail@^2.0.0:\n  version \"2.0.0\"\n  resolved \"https://r.example/mail-2.0.0.tgz\"\n";
    const BERRY: &str = "__metadata:\n  version: 8\n\n\"@acme/mail@npm:^1.2.0, @acme/mail@npm:^1.2.1\":\n  version: 1.2.3\n  \
        resolution: \"@acme/mail@npm:1.2.3\"\n  dependencies:\n    zod: \"npm:^3\"\n  checksum: 10c0/0a1b\n  languageName: node\n";

    #[test_case(ONE, "@acme/mail", "1.2.3" => "https://r.example/mail-1.2.3.tgz sha512-AA=="; "version 1")]
    #[test_case(ONE, "mail", "2.0.0" => "https://r.example/mail-2.0.0.tgz -"; "without an integrity")]
    #[test_case(ONE, "mail", "1.2.3" => "none"; "another version")]
    #[test_case(BERRY, "@acme/mail", "1.2.3" => "- yarn:10c0/0a1b"; "later")]
    #[test_case("\u{0}\n  version", "mail", "1.2.3" => "none"; "no lock file")]
    fn locks_of_yarn(lock: &str, directory: &str, version: &str) -> String {
        told(yarn(lock, directory, version))
    }
}

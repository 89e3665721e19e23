//! Installed distributions, read from the metadata of their installer: the modules of each, and what it requires.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    Cancel,
    origin::short,
    package::{PackageError, go_on},
    root::{EntryKind, Root},
};

/// Largest metadata file that is read, in bytes.
const MAX_METADATA: u64 = 16 << 20;
/// Most directories of one distribution that are told apart.
const MAX_ENTRIES: usize = 256;
/// Modules that Python imports at every start if they exist.
const CUSTOMISATION: [&str; 2] = ["sitecustomize", "usercustomize"];
/// Most distributions of one environment.
const MAX_DISTRIBUTIONS: usize = 5_000;

/// One installed distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Distribution {
    /// Its `.dist-info` or `.egg-info`.
    pub(super) metadata: PathBuf,
    /// The directory in which it is installed.
    pub(super) site: PathBuf,
    /// Its version; empty if it is not known.
    pub(super) version: String,
    /// Files and directories that it installed, without its metadata. Of a directory that several distributions share, those
    /// below it that are its own.
    pub(super) entries: Vec<PathBuf>,
    /// Directories that it shares with other distributions.
    pub(super) shared: Vec<PathBuf>,
    /// Normalised names of distributions that it may need, including those of extras.
    pub(super) requires: BTreeSet<String>,
    /// The checkout from which it was installed in development mode.
    pub(super) editable: Option<PathBuf>,
}

/// The distributions of some directories.
#[derive(Debug, Default)]
pub(super) struct Index {
    distributions: BTreeMap<String, Distribution>,
    providers: BTreeMap<String, BTreeSet<String>>,
    /// The distributions of path files and of modules that Python imports at every start.
    start_up: BTreeMap<PathBuf, String>,
}

impl Index {
    /// Reads the metadata in `directories`. Of two distributions with one name the first is used, as by Python.
    ///
    /// # Errors
    /// Returns an error if there are over 5,000, or the caller asked to stop.
    pub(super) fn read<'d>(
        root: &Root,
        directories: impl Iterator<Item = &'d PathBuf>,
        cancel: Cancel<'_>,
    ) -> Result<Self, PackageError> {
        let mut index = Self::default();
        let mut earlier = BTreeMap::new();
        for site in directories {
            let names = root.names(site).unwrap_or_default();
            for entry in &names {
                let Some(name) = entry.to_str().and_then(distribution_name) else {
                    continue;
                };
                if index.distributions.contains_key(&name) {
                    continue;
                }
                go_on(cancel)?;
                if index.distributions.len() == MAX_DISTRIBUTIONS {
                    return Err(PackageError::TooManyDistributions {
                        limit: MAX_DISTRIBUTIONS,
                    });
                }
                let distribution = Distribution::read(root, site, &site.join(entry));
                let tops = distribution.entries.iter().chain(&distribution.shared);
                for top in tops.filter_map(|entry| top_level(site, entry)) {
                    if is_start_up(&top) {
                        index.start_up.insert(site.join(&top), name.clone());
                    }
                    let modules = index.providers.entry(module_name(&top).to_owned()).or_default();
                    modules.insert(name.clone());
                }
                index.distributions.insert(name, distribution);
            }
            let modules = names.iter().filter_map(|name| name.to_str());
            index.add_covering(root, site, modules, &mut earlier);
        }
        Ok(index)
    }

    /// Adds to each distribution in `site` whatever Python imports in place of its modules: a directory or a compiled module
    /// beside a module that is one file, and anything in the directories that are searched `earlier`. A record of another
    /// distribution does not excuse that, because anybody can write one.
    fn add_covering<'n>(
        &mut self,
        root: &Root,
        site: &Path,
        names: impl Iterator<Item = &'n str>,
        earlier: &mut BTreeMap<String, Vec<PathBuf>>,
    ) {
        let mut beside: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for name in names.filter(|name| is_module_entry(name) && is_importable(name)) {
            let path = site.join(name);
            // A directory that is no package is imported last of all.
            if name.contains('.') || is_package(root, &path) {
                beside.entry(module_name(name).to_owned()).or_default().push(path);
            }
        }
        let of_site = self.distributions.values_mut();
        for distribution in of_site.filter(|found| found.site == site) {
            let tops = distribution
                .entries
                .iter()
                .filter_map(|entry| top_level(site, entry));
            let tops: BTreeSet<String> = tops.filter(|top| is_importable(top)).collect();
            let files = tops.iter().filter(|top| top.contains('.'));
            let of_files = files.filter_map(|file| beside.get(module_name(file)));
            let of_earlier = tops.iter().filter_map(|top| earlier.get(module_name(top)));
            let found: BTreeSet<PathBuf> = of_files.chain(of_earlier).flatten().cloned().collect();
            let added: Vec<PathBuf> = found
                .into_iter()
                .filter(|path| !distribution.entries.contains(path))
                .collect();
            distribution.entries.extend(added);
        }
        // The user's own modules, in other directories, belong to no distribution.
        let is_of_installer = site
            .file_name()
            .is_some_and(|name| name == "site-packages" || name == "dist-packages");
        if is_of_installer {
            for (module, paths) in beside {
                earlier.entry(module).or_default().extend(paths);
            }
        }
    }

    /// Returns the names of the distributions with the top-level module `module`. One with the module's own name is
    /// included, because a distribution in development mode lists no modules.
    pub(super) fn providers(&self, module: &str) -> BTreeSet<String> {
        let mut names = self.providers.get(module).cloned().unwrap_or_default();
        let same_name = normalise(module);
        if self
            .distributions
            .get(&same_name)
            .is_some_and(|found| found.editable.is_some())
        {
            names.insert(same_name);
        }
        names
    }

    /// Returns the distribution that installed a file which runs at every start of Python.
    pub(super) fn of_start_up(&self, path: &Path) -> Option<&String> {
        self.start_up.get(path)
    }

    /// Returns the distribution with this normalised name.
    pub(super) fn get(&self, name: &str) -> Option<&Distribution> {
        self.distributions.get(name)
    }
}

impl Distribution {
    fn read(root: &Root, site: &Path, metadata: &Path) -> Self {
        let text = |name: &str| {
            let content = root.read(&metadata.join(name), MAX_METADATA).ok()?;
            Some(String::from_utf8_lossy(&content).into_owned())
        };
        let requires = match text("METADATA") {
            Some(metadata) => required_by_metadata(&metadata),
            None => text("requires.txt")
                .map(|text| required_by_egg(&text))
                .unwrap_or_default(),
        };
        let (names, shared) = match text("RECORD") {
            Some(record) => recorded_entries(&record),
            None => (
                text("top_level.txt")
                    .map(|text| listed_entries(root, site, &text))
                    .unwrap_or_default(),
                BTreeSet::new(),
            ),
        };
        let headers = text("METADATA").or_else(|| text("PKG-INFO")).unwrap_or_default();
        Self {
            metadata: metadata.to_owned(),
            site: site.to_owned(),
            version: version(&headers).unwrap_or_default(),
            entries: names.iter().map(|name| site.join(name)).collect(),
            shared: shared.iter().map(|name| site.join(name)).collect(),
            requires,
            editable: text("direct_url.json").and_then(|text| editable_project(&text)),
        }
    }
}

/// Returns the normalised name in `NAME-VERSION.dist-info`, `NAME-VERSION.egg-info` or `NAME.egg-info`.
pub(super) fn distribution_name(entry: &str) -> Option<String> {
    let stem = entry
        .strip_suffix(".dist-info")
        .or_else(|| entry.strip_suffix(".egg-info"))?;
    Some(normalise(stem.split('-').next().unwrap_or(stem)))
}

/// Returns the name of a Python distribution as PEP 503 compares it: lower case, runs of `-`, `_` and `.` as one dash.
pub fn normalise(name: &str) -> String {
    let mut normalised = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normalised.ends_with('-') => {}
            '-' | '_' | '.' => normalised.push('-'),
            _ => normalised.extend(c.to_lowercase()),
        }
    }
    normalised
}

/// Returns the first component of a path below `site`.
fn top_level(site: &Path, entry: &Path) -> Option<String> {
    let first = entry.strip_prefix(site).ok()?.components().next()?;
    Some(first.as_os_str().to_str()?.to_owned())
}

/// Returns the module of a file or directory in `site-packages`: `a` for `a`, `a.py` and `a.cpython-311.so`.
fn module_name(entry: &str) -> &str {
    entry.split('.').next().unwrap_or(entry)
}

/// Returns whether a directory has the code of a package itself.
fn is_package(root: &Root, directory: &Path) -> bool {
    let names = root.names(directory).unwrap_or_default();
    let mut names = names.iter().filter_map(|name| name.to_str());
    names.any(|name| name.starts_with("__init__.") && is_importable(name))
}

/// Returns whether Python can import a file or directory of this name.
fn is_importable(name: &str) -> bool {
    let ending = name.split_once('.').map(|(_, ending)| ending);
    ending.is_none_or(|ending| {
        let last = ending.rsplit('.').next().unwrap_or(ending);
        matches!(ending, "py" | "pyc") || last == "so"
    })
}

/// Returns whether Python runs a file or directory in `site-packages` at every start.
pub(super) fn is_start_up(entry: &str) -> bool {
    CUSTOMISATION.contains(&module_name(entry)) || entry.ends_with(".pth")
}

/// Returns the version in the headers of a distribution.
fn version(headers: &str) -> Option<String> {
    let mut headers = headers.lines().take_while(|line| !line.is_empty());
    short(headers.find_map(|line| line.strip_prefix("Version:"))?.trim())
}

fn required_by_metadata(metadata: &str) -> BTreeSet<String> {
    metadata
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("Requires-Dist:"))
        .filter_map(requirement_name)
        .collect()
}

fn required_by_egg(requires: &str) -> BTreeSet<String> {
    requires
        .lines()
        .filter(|line| !line.starts_with('['))
        .filter_map(requirement_name)
        .collect()
}

/// Returns the name in a requirement: `anyio` of `anyio[trio] (>=4); extra == "x"`.
fn requirement_name(requirement: &str) -> Option<String> {
    let requirement = requirement.trim_start();
    let end = requirement
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .unwrap_or(requirement.len());
    (end > 0).then(|| normalise(&requirement[..end]))
}

/// Returns the path in a line of a `RECORD`.
pub(super) fn recorded_path(line: &str) -> &str {
    let path = match line.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => line.split(',').next(),
    };
    path.unwrap_or_default()
}

/// Returns the files and directories of a `RECORD`, without generated files, metadata and paths outside of `site`: the
/// topmost directories with files of the distribution, and its files above them. The second set has the directories above
/// these, which have no file of the distribution: other distributions install into them, too.
fn recorded_entries(record: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut directories: BTreeSet<String> = BTreeSet::new();
    let mut files: BTreeSet<String> = BTreeSet::new();
    for path in record.lines().map(recorded_path) {
        let is_plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_plain || !is_module_entry(path.split('/').next().unwrap_or_default()) {
            continue;
        }
        match path.rsplit_once('/') {
            // A compiled module is in a directory below its own.
            Some((directory, _)) => {
                let directory = directory.strip_suffix("/__pycache__").unwrap_or(directory);
                directories.insert(directory.to_owned());
            }
            None => _ = files.insert(path.to_owned()),
        }
    }
    let above = |path: &str| {
        let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
        ends.into_iter()
            .map(|end| path[..end].to_owned())
            .collect::<Vec<_>>()
    };
    let topmost: BTreeSet<String> = directories
        .iter()
        .filter(|directory| !above(directory).iter().any(|above| directories.contains(above)))
        .cloned()
        .collect();
    let shared: BTreeSet<String> = topmost.iter().flat_map(|directory| above(directory)).collect();
    if topmost.len() > MAX_ENTRIES {
        // Too many to tell them apart.
        let tops = topmost
            .iter()
            .chain(&files)
            .map(|path| path.split('/').next().unwrap_or(path).to_owned());
        return (tops.collect(), BTreeSet::new());
    }
    (topmost.into_iter().chain(files).collect(), shared)
}

/// Returns the entries of `site` that belong to the modules in a `top_level.txt`.
fn listed_entries(root: &Root, site: &Path, modules: &str) -> BTreeSet<String> {
    let modules: BTreeSet<_> = modules.lines().map(str::trim).collect();
    root.names(site)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| is_module_entry(name))
        .filter(|name| {
            name.split('.')
                .next()
                .is_some_and(|module| modules.contains(module))
        })
        .collect()
}

fn is_module_entry(name: &str) -> bool {
    !matches!(name, "" | "." | ".." | "__pycache__")
        && !name.ends_with(".dist-info")
        && !name.ends_with(".egg-info")
}

/// Returns the directory in a `direct_url.json` (PEP 610) of an installation in development mode.
fn editable_project(direct_url: &str) -> Option<PathBuf> {
    let direct_url: serde_json::Value = serde_json::from_str(direct_url).ok()?;
    if direct_url.get("dir_info")?.get("editable")?.as_bool() != Some(true) {
        return None;
    }
    let path = percent_decoded(direct_url.get("url")?.as_str()?.strip_prefix("file://")?)?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        bytes.push(u8::from_str_radix(std::str::from_utf8(after.get(..2)?).ok()?, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

/// Returns the directories that lines of a `.pth` file name; other lines are code.
pub(super) fn path_lines<'t>(root: &Root, site: &Path, text: &'t str) -> Vec<PathBuf> {
    text.lines()
        .map(str::trim_end)
        .filter(|line: &&'t str| {
            !line.is_empty() && !line.starts_with(['#', ' ', '\t']) && !line.starts_with("import ")
        })
        .map(|line| site.join(line))
        .filter(|path| root.is(path, EntryKind::Directory))
        .collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("mcp_server_time-2026.10.19.dist-info" => Some("mcp-server-time".to_owned()))]
    #[test_case("PyJWT-2.6.0.egg-info" => Some("pyjwt".to_owned()))]
    #[test_case("zope.interface-5.dist-info" => Some("zope-interface".to_owned()); "dots")]
    #[test_case("a.egg-info" => Some("a".to_owned()); "without a version")]
    #[test_case("mcp" => None; "a module")]
    fn names(entry: &str) -> Option<String> {
        distribution_name(entry)
    }

    #[test_case(" anyio[trio] (>=4)" => Some("anyio".to_owned()); "extras and brackets")]
    #[test_case(" Foo__Bar.baz>=1; extra == 'x'" => Some("foo-bar-baz".to_owned()); "marker")]
    #[test_case(" pkg @ https://example.com/x" => Some("pkg".to_owned()); "url")]
    #[test_case(" " => None; "nothing")]
    fn requirements(text: &str) -> Option<String> {
        requirement_name(text)
    }

    #[test]
    fn requirements_end_with_the_header() {
        let metadata = "Name: a\nRequires-Dist: b>=1\nRequires-Dist: c; extra == 'x'\n\nRequires-Dist: d\n";
        assert_eq!(
            required_by_metadata(metadata),
            BTreeSet::from(["b".to_owned(), "c".to_owned()])
        );
        assert_eq!(
            required_by_egg("b\n\n[x]\nc>1\n"),
            BTreeSet::from(["b".to_owned(), "c".to_owned()])
        );
    }

    #[test]
    fn records_name_their_modules() {
        let record = "../../../bin/x,sha256=a,1\n__pycache__/m.cpython-311.pyc,,\n\"a,b/c.py\",,\nm.py,,\n\
                      p/__init__.py,,\np/q.py,,\np-1.dist-info/RECORD,,\n/etc/passwd,,\n\n";
        let expected = ["a,b", "m.py", "p"].map(str::to_owned);
        assert_eq!(
            recorded_entries(record),
            (BTreeSet::from(expected), BTreeSet::new())
        );
    }

    #[test]
    fn a_shared_directory_is_none_of_its_distributions() {
        let record =
            "google/auth/__init__.py,,\ngoogle/auth/x/y.py,,\ngoogle/auth2/__pycache__/z.pyc,,\na/b.py,,\n";
        let set = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let expected = (set(&["a", "google/auth", "google/auth2"]), set(&["google"]));
        assert_eq!(recorded_entries(record), expected);
    }

    #[test_case(r#"{"url": "file:///home/a%20b/p", "dir_info": {"editable": true}}"# => Some(PathBuf::from("/home/a b/p")); "editable")]
    #[test_case(r#"{"url": "file:///p", "dir_info": {}}"# => None; "a copy")]
    #[test_case(r#"{"url": "https://example.com/p", "dir_info": {"editable": true}}"# => None; "no file")]
    #[test_case(r#"{"url": "file:///a%2", "dir_info": {"editable": true}}"# => None; "broken escape")]
    #[test_case("nonsense" => None)]
    fn editable(text: &str) -> Option<PathBuf> {
        editable_project(text)
    }
}

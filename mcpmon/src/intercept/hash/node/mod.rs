//! The package a Node script belongs to, and the packages that Node would resolve its dependencies to.
//!
//! The tree is followed by declared dependencies, so that unrelated packages of a global `node_modules` stay
//! out. A package that is required without being declared anywhere is not part of it.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use mcpmon_core::model::Manifest;
use serde_json::Value;

use super::{
    Setting,
    package::{Collector, Contents, PackageError, unreadable},
    root::{Kind, Root},
};

const MODULES: &str = "node_modules";
const DESCRIPTION: &str = "package.json";
/// Largest `package.json` whose dependencies are followed, in bytes.
const MAX_DESCRIPTION: u64 = 4 << 20;
/// Fields of `package.json` whose keys name packages that may be loaded.
const DEPENDENCY_FIELDS: [&str; 4] = [
    "dependencies",
    "optionalDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
];
/// What Node tries where a path names no file.
const EXTENSIONS: [&str; 5] = ["js", "mjs", "cjs", "json", "node"];
/// Files that a script without a package can load from its own directory.
const CODE: [&str; 8] = ["js", "mjs", "cjs", "node", "ts", "mts", "cts", "wasm"];

/// The file Node runs for `path`: extensions are tried, and a directory stands for its `main` or index.
/// `None` where there is no such file.
pub(super) fn entry_file(root: &Root, path: &Path) -> Option<PathBuf> {
    as_file(root, path).or_else(|| {
        let main = description(root, path)
            .and_then(|description| Some(path.join(description.get("main")?.as_str()?)))
            .and_then(|main| as_file(root, &main).or_else(|| as_file(root, &main.join("index"))));
        main.or_else(|| as_file(root, &path.join("index")))
    })
}

fn as_file(root: &Root, path: &Path) -> Option<PathBuf> {
    let appended = EXTENSIONS.iter().map(|extension| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        PathBuf::from(name)
    });
    std::iter::once(path.to_owned())
        .chain(appended)
        .find(|candidate| root.is(candidate, Kind::File))
        .and_then(|found| root.canonical(&found).ok())
}

/// What the package of a script is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Package {
    /// A directory with a `package.json`.
    Directory(PathBuf),
    /// A script on its own, in this directory; the directory's dependencies are looked up from there.
    Loose(PathBuf),
}

impl Package {
    /// The package of the canonical path `script`.
    pub(super) fn of(setting: &Setting<'_>, script: &Path) -> Self {
        let directory = script.parent().unwrap_or(script);
        if let Some(installed) = installed_package(script) {
            return Self::Directory(installed);
        }
        // A `package.json` without a name only sets the module type of a build directory.
        let mut described = directory
            .ancestors()
            .take_while(|ancestor| !setting.is_too_broad(ancestor))
            .filter(|ancestor| setting.root.is(&ancestor.join(DESCRIPTION), Kind::File));
        let nearest = described.clone().next();
        let named = described.find(|ancestor| {
            description(setting.root, ancestor).is_some_and(|description| description.get("name").is_some())
        });
        named.or(nearest).map_or_else(
            || Self::Loose(directory.to_owned()),
            |found| Self::Directory(found.to_owned()),
        )
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Loose(path) => path,
        }
    }

    /// What its files are named relative to: the directory that holds the outermost `node_modules`, so that
    /// neither a home nor a cache directory is part of a name.
    pub(super) fn base(&self) -> &Path {
        let outermost = self
            .root()
            .ancestors()
            .filter(|ancestor| ancestor.file_name() == Some(OsStr::new(MODULES)))
            .last();
        outermost.and_then(Path::parent).unwrap_or_else(|| self.root())
    }

    /// Its files and those of every package it depends on, directly or not.
    pub(super) fn collect(&self, mut collector: Collector<'_>) -> Result<Manifest, PackageError> {
        let mut seen = BTreeSet::new();
        let mut pending = match self {
            Self::Directory(package) => vec![package.clone()],
            Self::Loose(directory) => {
                collect_loose(&mut collector, directory)?;
                let declaring = directory
                    .ancestors()
                    .find(|ancestor| collector.root().is(&ancestor.join(DESCRIPTION), Kind::File));
                match declaring {
                    Some(declaring) => follow(&mut collector, declaring)?,
                    None => Vec::new(),
                }
            }
        };
        while let Some(package) = pending.pop() {
            if seen.insert(package.clone()) {
                collector.add_directory(&package, Contents::Node)?;
                pending.extend(follow(&mut collector, &package)?);
            }
        }
        Ok(collector.finish())
    }
}

/// The packages that `package` depends on, as far as they are installed. A link on the way is recorded.
fn follow(collector: &mut Collector<'_>, package: &Path) -> Result<Vec<PathBuf>, PackageError> {
    let mut packages = Vec::new();
    for name in dependencies(collector.root(), package) {
        collector.go_on()?;
        let Some(found) = resolve(collector.root(), package, &name) else {
            continue;
        };
        let canonical = collector.root().canonical(&found).map_err(unreadable(&found))?;
        if canonical != found {
            collector.add_way(&found, &canonical)?;
        }
        packages.push(canonical);
    }
    Ok(packages)
}

fn collect_loose(collector: &mut Collector<'_>, directory: &Path) -> Result<(), PackageError> {
    for name in collector.root().names(directory).map_err(unreadable(directory))? {
        let path = directory.join(&name);
        let is_code = path
            .extension()
            .is_some_and(|extension| CODE.iter().any(|code| extension == *code));
        if is_code && !collector.root().is(&path, Kind::Directory) {
            collector.add(&path, Contents::Node)?;
        }
    }
    Ok(())
}

/// The directory directly below the innermost `node_modules`, scope included.
fn installed_package(script: &Path) -> Option<PathBuf> {
    let modules = script
        .ancestors()
        .find(|ancestor| ancestor.file_name() == Some(OsStr::new(MODULES)))?;
    let mut names = script.strip_prefix(modules).ok()?.components();
    let Component::Normal(first) = names.next()? else {
        return None;
    };
    let package = modules.join(first);
    let Some(Component::Normal(second)) = names.next() else {
        return None;
    };
    if first.as_encoded_bytes().starts_with(b"@") {
        Some(package.join(second))
    } else {
        Some(package)
    }
}

/// `package.json` of a directory; one that cannot be read declares nothing, and is hashed like any file.
fn description(root: &Root, package: &Path) -> Option<Value> {
    let content = root.read(&package.join(DESCRIPTION), MAX_DESCRIPTION).ok()?;
    serde_json::from_slice(&content).ok()
}

fn dependencies(root: &Root, package: &Path) -> BTreeSet<String> {
    let Some(description) = description(root, package) else {
        return BTreeSet::new();
    };
    DEPENDENCY_FIELDS
        .iter()
        .filter_map(|field| description.get(field)?.as_object())
        .flat_map(|declared| declared.keys())
        .filter(|name| is_package_name(name))
        .cloned()
        .collect()
}

/// `name` or `@scope/name`: nothing that leads out of a `node_modules`.
fn is_package_name(name: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\0']);
    match name.split_once('/') {
        Some((scope, name)) => scope.starts_with('@') && plain(scope) && plain(name),
        None => plain(name),
    }
}

/// Node's own search: the nearest `node_modules/NAME` on the way up.
fn resolve(root: &Root, package: &Path, name: &str) -> Option<PathBuf> {
    package
        .ancestors()
        .filter(|ancestor| ancestor.file_name() != Some(OsStr::new(MODULES)))
        .map(|ancestor| ancestor.join(MODULES).join(name))
        .find(|candidate| root.is(candidate, Kind::Directory))
}

#[cfg(test)]
mod tests;

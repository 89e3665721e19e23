//! The package of a Node script, and the packages to which Node would resolve its dependencies.
//!
//! Only declared dependencies are followed, so that unrelated packages in a global `node_modules` are not included. A
//! package that is required without being declared anywhere is not included either.
//!
//! For a script outside a package, the imports in its source are followed.

mod imports;
mod records;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use mcpmon_model::Manifest;
use serde_json::Value;

use self::imports::NodeImports;
use super::{
    ServerLayout,
    package::{Collector, DirectoryRole, PackageError, unreadable},
    root::{EntryKind, Root},
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
/// The extensions Node tries if a path names no file.
const EXTENSIONS: [&str; 5] = ["js", "mjs", "cjs", "json", "node"];
/// The extensions other runtimes try as well.
const OTHER_EXTENSIONS: [&str; 5] = ["ts", "tsx", "mts", "cts", "jsx"];
/// Files that a script without a package can load from its own directory.
const CODE: [&str; 8] = ["js", "mjs", "cjs", "node", "ts", "mts", "cts", "wasm"];
/// Extensions of binary code and of data, which import nothing.
const CLOSED: [&str; 3] = ["json", "node", "wasm"];
/// Largest source whose imports are read, in bytes; a larger one may import anything.
const MAX_SOURCE: u64 = 4 << 20;
/// Most files that a script outside a package may import.
const MAX_SOURCES: usize = 2_000;

/// Returns the file that Node runs for `path`: extensions are tried, and for a directory its `main` or index. Returns
/// `None` if there is no such file.
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
        .find(|candidate| root.is(candidate, EntryKind::File))
        .and_then(|found| root.canonical(&found).ok())
}

/// The package of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodePackage {
    /// A directory with a `package.json`.
    Directory(PathBuf),
    /// A script outside a package; its imports are resolved from its directory.
    Script(PathBuf),
}

impl NodePackage {
    /// Returns the package of the canonical path `script`.
    pub(super) fn of(setting: &ServerLayout<'_>, script: &Path) -> Self {
        let directory = script.parent().unwrap_or(script);
        if let Some(installed) = installed_package(script) {
            return Self::Directory(installed);
        }
        // A `package.json` without a name only sets the module type of a build directory.
        let mut described = directory
            .ancestors()
            .take_while(|ancestor| !setting.is_too_broad(ancestor))
            .filter(|ancestor| setting.root.is(&ancestor.join(DESCRIPTION), EntryKind::File));
        let nearest = described.clone().next();
        let named = described.find(|ancestor| {
            description(setting.root, ancestor).is_some_and(|description| description.get("name").is_some())
        });
        named.or(nearest).map_or_else(
            || Self::Script(script.to_owned()),
            |found| Self::Directory(found.to_owned()),
        )
    }

    /// Returns its directory.
    pub(super) fn root(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Script(path) => path.parent().unwrap_or(path),
        }
    }

    /// Returns the directory that file names are relative to: the one that holds the outermost
    /// `node_modules`, so that neither a home nor a cache directory is part of a name.
    pub(super) fn base(&self) -> &Path {
        let outermost = self
            .root()
            .ancestors()
            .filter(|ancestor| ancestor.file_name() == Some(OsStr::new(MODULES)))
            .last();
        outermost.and_then(Path::parent).unwrap_or_else(|| self.root())
    }

    /// Collects its files and those of every package on which it depends, directly or indirectly.
    pub(super) fn collect(
        &self,
        setting: &ServerLayout<'_>,
        mut collector: Collector<'_>,
    ) -> Result<Manifest, PackageError> {
        let mut seen = BTreeSet::new();
        let mut pending = match self {
            Self::Directory(package) => vec![package.clone()],
            Self::Script(script) => {
                let mut packages = collect_script(&mut collector, script)?;
                let declaring = self
                    .root()
                    .ancestors()
                    .find(|ancestor| collector.root().is(&ancestor.join(DESCRIPTION), EntryKind::File));
                if let Some(declaring) = declaring {
                    packages.extend(follow(&mut collector, declaring)?);
                }
                packages
            }
        };
        while let Some(package) = pending.pop() {
            if seen.insert(package.clone()) {
                collector.add_directory(&package, DirectoryRole::Node)?;
                pending.extend(follow(&mut collector, &package)?);
            }
        }
        let notes = self.notes(setting, &collector, &seen);
        Ok(collector.finish(notes))
    }
}

/// Returns the installed packages on which `package` depends. Links on the way are recorded.
fn follow(collector: &mut Collector<'_>, package: &Path) -> Result<Vec<PathBuf>, PackageError> {
    let mut packages = Vec::new();
    for name in dependencies(collector.root(), package) {
        packages.extend(follow_name(collector, package, &name)?);
    }
    Ok(packages)
}

fn follow_name(
    collector: &mut Collector<'_>,
    from: &Path,
    name: &str,
) -> Result<Option<PathBuf>, PackageError> {
    collector.go_on()?;
    let Some(found) = resolve(collector.root(), from, name) else {
        return Ok(None);
    };
    let canonical = collector.root().canonical(&found).map_err(unreadable(&found))?;
    if canonical != found {
        collector.add_way(&found, &canonical)?;
    }
    Ok(Some(canonical))
}

/// Adds a script with the files that it imports, directly or indirectly, and returns the packages that they import. If
/// an import is computed at run time, all code in the script's directory is added.
fn collect_script(collector: &mut Collector<'_>, script: &Path) -> Result<Vec<PathBuf>, PackageError> {
    let mut packages = Vec::new();
    let (mut pending, mut seen) = (vec![script.to_owned()], BTreeSet::new());
    let mut is_dynamic = false;
    while let Some(file) = pending.pop() {
        if !seen.insert(file.clone()) {
            continue;
        }
        if seen.len() > MAX_SOURCES {
            return Err(PackageError::TooManyFiles { limit: MAX_SOURCES });
        }
        collector.go_on()?;
        collector.add(&file, DirectoryRole::Node)?;
        if has_extension(&file, &CLOSED) {
            continue;
        }
        let Ok(content) = collector.root().read(&file, MAX_SOURCE) else {
            is_dynamic = true;
            continue;
        };
        let imports = NodeImports::of(&String::from_utf8_lossy(&content));
        is_dynamic |= imports.is_dynamic;
        let directory = file.parent().unwrap_or(&file);
        for name in &imports.names {
            match package_name(name) {
                Some(package) => packages.extend(follow_name(collector, directory, package)?),
                None => pending.extend(importable(collector.root(), &directory.join(name))),
            }
        }
    }
    if is_dynamic {
        collect_directory(collector, script.parent().unwrap_or(script))?;
    }
    Ok(packages)
}

/// Returns the package that an import names. Returns `None` for a path.
fn package_name(import: &str) -> Option<&str> {
    if import.starts_with(['.', '/']) {
        return None;
    }
    let end = match import.starts_with('@') {
        true => import.match_indices('/').nth(1),
        false => import.match_indices('/').next(),
    };
    Some(end.map_or(import, |(at, _)| &import[..at])).filter(|name| is_package_name(name))
}

/// Returns the files that an import of `path` can mean in any runtime: a new file among these could take the place of
/// another.
fn importable(root: &Root, path: &Path) -> Vec<PathBuf> {
    let extensions = || EXTENSIONS.iter().chain(&OTHER_EXTENSIONS);
    let appended = |path: &Path| {
        let name = path.as_os_str().to_owned();
        extensions().map(move |extension| {
            let mut name = name.clone();
            name.push(".");
            name.push(extension);
            PathBuf::from(name)
        })
    };
    // In a runtime of TypeScript, `./x.js` can mean `x.ts`.
    let replaced = extensions().map(|extension| path.with_extension(extension));
    let replaced = replaced.filter(|_| has_extension(path, &EXTENSIONS));
    let candidates = std::iter::once(path.to_owned())
        .chain(appended(path))
        .chain(replaced)
        .chain(appended(&path.join("index")));
    let mut found: Vec<PathBuf> = candidates
        .filter(|candidate| root.is(candidate, EntryKind::File))
        .filter_map(|candidate| root.canonical(&candidate).ok())
        .collect();
    if root.is(path, EntryKind::Directory) {
        let description = path.join(DESCRIPTION);
        found.extend(root.canonical(&description));
        found.extend(entry_file(root, path));
    }
    found
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .is_some_and(|found| extensions.iter().any(|extension| found == *extension))
}

/// Adds all code in a directory.
fn collect_directory(collector: &mut Collector<'_>, directory: &Path) -> Result<(), PackageError> {
    for name in collector.root().names(directory).map_err(unreadable(directory))? {
        let path = directory.join(&name);
        if has_extension(&path, &CODE) && !collector.root().is(&path, EntryKind::Directory) {
            collector.add(&path, DirectoryRole::Node)?;
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

/// Returns `package.json` of a directory. One that cannot be parsed declares nothing, and is hashed like any file.
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

/// Returns whether the name is `name` or `@scope/name`: it may not lead out of a `node_modules`.
fn is_package_name(name: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\0']);
    match name.split_once('/') {
        Some((scope, name)) => scope.starts_with('@') && plain(scope) && plain(name),
        None => plain(name),
    }
}

/// Resolves like Node: to the nearest `node_modules/NAME` on the way up.
fn resolve(root: &Root, package: &Path, name: &str) -> Option<PathBuf> {
    package
        .ancestors()
        .filter(|ancestor| ancestor.file_name() != Some(OsStr::new(MODULES)))
        .map(|ancestor| ancestor.join(MODULES).join(name))
        .find(|candidate| root.is(candidate, EntryKind::Directory))
}

#[cfg(test)]
mod tests;

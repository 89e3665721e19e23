//! The distribution of a Python server, or the modules that its script imports, with the distributions that these require.
//!
//! Compiled modules (`__pycache__`) are not included, because they differ between any two installations. So a planted
//! `.pyc` with its source's time and size is not noticed.

mod distribution;
mod environment;
mod imports;
mod local;
mod owner;
mod records;
mod script;
mod start_up;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use mcpmon_model::{Manifest, ManifestNotes, PackageOrigin, PackageRole};

pub(super) use self::script::{entry_point, without_interpreter};
use self::{
    distribution::Index,
    environment::{Environment, EnvironmentScope},
    imports::{imports_dynamically, top_level_imports},
    local::{DirectoryModules, module_names},
};
pub use self::{
    distribution::normalise,
    owner::{owner_of_command, owner_of_module},
};
use super::{
    Cancel, ServerLayout, origin,
    package::{Collector, DirectoryRole, PackageError, unreadable},
    root::{EntryKind, Root},
};

/// Largest source file whose imports are read, in bytes.
const MAX_SOURCE: u64 = 1 << 20;
/// Most source files and directories of one module that are searched for imports.
const MAX_SOURCES: usize = 2_000;

/// The code that Python was told to run.
#[derive(Clone, Copy, Debug)]
pub(super) enum PythonEntry<'a> {
    /// A file, by its canonical path, with its text.
    Script(&'a Path, &'a str),
    /// `-m NAME`.
    Module(&'a str),
}

/// A Python server's package.
#[derive(Debug)]
pub(super) struct PythonPackage {
    environment: Environment,
    index: Index,
    /// Directories that path files add.
    extra: Vec<PathBuf>,
    /// True if a module of the server is in one of these.
    uses_extra: bool,
    root: PathBuf,
    /// The directory that file names are relative to.
    base: PathBuf,
    parts: PackageParts,
    /// The `.dist-info` of the server's distribution.
    metadata: Option<PathBuf>,
}

/// The collected parts.
#[derive(Debug, Default)]
struct PackageParts {
    /// Distributions, which are included with what they require.
    distributions: BTreeSet<String>,
    /// Distributions that are the server.
    own: BTreeSet<String>,
    /// Distributions that are included because they run code at every start.
    start_up: BTreeSet<String>,
    /// Files of distributions that run at every start.
    start_up_files: BTreeSet<PathBuf>,
    /// Path files that only name directories.
    path_files: BTreeSet<PathBuf>,
    /// Files and directories outside all distributions.
    loose: BTreeSet<PathBuf>,
    /// Directories of the user's own sources.
    sources: BTreeSet<PathBuf>,
}

impl PythonPackage {
    /// Returns the package that `start` runs.
    ///
    /// # Errors
    /// Returns [`PackageError::NoModule`] if a module is not found, or an error if the environment is too large.
    pub(super) fn of(
        setting: &ServerLayout<'_>,
        start: PythonEntry<'_>,
        cancel: Cancel<'_>,
    ) -> Result<Self, PackageError> {
        let script = match start {
            PythonEntry::Script(path, _) => Some(path),
            PythonEntry::Module(_) => None,
        };
        let environment = Environment::of(setting, script);
        let index = Index::read(setting.root, environment.directories(), cancel)?;
        let root = environment.prefix.clone();
        let mut package = Self {
            environment,
            index,
            extra: Vec::new(),
            uses_extra: false,
            base: root.clone(),
            root,
            parts: PackageParts::default(),
            metadata: None,
        };
        package.add_start_up(setting.root);
        match start {
            PythonEntry::Script(path, text) => package.add_script(setting.root, path, text)?,
            PythonEntry::Module(name) => package.add_module(setting, name)?,
        }
        Ok(package)
    }

    /// Returns what its installer recorded about its origin.
    pub(super) fn origin(&self, root: &Root) -> Option<PackageOrigin> {
        let metadata = self.metadata.as_deref()?;
        let environment = origin::environment_of(metadata)?;
        origin::of_python(root, metadata, &environment)
    }

    /// Returns its directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory that file names are relative to.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// Collects its files and those of every distribution that it requires, directly or indirectly.
    pub(super) fn collect(
        &self,
        setting: &ServerLayout<'_>,
        mut collector: Collector<'_>,
    ) -> Result<Manifest, PackageError> {
        let required = self.required(&self.parts.distributions);
        let start_up = self.required(&self.parts.start_up);
        let mut sources: BTreeSet<PathBuf> = self.parts.sources.clone();
        let mut is_edited = self.uses_extra;
        for name in required.union(&start_up) {
            let Some(distribution) = self.index.get(name) else {
                continue;
            };
            add_existing(&mut collector, &distribution.metadata)?;
            for entry in &distribution.entries {
                add_existing(&mut collector, entry)?;
            }
            for directory in &distribution.shared {
                add_files(&mut collector, directory)?;
            }
            if let Some(project) = &distribution.editable {
                let project = setting.root.canonical(project).map_err(unreadable(project))?;
                if setting.is_too_broad(&project) {
                    return Err(PackageError::TooBroad { path: project });
                }
                collector.add(&project, DirectoryRole::Python)?;
                sources.insert(project);
                is_edited = true;
            }
        }
        let path_files = self.parts.path_files.iter().filter(|_| is_edited);
        let loose = self.parts.loose.iter().chain(&self.parts.start_up_files);
        for path in loose.chain(path_files) {
            add_existing(&mut collector, path)?;
        }
        let mut notes = ManifestNotes {
            sites: self
                .environment
                .places()
                .map(|site| collector.noted(site))
                .collect(),
            ..ManifestNotes::default()
        };
        let trees: BTreeSet<PathBuf> = sources
            .iter()
            .filter_map(|directory| setting.work_tree(directory))
            .collect();
        notes.work_trees = trees.iter().map(|tree| collector.noted(tree)).collect();
        for name in &required {
            let role = match self.parts.own.contains(name) {
                true => PackageRole::Own,
                false => PackageRole::Dependency,
            };
            notes
                .packages
                .extend(self.noted(setting.root, &collector, name, role));
        }
        for name in start_up.difference(&required) {
            notes
                .packages
                .extend(self.noted(setting.root, &collector, name, PackageRole::StartUp));
        }
        self.note_start_up(setting.root, &collector, &mut notes);
        Ok(collector.finish(notes))
    }

    /// Returns the installed distributions among `names`, with those that they require.
    fn required(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut pending: Vec<&String> = names.iter().collect();
        while let Some(name) = pending.pop() {
            if let Some(distribution) = self.index.get(name)
                && found.insert(name.clone())
            {
                pending.extend(&distribution.requires);
            }
        }
        found
    }

    /// Adds what a script runs: itself, what it imports, and files in its directory with the name of a module that is
    /// installed elsewhere, because Python looks in this directory first for every import.
    fn add_script(&mut self, root: &Root, script: &Path, text: &str) -> Result<(), PackageError> {
        let directory = script.parent().unwrap_or(script).to_owned();
        let local = DirectoryModules::read(root, &directory)?;
        let imported = top_level_imports(text);
        let installed: BTreeSet<_> = imported
            .iter()
            .filter(|module| !local.has(module))
            .flat_map(|module| self.index.providers(module))
            .collect();
        let is_console_script = script.extension().is_none()
            && directory.file_name() == Some(OsStr::new("bin"))
            && !installed.is_empty();
        let imported: Vec<String> = imported.into_iter().map(str::to_owned).collect();
        let needed = self.add_local(root, &local, imported, imports_dynamically(text))?;
        if is_console_script {
            self.root = self.place_of(&installed).unwrap_or(directory);
            self.metadata = self.metadata_of(&installed);
            self.parts.own.extend(installed.clone());
            self.parts.distributions.extend(installed);
            return Ok(());
        }
        self.parts.sources.insert(directory.clone());
        if is_source(script) {
            self.parts.loose.insert(script.to_owned());
        }
        self.base.clone_from(&directory);
        self.root = directory;
        self.add_needed(root, &needed)
    }

    /// Adds the modules in a script's directory that it can load, and returns the names of the others that they import.
    /// All are added if the names are unknown, because one is computed at run time, or the modules of the interpreter
    /// are unknown.
    fn add_local(
        &mut self,
        root: &Root,
        local: &DirectoryModules,
        imported: Vec<String>,
        mut is_dynamic: bool,
    ) -> Result<BTreeSet<String>, PackageError> {
        let elsewhere = self.modules_elsewhere(root);
        let hides = |module: &&str| {
            elsewhere
                .as_ref()
                .is_none_or(|elsewhere| elsewhere.contains(*module))
        };
        let hiding = local.modules().filter(hides).map(str::to_owned);
        let mut pending: Vec<String> = imported.into_iter().chain(hiding).collect();
        let (mut seen, mut others) = (BTreeSet::new(), BTreeSet::new());
        loop {
            while let Some(module) = pending.pop() {
                let is_elsewhere = elsewhere.as_ref().is_some_and(|names| names.contains(&module));
                let Some(paths) = local.paths(&module, is_elsewhere) else {
                    others.insert(module);
                    continue;
                };
                if !seen.insert(module) {
                    continue;
                }
                for path in paths {
                    let imports = imports_below(root, path)?;
                    is_dynamic |= imports.is_dynamic;
                    pending.extend(imports.modules);
                    self.parts.loose.insert(path.clone());
                }
            }
            if !is_dynamic {
                return Ok(others);
            }
            is_dynamic = false;
            pending.extend(
                local
                    .modules()
                    .filter(|module| !seen.contains(*module))
                    .map(str::to_owned),
            );
        }
    }

    /// Returns the names of the modules in the standard library and the environment. Returns `None` if the library is
    /// not found.
    fn modules_elsewhere(&self, root: &Root) -> Option<BTreeSet<String>> {
        let library = self.environment.library.as_deref()?;
        let dynamic = library.join("lib-dynload");
        let directories = [library, &dynamic].into_iter();
        let directories = directories.chain(self.environment.directories().map(PathBuf::as_path));
        Some(
            directories
                .flat_map(|directory| module_names(root, directory))
                .collect(),
        )
    }

    fn add_module(&mut self, setting: &ServerLayout<'_>, name: &str) -> Result<(), PackageError> {
        let top = name.split('.').next().unwrap_or(name);
        let providers = self.index.providers(top);
        // Directories of path files come after the environment's own.
        let is_installed = |name: &String| self.index.get(name).is_some_and(|found| found.editable.is_none());
        let extra = self.extra.iter().filter(|_| !providers.iter().any(is_installed));
        let local = std::iter::once(&setting.working_directory)
            .chain(&self.environment.named)
            .chain(extra)
            .find_map(|directory| Some((directory.clone(), module_in(setting.root, directory, top)?)));
        self.uses_extra = local
            .as_ref()
            .is_some_and(|(directory, _)| self.extra.contains(directory));
        let local = local.map(|(directory, place)| {
            self.parts.sources.insert(directory);
            place
        });
        let (place, modules) = match local {
            Some(place) => {
                let modules = imports_below(setting.root, &place)?.modules;
                self.parts.loose.insert(place.clone());
                self.parts.distributions.extend(providers);
                (place, modules)
            }
            None if !providers.is_empty() => {
                self.root = self
                    .place_of(&providers)
                    .unwrap_or_else(|| self.environment.prefix.clone());
                self.metadata = self.metadata_of(&providers);
                self.parts.own.extend(providers.clone());
                self.parts.distributions.extend(providers);
                return Ok(());
            }
            None => {
                let place = self
                    .environment
                    .sites
                    .iter()
                    .find_map(|site| module_in(setting.root, site, top));
                let Some(place) = place else {
                    let directories = self.environment.directories();
                    let searched = std::iter::once(&setting.working_directory).chain(directories);
                    return Err(PackageError::NoModule {
                        name: name.to_owned(),
                        searched: searched.cloned().collect(),
                    });
                };
                let modules = imports_below(setting.root, &place)?.modules;
                self.parts.loose.insert(place.clone());
                (place, modules)
            }
        };
        self.root = place;
        self.add_needed(setting.root, &modules)
    }

    /// Adds what `modules` need. Of a virtual environment, so are the imports of modules that no distribution installed.
    fn add_needed(&mut self, root: &Root, modules: &BTreeSet<String>) -> Result<(), PackageError> {
        let mut pending: Vec<String> = modules.iter().cloned().collect();
        let mut seen = BTreeSet::new();
        while let Some(module) = pending.pop() {
            if !seen.insert(module.clone()) {
                continue;
            }
            let place = self.add_import(root, &module);
            match (self.environment.scope, place) {
                (EnvironmentScope::Virtual, Some(place)) => {
                    pending.extend(imports_below(root, &place)?.modules);
                }
                (EnvironmentScope::Virtual | EnvironmentScope::System, Some(_) | None) => {}
            }
        }
        Ok(())
    }

    /// Adds the module with this name, and returns its place if no distribution installed it.
    fn add_import(&mut self, root: &Root, module: &str) -> Option<PathBuf> {
        let providers = self.index.providers(module);
        let first_in = |directories: &[PathBuf]| {
            directories
                .iter()
                .find_map(|place| module_in(root, place, module))
        };
        // A module in `PYTHONPATH` hides an installed distribution.
        let named = first_in(&self.environment.named);
        self.parts.sources.extend(
            named
                .as_ref()
                .and_then(|place| place.parent())
                .map(Path::to_owned),
        );
        let place = match named {
            None if providers.is_empty() => {
                first_in(&self.environment.sites).or_else(|| first_in(&self.environment.added))
            }
            named => named,
        };
        self.parts.loose.extend(place.clone());
        self.parts.distributions.extend(providers);
        place
    }

    /// Returns the metadata of the distribution. Returns `None` if there are several, because it is unknown which one
    /// is the server.
    fn metadata_of(&self, distributions: &BTreeSet<String>) -> Option<PathBuf> {
        let mut names = distributions.iter();
        let (name, None) = (names.next()?, names.next()) else {
            return None;
        };
        Some(self.index.get(name)?.metadata.clone())
    }

    /// Returns the directory of the first of these distributions.
    fn place_of(&self, distributions: &BTreeSet<String>) -> Option<PathBuf> {
        let distribution = self.index.get(distributions.first()?)?;
        distribution
            .editable
            .clone()
            .or_else(|| distribution.entries.first().cloned())
    }
}

/// Adds a listed file of a distribution, unless it has been removed: a missing file is a difference in the manifest.
fn add_existing(collector: &mut Collector<'_>, path: &Path) -> Result<(), PackageError> {
    match collector.root().find_link(path) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(path)(error)),
    }
    let contents = DirectoryRole::Python.below(path.file_name().unwrap_or_default());
    collector.add(path, contents)
}

/// Adds the files of a directory that several distributions share.
fn add_files(collector: &mut Collector<'_>, directory: &Path) -> Result<(), PackageError> {
    for name in collector.root().names(directory).unwrap_or_default() {
        let path = directory.join(&name);
        let kind = collector.root().find_link(&path).map(|node| node.kind());
        if matches!(kind, Ok(EntryKind::File | EntryKind::Link)) {
            add_existing(collector, &path)?;
        }
    }
    Ok(())
}

/// Returns the canonical path of a top-level module in a directory: a package directory or a file.
fn module_in(root: &Root, directory: &Path, module: &str) -> Option<PathBuf> {
    let package = directory.join(module);
    let is_package = ["__init__.py", "__main__.py"]
        .iter()
        .any(|file| root.is(&package.join(file), EntryKind::File));
    let found = if is_package {
        package
    } else {
        directory.join(format!("{module}.py"))
    };
    root.is(
        &found,
        if is_package {
            EntryKind::Directory
        } else {
            EntryKind::File
        },
    )
    .then(|| root.canonical(&found).ok())
    .flatten()
}

pub(super) fn source(root: &Root, path: &Path) -> Option<String> {
    let content = root.read(path, MAX_SOURCE).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// The imports of a module's source files.
#[derive(Debug, Default)]
struct PythonImports {
    /// First components of the names of imported modules.
    modules: BTreeSet<String>,
    /// True if the name of an import is computed at run time.
    is_dynamic: bool,
}

/// Collects the imports of a module's source files.
fn imports_below(root: &Root, place: &Path) -> Result<PythonImports, PackageError> {
    let mut imports = PythonImports::default();
    let mut pending = vec![place.to_owned()];
    let mut seen = 0;
    while let Some(path) = pending.pop() {
        seen += 1;
        if seen > MAX_SOURCES {
            return Err(PackageError::TooManyFiles { limit: MAX_SOURCES });
        }
        if let Ok(names) = root.names(&path) {
            let children = names.iter().map(|name| path.join(name));
            pending.extend(children.filter(|child| pending_source(root, child)));
        } else if is_source(&path) {
            let text = source(root, &path).unwrap_or_default();
            imports.is_dynamic |= imports_dynamically(&text);
            imports
                .modules
                .extend(top_level_imports(&text).into_iter().map(str::to_owned));
        }
    }
    Ok(imports)
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

fn pending_source(root: &Root, path: &Path) -> bool {
    let kind = root.find_link(path).map(|node| node.kind());
    matches!(kind, Ok(EntryKind::File) if is_source(path)) || matches!(kind, Ok(EntryKind::Directory))
}

#[cfg(test)]
mod note_tests;
#[cfg(test)]
mod tests;

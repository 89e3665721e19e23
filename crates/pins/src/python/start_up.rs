//! Code that runs at every start of Python: path files with their imports, and customisation modules.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use mcpmon_model::{Digest, InstalledPackage, ManifestNotes, PackageRole};

use super::{
    PythonPackage,
    distribution::{is_start_up, path_lines},
    imports::top_level_imports,
    records, source,
};
use crate::{package::Collector, root::Root};

/// The module that virtualenv and earlier versions of uv add to an environment, and the path file that imports it. No
/// distribution records them.
const VIRTUALENV: [&str; 2] = ["_virtualenv.pth", "_virtualenv.py"];
/// The content of that path file.
const VIRTUALENV_IMPORT: &str = "import _virtualenv";
/// The digests of that module in versions of virtualenv and uv.
const VIRTUALENV_MODULES: [&str; 4] = [
    "sha256:0f20351ea7e90039c46d3fabdef991f28b1e3ff33eb13ee6f0d5cd21ea0e8b14",
    "sha256:6cf30c56faf2a55228914dbbd17f8088ed371ebb08f5e7fa6fd931f913fcaf1d",
    "sha256:c9199315871b11b12df226f890a38e66e63191e1adbfb11a66e6861151b33fca",
    "sha256:cfe56cafbd68fd31a0e87100f111d7d2f6b7157241096500013c07e88d80a22f",
];

impl PythonPackage {
    /// Adds the code that runs at every start. Left out is what environments have from the tool that made them, and path
    /// files that only name directories, unless a module of the server can be in one of these.
    pub(super) fn add_start_up(&mut self, root: &Root) {
        let sites: Vec<PathBuf> = self.environment.places().cloned().collect();
        for site in sites {
            for name in root.names(&site).unwrap_or_default() {
                if name.to_str().is_some_and(is_start_up) {
                    self.add_start_up_file(root, &site, &name);
                }
            }
        }
    }

    fn add_start_up_file(&mut self, root: &Root, site: &Path, name: &OsStr) {
        let path = site.join(name);
        if path.extension() != Some(OsStr::new("pth")) {
            match self.index.of_start_up(&path) {
                Some(_) => self.parts.start_up_files.insert(path),
                None => self.parts.loose.insert(path),
            };
            return;
        }
        if is_virtualenvs(root, site, name) {
            return;
        }
        let text = source(root, &path);
        let is_read = text.is_some();
        let text = text.unwrap_or_default();
        self.extra.extend(path_lines(root, site, &text));
        let has_code = !is_read
            || text
                .lines()
                .any(|line| line.starts_with("import ") || line.starts_with("import\t"));
        if !has_code {
            self.parts.path_files.insert(path);
            return;
        }
        for module in top_level_imports(&text) {
            let providers = self.index.providers(module);
            if providers.is_empty() {
                self.add_import(root, module);
            }
            self.parts.start_up.extend(providers);
        }
        match self.index.of_start_up(&path) {
            Some(_) => self.parts.start_up_files.insert(path),
            None => self.parts.loose.insert(path),
        };
    }

    /// Notes the distributions of files that run at every start, if nothing else of them is included.
    pub(super) fn note_start_up(&self, root: &Root, collector: &Collector<'_>, notes: &mut ManifestNotes) {
        for path in &self.parts.start_up_files {
            let Some(name) = self.index.of_start_up(path) else {
                continue;
            };
            if notes.packages.iter().any(|package| package.name == *name) {
                continue;
            }
            let Some(distribution) = self.index.get(name) else {
                continue;
            };
            let files = self.parts.start_up_files.iter();
            let places: Vec<PathBuf> = files
                .filter(|path| self.index.of_start_up(path) == Some(name))
                .cloned()
                .collect();
            notes.packages.push(InstalledPackage {
                places: places.iter().map(|place| collector.name(place)).collect(),
                record: records::compare(root, collector, distribution, &places),
                writers: collector.writers(&places),
                ..records::package(name, distribution, PackageRole::StartUp)
            });
        }
    }
}

/// Returns whether a path file is one of virtualenv's, with a module whose content is known.
fn is_virtualenvs(root: &Root, site: &Path, name: &OsStr) -> bool {
    let [path_file, module] = VIRTUALENV;
    if name != path_file {
        return false;
    }
    let text = source(root, &site.join(path_file)).unwrap_or_default();
    let module = source(root, &site.join(module)).unwrap_or_default();
    let digest = Digest::of(module.as_bytes()).to_string();
    text.trim_end() == VIRTUALENV_IMPORT && VIRTUALENV_MODULES.contains(&digest.as_str())
}

//! Fixtures for tests: a file system built by hand that serves as a server's root, and a real process.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use mcpmon_model::Manifest;

use super::{FileHasher, PackageError, PackageLimits, Root, ServerLayout, node, package::Collector, python};

/// A temporary directory, and the environment of a server in it.
pub(super) struct Fixture {
    directory: tempfile::TempDir,
    root: Root,
}

/// The interpreter that runs, whatever name was used to start it.
const PYTHON: &str = "/usr/bin/python3.11";

impl Fixture {
    pub(super) fn new() -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let root = Root::at(directory.path())?;
        Ok(Self { directory, root })
    }

    /// A tree of files, given as path and content.
    pub(super) fn of(files: &[(&str, &str)]) -> io::Result<Self> {
        let fixture = Self::new()?;
        for (path, content) in files {
            fixture.write(path, content)?;
        }
        Ok(fixture)
    }

    /// Returns the path on the host of `path` inside the root.
    pub(super) fn outside(&self, path: &str) -> PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }

    pub(super) fn write(&self, path: &str, content: &str) -> io::Result<()> {
        let path = self.outside(path);
        fs::create_dir_all(path.parent().expect("a file has a directory"))?;
        fs::write(path, content)
    }

    pub(super) fn link(&self, target: &str, path: &str) -> io::Result<()> {
        let path = self.outside(path);
        fs::create_dir_all(path.parent().expect("a link has a directory"))?;
        symlink(target, path)
    }

    pub(super) const fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the layout of a process of `executable` that was started as `name`, in `/srv`.
    pub(super) fn setting(&self, executable: &str, name: &str) -> ServerLayout<'_> {
        ServerLayout {
            root: &self.root,
            working_directory: PathBuf::from("/srv"),
            executable: PathBuf::from(executable),
            name: name.into(),
            search_path: Some("/usr/local/bin:/usr/bin".into()),
            home: Some(PathBuf::from("/home/me")),
            module_path: None,
        }
    }

    /// Returns the package of a Node script: its root and its manifest.
    pub(super) fn node_package(&self, script: &str) -> Result<(PathBuf, Manifest), PackageError> {
        let setting = self.setting("/usr/bin/node", "node");
        let script = node::entry_file(&self.root, Path::new(script)).expect("the script exists");
        let package = node::NodePackage::of(&setting, &script);
        let mut files = FileHasher::default();
        let collector = Collector::new(
            &self.root,
            &mut files,
            PackageLimits::default(),
            &|| false,
            package.base().to_owned(),
        );
        Ok((package.root().to_owned(), package.collect(&setting, collector)?))
    }

    /// Returns the package that Python, started as `name`, runs for `-m MODULE`.
    pub(super) fn python_module(
        &self,
        name: &str,
        module: &str,
    ) -> Result<(PathBuf, Manifest), PackageError> {
        self.python_package(self.setting(PYTHON, name), python::PythonEntry::Module(module))
    }

    /// Returns the package with a `PYTHONPATH`.
    pub(super) fn python_module_along(
        &self,
        module_path: &str,
        name: &str,
        module: &str,
    ) -> Result<(PathBuf, Manifest), PackageError> {
        let setting = ServerLayout {
            module_path: Some(module_path.into()),
            ..self.setting(PYTHON, name)
        };
        self.python_package(setting, python::PythonEntry::Module(module))
    }

    /// Returns the package that Python, started as `name`, runs for a script.
    pub(super) fn python_script(
        &self,
        name: &str,
        script: &str,
    ) -> Result<(PathBuf, Manifest), PackageError> {
        let script = Path::new(script);
        let text = python::source(&self.root, script).expect("the script exists");
        self.python_package(
            self.setting(PYTHON, name),
            python::PythonEntry::Script(script, &text),
        )
    }

    fn python_package(
        &self,
        setting: ServerLayout<'_>,
        start: python::PythonEntry<'_>,
    ) -> Result<(PathBuf, Manifest), PackageError> {
        let package = python::PythonPackage::of(&setting, start, &|| false)?;
        let mut files = FileHasher::default();
        let collector = Collector::new(
            &self.root,
            &mut files,
            PackageLimits::default(),
            &|| false,
            package.base().to_owned(),
        );
        Ok((package.root().to_owned(), package.collect(&setting, collector)?))
    }
}

/// Returns the paths in a manifest.
pub(super) fn paths(manifest: &Manifest) -> Vec<&str> {
    manifest.paths().collect()
}

/// A child that runs until its input is closed, at the latest when the test ends.
pub(super) struct WaitingChild(Child);

impl WaitingChild {
    /// Starts `program` in `directory` with `MCPMON_TEST=a=b`.
    pub(super) fn start(program: &Path, arguments: &[&Path], directory: &Path) -> io::Result<Self> {
        let child = loop {
            let started = Command::new(program)
                .args(arguments)
                .env("MCPMON_TEST", "a=b")
                .current_dir(directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            match started {
                // Another test's fork holds a copied program open for writing until its exec.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                started => break Self(started?),
            }
        };
        // A vfork returns before the kernel has set up arguments and environment of the new program.
        while fs::read(format!("/proc/{}/environ", child.pid()))?.is_empty() {
            std::thread::yield_now();
        }
        Ok(child)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for WaitingChild {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("the child ends with its input");
    }
}

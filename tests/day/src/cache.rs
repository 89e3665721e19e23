//! The packages that `cargo xtask day` fetches once, and a registry that offers them to npm.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use mcpmon_e2e::{
    background::{Background, free_address},
    skip,
};
use tempfile::TempDir;

/// The fetched packages, those of this run, and the registry.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    own: TempDir,
    registry: Background,
}

impl Cache {
    /// Starts the registry. Returns `None`, and says so on standard error, if nothing was fetched.
    ///
    /// # Errors
    /// Returns an error if the registry does not come up, or if nothing was fetched and `CI=true` says that it must be.
    pub fn open() -> Result<Option<Self>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/day-packages");
        let Some(root) = root
            .canonicalize()
            .ok()
            .filter(|root| root.join("ready").exists())
        else {
            skip::for_lack("target/day-packages is not there: `cargo xtask day` fetches it")?;
            return Ok(None);
        };
        let own = tempfile::Builder::new()
            .prefix("mcpmon-day-packages-")
            .tempdir_in("/var/tmp")?;
        let address = free_address()?;
        let mut command = Command::new("python3");
        command.arg(fixture("registry.py"));
        command.arg(address.port().to_string());
        command.arg(root.join("npm")).arg(own.path());
        let registry = Background::start(&mut command, address, own.path().join("registry.log"))?;
        Ok(Some(Self { root, own, registry }))
    }

    /// Publishes a version of an own server on both sides: a wheel and a tarball.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub(crate) fn publish(&self, name: &str, version: &str) -> Result<()> {
        let status = Command::new("python3")
            .arg(fixture("pack.py"))
            .arg(self.own.path())
            .args([name, version])
            .args([fixture("server.py"), fixture("server.js")])
            .status()?;
        anyhow::ensure!(status.success(), "pack.py ended with {status}");
        Ok(())
    }

    /// Returns the directory of the tools that the actions run.
    pub(crate) fn tools(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// Returns the directories with wheels.
    pub(crate) fn wheels(&self) -> [String; 2] {
        [self.root.join("wheels").as_path(), self.own.path()].map(|path| path.display().to_string())
    }

    /// Returns the URL of the registry.
    pub(crate) fn registry(&self) -> String {
        format!("http://{}/", self.registry.address)
    }
}

/// Returns the path of a fixture.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    path.canonicalize().unwrap_or(path)
}

//! A directory for the files of all programs of a run.

use std::{
    env, fs,
    path::{self, Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

/// The directory, removed at the end.
#[derive(Debug)]
pub struct Site(PathBuf);

impl Site {
    /// Makes a directory.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn new() -> Result<Self> {
        let path = env::temp_dir().join(format!("mcpmon-bench-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Returns the path of a file in the directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file into the directory.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Returns a command whose files are all in the directory.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        for (name, directory) in [
            ("HOME", "."),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
        ] {
            command.env(name, self.0.join(directory));
        }
        command.env_remove("MCPMON_CONFIG").env_remove("RUST_LOG");
        command
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // An error is ignored, because files left in a temporary directory do no harm.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// Returns the absolute path of a program that is started from another directory.
///
/// # Errors
///
/// Returns an error if the current directory is unknown.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    path::absolute(path).with_context(|| path.display().to_string())
}

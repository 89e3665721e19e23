//! The schema of OCSF, as `cargo xtask test` installs it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::skip;

/// A validator of events against the schema.
#[derive(Debug)]
pub struct Ocsf {
    python: PathBuf,
}

impl Ocsf {
    /// Returns the validator. Returns `None`, and says so, if it is not installed.
    ///
    /// # Errors
    /// Returns an error if it is not installed and `CI=true` says that it must be.
    pub fn installed() -> Result<Option<Self>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/ocsf");
        if root.join("ready").exists() {
            let python = root.join("bin/python");
            return Ok(Some(Self { python }));
        }
        skip::for_lack("target/tools/ocsf is not there: `cargo xtask test` installs it")?;
        Ok(None)
    }

    /// Returns, for each event of a file, its `class`, its `type` and its errors as `wrong`.
    ///
    /// # Errors
    /// Returns an error if an event cannot be checked at all.
    pub fn check(&self, file: &Path) -> Result<Vec<Value>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/telemetry/ocsf.py");
        let output = Command::new(&self.python).arg(script).arg(file).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{errors}");
        let lines = String::from_utf8(output.stdout)?;
        lines
            .lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }
}

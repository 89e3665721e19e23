//! Tools for the tests of telemetry, from PyPI: an OpenTelemetry collector, ClickHouse's engine, and the schema of
//! OCSF.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::{python, shell};

const COLLECTOR: &str = "tests/e2e/fixtures/telemetry/requirements.txt";
const OCSF: &str = "tests/e2e/fixtures/telemetry/ocsf-requirements.txt";

/// Installs the tools that are missing. Needs python3 with venv.
pub(crate) fn install() -> Result<()> {
    let purpose = "a collector for the tests of telemetry";
    python::install("collector", purpose, COLLECTOR, link_agent)?;
    python::install(
        "ocsf",
        "the schema of OCSF for the tests of telemetry",
        OCSF,
        |_| Ok(()),
    )
}

/// Links to the program, whose directory in the package has the version of Python in its name.
fn link_agent(root: &Path) -> Result<()> {
    let python = root.join("bin/python");
    let place = "import rotel, os; print(os.path.join(os.path.dirname(rotel.__file__), 'rotel-agent'))";
    let python = python.to_str().context("a path of target/ is text")?;
    let agent = shell::ask(python, &["-c", place]).context("rotel does not say where its program is")?;
    std::os::unix::fs::symlink(agent.trim(), root.join("rotel-agent"))?;
    Ok(())
}

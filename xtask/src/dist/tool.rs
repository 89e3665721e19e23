//! Tools from crates.io in fixed versions, each below `target/tools`.

use std::path::PathBuf;

use anyhow::Result;

use crate::shell::{self, step};

/// A tool: its crate, its version, and options of its installation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
    options: &'static [&'static str],
}

pub(super) const AUDITABLE: Tool = Tool {
    name: "cargo-auditable",
    version: "0.7.7",
    options: &[],
};
pub(super) const CYCLONEDX: Tool = Tool {
    name: "cargo-cyclonedx",
    version: "0.5.9",
    options: &[],
};
/// cargo-deb without the xz library, whose version would depend on the machine. Packages are compressed by gzip.
pub(super) const DEB: Tool = Tool {
    name: "cargo-deb",
    version: "3.8.0",
    options: &["--no-default-features", "--features", "gzip"],
};
pub(super) const GENERATE_RPM: Tool = Tool {
    name: "cargo-generate-rpm",
    version: "0.21.1",
    options: &[],
};

/// Installs the tool if it is not there, with optimisation because it compresses, and returns its program.
pub(super) fn provide(tool: Tool) -> Result<PathBuf> {
    let Tool {
        name,
        version,
        options,
    } = tool;
    let root = shell::target().join(format!("tools/{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.exists() {
        let version = format!("={version}");
        let mut install = shell::cargo();
        install.args(["install", name, "--version", &version, "--locked", "--quiet"]);
        install.args(options).arg("--root").arg(&root);
        step(
            &format!("install {name} under target/tools; some minutes"),
            || shell::run(&mut install),
        )?;
    }
    Ok(program)
}

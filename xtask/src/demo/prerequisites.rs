//! Requirements of the demo, checked before the long build: everything that is missing is reported at once, with the
//! remedy.

use std::{fs, path::Path};

use anyhow::Result;

use super::runtime::Runtime;
use crate::{
    packages,
    privilege::Privilege,
    shell::{self, Environment},
};

/// Oldest node that the server runs on.
const NODE: u32 = 18;

/// The result of the checks.
#[derive(Clone, Debug)]
struct Found {
    privilege: Privilege,
    btf: bool,
    cgroup2: bool,
    node: Option<u32>,
    npx: bool,
    python_venv: bool,
}

/// Checks the requirements, and returns the runtime of the demo's server.
///
/// # Errors
/// [`Environment`] with everything that is missing.
pub(super) fn check(wanted: Option<Runtime>) -> Result<Runtime> {
    let runtime = judge(&look(), wanted).map_err(|missing| Environment(explain(&missing)))?;
    packages::require("the demo's network namespace", &["iproute2"])?;
    Ok(runtime)
}

fn look() -> Found {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let version = shell::ask("node", &["--version"]);
    Found {
        privilege: Privilege::current(),
        btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
        cgroup2: mounts
            .lines()
            .any(|line| line.split(' ').nth(2) == Some("cgroup2")),
        node: version.and_then(|version| major(&version)),
        npx: shell::which("npx").is_some(),
        python_venv: shell::ask("python3", &["-c", "import ensurepip, venv"]).is_some(),
    }
}

/// Returns the major version: 20 for `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn judge(found: &Found, wanted: Option<Runtime>) -> Result<Runtime, Vec<&'static str>> {
    let node = found.npx && found.node.is_some_and(|major| major >= NODE);
    let runtime = match wanted {
        Some(Runtime::Node) | None if node => Ok(Runtime::Node),
        Some(Runtime::Python) | None if found.python_venv => Ok(Runtime::Python),
        Some(Runtime::Node) => Err("node 18 or later with npx; the demo installs no language runtime"),
        Some(Runtime::Python) => Err("python3 with venv (Debian: apt-get install python3-venv)"),
        None => Err("node 18 or later with npx, or python3 with venv (Debian: apt-get install python3-venv)"),
    };
    let needs = [
        (found.privilege != Privilege::None, "root, or sudo"),
        (
            found.btf,
            "a kernel with type information (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF=y)",
        ),
        (
            found.cgroup2,
            "the cgroup2 file system (mount -t cgroup2 none /sys/fs/cgroup/unified)",
        ),
    ];
    let mut missing: Vec<&str> = needs
        .iter()
        .filter(|(there, _)| !there)
        .map(|(_, what)| *what)
        .collect();
    missing.extend(runtime.err());
    match runtime {
        Ok(runtime) if missing.is_empty() => Ok(runtime),
        Ok(_) | Err(_) => Err(missing),
    }
}

fn explain(missing: &[&str]) -> String {
    let list: Vec<String> = missing.iter().map(|what| format!("    {what}")).collect();
    format!("the demo needs, and this machine lacks:\n{}", list.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: Found = Found {
        privilege: Privilege::Root,
        btf: true,
        cgroup2: true,
        node: Some(20),
        npx: true,
        python_venv: true,
    };

    #[test]
    fn node_comes_first_and_python_stands_in() {
        let old = Found {
            node: Some(16),
            ..COMPLETE
        };
        let none = Found {
            python_venv: false,
            ..old.clone()
        };
        assert_eq!(judge(&COMPLETE, None), Ok(Runtime::Node));
        assert_eq!(judge(&COMPLETE, Some(Runtime::Python)), Ok(Runtime::Python));
        assert_eq!(judge(&old, None), Ok(Runtime::Python));
        assert_eq!(
            judge(
                &Found {
                    npx: false,
                    ..COMPLETE
                },
                None
            ),
            Ok(Runtime::Python)
        );
        assert!(judge(&old, Some(Runtime::Node)).is_err_and(|missing| missing.len() == 1));
        assert!(judge(&none, None).is_err_and(|missing| missing.len() == 1));
    }

    #[test]
    fn all_that_is_missing_is_told_at_once() {
        let nothing = Found {
            privilege: Privilege::None,
            btf: false,
            cgroup2: false,
            node: None,
            npx: false,
            python_venv: false,
        };
        assert_eq!(judge(&nothing, None).map_err(|missing| missing.len()), Err(4));
        let missing = judge(
            &Found {
                btf: false,
                ..COMPLETE
            },
            None,
        )
        .expect_err("no BTF");
        assert!(explain(&missing).contains("CONFIG_DEBUG_INFO_BTF"));
    }

    #[test]
    fn node_tells_its_major_version() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("20.20.2"), None);
    }
}

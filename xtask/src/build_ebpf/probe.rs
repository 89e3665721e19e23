//! Probes of the machine: compilers, their LLVM, and the packages that could complete them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::plan::{
    CONFLICTING, Compiler, DISTRIBUTION, Distribution, NIGHTLY, Probes, Rustup, Sources, Version,
};
use crate::{packages, shell};

/// Collects the findings for [`choose`](super::plan::choose); `rustup` is what an attempt to use it showed.
pub(super) fn probe(rustup: Option<Rustup>) -> Probes {
    let present = if shell::which("rustup").is_some() {
        Rustup::Untried
    } else {
        Rustup::Absent
    };
    let nightlies: Vec<Compiler> = match present {
        Rustup::Absent => Vec::new(),
        Rustup::Untried | Rustup::CannotFetch => {
            [NIGHTLY, "nightly"].into_iter().filter_map(nightly).collect()
        }
    };
    let distribution = distribution();
    let majors: BTreeSet<u32> = match &distribution {
        Distribution::Installed(compiler) => Some(compiler.llvm),
        Distribution::Offered { llvm, .. } => Some(*llvm),
        Distribution::Absent => None,
    }
    .into_iter()
    .chain(nightlies.iter().map(|compiler| compiler.llvm))
    .collect();
    let package = |major: &u32| format!("llvm-{major}-dev");
    Probes {
        minimum: version(env!("CARGO_PKG_RUST_VERSION")).expect("the workspace states its rust-version"),
        nightlies,
        rustup: rustup.unwrap_or(present),
        distribution,
        llvm_installed: majors
            .iter()
            .copied()
            .filter(|major| llvm_prefix(*major).join("bin/llvm-config").exists())
            .collect(),
        llvm_offered: majors
            .iter()
            .copied()
            .filter(|major| packages::is_offered(&package(major)))
            .collect(),
        conflicts: packages::installed(&CONFLICTING),
    }
}

/// Returns Debian's prefix for an LLVM.
pub(super) fn llvm_prefix(major: u32) -> PathBuf {
    PathBuf::from(format!("/usr/lib/llvm-{major}"))
}

/// Returns the output of `rustc -vV` of this compiler, if it can be run.
pub(super) fn verbose_version(bin: &Path) -> Option<String> {
    shell::ask(bin.join("rustc"), &["-vV"])
}

fn nightly(toolchain: &str) -> Option<Compiler> {
    let listed = shell::ask("rustup", &["toolchain", "list"])?;
    let is_listed = |line: &str| {
        line.split_whitespace()
            .next()
            .is_some_and(|name| is_toolchain(name, toolchain))
    };
    if !listed.lines().any(is_listed) {
        return None;
    }
    let rustc = shell::ask("rustup", &["which", "--toolchain", toolchain, "rustc"])?;
    compiler(toolchain, Path::new(rustc.trim()).parent()?)
}

/// Returns whether an installed toolchain (`nightly-x86_64-unknown-linux-gnu`) is the wanted one (`nightly`).
fn is_toolchain(installed: &str, wanted: &str) -> bool {
    let rest = installed
        .strip_prefix(wanted)
        .and_then(|rest| rest.strip_prefix('-'));
    installed == wanted || rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn distribution() -> Distribution {
    let name = DISTRIBUTION[0];
    if packages::installed(&[name]).contains(name)
        && let Some(compiler) = compiler(name, Path::new("/usr/bin"))
    {
        return Distribution::Installed(compiler);
    }
    let offered = || {
        let shown = shell::ask("apt-cache", &["show", "--no-all-versions", name])?;
        let version = version(field(&shown, "Version: ")?)?;
        let options = [
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
        ];
        let closure = shell::ask(
            "apt-cache",
            &[&["depends", "--recurse"], &options[..], &["--no-enhances", name]].concat(),
        )?;
        Some(Distribution::Offered {
            version,
            llvm: llvm_of_closure(&closure)?,
        })
    };
    offered().unwrap_or(Distribution::Absent)
}

fn compiler(name: &str, bin: &Path) -> Option<Compiler> {
    let text = verbose_version(bin)?;
    let sysroot = shell::ask(bin.join("rustc"), &["--print", "sysroot"])?;
    let core = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core/Cargo.toml");
    let cargo = bin.join("cargo").exists();
    Some(Compiler {
        name: name.to_owned(),
        bin: bin.to_owned(),
        version: version(field(&text, "release: ")?)?,
        llvm: leading_number(field(&text, "LLVM version: ")?)?,
        sources: if cargo && core.exists() {
            Sources::Present
        } else {
            Sources::Absent
        },
    })
}

/// Returns the LLVM on which the compiler's own library depends, from the output of a recursive `apt-cache depends`.
fn llvm_of_closure(closure: &str) -> Option<u32> {
    let mut of_the_compiler = false;
    for line in closure.lines() {
        if !line.starts_with([' ', '|']) {
            of_the_compiler = line.starts_with("libstd-rust") || line.trim() == DISTRIBUTION[0];
        } else if of_the_compiler && let Some(package) = line.trim().strip_prefix("Depends: libllvm") {
            return leading_number(package);
        }
    }
    None
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

fn version(text: &str) -> Option<Version> {
    let (major, rest) = text.trim().split_once('.')?;
    Some(Version(major.parse().ok()?, leading_number(rest)?))
}

fn leading_number(text: &str) -> Option<u32> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .map_or(text, |end| &text[..end]);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_compilers_and_packages() {
        for (text, expected) in [
            ("1.95", Some(Version(1, 95))),
            ("1.97.0-nightly", Some(Version(1, 97))),
            ("1.96.0+dfsg1-1~deb12u2", Some(Version(1, 96))),
            ("unknown", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }

    #[test]
    fn llvm_is_the_one_of_the_standard_library() {
        let closure = "rustc-web\n  Depends: gcc\ngcc\n  Depends: libllvm14\n\
                       libstd-rust-web-1.96\n  Depends: libc6\n  Depends: libllvm22\n";
        assert_eq!(llvm_of_closure(closure), Some(22));
        assert_eq!(
            llvm_of_closure("rustc-web\n  Depends: gcc\ngcc\n  Depends: libllvm14\n"),
            None
        );
    }

    #[test]
    fn a_dated_nightly_is_not_the_nightly() {
        for (installed, wanted, expected) in [
            ("nightly-x86_64-unknown-linux-gnu", "nightly", true),
            ("nightly-2026-05-20-x86_64-unknown-linux-gnu", "nightly", false),
            (
                "nightly-2026-05-20-x86_64-unknown-linux-gnu",
                "nightly-2026-05-20",
                true,
            ),
            ("stable-x86_64-unknown-linux-gnu", "nightly", false),
        ] {
            assert_eq!(is_toolchain(installed, wanted), expected, "{installed}");
        }
    }
}

//! The static binary of one target, which contains the list of its crates, and no trace of the machine that built it.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::{target::Target, tool};
use crate::{
    build_ebpf, packages, python,
    shell::{self, Environment, say},
};

/// The C compiler for C libraries, as a package of PyPI, so that it is the same on every machine.
const ZIG: &str = "deploy/packages/zig.txt";

/// The sources: a directory with the repository's files, and the data of its commit.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) directory: PathBuf,
    pub(super) version: String,
    pub(super) commit: String,
    /// The time of the commit in seconds since 1970, which is the date of every file and archive.
    pub(super) date: u64,
    pub(super) object: PathBuf,
}

impl Source {
    /// Returns the repository in its present state, and reports uncommitted changes.
    pub(super) fn current(repository: &Path, object: &Path) -> Result<Self> {
        if !git(repository, &["status", "--porcelain"])?.is_empty() {
            say("NOT A RELEASE: there are changes that are not committed");
        }
        Self::at(repository, repository, object)
    }

    /// Returns a copy of the last commit, with kernel programs that are built from the copy into `results`.
    pub(super) fn copied(repository: &Path, copy: &Path, results: &Path) -> Result<Self> {
        shell::run(
            Command::new("git")
                .args(["clone", "--quiet", "--no-hardlinks"])
                .arg(repository)
                .arg(copy),
        )?;
        Self::at(repository, copy, &build_ebpf::anew(copy, results)?)
    }

    fn at(repository: &Path, directory: &Path, object: &Path) -> Result<Self> {
        let date = git(repository, &["show", "--no-patch", "--format=%ct", "HEAD"])?;
        Ok(Self {
            directory: directory.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: git(repository, &["rev-parse", "HEAD"])?,
            date: date.parse().context("git gave no date")?,
            object: object.to_owned(),
        })
    }

    /// Sets the date of everything that this command writes.
    pub(super) fn date<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("SOURCE_DATE_EPOCH", self.date.to_string())
    }
}

fn git(repository: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("could not run git")?;
    ensure!(output.status.success(), "git {} failed", arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Builds the binary in a separate target directory, because its flags give other objects. The build has a low
/// priority.
pub(super) fn binary(source: &Source, target: Target, profile: &str, directory: &Path) -> Result<PathBuf> {
    let auditable = tool::provide(tool::AUDITABLE)?;
    standard_library(target)?;
    let prefixes = prefixes(source, directory)?;
    let mut cargo = Command::new("nice");
    cargo
        .arg(auditable)
        .args(["auditable", "build", "--locked", "--package", "mcpmon"])
        .args(["--profile", profile, "--target", target.triple, "--target-dir"])
        .arg(directory)
        .current_dir(&source.directory)
        .env("CARGO_ENCODED_RUSTFLAGS", flags(target, &prefixes).join("\u{1f}"))
        .env("CARGO_INCREMENTAL", "0")
        .env("MCPMON_BPF_OBJECT", &source.object);
    if let Some(zig) = target.zig {
        c_compiler(&mut cargo, target, zig, &prefixes)?;
    }
    shell::run(source.date(&mut cargo))?;
    // Cargo's directory for this profile has another name.
    let profile = if profile == "dev" { "debug" } else { profile };
    let built = directory.join(target.triple).join(profile).join("mcpmon");
    is_static(&built)?;
    Ok(built)
}

/// Checks that the target's standard library is installed, and installs it with rustup otherwise.
fn standard_library(target: Target) -> Result<()> {
    shell::standard_library(target.triple).map_err(|error| {
        let host = env::consts::ARCH;
        Environment(format!(
            "{error}; `--target {host}-unknown-linux-gnu` links glibc statically instead"
        ))
        .into()
    })
}

/// The directories of this machine, each with its replacement in a binary.
type Prefixes = [(PathBuf, &'static str); 3];

/// Returns flags of rustc: static linking, and replacements for the directories of this machine. If two prefixes match,
/// rustc uses the later one.
fn flags(target: Target, prefixes: &Prefixes) -> Vec<String> {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    if target.zig.is_some() {
        flags.push("-Clink-self-contained=yes".to_owned());
    }
    let remapped = prefixes
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    flags.extend(remapped);
    flags
}

fn prefixes(source: &Source, directory: &Path) -> Result<Prefixes> {
    Ok([
        (shell::cargo_home()?, "/cargo"),
        (source.directory.clone(), "/mcpmon"),
        (directory.to_owned(), "/target"),
    ])
}

/// Lets Zig compile C libraries, and lets rustc's own linker link them with the musl that comes with Rust.
fn c_compiler(cargo: &mut Command, target: Target, zig: &str, prefixes: &Prefixes) -> Result<()> {
    python::install(
        "zig",
        "the C compiler for other targets, below target/tools",
        ZIG,
        |_| Ok(()),
    )?;
    let root = shell::target().join("tools/zig");
    let python = root.join("bin/python");
    let wrapper = |program: &str, text: String| {
        let path = root.join("bin").join(format!("{zig}-{program}"));
        fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))?;
        anyhow::Ok(path)
    };
    // The crate that calls it adds Rust's name of the target, which Zig does not know.
    let compiler = wrapper(
        "cc",
        format!(
            "#!/bin/sh\nfor argument; do\n    shift\n    case $argument in\n        --target=*) ;;\n        \
             *) set -- \"$@\" \"$argument\" ;;\n    esac\ndone\n\
             exec '{}' -m ziglang cc -target {zig} -fno-sanitize=all -g0 \"$@\"\n",
            python.display()
        ),
    )?;
    let archiver = wrapper(
        "ar",
        format!("#!/bin/sh\nexec '{}' -m ziglang ar \"$@\"\n", python.display()),
    )?;
    let name = target.triple.replace('-', "_");
    let mapped = prefixes
        .iter()
        .map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    cargo
        .env(format!("CC_{name}"), compiler)
        .env(format!("AR_{name}"), archiver)
        .env(format!("CFLAGS_{name}"), mapped.collect::<Vec<_>>().join(" "))
        .env(target.variable("CARGO_TARGET_", "_LINKER"), "rust-lld")
        .env("ZIG_GLOBAL_CACHE_DIR", root.join("cache"))
        .env("ZIG_LOCAL_CACHE_DIR", root.join("cache"));
    Ok(())
}

/// Checks that a binary needs no program interpreter, because an image with nothing else in it has none.
///
/// # Errors
/// Returns an error if the binary needs one.
pub(super) fn is_static(binary: &Path) -> Result<()> {
    const INTERPRETER: usize = 3;
    let bytes = fs::read(binary).with_context(|| format!("could not read {}", binary.display()))?;
    let number = |at: usize, width: usize| {
        let bytes = bytes.get(at..at + width).context("no well-formed ELF file")?;
        let digits = bytes.iter().rev();
        anyhow::Ok(digits.fold(0_usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for header in 0..count {
        let kind = number(table + header * size, 4)?;
        ensure!(kind != INTERPRETER, "{} is linked dynamically", binary.display());
    }
    Ok(())
}

/// Returns the words in front of a command by which this machine runs a binary of the target.
pub(super) fn runner(target: Target) -> Result<Vec<String>> {
    if target.arch == env::consts::ARCH {
        return Ok(Vec::new());
    }
    let emulator = format!("qemu-{}-static", target.arch);
    let purpose = "running a binary for another architecture, which prints its manual pages,";
    packages::require_commands(purpose, &[(&emulator, "qemu-user-static")])?;
    Ok(vec![emulator])
}

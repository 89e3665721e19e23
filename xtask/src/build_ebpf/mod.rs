//! `cargo xtask build-ebpf`: prepares the compiler and linker for the kernel programs, and builds these.
//!
//! The object is written to `target/bpf/mcpmon-ebpf`, where `crates/kernel/build.rs` looks for it; those of the tap and
//! for DNS are beside it. Nothing is done if the sources and the compiler have not changed since the last build, or if
//! `MCPMON_BPF_OBJECT` names a prebuilt object.

mod object;
mod plan;
mod prepare;
mod probe;
mod stamp;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use self::plan::{LlvmSource, Toolchain};
use crate::shell::{self, Environment, say, step};

const TARGET: &str = "bpfel-unknown-none";

/// The variable that names a prebuilt object, which is used instead of building one.
const PREBUILT: &str = "MCPMON_BPF_OBJECT";

/// The feature of the kernel programs with which they log.
const KERNEL_LOG: &str = "kernel-log";

/// Names an object with that log for the test that loads it.
pub(crate) const LOGGING_OBJECT: &str = "MCPMON_LOGGING_OBJECT";

/// The map of that log in an object.
const LOG_MAP: &[u8] = b"AYA_LOGS";

/// The names of the objects of the tap and for DNS, which are beside the first one.
const OTHERS: [&str; 2] = ["mcpmon-tap", "mcpmon-dns"];

/// Options of a build for developers.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct BuildOptions {
    /// With lines for a developer in them, which `mcpmon daemon --kernel-log` shows; never for a release
    #[arg(long)]
    kernel_log: bool,
}

/// Makes sure that there is an up-to-date object, and returns its path.
pub(crate) fn run() -> Result<PathBuf> {
    run_with(BuildOptions::default())
}

/// Does the same with options for developers.
pub(crate) fn run_with(options: BuildOptions) -> Result<PathBuf> {
    if let Some(prebuilt) = std::env::var_os(PREBUILT).map(PathBuf::from) {
        say(format_args!(
            "using the kernel programs in {}, as {PREBUILT} says",
            prebuilt.display()
        ));
        return match check_all(&prebuilt) {
            Ok(()) => Ok(prebuilt),
            Err(error) => Err(Environment(format!("{PREBUILT}: {error:#}")).into()),
        };
    }
    up_to_date("target/bpf/mcpmon-ebpf", options)
}

/// Makes sure that there is an object with a log beside the one that everything is built with; `None` where that is a prebuilt
/// one, for then there may be no compiler.
pub(crate) fn logging() -> Result<Option<PathBuf>> {
    if std::env::var_os(PREBUILT).is_some() {
        return Ok(None);
    }
    let options = BuildOptions { kernel_log: true };
    up_to_date("target/bpf-log/mcpmon-ebpf", options).map(Some)
}

/// Builds the object at a path of the repository, unless it is up to date.
fn up_to_date(path: &str, options: BuildOptions) -> Result<PathBuf> {
    let object = shell::repository().join(path);
    let inputs = stamp::inputs(shell::repository(), options)?;
    let are_there = all(&object).all(|object| object.exists());
    if are_there && stamp::is_current(&object, &inputs) {
        say(format_args!(
            "the kernel programs are up to date: {}",
            object.display()
        ));
        return Ok(object);
    }
    let toolchain = prepare::toolchain()?;
    let built = step("build the kernel programs", || {
        build(&toolchain, Tree::repository(), options)
    })?;
    fs::create_dir_all(object.with_file_name(""))
        .with_context(|| format!("could not create {}", object.display()))?;
    for (built, object) in all(&built).zip(all(&object)) {
        fs::copy(&built, &object).with_context(|| format!("could not copy {}", built.display()))?;
    }
    stamp::write(&object, &inputs, &toolchain.compiler.bin)?;
    Ok(object)
}

/// Builds all objects of a copy of the repository, with the results in another directory.
pub(crate) fn anew(copy: &Path, directory: &Path) -> Result<PathBuf> {
    if std::env::var_os(PREBUILT).is_some() {
        return run();
    }
    let tree = Tree {
        sources: copy,
        results: directory.to_owned(),
    };
    let toolchain = prepare::toolchain()?;
    step("build the kernel programs of the copy", || {
        build(&toolchain, tree, BuildOptions::default())
    })
}

/// The sources of the kernel programs, and the directory for the build results.
#[derive(Clone, Debug)]
struct Tree<'a> {
    sources: &'a Path,
    results: PathBuf,
}

impl Tree<'static> {
    fn repository() -> Self {
        Self {
            sources: shell::repository(),
            results: shell::target().join("bpf-build"),
        }
    }
}

/// Checks the kernel programs with the compiler that builds them; warnings are errors.
pub(crate) fn clippy() -> Result<()> {
    let toolchain = prepare::toolchain()?;
    prepare::clippy(&toolchain.compiler)?;
    for features in [&[][..], &["--features", KERNEL_LOG]] {
        let mut clippy = shell::command(toolchain.compiler.bin.join("cargo-clippy"));
        clippy.arg("clippy");
        configure(&mut clippy, &toolchain, &Tree::repository())?;
        shell::run(clippy.args(features).args(["--", "--deny", "warnings"]))?;
    }
    Ok(())
}

fn build(toolchain: &Toolchain, tree: Tree<'_>, options: BuildOptions) -> Result<PathBuf> {
    let mut cargo = shell::command(toolchain.compiler.bin.join("cargo"));
    cargo.arg("build");
    configure(&mut cargo, toolchain, &tree)?;
    if options.kernel_log {
        cargo.args(["--features", KERNEL_LOG]);
    }
    shell::run(&mut cargo)?;
    let built = tree.results.join(TARGET).join("bpf/mcpmon-ebpf");
    check_all(&built)?;
    Ok(built)
}

/// Sets the options of every Cargo command on the eBPF crate, so that the result contains no directories of this
/// machine. Unstable features are enabled for this child process only.
fn configure(cargo: &mut Command, Toolchain { compiler, linker }: &Toolchain, tree: &Tree<'_>) -> Result<()> {
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let flags = [
        format!("--cfg=bpf_target_arch=\"{}\"", std::env::consts::ARCH),
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
        format!("-Clinker={}", prepare::linker_path(*linker).display()),
        remap(&shell::cargo_home()?, "/cargo"),
        remap(&compiler.bin.with_file_name(""), "/rust/"),
        remap(tree.sources, "."),
    ];
    if linker.source == LlvmSource::Compiler {
        cargo.env("LD_LIBRARY_PATH", compiler.bin.with_file_name("lib"));
    }
    cargo
        .args([
            "--locked",
            "--package",
            "mcpmon-ebpf",
            "--profile",
            "bpf",
            "--target",
            TARGET,
        ])
        .args(["-Z", "build-std=core", "--target-dir"])
        .arg(&tree.results)
        .current_dir(tree.sources)
        .env("CARGO", compiler.bin.join("cargo"))
        .env("RUSTC", compiler.bin.join("rustc"))
        .env("RUSTC_BOOTSTRAP", "1")
        // Incremental compilation divides code differently, and what the kernel verifies depends on the division.
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTUP_TOOLCHAIN");
    Ok(())
}

/// Returns the first object, and the others beside it.
fn all(object: &Path) -> impl Iterator<Item = PathBuf> {
    let others = OTHERS.map(|name| object.with_file_name(name));
    [object.to_owned()].into_iter().chain(others)
}

/// Checks that no object was built for developers, because a release must have no log.
///
/// # Errors
/// Returns an error if one was.
pub(crate) fn check_release(object: &Path) -> Result<()> {
    for object in all(object) {
        let bytes = fs::read(&object).with_context(|| format!("could not read {}", object.display()))?;
        let has_log = bytes.windows(LOG_MAP.len()).any(|window| window == LOG_MAP);
        if has_log {
            bail!(
                "{} was built with a log, which no release has: build it without --kernel-log",
                object.display()
            );
        }
    }
    Ok(())
}

fn check_all(object: &Path) -> Result<()> {
    all(object).try_for_each(|object| check(&object))
}

fn check(object: &Path) -> Result<()> {
    let bytes = fs::read(object).with_context(|| format!("could not read {}", object.display()))?;
    object::check(&bytes).with_context(|| format!("{} cannot be used", object.display()))
}

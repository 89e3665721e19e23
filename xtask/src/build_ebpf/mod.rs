//! `cargo xtask build-ebpf`: prepares whatever the build of the kernel programs needs, and builds them.
//!
//! The object lands in `target/bpf/mcpmon-ebpf`, where `mcpmon/build.rs` looks for it. Nothing is done where the
//! sources and the compiler are those of the last build, or where `MCPMON_BPF_OBJECT` names a prebuilt object.

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

use anyhow::{Context as _, Result};

use self::plan::{LlvmSource, Toolchain};
use crate::shell::{self, Environment, say, step};

const TARGET: &str = "bpfel-unknown-none";

/// Names a prebuilt object, which is used instead of building one.
const PREBUILT: &str = "MCPMON_BPF_OBJECT";

/// Makes sure that there is an up-to-date object, and returns where it is.
pub(crate) fn run() -> Result<PathBuf> {
    if let Some(prebuilt) = std::env::var_os(PREBUILT).map(PathBuf::from) {
        say(format_args!(
            "using the kernel programs in {}, as {PREBUILT} says",
            prebuilt.display()
        ));
        return match check(&prebuilt) {
            Ok(()) => Ok(prebuilt),
            Err(error) => Err(Environment(format!("{PREBUILT}: {error:#}")).into()),
        };
    }
    let object = shell::repository().join("target/bpf/mcpmon-ebpf");
    let inputs = stamp::inputs(shell::repository())?;
    if object.exists() && stamp::is_current(&object, &inputs) {
        say(format_args!(
            "the kernel programs are up to date: {}",
            object.display()
        ));
        return Ok(object);
    }
    let toolchain = prepare::toolchain()?;
    let built = step("build the kernel programs", || build(&toolchain))?;
    fs::create_dir_all(object.with_file_name(""))
        .with_context(|| format!("could not create {}", object.display()))?;
    fs::copy(&built, &object).with_context(|| format!("could not copy {}", built.display()))?;
    stamp::write(&object, &inputs, &toolchain.compiler.bin)?;
    Ok(object)
}

/// Checks the kernel programs with the compiler that builds them; warnings are errors.
pub(crate) fn clippy() -> Result<()> {
    let toolchain = prepare::toolchain()?;
    prepare::clippy(&toolchain.compiler)?;
    let mut clippy = shell::command(toolchain.compiler.bin.join("cargo-clippy"));
    clippy.arg("clippy");
    shell::run(configure(&mut clippy, &toolchain).args(["--", "--deny", "warnings"]))
}

fn build(toolchain: &Toolchain) -> Result<PathBuf> {
    let mut cargo = shell::command(toolchain.compiler.bin.join("cargo"));
    cargo.arg("build");
    shell::run(configure(&mut cargo, toolchain))?;
    let built = build_directory().join(TARGET).join("bpf/mcpmon-ebpf");
    check(&built)?;
    Ok(built)
}

/// The options of every Cargo command on the eBPF crate. What is unstable holds for this one child only.
fn configure<'a>(cargo: &'a mut Command, Toolchain { compiler, linker }: &Toolchain) -> &'a mut Command {
    let flags = [
        format!("--cfg=bpf_target_arch=\"{}\"", std::env::consts::ARCH),
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
        format!("-Clinker={}", prepare::linker_path(*linker).display()),
        format!("--remap-path-prefix={}=.", shell::repository().display()),
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
        .arg(build_directory())
        .env("CARGO", compiler.bin.join("cargo"))
        .env("RUSTC", compiler.bin.join("rustc"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTUP_TOOLCHAIN")
}

fn build_directory() -> PathBuf {
    shell::target().join("bpf-build")
}

fn check(object: &Path) -> Result<()> {
    let bytes = fs::read(object).with_context(|| format!("could not read {}", object.display()))?;
    object::check(&bytes).with_context(|| format!("{} cannot be used", object.display()))
}

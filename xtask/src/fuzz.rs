//! `cargo xtask fuzz`: libFuzzer over the fuzz targets, with the toolchain that builds everything else.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    packages,
    shell::{self, step},
};

/// The instrumentation for libFuzzer's coverage and comparisons. The stable compiler has it as a pass of LLVM.
const INSTRUMENTATION: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// The target to fuzz.
#[derive(Debug, clap::Args)]
pub(crate) struct FuzzArgs {
    /// The target: a folder of tests/fuzz/corpus
    target: String,
    /// Seconds to look for
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Look no further: copy from what was found what reaches new code, and is short, to the committed corpus
    #[arg(long)]
    keep: bool,
    /// Arguments of libFuzzer, after `--`
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Builds with coverage, and runs a target. All findings are written to `target/fuzz`.
pub(crate) fn run(args: &FuzzArgs) -> Result<()> {
    packages::require_commands("libFuzzer, which is C++", &[("c++", "g++")])?;
    let sources = shell::repository().join("tests/fuzz");
    let committed = sources.join("corpus").join(&args.target);
    anyhow::ensure!(
        committed.is_dir(),
        "no target has the corpus {}",
        committed.display()
    );
    let output = shell::target().join("fuzz");
    let found = folder(output.join("corpus").join(&args.target))?;
    let breaking = folder(output.join("breaking").join(&args.target))?;
    let mut fuzz = build(&sources, &output)?;
    let mut prefix = OsString::from("-artifact_prefix=");
    prefix.push(breaking.join(""));
    fuzz.env("MCPMON_FUZZ_TARGET", &args.target).arg(prefix);
    if args.keep {
        fuzz.args(["-merge=1", "-max_len=256", "-use_counters=0"])
            .args([&committed, &found]);
    } else {
        fuzz.arg(format!("-max_total_time={}", args.seconds))
            .args([&found, &committed]);
    }
    shell::run(fuzz.args(&args.arguments))
}

/// Builds the fuzz targets, and returns the command of the program.
fn build(sources: &Path, output: &Path) -> Result<Command> {
    // The target is named, so that build scripts are not instrumented.
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    step("build the fuzz targets", || {
        let mut build = shell::cargo();
        build
            .args(["build", "--locked", "--release", "--target", &triple])
            .arg("--target-dir")
            .arg(output)
            .arg("--manifest-path")
            .arg(sources.join("coverage/Cargo.toml"));
        shell::run(build.env("RUSTFLAGS", INSTRUMENTATION))
    })?;
    Ok(shell::command(output.join(triple).join("release/fuzz")))
}

fn folder(path: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
    Ok(path)
}

//! Embeds the kernel object, built beforehand: a release needs no eBPF toolchain.

#![expect(clippy::disallowed_methods, reason = "build script")]

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=MCPMON_BPF_OBJECT");
    let built = || manifest_directory().join("../../target/bpf/mcpmon-ebpf");
    let object = env::var_os("MCPMON_BPF_OBJECT").map_or_else(built, PathBuf::from);
    println!("cargo::rerun-if-changed={}", object.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("mcpmon-ebpf");
    if let Err(error) = fs::copy(&object, out) {
        println!(
            "cargo::error=no kernel object at {}: {error}; build it with `cargo xtask build-ebpf`, or name one with MCPMON_BPF_OBJECT",
            object.display()
        );
    }
}

/// The directory as it is when this runs: a built script may be copied with its target directory to another worktree, whose
/// kernel object is another one.
fn manifest_directory() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
}

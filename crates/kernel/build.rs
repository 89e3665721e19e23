//! Embeds the kernel objects, which are built beforehand: a release needs no eBPF toolchain.

#![expect(clippy::disallowed_methods, reason = "build script")]

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=MCPMON_BPF_OBJECT");
    let built = || manifest_directory().join("../../target/bpf/mcpmon-ebpf");
    let object = env::var_os("MCPMON_BPF_OBJECT").map_or_else(built, PathBuf::from);
    // The objects of the tap and for DNS are in the same directory.
    let (tap, dns) = (
        object.with_file_name("mcpmon-tap"),
        object.with_file_name("mcpmon-dns"),
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (object, name) in [(object, "mcpmon-ebpf"), (tap, "mcpmon-tap"), (dns, "mcpmon-dns")] {
        println!("cargo::rerun-if-changed={}", object.display());
        if let Err(error) = fs::copy(&object, out.join(name)) {
            println!(
                "cargo::error=no kernel object at {}: {error}; build it with `cargo xtask build-ebpf`, or name one with MCPMON_BPF_OBJECT",
                object.display()
            );
        }
    }
}

/// Returns the directory at run time: a compiled build script may be copied with its target directory to another
/// worktree, which has another kernel object.
fn manifest_directory() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
}

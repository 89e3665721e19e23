//! The container image: the binary, and the certificate authorities that its proxies trust, as an archive in OCI
//! layout.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    build::{Source, is_static},
    contents::gzip,
    tarball::{Archive, hexadecimal},
    target::{self, Target},
};
use crate::shell::{self, Environment};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const COMPRESSED_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The certificate authorities of this machine, at the path that distributions use.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Writes the container image of a release with a binary that was built for tests, and with the libraries it needs.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Binary of this machine's architecture, linked statically or not
    binary: PathBuf,
    /// Archive to write, for `podman load`
    to: PathBuf,
}

/// Writes the image without compression, because binaries built for tests are large.
pub(crate) fn run(args: &ImageArgs) -> Result<()> {
    let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let target = target::parse(&triple).map_err(Environment)?;
    let source = Source::current(shell::repository(), Path::new(""))?;
    let mut root = root(&source, &args.binary)?;
    for library in libraries(&args.binary)? {
        let path = library.strip_prefix("/").unwrap_or(&library);
        let path = path.to_str().context("a library whose path is no text")?;
        root.add(path, 0o755, &fs::read(&library)?)?;
    }
    let layer = root.finish()?;
    pack(&source, target, &layer, (LAYER, &layer), &args.to)
}

/// Returns the libraries of a program, including the dynamic linker; none for a static program.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    if is_static(binary).is_ok() {
        return Ok(Vec::new());
    }
    let listed = Command::new("ldd")
        .arg(binary)
        .output()
        .context("could not run ldd")?;
    ensure!(
        listed.status.success(),
        "ldd {} failed: {}",
        binary.display(),
        String::from_utf8_lossy(&listed.stderr)
    );
    Ok(listed_libraries(&String::from_utf8_lossy(&listed.stdout)))
}

/// Returns the paths in the output of `ldd`: `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)`.
fn listed_libraries(listed: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let (path, _) = line.rsplit_once(" (")?;
        let path = path.rsplit_once(" => ").map_or(path, |(_, path)| path).trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    listed.lines().filter_map(path).collect()
}

/// Writes the image for `podman load`, `docker load` and `ctr images import`.
pub(super) fn write(source: &Source, binary: &Path, target: Target, to: &Path) -> Result<()> {
    let root = root(source, binary)?.finish()?;
    pack(source, target, &root, (COMPRESSED_LAYER, &gzip(&root)?), to)
}

/// Returns the root file system: the binary and the authorities.
fn root(source: &Source, binary: &Path) -> Result<Archive> {
    let mut root = Archive::new(source.date);
    let program = fs::read(binary).with_context(|| format!("could not read {}", binary.display()))?;
    root.add("usr/bin/mcpmon", 0o755, &program)?;
    let authorities =
        env::var_os("CA_BUNDLE").map_or_else(|| Path::new("/").join(AUTHORITIES), PathBuf::from);
    let authorities = fs::read(&authorities).map_err(|error| {
        let path = authorities.display();
        Environment(format!(
            "no certificate authorities at {path}: {error}; CA_BUNDLE names another file"
        ))
    })?;
    root.add(AUTHORITIES, 0o644, &authorities)?;
    Ok(root)
}

/// Packs a root file system; `layer` has its media type and its content in that form.
fn pack(source: &Source, target: Target, root: &[u8], layer: (&str, &[u8]), to: &Path) -> Result<()> {
    let date = i64::try_from(source.date).context("a date out of range")?;
    let created = Timestamp::from_second(date)?.to_string();
    let configuration = json!({
        "created": created,
        "architecture": target.debian,
        "os": "linux",
        "config": {
            "User": "0",
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/mcpmon"],
            "Cmd": ["daemon"],
            "Labels": {
                "org.opencontainers.image.title": "mcpmon",
                "org.opencontainers.image.description":
                    "Sees and stops what Model Context Protocol servers do on a Linux host",
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.version": source.version,
                "org.opencontainers.image.revision": source.commit,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hexadecimal(root))]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    });
    let mut layout = Layout(Archive::new(source.date));
    let configuration = layout.blob(CONFIGURATION, configuration.to_string().as_bytes())?;
    let layer = layout.blob(layer.0, layer.1)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": configuration,
        "layers": [layer],
    });
    let mut manifest = layout.blob(MANIFEST, manifest.to_string().as_bytes())?;
    let name = format!("localhost/mcpmon:{}", source.version);
    manifest["platform"] = json!({"architecture": target.debian, "os": "linux"});
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": name,
        "io.containerd.image.name": name,
    });
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    layout.0.add("index.json", 0o644, index.to_string().as_bytes())?;
    layout
        .0
        .add("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    fs::write(to, layout.0.finish()?).with_context(|| format!("could not write {}", to.display()))
}

/// An archive of blobs by their digests.
struct Layout(Archive);

impl Layout {
    /// Adds a blob, and returns its descriptor.
    fn blob(&mut self, kind: &str, content: &[u8]) -> Result<Value> {
        let digest = hexadecimal(content);
        self.0.add(&format!("blobs/sha256/{digest}"), 0o644, content)?;
        Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": content.len()}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_program_are_those_with_a_path() {
        let listed = "\tlinux-vdso.so.1 (0x00007f3ee7bea000)\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f3ee2a1e000)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f3ee7bec000)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(listed_libraries(listed), expected.map(PathBuf::from));
        assert!(listed_libraries("\tstatically linked\n").is_empty());
    }
}

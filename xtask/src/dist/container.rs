//! The container image: the binary and the certificate authorities that its proxies trust, as an archive of an OCI layout.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    build::Source,
    contents::gzip,
    tarball::{Archive, hexadecimal},
    target::Target,
};
use crate::shell::Environment;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The authorities of this machine, where distributions keep them.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Writes it for `podman load`, `docker load` and `ctr images import`.
pub(super) fn write(source: &Source, binary: &Path, target: Target, to: &Path) -> Result<()> {
    let mut root = Archive::new(source.date);
    root.add("usr/bin/mcpmon", 0o755, &fs::read(binary)?)?;
    let authorities =
        std::env::var_os("CA_BUNDLE").map_or_else(|| Path::new("/").join(AUTHORITIES), PathBuf::from);
    let authorities = fs::read(&authorities).map_err(|error| {
        let path = authorities.display();
        Environment(format!(
            "no certificate authorities at {path}: {error}; CA_BUNDLE names another file"
        ))
    })?;
    root.add(AUTHORITIES, 0o644, &authorities)?;
    let root = root.finish()?;
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
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hexadecimal(&root))]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    });
    let mut layout = Layout(Archive::new(source.date));
    let configuration = layout.blob(CONFIGURATION, configuration.to_string().as_bytes())?;
    let layer = layout.blob(LAYER, &gzip(&root)?)?;
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
    /// Adds a blob, and returns what refers to it.
    fn blob(&mut self, kind: &str, content: &[u8]) -> Result<Value> {
        let digest = hexadecimal(content);
        self.0.add(&format!("blobs/sha256/{digest}"), 0o644, content)?;
        Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": content.len()}))
    }
}

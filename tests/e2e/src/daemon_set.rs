//! The manifest of the DaemonSet, as far as a container engine without Kubernetes can follow it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::json::text;

/// The manifest's path in the repository.
const MANIFEST: &str = "deploy/kubernetes/base/daemonset.yaml";

/// The part of the manifest that describes its one container.
#[derive(Debug)]
pub struct DaemonSet {
    /// Name of the image.
    pub image: String,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Capabilities that the container keeps; all others are dropped.
    pub capabilities: Vec<String>,
    /// Directories of the host.
    pub mounts: Vec<Mount>,
}

/// A directory of the host in the container.
#[derive(Clone, Debug)]
pub struct Mount {
    /// The path on the host; `None` if the directory exists in the container only.
    pub host: Option<PathBuf>,
    /// The path in the container.
    pub path: String,
    /// True if the container cannot write to it.
    pub read_only: bool,
}

impl DaemonSet {
    /// Reads the manifest.
    ///
    /// # Errors
    /// Returns an error if the manifest lacks a field that is read here.
    pub fn read() -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(MANIFEST);
        let manifest = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
        let manifest: Value = serde_saphyr::from_str(&manifest)?;
        let pod = &manifest["spec"]["template"]["spec"];
        ensure!(
            pod["hostPID"] == true,
            "{MANIFEST}: the container does not see the host's processes"
        );
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        ensure!(
            security["readOnlyRootFilesystem"] == true && security["privileged"] == false,
            "{MANIFEST}: this test runs it read-only and without privileges"
        );
        let volumes = list(&pod["volumes"])?;
        let mount = |mount: &Value| {
            let volume = volumes
                .iter()
                .find(|volume| volume["name"] == mount["name"])
                .with_context(|| format!("{MANIFEST}: no volume for {mount}"))?;
            anyhow::Ok(Mount {
                host: volume["hostPath"]["path"].as_str().map(PathBuf::from),
                path: text(mount, "mountPath").to_owned(),
                read_only: mount["readOnly"] == true,
            })
        };
        Ok(Self {
            image: text(container, "image").to_owned(),
            arguments: words(&container["args"])?,
            capabilities: words(&security["capabilities"]["add"])?,
            mounts: list(&container["volumeMounts"])?
                .iter()
                .map(mount)
                .collect::<Result<_>>()?,
        })
    }
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value
        .as_array()
        .with_context(|| format!("{MANIFEST}: no list: {value}"))
}

fn words(value: &Value) -> Result<Vec<String>> {
    let word = |word: &Value| {
        let word = word.as_str().map(str::to_owned);
        word.with_context(|| format!("{MANIFEST}: no words: {value}"))
    };
    list(value)?.iter().map(word).collect()
}

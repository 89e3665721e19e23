//! The reasons why the sensor cannot be started, each with its remedy if there is one.

use std::io;

use aya::{maps::MapError, programs::ProgramError};
use mcpmon_common::{ABI_VERSION, limits::AGENT_NAMES};

use super::{
    btf::BtfError,
    cgroup::CgroupError,
    layout::LayoutError,
    pinned::PinError,
    preflight::{self, Missing},
};

/// The reason why the sensor could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SensorError {
    /// The system lacks something.
    #[error("{}", preflight::describe(.0))]
    Missing(Vec<Missing>),
    /// The kernel's type information cannot be used.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// There is no cgroup to attach to.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// Another daemon enforces on this host.
    #[error("another daemon runs on this host and keeps its state in another directory")]
    AnotherDaemon,
    /// The directory for pins cannot be used.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The object's own maps cannot be read.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The object cannot be loaded.
    #[error("failed to load the kernel programs")]
    Load(#[source] aya::EbpfError),
    /// There are too many names of agents.
    #[error(
        "failed to tell the kernel the names of agents: at most {AGENT_NAMES} fit; shorten network.agents"
    )]
    Agents(#[source] MapError),
    /// This process has too many files open.
    #[error("failed to hold the kernel map `{map}`")]
    Descriptor {
        /// Its name.
        map: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The object is for another version of this program.
    #[error(
        "the kernel object has no {what}; it was built for another ABI than version {ABI_VERSION}: rebuild it with `cargo xtask build-ebpf`"
    )]
    Abi {
        /// The object that is missing or differs.
        what: String,
        /// The difference, if the object exists.
        #[source]
        source: Option<MapError>,
    },
    /// A program was refused.
    #[error("failed to {step} the kernel program `{program}`{}", verifier_tail(.source))]
    Program {
        /// Its name.
        program: &'static str,
        /// `load` or `attach`.
        step: &'static str,
        /// The kernel's answer.
        #[source]
        source: Box<ProgramError>,
    },
}

/// Returns the end of a verifier log, which names the cause.
fn verifier_tail(error: &ProgramError) -> String {
    let ProgramError::LoadError { verifier_log, .. } = error else {
        return String::new();
    };
    let log = verifier_log.to_string();
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(12)..].join("\n  ");
    if tail.is_empty() {
        tail
    } else {
        format!("; the verifier says:\n  {tail}")
    }
}

//! State that the kernel keeps without a daemon, in the output of commands.

use std::path::PathBuf;

use clap::Args;
use mcpmon_kernel::pinned::DEFAULT_DIRECTORY;
use serde_json::{Map, Value, json};

use super::time;
use crate::app::kept::{self, Kept};

/// The directory of what stays in the kernel.
#[derive(Clone, Debug, Args)]
pub(super) struct KernelState {
    /// The directory in a BPF file system for what stays in the kernel when the daemon ends
    #[arg(long = "bpffs", value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    pub(super) directory: PathBuf,
}

impl KernelState {
    /// Returns whether the kernel keeps what an ended daemon left, as far as this user can see.
    pub(super) fn is_kept(&self) -> bool {
        matches!(kept::look(&self.directory), Ok(Some(_)))
    }

    /// Returns lines about the kept state, and whether it works.
    pub(super) fn lines(&self) -> Vec<String> {
        let kept = match kept::look(&self.directory) {
            Ok(None) => format!("nothing in {}", self.directory.display()),
            Ok(Some(kept)) => describe(&kept),
            Err(error) => error.to_string(),
        };
        let refusing = match kept::is_refusing() {
            true => "a connection to the self-test's address is refused",
            false => "a connection to the self-test's address is not refused: nothing is enforced",
        };
        vec![
            format!("{:<10} {kept}", "kept"),
            format!("{:<10} {refusing}", "self-test"),
        ]
    }

    /// Returns the same as a JSON object.
    pub(super) fn object(&self) -> Map<String, Value> {
        let kept = match kept::look(&self.directory) {
            Ok(None) => Value::Null,
            Ok(Some(kept)) => json!({
                "directory": self.directory,
                "programs": kept.programs,
                "other_versions": kept.others,
                "version": kept.version,
                "since": kept.since,
                "silent_seconds": kept.silence.map(|silence| silence.as_secs()),
            }),
            Err(error) => json!({"directory": self.directory, "error": error.to_string()}),
        };
        let mut object = Map::new();
        object.insert("state".to_owned(), "no daemon".into());
        object.insert("kept".to_owned(), kept);
        object.insert("refusing".to_owned(), kept::is_refusing().into());
        object
    }
}

/// Describes the kept state in words.
pub(super) fn describe(kept: &Kept) -> String {
    let mut told = format!("{} programs", kept.programs.len());
    if let Some(version) = &kept.version {
        told.push_str(&format!(" of mcpmon {version}"));
    }
    if let Some(since) = &kept.since {
        told.push_str(&format!(" since {since}"));
    }
    if let Some(silence) = kept.silence {
        let ago = time::span(u64::try_from(silence.as_millis()).unwrap_or(u64::MAX));
        told.push_str(&format!(", last sign of life {ago} ago"));
    }
    if !kept.others.is_empty() {
        told.push_str(&format!("; of other versions: {}", kept.others.join(", ")));
    }
    told
}

/// Describes the faults that wrappers of this user meet without a daemon.
pub(super) fn own_faults(globals: &super::Globals) -> Vec<String> {
    let search =
        mcpmon_config::Search::of_process(globals.config.clone(), mcpmon_config::LocalConfig::Ignore);
    let trust = mcpmon_config::Trust::for_user(nix::unistd::geteuid().as_raw());
    let faults = mcpmon_session::describe_faults(&search, trust, globals.db.as_deref());
    faults
        .iter()
        .map(|fault| format!("{:<10} {fault}", "wrappers"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_known_is_told() {
        let mut kept = Kept {
            programs: vec!["connect4".to_owned(), "egress".to_owned()],
            others: Vec::new(),
            version: Some("1.2.3".to_owned()),
            since: Some("2026-11-26T14:00:00Z".to_owned()),
            silence: Some(Duration::from_secs(35)),
        };
        assert_eq!(
            describe(&kept),
            "2 programs of mcpmon 1.2.3 since 2026-11-26T14:00:00Z, last sign of life 35s ago"
        );
        kept = Kept {
            programs: Vec::new(),
            others: vec!["v3".to_owned()],
            version: None,
            since: None,
            silence: None,
        };
        assert_eq!(describe(&kept), "0 programs; of other versions: v3");
    }
}

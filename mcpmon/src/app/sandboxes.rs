//! Sandboxes of running servers, from the events of the wrappers that made them.

use std::fmt;

use mcpmon_model::{EventKind, EventType};
use mcpmon_store::{Filter, QueryError, StoreReader, StoredEvent};
use serde::{Deserialize, Serialize};

use super::resources::Processes;

/// Most starts in a sandbox that are read, newest first.
const MAX_STARTS: u32 = 1_000;

/// The sandbox that a server runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxStatus {
    /// The mode of the file rules: `off`, `home-readonly`, `strict`.
    pub mode: String,
    /// The mode of the network rules: `egress`, `ports`, `off`.
    pub network: String,
    /// False if the sandbox could not be made, and the server runs without it.
    pub enforced: bool,
    /// The parts that the kernel does not enforce, and grants without effect.
    pub gaps: Vec<String>,
}

impl SandboxStatus {
    fn of(event: &StoredEvent) -> Option<Self> {
        let kind = event.parse_kind()?;
        let EventKind::ServerSandboxed {
            mode,
            network,
            enforced,
            gaps,
            ..
        } = kind
        else {
            return None;
        };
        Some(Self {
            mode,
            network,
            enforced,
            gaps,
        })
    }

    /// Returns whether the kernel enforces everything that was asked for.
    pub const fn is_whole(&self) -> bool {
        self.enforced && self.gaps.is_empty()
    }
}

/// Formats as `strict` or `strict, no network`; as `none` if the sandbox could not be made; with an asterisk if parts
/// are not enforced.
impl fmt::Display for SandboxStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.enforced {
            return f.write_str("none *");
        }
        f.write_str(&self.mode)?;
        match self.network.as_str() {
            "off" => f.write_str(", no network")?,
            "ports" => f.write_str(", some ports")?,
            _ => {}
        }
        f.write_str(if self.gaps.is_empty() { "" } else { " *" })
    }
}

/// The recorded sandboxes, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningSandboxes(Vec<StoredEvent>);

impl RunningSandboxes {
    /// Reads the records of sandboxes from the store.
    pub(crate) fn read(reader: &StoreReader) -> Result<Self, QueryError> {
        let filter = Filter {
            types: vec![EventType::ServerSandboxed.as_str().to_owned()],
            ..Filter::default()
        };
        let mut events = reader.events(&filter, MAX_STARTS)?;
        events.sort_by_key(|event| std::cmp::Reverse(event.timestamp));
        Ok(Self(events))
    }

    /// Returns the sandbox that a process is in: the process or one of its ancestors was started in the sandbox, and
    /// lives.
    pub(crate) fn of(&self, pid: u32, processes: &Processes) -> Option<SandboxStatus> {
        let line = processes.line(pid);
        let started = self.0.iter().find(|event| {
            let process = event.process.as_ref();
            process.is_some_and(|process| {
                line.contains(&process.pid) && processes.lives(process.pid, event.timestamp)
            })
        });
        started.and_then(SandboxStatus::of)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::Timestamp;
    use mcpmon_store::sample;
    use uuid::Uuid;

    use super::*;

    fn told(pid: u32, timestamp: i64) -> RunningSandboxes {
        let mut event = sample::sandboxed("files", pid, &["devices take commands"]);
        event.timestamp = Timestamp(timestamp);
        RunningSandboxes(vec![StoredEvent::new(Uuid::nil(), "host", event)])
    }

    #[test]
    fn a_process_is_in_the_sandbox_of_one_that_it_comes_from() {
        let (own, parent) = (
            std::process::id(),
            nix::unistd::getppid().as_raw().cast_unsigned(),
        );
        let processes = Processes::read();
        let status = told(parent, i64::MAX).of(own, &processes).expect("a sandbox");
        assert_eq!(status.to_string(), "strict *");
        assert!(told(own, i64::MAX).of(own, &processes).is_some());
        assert_eq!(
            told(own, i64::MAX).of(parent, &processes),
            None,
            "not of what is above"
        );
        assert_eq!(
            told(own, 1).of(own, &processes),
            None,
            "another process had the number"
        );
    }

    #[test]
    fn a_sandbox_in_few_words() {
        let status = |network: &str, enforced| SandboxStatus {
            mode: "home-readonly".to_owned(),
            network: network.to_owned(),
            enforced,
            gaps: Vec::new(),
        };
        assert_eq!(status("egress", true).to_string(), "home-readonly");
        assert_eq!(status("off", true).to_string(), "home-readonly, no network");
        assert_eq!(status("off", false).to_string(), "none *");
    }
}

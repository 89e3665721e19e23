//! Adds to an event what only the host knows: executable and container of its process.

use std::{collections::VecDeque, fs, path::PathBuf};

use mcpmon_kernel::container;
use mcpmon_model::{ContainerRef, Event, ProcessId};

/// Remembers what it looked up for the latest processes.
#[derive(Debug, Default)]
pub(super) struct Describer {
    latest: VecDeque<(ProcessId, Facts)>,
}

#[derive(Clone, Debug, Default)]
struct Facts {
    exe: Option<PathBuf>,
    container: Option<ContainerRef>,
}

/// Processes remembered. A server that connects often is looked up once.
const REMEMBERED: usize = 64;

impl Describer {
    /// Fills in what is missing; a process that is gone leaves the event as it is.
    pub(super) fn describe(&mut self, event: &mut Event, process: ProcessId) {
        let facts = self.facts(process);
        if let Some(reference) = &mut event.process
            && reference.exe.is_none()
        {
            reference.exe = facts.exe;
        }
        if event.container.is_none() {
            event.container = facts.container;
        }
    }

    /// Forgets a process that executed another program.
    pub(super) fn forget(&mut self, process: ProcessId) {
        self.latest.retain(|(known, _)| *known != process);
    }

    fn facts(&mut self, process: ProcessId) -> Facts {
        if let Some((_, facts)) = self.latest.iter().find(|(known, _)| *known == process) {
            return facts.clone();
        }
        let facts = Facts {
            exe: fs::read_link(format!("/proc/{}/exe", process.pid)).ok(),
            container: container::of_process(process.pid).ok().flatten(),
        };
        if self.latest.len() == REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back((process, facts.clone()));
        facts
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_store::sample;

    use super::*;
    use crate::agent::host;

    fn exe(describer: &mut Describer, process: ProcessId) -> Option<PathBuf> {
        let mut event = sample::blocked_connection();
        let reference = event.process.as_mut()?;
        reference.exe = None;
        describer.describe(&mut event, process);
        event.process?.exe
    }

    #[test]
    fn another_program_is_looked_up_again() {
        let own = host::identify(std::process::id()).expect("own stat");
        let mut describer = Describer::default();
        let before = Facts {
            exe: Some("/usr/bin/before".into()),
            container: None,
        };
        describer.latest.push_back((own, before));
        assert_eq!(exe(&mut describer, own), Some("/usr/bin/before".into()));
        describer.forget(own);
        assert_eq!(exe(&mut describer, own), std::env::current_exe().ok());
    }
}

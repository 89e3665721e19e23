//! The shared state in the daemon, which is asked through its socket.

use std::{ffi::OsString, fs::File, os::fd::AsRawFd as _};

use mcpmon_guard::Absence;
use mcpmon_model::{Denial, Digest, ProcessId, SharedCall, SharedCallAnswer};
use mcpmon_policy::Policy;
use mcpmon_store::Generation;

use super::{
    comparison::Comparison,
    link::{Link, LinkError, TIMEOUT},
    protocol::{Hear, Say, SharedSessionState},
    shared::{SharedError, StateHolder, watch},
};

/// The state of one session in the daemon.
#[derive(Debug)]
pub(super) struct DaemonLink {
    link: Link,
    generation: Option<Generation>,
    /// The number of joins when the daemon was last asked.
    joins: u64,
}

impl DaemonLink {
    /// The state in the daemon at the other end of `link`, which sent `state` before.
    pub(super) fn new(link: Link, state: &SharedSessionState) -> Self {
        Self {
            joins: link.joins(),
            link,
            generation: watch(&state.generation),
        }
    }
}

fn unexpected() -> SharedError {
    LinkError::Refused("it answered something else".to_owned()).into()
}

impl StateHolder for DaemonLink {
    fn number(&self) -> Option<&Generation> {
        self.generation.as_ref()
    }

    fn name(&self) -> &'static str {
        "daemon"
    }

    fn absence(&self) -> Absence {
        Absence {
            reason: "the daemon is away, and mcp.fail_closed is set",
            remedy: "sudo systemctl start mcpmon",
        }
    }

    fn is_up(&self) -> bool {
        self.link.is_up()
    }

    fn was_joined_again(&self) -> bool {
        self.link.joins() != self.joins
    }

    fn look(&mut self, policy: Digest) -> Result<SharedSessionState, SharedError> {
        let joined = self.link.joins();
        let Hear::State(state) = self.link.say(&Say::State { policy })? else {
            return Err(unexpected());
        };
        self.joins = joined;
        // A restarted daemon may use a new file for the number, also at the same path.
        self.generation = watch(&state.generation);
        Ok(*state)
    }

    /// The daemon applies its own policy.
    fn check(&mut self, _policy: &Policy, call: &SharedCall) -> Result<SharedCallAnswer, SharedError> {
        let call = Box::new(call.clone());
        let Hear::Checked(checked) = self.link.say(&Say::Check { call })? else {
            return Err(unexpected());
        };
        Ok(*checked)
    }

    fn enforces_in_kernel(&self) -> bool {
        true
    }

    fn starts(
        &self,
        program: &File,
        environment: &[(OsString, OsString)],
        places: &[&str],
    ) -> Result<(), SharedError> {
        let text = |text: &OsString| text.to_str().map(str::to_owned);
        let names = environment.iter().filter_map(|(name, _)| text(name)).collect();
        let is_place = |name: &OsString| places.iter().any(|place| name == place);
        let variables = environment.iter().filter(|(name, _)| is_place(name));
        let starts = Say::Starts {
            program: program.as_raw_fd(),
            variables: variables
                .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
                .collect(),
            names,
        };
        self.link.say(&starts)?;
        Ok(())
    }

    fn serves(&self, process: ProcessId) -> Result<(), SharedError> {
        Ok(self.link.serves(process.into())?)
    }

    fn fate(&self, process: ProcessId) -> Result<Option<Denial>, SharedError> {
        match self.link.fate(process.into(), TIMEOUT) {
            // The daemon still compares the files, so it has not killed the process.
            Err(error) if error.is_late() => Ok(None),
            fate => Ok(fate?),
        }
    }

    fn comparison(&self, process: ProcessId) -> Option<Comparison> {
        Some(Comparison::new(self.link.clone(), process.into()))
    }
}

//! Processes that wrappers start: their servers, the files that they are started from, and the reasons why they were
//! killed.

use std::{
    collections::VecDeque,
    sync::{Arc, MutexGuard},
};

use mcpmon_model::{Denial, PinKey, ProcessId, ServerId};
use mcpmon_pins::{HeldProgram, PLACE_VARIABLES, Process};
use tokio::sync::oneshot;

use super::{LeftWrapper, REMEMBERED, Wrappers, lock};
use crate::app::{
    engine::{EngineMessage, FateQuestion, TIMEOUT, WrapperQuestion},
    host,
};

/// Most names of variables that are recorded of one start.
const MAX_NAMES: usize = 1024;
/// Longest name of a variable, bytes; longer ones are left out.
const MAX_NAME_BYTES: usize = 256;
/// Longest value of a variable with a place of files, bytes; longer ones are left out.
const MAX_VALUE_BYTES: usize = 32 << 10;
/// Most bytes of a wrapper's arguments that are read.
const MAX_ARGUMENTS: u64 = 64 << 10;
/// Most departed wrappers whose claimed starts are kept: each needs two descriptors.
const MAX_HELD: usize = 64;

/// The program that a wrapper is about to start.
#[derive(Debug)]
pub(crate) struct ClaimedStart {
    /// The program.
    pub(crate) program: HeldProgram,
    /// Names of the variables in its environment.
    pub(crate) names: Vec<String>,
}

impl Wrappers {
    /// Returns the server that this wrapper starts, and the files that it was started from, which are given only once.
    pub(crate) fn started_by(&self, wrapper: ProcessId) -> Option<(PinKey, Option<Arc<ClaimedStart>>)> {
        let mut connected = lock(&self.0.connected);
        let mut left = lock(&self.0.left);
        let recent = left.iter_mut().rev();
        let recent = recent.filter(|left| left.since.elapsed() < REMEMBERED);
        let known = connected.values_mut().chain(recent.map(|left| &mut left.wrapper));
        // The bridge to a remote server is this program, and no server of this host.
        let mut here = known.filter(|known| known.starts_server);
        let known = here.find(|known| known.member.process == wrapper)?;
        Some((known.member.identity.clone(), known.start.take()))
    }

    /// Returns the id that a wrapper was given for its server in its arguments; `None` if the process is no wrapper, or was
    /// given none.
    pub(crate) fn given_id(&self, wrapper: ProcessId) -> Option<ServerId> {
        if !self.0.own.is_run_by(wrapper) {
            return None;
        }
        given_id(&host::arguments(wrapper.pid, MAX_ARGUMENTS))
    }

    /// Opens the program that a wrapper announces to start, and keeps it open.
    ///
    /// # Errors
    /// Returns an error if the wrapper has ended, or has no such descriptor.
    pub(super) fn hold(
        &self,
        number: u64,
        program: i32,
        mut variables: Vec<(String, String)>,
        mut names: Vec<String>,
    ) -> Result<(), String> {
        variables.retain(|(name, value)| {
            PLACE_VARIABLES.contains(&name.as_str()) && value.len() <= MAX_VALUE_BYTES
        });
        variables.truncate(PLACE_VARIABLES.len());
        names.retain(|name| name.len() <= MAX_NAME_BYTES);
        names.truncate(MAX_NAMES);
        let known = lock(&self.0.connected)
            .get(&number)
            .map(|known| known.member.process);
        let wrapper = known.ok_or("it is not connected")?;
        // Not under the lock: a file system may be slow, and the engine takes the same lock.
        let program = Process::open(wrapper.pid)
            .and_then(|process| HeldProgram::of(&process, program, variables))
            .map_err(|error| error.to_string())?;
        if !host::is_alive(wrapper) {
            return Err("it has ended".to_owned());
        }
        let start = Some(Arc::new(ClaimedStart { program, names }));
        let mut connected = lock(&self.0.connected);
        connected.get_mut(&number).ok_or("it is not connected")?.start = start;
        Ok(())
    }

    /// Asks the engine to look at a process that a wrapper started, unless its start was reported.
    pub(super) async fn look_at(&self, process: ProcessId) {
        let Some(engine) = self.0.engine.get() else { return };
        let question = WrapperQuestion::Wrapped(process);
        if engine.send(EngineMessage::AfterRecords(question)).await.is_err() {
            tracing::warn!("the engine does not hear what a wrapper started");
        }
    }

    /// Returns whether a process belongs to an agent, a server, or their descendants. The kernel's table says so, which
    /// children inherit. Without an engine that answers, it counts as one.
    pub(crate) async fn is_watched(&self, process: ProcessId) -> bool {
        let asked = async {
            let (reply, answer) = oneshot::channel();
            let engine = self.0.engine.get()?;
            engine
                .send(EngineMessage::IsWatched { process, reply })
                .await
                .ok()?;
            answer.await.ok()
        };
        tokio::time::timeout(TIMEOUT, asked)
            .await
            .ok()
            .flatten()
            .unwrap_or(true)
    }

    /// Returns the denial of a process that `wrapper` started, if it was or will be killed; waits for the comparison of
    /// its files with its pins. Returns `None` if no engine runs.
    pub(super) async fn fate(&self, process: ProcessId, wrapper: ProcessId) -> Option<Option<Denial>> {
        let engine = self.0.engine.get()?;
        let (reply, answer) = oneshot::channel();
        let question = WrapperQuestion::Fate(FateQuestion {
            process,
            wrapper,
            reply,
        });
        engine.send(EngineMessage::AfterRecords(question)).await.ok()?;
        answer.await.ok()
    }
}

/// Returns the value of `--server` in the arguments of `mcpmon wrap`, before the server's own command.
fn given_id(arguments: &[String]) -> Option<ServerId> {
    let mut words = arguments.iter().skip(1).take_while(|word| *word != "--");
    words.find(|word| *word == "wrap")?;
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--server=") {
            Some(value) => value,
            None if word == "--server" => words.next()?,
            None => continue,
        };
        return ServerId::new(value).ok();
    }
    None
}

/// Closes the claimed starts of the wrappers that left longest ago, if there are too many.
pub(super) fn release_old(left: &mut MutexGuard<'_, VecDeque<LeftWrapper>>) {
    for left in left.iter_mut().rev().skip(MAX_HELD - 1) {
        left.wrapper.start = None;
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("mcpmon wrap --server weather -- npx -y pkg" => Some("weather".to_owned()); "an option and its value")]
    #[test_case("/opt/mcpmon --config x wrap --server=weather -- npx" => Some("weather".to_owned()); "in one word")]
    #[test_case("mcpmon wrap -- tool --server other" => None; "an option of the server")]
    #[test_case("mcpmon wrap --server -- npx" => None; "no value")]
    #[test_case("mcpmon run --server weather -- claude" => None; "another command")]
    fn ids_in_arguments(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        given_id(&words).map(|id| id.to_string())
    }
}

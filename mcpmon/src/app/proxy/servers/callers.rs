//! Sessions of calling processes. They are found in the same way as for a server below `mcpmon wrap`, so that an agent
//! has one session, however it reaches its servers.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    sync::{Mutex, PoisonError},
};

use mcpmon_detect::session::{Session, session};
use mcpmon_model::ProcessId;

use crate::app::{host, wrap::SESSION};

/// Most processes whose session is remembered; beyond that all are forgotten and looked up again.
const MAX_PROCESSES: usize = 1024;
/// Programs that run for one request only: the session is that of the process that started them.
const TOOLS: [&str; 5] = ["curl", "http", "https", "wget", "xh"];
/// Most bytes of a process's environment that are read.
const MAX_ENVIRONMENT: u64 = 256 << 10;

/// The sessions of processes.
#[derive(Debug)]
pub(in crate::app::proxy) struct Callers {
    boot: String,
    known: Mutex<BTreeMap<ProcessId, Option<Session>>>,
}

impl Default for Callers {
    fn default() -> Self {
        Self {
            boot: host::boot(),
            known: Mutex::default(),
        }
    }
}

impl Callers {
    /// Returns the session of `process`. Returns `None` if it has none, or has ended.
    pub(in crate::app::proxy) fn session(&self, process: ProcessId) -> Option<Session> {
        if let Some(known) = self.lock().get(&process) {
            return known.clone();
        }
        let found = self.look(process);
        let mut known = self.lock();
        if known.len() >= MAX_PROCESSES {
            known.clear();
        }
        known.insert(process, found.clone());
        found
    }

    fn look(&self, process: ProcessId) -> Option<Session> {
        let ancestors = host::ancestors(process);
        let (own, above) = ancestors.split_first()?;
        if own.process != process {
            return None; // its number belongs to another process now
        }
        let chain = match TOOLS.contains(&own.comm.as_str()) {
            true => above,
            false => &ancestors,
        };
        session(chain, name_of(process.pid).as_deref(), &self.boot)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ProcessId, Option<Session>>> {
        // No operation leaves it half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the session name in the environment of a process. If the environment may not be read, the session gets the
/// default name instead.
fn name_of(pid: u32) -> Option<String> {
    let mut bytes = Vec::new();
    let environment = File::open(format!("/proc/{pid}/environ")).ok()?;
    environment.take(MAX_ENVIRONMENT).read_to_end(&mut bytes).ok()?;
    let mut variables = bytes.split(|byte| *byte == 0);
    variables.find_map(|variable| {
        let value = variable.strip_prefix(SESSION.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        process::{Child, Command, Stdio},
        thread,
    };

    use super::*;

    /// Starts a process whose environment names its session.
    pub(in super::super) fn named(name: &str) -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).env(SESSION, name);
        let child = command.spawn().expect("cat");
        // A process that was just started has no environment for a moment.
        while name_of(child.id()).is_none() {
            thread::yield_now();
        }
        child
    }

    #[test]
    fn a_process_is_of_the_session_that_its_servers_are_of() {
        let mut child = named("review");
        let process = host::identify(child.id()).expect("it lives");
        let callers = Callers::default();
        let found = callers.session(process).expect("a session");
        // The session that `wrap` finds for a server that this process starts.
        let ancestors = host::ancestors(process);
        let wrapped = session(&ancestors, Some("review"), &host::boot()).expect("a session");
        assert_eq!(found, wrapped);
        assert!(found.id.as_str().starts_with("review-"), "{found:?}");
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        assert_eq!(callers.session(process), Some(found), "it is remembered");
        assert_eq!(Callers::default().session(process), None, "it is gone");
    }

    #[test]
    fn a_request_from_the_command_line_is_of_whoever_made_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let tool = directory.path().join("curl");
        std::fs::copy("/bin/cat", &tool).expect("copied");
        let start = || {
            let child = Command::new(&tool)
                .stdin(Stdio::piped())
                .env(SESSION, "s")
                .spawn();
            let child = child.expect("it starts");
            while name_of(child.id()).is_none() {
                thread::yield_now();
            }
            child
        };
        let mut children = [start(), start()];
        let callers = Callers::default();
        let sessions = children
            .each_ref()
            .map(|child| callers.session(host::identify(child.id()).expect("it lives")));
        assert!(sessions[0].is_some());
        assert_eq!(sessions[0], sessions[1]);
        for child in &mut children {
            child.kill().expect("it is ours");
            child.wait().expect("it ends");
        }
    }
}

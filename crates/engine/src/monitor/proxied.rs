//! Sessions whose models are behind a proxy, and the processes that belong to them.

use std::collections::VecDeque;

use mcpmon_model::{Connection, ProcessId, SessionId};
use mcpmon_policy::network::table::LIST_PROXIED;

use super::Monitor;
use crate::effect::{Judgement, KernelEffect};

/// Most sessions that are remembered; the oldest ones are forgotten.
const MAX_SESSIONS: usize = 1024;

/// A session that has a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxiedSession {
    /// The session.
    pub session: SessionId,
    /// The process at the root of the session.
    pub root: ProcessId,
    /// The control group of the session, if it has its own.
    pub cgroup: Option<u64>,
}

/// The known sessions, the latest last.
#[derive(Debug, Default)]
pub(super) struct ProxiedSessions(VecDeque<ProxiedSession>);

impl ProxiedSessions {
    fn note(&mut self, session: ProxiedSession) {
        self.0.retain(|known| known.session != session.session);
        while self.0.len() >= MAX_SESSIONS {
            self.0.pop_front();
        }
        self.0.push_back(session);
    }

    fn of_cgroup(&self, cgroup: u64) -> Option<&ProxiedSession> {
        self.0.iter().rfind(|known| known.cgroup == Some(cgroup))
    }

    fn of_root(&self, root: ProcessId) -> Option<&ProxiedSession> {
        self.0.iter().rfind(|known| known.root == root)
    }
}

impl Monitor {
    /// Notes that a session has a proxy, and that these processes belong to it, with all that they start.
    pub(super) fn proxied(
        &mut self,
        session: ProxiedSession,
        processes: impl IntoIterator<Item = ProcessId>,
    ) -> Judgement {
        self.session_lives(&session.session);
        self.proxied.note(session);
        let enter = |process| KernelEffect::EnterSession {
            process,
            list: LIST_PROXIED,
        };
        Judgement {
            kernel_effects: processes.into_iter().map(enter).collect(),
            ..Judgement::default()
        }
    }

    /// Returns the session of a connecting process: by its control group, its server, or its ancestors.
    pub(super) fn session_of(&self, connection: &Connection) -> Option<SessionId> {
        let by_group = || self.proxied.of_cgroup(connection.cgroup);
        let by_root = || {
            let mut line = self.lineage.ancestry(connection.process);
            line.find_map(|process| self.proxied.of_root(process))
        };
        let of_server = || self.sessions.get(&connection.instance?);
        by_group()
            .map(|known| &known.session)
            .or_else(of_server)
            .or_else(|| by_root().map(|known| &known.session))
            .cloned()
    }
}

//! Sessions with a proxy: their processes, as far as the kernel programs do not find them by inheritance.

use mcpmon_common::process::ProcessEntry;
use mcpmon_engine::{Observation, ProxiedSession};
use mcpmon_model::ProcessId;
use mcpmon_session::clock;

use super::Core;
use crate::app::runs::Group;

/// Most control groups that are searched; for the oldest session beyond that, only processes that inherit the list are
/// held to it.
const MAX_GROUPS: usize = 256;

impl Core {
    /// Holds all processes of a session to its list. A process that lost its parent is found by the session's control
    /// group.
    pub(super) fn enter(&mut self, proxied: ProxiedSession, group: Option<Group>) {
        let members = group.as_ref().and_then(Group::members).unwrap_or_default();
        let root = proxied.root;
        self.groups.retain(|(known, _)| known.session != proxied.session);
        if let Some(group) = group {
            if self.groups.len() >= MAX_GROUPS {
                self.groups.remove(0);
            }
            self.groups.push((proxied.clone(), group));
        }
        let processes = std::iter::once(root).chain(members).collect();
        let entered = Observation::Proxied(proxied, processes);
        let judgement = self.monitor.observe(clock::now(), entered);
        self.carry_out(judgement, None);
    }

    /// Returns whether a process belongs to an agent, a server, or their descendants.
    pub(super) fn is_watched(&self, process: ProcessId) -> bool {
        let known = self.processes.get(process.pid).unwrap_or_default();
        known.has(ProcessEntry::FLAG_AGENT) || known.instance != 0 || known.session != 0
    }

    /// Searches the control groups of sessions for processes that are not held to their list: the table was full when
    /// they were started, or they were moved into the group.
    pub(super) fn look_into_groups(&mut self) {
        let mut groups = std::mem::take(&mut self.groups);
        groups.retain(|(proxied, group)| {
            let Some(members) = group.members() else {
                return false;
            };
            let outside: Vec<ProcessId> = members
                .into_iter()
                .filter(|process| self.processes.get(process.pid).unwrap_or_default().session == 0)
                .collect();
            if !outside.is_empty() {
                let judgement = self
                    .monitor
                    .observe(clock::now(), Observation::Proxied(proxied.clone(), outside));
                self.carry_out(judgement, None);
            }
            true
        });
        self.groups = groups;
    }
}

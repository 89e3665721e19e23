//! The kill switch and the processes of servers: those of a stopped session connect nowhere.

use mcpmon_model::{Denial, InstanceId, Kills, SessionId};

use super::Monitor;
use crate::effect::Judgement;

impl Monitor {
    /// Returns the denial of everything for a server in this session; `None` if no person stopped it. It is for
    /// requests that are not messages: messages are judged one by one.
    pub fn halted(&self, session: Option<&SessionId>) -> Option<Denial> {
        let objection = self.traffic.stop_of(session)?;
        Some(objection.denial())
    }

    /// Replaces what persons have stopped. The list that refuses everything has to be in the kernel already.
    pub fn stop(&mut self, kills: Kills) -> Judgement {
        let mut judgement = Judgement::default();
        if kills == self.kills {
            return judgement;
        }
        self.traffic.stop(kills.clone());
        self.kills = kills;
        for number in self.instances.numbers() {
            self.track_members(number, &mut judgement);
        }
        judgement
    }

    /// Notes the session of a running server: stopping the session stops the server.
    pub(super) fn is_of(&mut self, number: InstanceId, session: SessionId) -> Judgement {
        let mut judgement = Judgement::default();
        let Self {
            instances, sessions, ..
        } = self;
        sessions.retain(|number, _| instances.get(*number).is_some());
        if self.instances.get(number).is_none() {
            return judgement;
        }
        let before = self.is_stopped(number);
        self.sessions.insert(number, session);
        if before != self.is_stopped(number) {
            self.track_members(number, &mut judgement);
        }
        judgement
    }

    /// Returns whether a person stopped the session of a running server.
    pub(super) fn is_stopped(&self, number: InstanceId) -> bool {
        self.kills.of(self.sessions.get(&number)).is_some()
    }
}

//! The kill switch: while a session, or the host, is stopped, nothing of a server may be used.

use mcpmon_model::{Kills, SessionId, Severity, Verdict};

use super::{Traffic, tell::Teller};
use crate::{
    rules::{Objection, ObjectionEffect, Ruling},
    wording::command,
};

/// The rule that denials name.
const RULE: &str = "kill_switch";

/// Returns whether the kill switch stopped it.
pub(super) fn is_stopped(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Block(denial) if denial.rule == RULE)
}

impl Traffic {
    /// Takes what persons stopped.
    pub(crate) fn stop(&mut self, kills: Kills) {
        self.kills = kills;
    }

    /// Returns the ruling against every use, before any rule is checked; `None` if nothing is stopped.
    pub(super) fn stopped(&self, teller: &Teller<'_>) -> Option<Ruling> {
        let block = self.stop_of(teller.conversation.session.as_ref())?;
        Some(Ruling {
            block: Some(block),
            ..Ruling::default()
        })
    }

    /// Returns the same of a session, as an objection.
    pub(crate) fn stop_of(&self, session: Option<&SessionId>) -> Option<Objection> {
        let kill = self.kills.of(session)?;
        let (scope, lifting) = match session {
            Some(session) if self.kills.host.is_none() => (
                format!("in session {}", session.as_str()),
                command(&["kill", session.as_str(), "--off"]),
            ),
            Some(_) | None => ("on this host".to_owned(), command(&["kill", "--all", "--off"])),
        };
        Some(Objection {
            rule: RULE.into(),
            effect: ObjectionEffect::Block,
            severity: Severity::High,
            reason: format!("{} has stopped all MCP use {scope}", kill.by),
            remedy: Some(lifting),
        })
    }
}

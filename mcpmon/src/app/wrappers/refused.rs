//! Wrappers that the daemon did not serve: their servers are judged elsewhere, which must not go unnoticed.

use std::collections::VecDeque;

use mcpmon_model::{Event, EventKind, Layer, ServerId, Severity, Timestamp};
use mcpmon_store::json::rfc3339;

use super::{ServiceRefusal, Wrappers, lock};
use crate::app::status::RefusedWrapper;

/// Most refusals that are remembered, of all users and of one.
const MAX_REFUSED: usize = 256;
const MAX_OF_USER: usize = 16;
/// The time for which a refusal is remembered, and in which the same one is recorded once.
const REMEMBERED: i64 = 3600 * 1_000_000_000;

/// The latest refusals, oldest first.
#[derive(Debug, Default)]
pub(super) struct RefusedWrappers(VecDeque<Refused>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Refused {
    at: Timestamp,
    uid: u32,
    server: ServerId,
    cause: String,
}

impl RefusedWrappers {
    /// Adds a refusal. Returns whether it is new.
    fn add(&mut self, refused: Refused) -> bool {
        self.0
            .retain(|old| refused.at.0.saturating_sub(old.at.0) < REMEMBERED);
        let is_same = |old: &Refused| {
            (old.uid, &old.server, &old.cause) == (refused.uid, &refused.server, &refused.cause)
        };
        if self.0.iter().any(is_same) {
            return false;
        }
        let of_user = self.0.iter().filter(|old| old.uid == refused.uid).count();
        if of_user >= MAX_OF_USER {
            return false;
        }
        if self.0.len() >= MAX_REFUSED {
            self.0.pop_front();
        }
        self.0.push_back(refused);
        true
    }
}

impl Wrappers {
    /// Records that a wrapper of `server` was refused, once for each user, server and reason.
    pub(super) fn note_refused(&self, now: Timestamp, uid: u32, server: ServerId, refusal: &ServiceRefusal) {
        let refused = Refused {
            at: now,
            uid,
            server: server.clone(),
            cause: refusal.to_string(),
        };
        if !lock(&self.0.refused).add(refused) {
            return;
        }
        let kind = EventKind::EnforcementDegraded {
            component: "wrapper".to_owned(),
            cause: format!("the wrapper of `{server}` of user {uid} is not served: {refusal}"),
        };
        let mut event = Event::new(now, Layer::Agent, kind);
        event.severity = Severity::High;
        event.server_id = Some(server);
        event.reason = Some("the wrapper judges by itself, and its calls are not recorded here".to_owned());
        self.0.recorder.push(event);
    }

    /// Returns the wrappers that were refused in the last hour.
    pub(crate) fn refused(&self, now: Timestamp) -> Vec<RefusedWrapper> {
        let refused = lock(&self.0.refused);
        let recent = refused
            .0
            .iter()
            .filter(|refused| now.0.saturating_sub(refused.at.0) < REMEMBERED);
        recent
            .map(|refused| RefusedWrapper {
                server_id: refused.server.to_string(),
                uid: refused.uid,
                cause: refused.cause.clone(),
                at: rfc3339(refused.at),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uid: u32, server: &str, at: i64) -> Refused {
        Refused {
            at: Timestamp(at),
            uid,
            server: ServerId::new(server).expect("id"),
            cause: "too many wrappers are connected".to_owned(),
        }
    }

    #[test]
    fn one_user_is_recorded_once_and_displaces_nobody() {
        let mut known = RefusedWrappers::default();
        assert!(known.add(refused(1000, "files", 0)));
        assert!(!known.add(refused(1000, "files", 1)), "the same again");
        for number in 0..2 * MAX_REFUSED {
            known.add(refused(2000, &format!("s{number}"), 2));
        }
        assert_eq!(known.0.len(), 1 + MAX_OF_USER);
        assert!(known.add(refused(1000, "files", REMEMBERED)), "after an hour");
    }
}

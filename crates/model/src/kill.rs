//! The kill switch: what a person has stopped, whatever the policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{SessionId, Timestamp};

/// Most sessions that are stopped at a time; stopping one more is an error.
pub const MAX_KILLED_SESSIONS: u32 = 1024;

/// Everything that is stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kills {
    /// The whole host.
    pub host: Option<Kill>,
    /// Single sessions.
    pub sessions: BTreeMap<SessionId, Kill>,
}

/// A stop by the kill switch: the user who ordered it, and the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kill {
    /// The person, as in events.
    pub by: String,
    /// The time of the order.
    pub at: Timestamp,
}

impl Kills {
    /// Returns the stop that applies to the calls of `session`, or of no session if it is `None`.
    ///
    /// The kernel sensor knows a session by its root only, and wrappers know it by a name too: ids of one root are one
    /// session.
    pub fn of(&self, session: Option<&SessionId>) -> Option<&Kill> {
        let of_session = || {
            let session = session?;
            let mut killed = self.sessions.iter();
            killed.find_map(|(killed, kill)| killed.is_of_same_root(session).then_some(kill))
        };
        self.host.as_ref().or_else(of_session)
    }

    /// Returns whether nothing is stopped.
    pub fn is_empty(&self) -> bool {
        self.host.is_none() && self.sessions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn kill() -> Kill {
        Kill {
            by: "ann".to_owned(),
            at: Timestamp(7),
        }
    }

    #[test_case("claude-0123456789ab" => true; "the session")]
    #[test_case("ci-0123456789ab" => true; "under another name")]
    #[test_case("claude-ba9876543210" => false; "another root")]
    #[test_case("claude" => false; "without a root")]
    fn a_session_is_stopped_by_its_root(session: &str) -> bool {
        let killed = SessionId::new("claude-0123456789ab");
        let kills = Kills {
            host: None,
            sessions: BTreeMap::from([(killed, kill())]),
        };
        assert_eq!(kills.of(None), None);
        kills.of(Some(&SessionId::new(session))).is_some()
    }

    #[test]
    fn the_host_is_every_session_and_none() {
        let kills = Kills {
            host: Some(kill()),
            sessions: BTreeMap::new(),
        };
        assert_eq!(kills.of(None), Some(&kill()));
        assert_eq!(kills.of(Some(&SessionId::new("any"))), Some(&kill()));
        assert!(!kills.is_empty() && Kills::default().is_empty());
    }
}

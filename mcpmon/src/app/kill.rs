//! Kill switches: an order of a person that stops a session or the host, or lifts the stop. The process that has the
//! store open carries it out.

use mcpmon_model::{Event, EventKind, Kill, KillState, Layer, SessionId, Severity, Timestamp};
use mcpmon_store::{Store, StoreError};
use serde::{Deserialize, Serialize};

/// Longest name of a person that is recorded, characters.
const MAX_PERSON_NAME: usize = 64;

/// An order to stop a session or the host, or to lift that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillOrder {
    /// The session; `None` for the host.
    pub session: Option<SessionId>,
    /// True to lift the stop.
    pub off: bool,
    /// The user who gives the order.
    pub by: String,
}

/// The reason why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum KillError {
    /// There is no such session.
    #[error(
        "there is no session {0}; `mcpmon events --type mcp_server_started --json` shows the sessions of servers"
    )]
    Unknown(String),
    /// There is no stop to lift.
    #[error("{0} is not stopped; see `mcpmon status`")]
    NotStopped(String),
    /// The store keeps no more stops.
    #[error(
        "too many sessions are stopped: lift one with `mcpmon kill SESSION --off`, or stop the host with `mcpmon kill --all`"
    )]
    TooMany,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Carries an order out, and returns the event that records it.
///
/// # Errors
/// Returns an error if there is nothing to lift, too many sessions are stopped, or the store fails; nothing was changed
/// then.
pub fn carry_out(store: &mut Store, now: Timestamp, word: &KillOrder) -> Result<Event, KillError> {
    let by: String = word
        .by
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_PERSON_NAME)
        .collect();
    let scope = word.session.as_ref();
    let name = scope.map_or("host", SessionId::as_str).to_owned();
    let state = match word.off {
        true => {
            if !store.lift_kill(scope)? {
                return Err(KillError::NotStopped(name));
            }
            KillState::Lifted
        }
        false => {
            if let Some(session) = scope
                && !store.read(|reader| reader.knows_session(session))?
            {
                return Err(KillError::Unknown(name));
            }
            let kill = Kill {
                by: by.clone(),
                at: now,
            };
            if !store.kill(scope, &kill)? {
                return Err(KillError::TooMany);
            }
            KillState::Set
        }
    };
    let mut event = Event::new(
        now,
        Layer::Agent,
        EventKind::Kill {
            scope: name,
            by,
            state,
        },
    );
    event.session_id.clone_from(&word.session);
    event.severity = Severity::High;
    Ok(event)
}

#[cfg(test)]
mod tests {
    use mcpmon_store::{StoreReader, sample};

    use super::*;

    fn word(session: Option<&str>, off: bool) -> KillOrder {
        KillOrder {
            session: session.map(SessionId::new),
            off,
            by: "ann\u{1b}[31m".to_owned(),
        }
    }

    fn join(store: &mut Store, session: &str) {
        let member = sample::member(session, "files", 100);
        store.join(Timestamp(1), &member).expect("joined");
    }

    #[test]
    fn a_session_that_never_was_is_not_stopped() {
        let (_directory, mut store) = sample::store();
        let error = carry_out(&mut store, Timestamp(7), &word(Some("s-1"), false)).expect_err("no such");
        assert!(
            error.to_string().starts_with("there is no session s-1"),
            "{error}"
        );
    }

    #[test]
    fn what_is_stopped_stays_so_until_it_is_lifted() {
        let (_directory, mut store) = sample::store();
        join(&mut store, "s-1");
        let event = carry_out(&mut store, Timestamp(7), &word(Some("s-1"), false)).expect("stopped");
        let kind = EventKind::Kill {
            scope: "s-1".to_owned(),
            by: "ann[31m".to_owned(),
            state: KillState::Set,
        };
        assert_eq!(event.kind, kind);
        carry_out(&mut store, Timestamp(8), &word(None, false)).expect("the host too");
        let kills = store.read(StoreReader::kills).expect("kept");
        assert!(kills.host.is_some() && kills.of(Some(&SessionId::new("s-1"))).is_some());
        carry_out(&mut store, Timestamp(9), &word(None, true)).expect("lifted");
        let kills = store.read(StoreReader::kills).expect("kept");
        assert!(kills.host.is_none() && kills.sessions.len() == 1);
    }

    #[test]
    fn what_goes_on_is_not_lifted() {
        let (_directory, mut store) = sample::store();
        let error = carry_out(&mut store, Timestamp(7), &word(Some("s-1"), true)).expect_err("goes on");
        assert_eq!(error.to_string(), "s-1 is not stopped; see `mcpmon status`");
    }

    #[test]
    fn there_is_room_for_so_many_and_always_for_the_host() {
        let (_directory, mut store) = sample::store();
        for number in 0..mcpmon_model::MAX_KILLED_SESSIONS {
            let session = SessionId::new(format!("s-{number}"));
            let kill = Kill {
                by: String::new(),
                at: Timestamp(7),
            };
            assert!(store.kill(Some(&session), &kill).expect("room"));
        }
        join(&mut store, "one more");
        let error = carry_out(&mut store, Timestamp(7), &word(Some("one more"), false)).expect_err("no room");
        assert!(matches!(error, KillError::TooMany));
        carry_out(&mut store, Timestamp(7), &word(None, false)).expect("the host");
    }
}

//! Intents whose calls were not made yet; they give the turn of the model that a call belongs to.

use std::{collections::VecDeque, time::Duration};

use mcpmon_model::{RecentCall, RecentIntent, ServerId, Timestamp};

/// Intents that are kept: the latest.
const MAX_INTENTS: usize = 256;
/// The longest wait for a call: a person may be asked whether it may be made.
const CALL_TIMEOUT: Duration = Duration::from_secs(600);

/// The intents of one session, by time.
#[derive(Clone, Debug, Default)]
pub(super) struct Intents(VecDeque<RecentIntent>);

impl Intents {
    /// Takes in another one, in any order.
    pub(super) fn take(&mut self, intent: RecentIntent) {
        let position = self.0.partition_point(|known| known.at <= intent.at);
        self.0.insert(position, intent);
        if self.0.len() > MAX_INTENTS {
            self.0.pop_front();
        }
    }

    /// Returns the turn of the intent with this id or, without one, of the latest intent for the same tool. Earlier
    /// intents may have had no call, because a person refused it or the agent gave up, so they are not used.
    pub(super) fn turn_of(&self, server: &ServerId, tool: &str, id: Option<&str>) -> Option<Box<str>> {
        let meant = || {
            let is_meant = |known: &&RecentIntent| {
                known.origin.is_none() && known.server == *server && known.tool == tool
            };
            self.0.iter().rev().filter(is_meant)
        };
        let is_named = |known: &&RecentIntent| id.is_some() && known.tool_call.as_deref() == id;
        let intent = meant().find(is_named).or_else(|| meant().next())?;
        Some(intent.turn.clone())
    }

    /// Returns the turn of the latest intent to run code, if there is one.
    pub(super) fn turn_of_code(&self) -> Option<Box<str>> {
        let intent = self.0.iter().rev().find(|known| known.origin.is_some())?;
        Some(intent.turn.clone())
    }

    /// Notes that a call was made: sets its turn, if an intent has one, and removes one intent of that turn.
    pub(super) fn was_made(&mut self, call: &mut RecentCall) {
        if call.turn.is_none() {
            call.turn = self.turn_of(&call.server, &call.tool, None);
        }
        let is_of_call = |known: &RecentIntent| {
            known.origin.is_none()
                && call.turn.as_ref() == Some(&known.turn)
                && known.server == call.server
                && known.tool == call.tool
        };
        if let Some(position) = self.0.iter().rposition(is_of_call) {
            self.0.remove(position);
        }
    }

    /// Forgets the intents that are too old.
    pub(super) fn prune(&mut self, now: Timestamp) {
        while self
            .0
            .front()
            .is_some_and(|intent| now.since(intent.at) > CALL_TIMEOUT)
        {
            self.0.pop_front();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Action, ToolCategory};

    use super::*;

    fn id(server: &str) -> ServerId {
        ServerId::new(server).expect("an id")
    }

    fn intent(at: i64, tool: &str, tool_call: Option<&str>, turn: &str) -> RecentIntent {
        RecentIntent {
            origin: None,
            at: Timestamp(at),
            server: id("files"),
            tool: tool.to_owned(),
            tool_call: tool_call.map(Into::into),
            turn: turn.into(),
        }
    }

    fn made(intents: &mut Intents, tool: &str) -> Option<Box<str>> {
        let mut call = RecentCall {
            origin: None,
            at: Timestamp(9),
            server: id("files"),
            tool: tool.to_owned(),
            category: ToolCategory::Read,
            request: None,
            turn: None,
            action: Action::Allow,
            labels: Vec::new(),
            left: None,
        };
        intents.was_made(&mut call);
        call.turn
    }

    #[test]
    fn a_call_is_of_the_latest_turn_that_wants_it_unless_it_has_a_name() {
        let mut intents = Intents::default();
        intents.take(intent(2, "read", Some("b"), "second"));
        intents.take(intent(1, "read", Some("a"), "first"));
        let turn = |named| intents.turn_of(&id("files"), "read", named);
        assert_eq!(turn(None).as_deref(), Some("second"));
        assert_eq!(turn(Some("a")).as_deref(), Some("first"));
        assert_eq!(turn(Some("other")).as_deref(), Some("second"));
        assert_eq!(intents.turn_of(&id("files"), "write", Some("a")), None);
        assert_eq!(intents.turn_of(&id("mail"), "read", Some("a")), None);
    }

    #[test]
    fn each_intent_is_of_one_call_and_is_not_waited_for_for_ever() {
        let mut intents = Intents::default();
        for turn in ["first", "second", "second"] {
            intents.take(intent(1, "read", None, turn));
        }
        let turns = [(); 4].map(|()| made(&mut intents, "read"));
        let turns = turns.each_ref().map(Option::as_deref);
        assert_eq!(turns, [Some("second"), Some("second"), Some("first"), None]);
        intents.take(intent(1, "read", None, "third"));
        let patience = i64::try_from(CALL_TIMEOUT.as_nanos()).expect("it fits");
        intents.prune(Timestamp(1 + patience));
        assert!(!intents.is_empty());
        intents.prune(Timestamp(2 + patience));
        assert!(intents.is_empty());
        (0..2 * MAX_INTENTS).for_each(|_| intents.take(intent(1, "read", None, "x")));
        assert_eq!(intents.0.len(), MAX_INTENTS);
    }
}

//! Recording of events and effects of a judgement.

use mcpmon_model::{Action, Denial, Event, EventKind, Severity, Timestamp};

use super::Judge;

impl Judge {
    /// Returns the denial of every request to the server, if a person stopped its session or the host. The
    /// first request that is ended so becomes an event, which the denial of each one names.
    pub fn halted(&mut self, now: Timestamp) -> Option<Denial> {
        self.refresh(now);
        let Some(mut denial) = self.monitor.halted(self.conversation.session.as_ref()) else {
            self.halted = None;
            return None;
        };
        let known = self.halted.as_ref().filter(|known| known.reason == denial.reason);
        if let Some(known) = known {
            return Some(known.clone());
        }
        let id = mcpmon_store::new_event_id(now);
        let mut event = Event::new(
            now,
            self.conversation.layer,
            EventKind::RequestJudged {
                method: String::new(),
                summary: "requests that waited for an answer were ended".to_owned(),
                count: 1,
            },
        );
        event.id = Some(id);
        event.session_id.clone_from(&self.conversation.session);
        event.server_id = Some(self.conversation.identity.server.clone());
        event.action = Action::Block;
        event.severity = Severity::High;
        event.rule = Some(denial.rule.clone());
        event.reason = Some(denial.reason.clone());
        self.push(event);
        denial.event = Some(id);
        self.halted = Some(denial.clone());
        Some(denial)
    }

    /// Records an event with what it does not say itself: whose, and of which process.
    pub(super) fn push(&self, event: Event) {
        let event = self.of_conversation(event);
        self.recorder.push_of(event, self.child.as_ref());
    }

    /// The same for one that is completed by whoever writes it.
    pub(super) fn push_unworded(&self, event: Event, word: impl FnOnce(&mut Event) + Send + 'static) {
        let event = self.of_conversation(event);
        self.recorder.push_unworded(event, self.child.as_ref(), word);
    }

    fn of_conversation(&self, mut event: Event) -> Event {
        event.session_id = event.session_id.or_else(|| self.conversation.session.clone());
        event
            .server_id
            .get_or_insert_with(|| self.conversation.identity.server.clone());
        event
    }
}

//! How what a judge has to tell reaches the record.

use mcpmon_core::model::Event;

use super::Judge;

impl Judge {
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

//! Conversations that are only observed (the tap): the guard judges messages that were already delivered.

use std::sync::Arc;

use mcpmon_model::{Action, Event, Kills, Layer, ProcessRef};

use super::Session;

/// The rule that reports an answer for which no request is waiting.
const UNASKED: &str = "unasked_answer";

impl Session {
    /// Sets the serving process.
    pub fn is_served_by(&mut self, process: ProcessRef) {
        self.host.child = Some(Arc::new(process));
    }

    /// Records that parts of the conversation were missed: findings that need all of it are not reported from now on.
    pub fn has_gaps(&mut self) {
        self.host.has_gaps = true;
    }

    /// Applies the kill switches. An observed conversation cannot be stopped, and is not reported as stopped.
    pub(super) fn stop_as_told(&mut self, kills: Kills) {
        if self.guard.conversation().layer != Layer::Tap {
            // The daemon itself acts on processes.
            drop(self.guard.monitor_mut().stop(kills));
        }
    }
}

/// Returns whether an event is valid only if all earlier messages were seen.
pub(super) fn needs_all(event: &Event) -> bool {
    event.layer == Layer::Tap && event.rule.as_deref() == Some(UNASKED)
}

/// Changes a block to `would_block`, because the tap stops nothing.
pub(super) fn stops_nothing(event: &mut Event) {
    if event.layer == Layer::Tap && event.action == Action::Block {
        event.action = Action::WouldBlock;
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{EventKind, Timestamp};

    use super::*;

    fn event(layer: Layer) -> Event {
        let kind = EventKind::RequestJudged {
            method: String::new(),
            summary: String::new(),
            count: 1,
        };
        let mut event = Event::new(Timestamp(1), layer, kind);
        event.action = Action::Block;
        event.rule = Some(UNASKED.to_owned());
        event
    }

    #[test]
    fn the_tap_stops_nothing() {
        for (layer, action) in [(Layer::Tap, Action::WouldBlock), (Layer::Stdio, Action::Block)] {
            let mut event = event(layer);
            stops_nothing(&mut event);
            assert_eq!(event.action, action, "{layer:?}");
        }
    }

    #[test]
    fn answers_to_what_was_not_heard_are_no_news() {
        assert!(needs_all(&event(Layer::Tap)));
        assert!(!needs_all(&event(Layer::Stdio)));
        let mut other = event(Layer::Tap);
        other.rule = Some("strict_json".to_owned());
        assert!(!needs_all(&other));
    }
}

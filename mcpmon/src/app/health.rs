//! Health of the daemon: its degraded components and the events about changes.

use std::collections::BTreeMap;

use mcpmon_model::{Event, EventKind, Layer, Severity, Timestamp};

/// Components that do not work, with the cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    degraded: BTreeMap<String, String>,
}

impl Health {
    /// Records the state of a component: `cause` says why it does not work, `None` means that it works. Returns an
    /// event if the state changed.
    pub(crate) fn note(&mut self, now: Timestamp, component: &str, cause: Option<String>) -> Option<Event> {
        let (kind, severity) = match cause {
            Some(cause) => {
                if self.degraded.get(component) == Some(&cause) {
                    return None;
                }
                self.degraded.insert(component.to_owned(), cause.clone());
                (
                    EventKind::EnforcementDegraded {
                        component: component.to_owned(),
                        cause,
                    },
                    Severity::High,
                )
            }
            None => {
                let cause = self.degraded.remove(component)?;
                (
                    EventKind::EnforcementRestored {
                        component: component.to_owned(),
                        cause,
                    },
                    Severity::Info,
                )
            }
        };
        let mut event = Event::new(now, Layer::Agent, kind);
        event.severity = severity;
        Some(event)
    }

    /// Returns the degraded components.
    pub(crate) const fn degraded(&self) -> &BTreeMap<String, String> {
        &self.degraded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_events() {
        let mut health = Health::default();
        let mut note = |cause: Option<&str>| {
            health
                .note(Timestamp(1), "network gate", cause.map(str::to_owned))
                .map(|event| event.kind.name())
        };
        assert_eq!(note(None), None);
        assert_eq!(note(Some("broken")), Some("mcp_enforcement_degraded"));
        assert_eq!(note(Some("broken")), None);
        assert_eq!(note(Some("otherwise broken")), Some("mcp_enforcement_degraded"));
        assert_eq!(note(None), Some("mcp_enforcement_restored"));
        assert_eq!(note(None), None);
        assert!(health.degraded().is_empty());
    }
}

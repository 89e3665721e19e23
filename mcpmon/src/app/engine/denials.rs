//! Denials: reasons why processes were killed, for the wrappers that started them.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use mcpmon_model::{Denial, ProcessId};

/// Most denials that are remembered; the oldest is forgotten first.
const MAX_DENIALS: usize = 256;
/// The time for which a denial is remembered: a wrapper asks as soon as its server has ended.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The latest denials.
#[derive(Debug, Default)]
pub(super) struct Denials(VecDeque<(Instant, Vec<ProcessId>, Denial)>);

impl Denials {
    /// Remembers the reason why a process is killed. `processes` are the process itself and its ancestors.
    pub(super) fn note(&mut self, now: Instant, processes: Vec<ProcessId>, denial: Denial) {
        self.0
            .retain(|(since, ..)| now.saturating_duration_since(*since) < REMEMBERED);
        if self.0.len() >= MAX_DENIALS {
            self.0.pop_front();
        }
        self.0.push_back((now, processes, denial));
    }

    /// Returns the latest denial of a process that `wrapper` started. Both must be among the remembered processes: a
    /// process that was killed at once may have ended before its wrapper could report it.
    pub(super) fn of(&self, process: ProcessId, wrapper: ProcessId) -> Option<Denial> {
        let mut latest = self.0.iter().rev();
        let denied = latest.find(|(_, line, _)| line.contains(&process) && line.contains(&wrapper));
        denied.map(|(.., denial)| denial.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRAPPER: ProcessId = process(1000);

    const fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start: 1 }
    }

    fn denial(reason: &str) -> Denial {
        Denial {
            rule: "rule".to_owned(),
            reason: reason.to_owned(),
            remedy: None,
            event: None,
        }
    }

    #[test]
    fn the_latest_reason_is_told_to_who_is_above() {
        let (mut denials, now) = (Denials::default(), Instant::now());
        denials.note(now, vec![process(3), process(2), WRAPPER], denial("first"));
        denials.note(now, vec![process(4), process(2), WRAPPER], denial("second"));
        let told = |pid| denials.of(process(pid), WRAPPER).map(|denial| denial.reason);
        assert_eq!(told(3).as_deref(), Some("first"));
        assert_eq!(told(2).as_deref(), Some("second"));
        assert_eq!(told(5), None);
        let again = ProcessId { pid: 3, start: 2 };
        assert_eq!(denials.of(again, WRAPPER), None, "another one of that number");
        assert_eq!(denials.of(process(3), process(9)), None, "another wrapper's");
    }

    #[test]
    fn old_reasons_and_too_many_are_forgotten() {
        let (mut denials, now) = (Denials::default(), Instant::now());
        denials.note(now, vec![process(1), WRAPPER], denial("old"));
        denials.note(now + REMEMBERED, vec![process(2), WRAPPER], denial("new"));
        assert_eq!(denials.of(process(1), WRAPPER), None);
        for pid in 10..10 + u32::try_from(MAX_DENIALS).expect("small") {
            denials.note(now + REMEMBERED, vec![process(pid), WRAPPER], denial("another"));
        }
        assert_eq!(denials.of(process(2), WRAPPER), None);
        assert_eq!(denials.0.len(), MAX_DENIALS);
    }
}

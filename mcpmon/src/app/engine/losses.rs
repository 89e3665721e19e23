//! Losses in the kernel: each is an event and a counter. A lost record degrades nothing, because what it was about is
//! found by the next scan; a process that no longer fits into the kernel's table is not held to its rules.

use std::{collections::BTreeMap, time::Instant};

use mcpmon_common::event::Counter;
use mcpmon_model::{Event, EventKind, Layer, Severity, Timestamp};
use mcpmon_session::clock;

use super::Core;

/// The kernel's counters when they were last read.
#[derive(Debug, Default)]
pub(super) struct Losses {
    last: BTreeMap<u32, u64>,
}

/// The meaning of a growing counter.
struct WatchedCounter {
    counter: Counter,
    /// The `where` of its event.
    place: &'static str,
    effect: LossEffect,
}

/// The effect of a loss on the enforcement.
enum LossEffect {
    /// Only the record has a gap.
    Record,
    /// The record has a gap, and a scan of all processes finds what it was about; the reason for the event.
    Scan(&'static str),
    /// The component does not work completely; the cause.
    Component(&'static str, &'static str),
}

/// A loss since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecentLoss {
    /// The event to record.
    pub(super) event: Event,
    /// The component that it degrades, and the cause, if enforcement is lost.
    pub(super) degrades: Option<(&'static str, &'static str)>,
    /// True if running processes have to be scanned.
    pub(super) needs_scan: bool,
}

const WATCHED: [WatchedCounter; 7] = [
    WatchedCounter {
        counter: Counter::ExecLost,
        place: "kernel ring: execs",
        effect: LossEffect::Scan(
            "process starts came faster than they were read; running processes are scanned, and a server that ended before the scan went unseen",
        ),
    },
    WatchedCounter {
        counter: Counter::ProcessLost,
        place: "kernel ring: forks and exits",
        effect: LossEffect::Record,
    },
    WatchedCounter {
        counter: Counter::ConnectLost,
        place: "kernel ring: connections",
        effect: LossEffect::Record,
    },
    WatchedCounter {
        counter: Counter::CloseLost,
        place: "kernel ring: closed connections",
        effect: LossEffect::Record,
    },
    WatchedCounter {
        counter: Counter::DeniedLost,
        place: "kernel ring: refusals (the refusals themselves were carried out)",
        effect: LossEffect::Record,
    },
    WatchedCounter {
        counter: Counter::ProcessTableFull,
        place: "kernel process table: processes that did not fit",
        effect: LossEffect::Component(
            "process table",
            "more processes are tracked than the kernel's table holds: egress lists and rules of scope `agents` do not hold for the rest",
        ),
    },
    WatchedCounter {
        counter: Counter::ReadFailed,
        place: "kernel reads: what a program could not read",
        effect: LossEffect::Scan(
            "a kernel program could not read all it needed; running processes are scanned, and a process that ended before the scan went unseen",
        ),
    },
];

/// Starts that were read and dropped, because their user started too many programs.
const DROPPED: WatchedCounter = WatchedCounter {
    counter: Counter::ExecLost,
    place: "queue of execs: starts of a user with too many",
    effect: LossEffect::Scan(
        "a user starts programs faster than they are judged; running processes are scanned, and a server that ended before the scan went unseen",
    ),
};

impl Losses {
    /// Starts with the counters that an earlier daemon reported.
    pub(super) const fn since(told: BTreeMap<u32, u64>) -> Self {
        Self { last: told }
    }

    /// Returns the counters up to which losses were reported.
    pub(super) const fn told(&self) -> &BTreeMap<u32, u64> {
        &self.last
    }

    /// Returns the losses since the last call. `count` reads a counter; it returns `None` if the counter cannot be
    /// read.
    pub(super) fn look(&mut self, now: Timestamp, count: impl Fn(Counter) -> Option<u64>) -> Vec<RecentLoss> {
        let grown = |watched: &WatchedCounter| {
            let count = count(watched.counter)?;
            let last = self.last.insert(watched.counter as u32, count).unwrap_or(0);
            (count > last).then(|| watched.loss(now, count - last))
        };
        WATCHED.iter().filter_map(grown).collect()
    }
}

impl Core {
    /// Reports the records that were lost since the last look.
    pub(super) fn look_for_losses(&mut self) {
        let counters = &self.counters;
        let mut found = self
            .losses
            .look(clock::now(), |counter| counters.get(counter).ok());
        let dropped = self.waiting.take_dropped();
        if dropped > 0 {
            found.push(DROPPED.loss(clock::now(), dropped));
        }
        for loss in found {
            self.has_news = true;
            self.scan.wanted |= loss.needs_scan;
            if let EventKind::EventsLost { place, count } = &loss.event.kind {
                tracing::warn!(place, count, "records lost");
            }
            if let Some((component, cause)) = loss.degrades {
                self.troubles.note(Instant::now(), component, cause);
            }
            self.recorder.push(loss.event);
        }
    }

    /// Returns the counters of the kernel programs, and those of the engine.
    pub(super) fn all_counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.counters.all().unwrap_or_default();
        counters.push(("exec_expired", self.expired_candidates()));
        counters
    }
}

impl WatchedCounter {
    fn loss(&self, now: Timestamp, count: u64) -> RecentLoss {
        let kind = EventKind::EventsLost {
            place: self.place.to_owned(),
            count,
        };
        let mut event = Event::new(now, Layer::Kernel, kind);
        let (severity, reason, degrades) = match self.effect {
            LossEffect::Record => (Severity::Medium, None, None),
            LossEffect::Scan(reason) => (Severity::High, Some(reason), None),
            LossEffect::Component(component, cause) => (Severity::High, None, Some((component, cause))),
        };
        event.severity = severity;
        event.reason = reason.map(str::to_owned);
        RecentLoss {
            event,
            degrades,
            needs_scan: matches!(self.effect, LossEffect::Scan(_)),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn look(losses: &mut Losses, counter: Counter, count: u64) -> Vec<RecentLoss> {
        losses.look(Timestamp(1), |asked| {
            Some(if asked == counter { count } else { 0 })
        })
    }

    #[test_case(Counter::ExecLost => (None, true))]
    #[test_case(Counter::ReadFailed => (None, true))]
    #[test_case(Counter::ProcessTableFull => (Some("process table"), false))]
    #[test_case(Counter::ConnectLost => (None, false))]
    #[test_case(Counter::DeniedLost => (None, false))]
    fn lost_enforcement_alone_degrades(counter: Counter) -> (Option<&'static str>, bool) {
        let found = look(&mut Losses::default(), counter, 3);
        let [loss] = found.as_slice() else {
            panic!("one loss, not {found:?}");
        };
        assert_eq!(loss.event.reason.is_some(), loss.needs_scan);
        (loss.degrades.map(|(component, _)| component), loss.needs_scan)
    }

    #[test]
    fn only_growth_is_a_loss() {
        let mut losses = Losses::default();
        const NONE: [&str; 0] = [];
        let counts = |found: Vec<RecentLoss>| -> Vec<String> {
            found
                .iter()
                .map(|loss| {
                    let EventKind::EventsLost { count, .. } = &loss.event.kind else {
                        panic!("a loss is told as one: {loss:?}");
                    };
                    count.to_string()
                })
                .collect()
        };
        assert_eq!(counts(look(&mut losses, Counter::ExecSeen, 5)), NONE);
        assert_eq!(counts(look(&mut losses, Counter::ExecLost, 5)), ["5"]);
        assert_eq!(counts(look(&mut losses, Counter::ExecLost, 5)), NONE);
        assert_eq!(counts(look(&mut losses, Counter::ExecLost, 7)), ["2"]);
        assert_eq!(losses.look(Timestamp(1), |_| None), []);
    }
}

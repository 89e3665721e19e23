//! Records that the kernel programs could not deliver: each loss is an event, and degrades a component while losses
//! continue.

use std::collections::BTreeMap;

use mcpmon_common::event::Counter;
use mcpmon_model::{Event, EventKind, Layer, Severity, Timestamp};

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
    /// The component does not work completely; the cause.
    Component(&'static str, &'static str),
}

/// A loss since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecentLoss {
    /// The counter of lost records.
    pub(super) counter: Counter,
    /// The event to record.
    pub(super) event: Event,
    /// The component that it degrades, and the cause, if the loss is more than a gap in the record.
    pub(super) degrades: Option<(&'static str, &'static str)>,
}

const WATCHED: [WatchedCounter; 7] = [
    WatchedCounter {
        counter: Counter::ExecLost,
        place: "kernel ring: execs",
        effect: LossEffect::Component(
            "exec records",
            "process starts come faster than they are read: a server may go unseen until the next scan",
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
        effect: LossEffect::Component(
            "exec records",
            "the kernel programs cannot read all they need: process starts may go unseen",
        ),
    },
];

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

impl WatchedCounter {
    fn loss(&self, now: Timestamp, count: u64) -> RecentLoss {
        let kind = EventKind::EventsLost {
            place: self.place.to_owned(),
            count,
        };
        let mut event = Event::new(now, Layer::Kernel, kind);
        let degrades = match self.effect {
            LossEffect::Record => None,
            LossEffect::Component(component, cause) => Some((component, cause)),
        };
        event.severity = match degrades {
            Some(_) => Severity::High,
            None => Severity::Medium,
        };
        RecentLoss {
            counter: self.counter,
            event,
            degrades,
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

    #[test_case(Counter::ExecLost => Some("exec records"))]
    #[test_case(Counter::ReadFailed => Some("exec records"))]
    #[test_case(Counter::ProcessTableFull => Some("process table"))]
    #[test_case(Counter::ConnectLost => None)]
    #[test_case(Counter::DeniedLost => None)]
    fn a_loss_degrades_what_it_ends(counter: Counter) -> Option<&'static str> {
        let found = look(&mut Losses::default(), counter, 3);
        let [loss] = found.as_slice() else {
            panic!("one loss, not {found:?}");
        };
        assert_eq!(loss.counter, counter);
        loss.degrades.map(|(component, _)| component)
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

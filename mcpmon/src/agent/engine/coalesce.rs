//! Keeps a process that repeats a connection from flooding the record: the first is told at once, its repeats
//! become one event with a count when the window is over.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use mcpmon_model::{Action, Direction, Event, EventKind, ProcessId, Transport};

/// The time for which repeats are counted before they are reported.
const WINDOW: Duration = Duration::from_secs(1);
/// Connections whose repeats are counted at the same time; what comes beyond is told one by one.
const TRACKED: usize = 1024;

/// Connections told within the last window.
#[derive(Debug, Default)]
pub(super) struct Coalescer {
    told: BTreeMap<ConnectionKey, Repeats>,
    /// The keys of `told`, oldest first.
    order: VecDeque<(Instant, ConnectionKey)>,
}

/// The key of equal connections. The address as written is not part of it, because it can be written in any
/// number of ways.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ConnectionKey {
    process: ProcessId,
    rule: Option<String>,
    remote: SocketAddr,
    kind: RepeatKind,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RepeatKind {
    Connection(Transport, Direction),
    Bypass,
}

#[derive(Debug)]
struct Repeats {
    count: u64,
    /// The latest one.
    event: Event,
}

impl Coalescer {
    /// The event, where it is to be told now; `None` where it is counted as a repeat. Events that are no
    /// connection pass.
    pub(super) fn admit(&mut self, now: Instant, process: ProcessId, event: Event) -> Option<Event> {
        let Some(connection) = ConnectionKey::of(process, &event) else {
            return Some(event);
        };
        if let Some(repeats) = self.told.get_mut(&connection) {
            repeats.count += 1;
            repeats.event = event;
            return None;
        }
        if self.told.len() < TRACKED {
            let repeats = Repeats {
                count: 0,
                event: event.clone(),
            };
            self.order.push_back((now, connection.clone()));
            self.told.insert(connection, repeats);
        }
        Some(event)
    }

    /// The repeats whose window is over, one event for each connection, oldest first.
    pub(super) fn over(&mut self, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some((_, connection)) = self
            .order
            .pop_front_if(|(since, _)| now.saturating_duration_since(*since) >= WINDOW)
        {
            events.extend(self.told.remove(&connection).and_then(Repeats::told));
        }
        events
    }

    /// All repeats that were not told yet.
    pub(super) fn finish(&mut self) -> Vec<Event> {
        let told = &mut self.told;
        self.order
            .drain(..)
            .filter_map(|(_, connection)| told.remove(&connection)?.told())
            .collect()
    }
}

impl ConnectionKey {
    fn of(process: ProcessId, event: &Event) -> Option<Self> {
        let (remote, kind) = if let EventKind::NetworkConnection {
            remote_addr,
            direction,
            protocol,
            ..
        } = event.kind
        {
            (remote_addr, RepeatKind::Connection(protocol, direction))
        } else if let EventKind::ProxyBypass { remote_addr, .. } = event.kind {
            (remote_addr, RepeatKind::Bypass)
        } else {
            return None;
        };
        Some(Self {
            process,
            rule: event.rule.clone(),
            remote,
            kind,
            action: event.action,
        })
    }
}

impl Repeats {
    /// One event for all of them, with the time of the latest.
    fn told(mut self) -> Option<Event> {
        if self.count == 0 {
            return None;
        }
        if let EventKind::NetworkConnection { count, .. } | EventKind::ProxyBypass { count, .. } =
            &mut self.event.kind
        {
            *count = self.count;
        }
        Some(self.event)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::Timestamp;
    use mcpmon_store::sample;
    use test_case::test_case;

    use super::*;

    const PROCESS: ProcessId = ProcessId { pid: 7, start: 1 };

    fn to(remote: &str) -> Event {
        sample::connection("weather", PROCESS.pid, remote, Direction::ServerEgress)
    }

    fn counts(events: &[Event]) -> Vec<(i64, u64)> {
        let count = |event: &Event| {
            let EventKind::NetworkConnection { count, .. } = event.kind else {
                panic!("a connection: {event:?}");
            };
            (event.timestamp.0, count)
        };
        events.iter().map(count).collect()
    }

    #[test]
    fn repeats_become_one_event_when_the_window_is_over() {
        let start = Instant::now();
        let mut coalescer = Coalescer::default();
        let mut admit = |time: i64| {
            let mut event = to("192.0.2.1:443");
            event.timestamp = Timestamp(time);
            coalescer.admit(start, PROCESS, event).is_some()
        };
        assert_eq!([1, 2, 3, 4].map(&mut admit), [true, false, false, false]);
        assert_eq!(coalescer.over(start + WINDOW / 2), []);
        assert_eq!(counts(&coalescer.over(start + WINDOW)), [(4, 3)]);
        assert_eq!(coalescer.over(start + WINDOW), []);
        assert!(
            coalescer
                .admit(start + WINDOW, PROCESS, to("192.0.2.1:443"))
                .is_some()
        );
    }

    #[test]
    fn what_is_not_repeated_is_told_once() {
        let start = Instant::now();
        let mut coalescer = Coalescer::default();
        assert!(coalescer.admit(start, PROCESS, to("192.0.2.1:443")).is_some());
        assert_eq!(coalescer.over(start + WINDOW), []);
        assert_eq!(coalescer.finish(), []);
    }

    #[test]
    fn the_end_tells_what_is_counted() {
        let start = Instant::now();
        let mut coalescer = Coalescer::default();
        for _ in 0..3 {
            drop(coalescer.admit(start, PROCESS, to("192.0.2.1:443")));
        }
        assert_eq!(counts(&coalescer.finish()), [(sample::NOON, 2)]);
        assert_eq!(coalescer.finish(), []);
    }

    #[test_case(|_, event| event.reason = Some("why".to_owned()) => false; "another reason")]
    #[test_case(|process, _| process.start += 1 => true; "another process of that number")]
    #[test_case(|_, event| event.action = Action::Block => true; "another action")]
    #[test_case(|_, event| event.rule = Some("other".to_owned()) => true; "another rule")]
    #[test_case(|_, event| *event = to("192.0.2.1:444") => true; "another port")]
    #[test_case(|_, event| *event = to("192.0.2.2:443") => true; "another address")]
    #[test_case(|_, event| *event = sample::denied("weather") => true; "no connection")]
    fn only_the_same_connection_is_a_repeat(change: fn(&mut ProcessId, &mut Event)) -> bool {
        let start = Instant::now();
        let mut coalescer = Coalescer::default();
        assert!(coalescer.admit(start, PROCESS, to("192.0.2.1:443")).is_some());
        let (mut process, mut event) = (PROCESS, to("192.0.2.1:443"));
        change(&mut process, &mut event);
        coalescer.admit(start, process, event).is_some()
    }

    #[test]
    fn beyond_what_is_tracked_everything_is_told() {
        let start = Instant::now();
        let mut coalescer = Coalescer::default();
        for port in 1..=2 * TRACKED {
            let event = to(&format!("192.0.2.1:{port}"));
            assert!(coalescer.admit(start, PROCESS, event).is_some());
        }
        let last = to(&format!("192.0.2.1:{}", 2 * TRACKED));
        assert!(coalescer.admit(start, PROCESS, last).is_some());
        assert!(coalescer.admit(start, PROCESS, to("192.0.2.1:1")).is_none());
        assert_eq!(counts(&coalescer.over(start + WINDOW)), [(sample::NOON, 1)]);
    }

    #[test]
    fn what_goes_round_a_proxy_is_counted_apart_from_other_connections() {
        let bypass = || Event {
            kind: EventKind::ProxyBypass {
                remote_addr: "192.0.2.1:443".parse().expect("an address"),
                remote_name: None,
                count: 1,
            },
            ..to("192.0.2.1:443")
        };
        let now = Instant::now();
        let mut coalescer = Coalescer::default();
        assert!(coalescer.admit(now, PROCESS, to("192.0.2.1:443")).is_some());
        assert!(coalescer.admit(now, PROCESS, bypass()).is_some());
        for _ in 0..3 {
            assert!(coalescer.admit(now, PROCESS, bypass()).is_none());
        }
        let told = coalescer.over(now + WINDOW);
        assert!(
            matches!(
                told[..],
                [Event {
                    kind: EventKind::ProxyBypass { count: 3, .. },
                    ..
                }]
            ),
            "{told:?}"
        );
    }
}

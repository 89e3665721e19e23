//! Coalescing of repeated connections, so that one process cannot flood the record. The first connection is recorded at
//! once; its repeats become one event with a count when the window is over. The ends of these repeats are counted in
//! the same way.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use mcpmon_model::{Action, Direction, Event, EventKind, IpProtocol, ProcessId};

/// The time for which repeats are counted before they are reported.
const WINDOW: Duration = Duration::from_secs(1);
/// Connections whose repeats are counted at the same time; further connections are recorded one by one.
const TRACKED: usize = 1024;

/// Most remembered sockets of connections that were counted as repeats. The end of a forgotten one is recorded as an
/// event of its own.
const MAX_UNTOLD: usize = 1 << 14;

/// Connections that were recorded within the last window.
#[derive(Debug, Default)]
pub(super) struct Coalescer {
    told: BTreeMap<ConnectionKey, Repeats>,
    /// The keys of `told`, oldest first.
    order: VecDeque<(Instant, ConnectionKey)>,
    /// Sockets of connections that were counted as repeats; their ends are counted, too.
    untold: UntoldSockets,
}

/// Sockets of connections that have no event of their own.
#[derive(Debug, Default)]
struct UntoldSockets {
    known: BTreeSet<u64>,
    /// The sockets in `known`, and some that have ended, oldest first.
    order: VecDeque<u64>,
}

impl UntoldSockets {
    fn note(&mut self, socket: u64) {
        if self.known.insert(socket) {
            self.order.push_back(socket);
        }
        while self.order.len() > MAX_UNTOLD
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// The key under which connections count as equal. The address as the program wrote it is not part of it, because one
/// address can be written in many ways.
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
    Connection(IpProtocol, Direction),
    Bypass,
    Closed(IpProtocol, bool),
}

#[derive(Debug)]
struct Repeats {
    count: u64,
    /// The latest event.
    event: Event,
}

impl Coalescer {
    /// Returns the event if it is to be recorded now; returns `None` if it is counted as a repeat. Events about other
    /// things are returned unchanged.
    pub(super) fn admit(&mut self, now: Instant, process: ProcessId, event: Event) -> Option<Event> {
        let is_end = matches!(event.kind, EventKind::ConnectionClosed { .. });
        let is_untold = socket(&event).is_some_and(|socket| self.untold.known.remove(&socket));
        let connection = ConnectionKey::of(process, &event).filter(|_| !is_end || is_untold);
        let Some(connection) = connection else {
            return Some(event);
        };
        if let Some(repeats) = self.told.get_mut(&connection) {
            if let Some(unnamed) = repeats.add(event) {
                self.untold.note(unnamed);
            }
            return None;
        }
        if self.told.len() < TRACKED {
            let repeats = Repeats {
                count: u64::from(is_end),
                event: event.clone(),
            };
            self.order.push_back((now, connection.clone()));
            self.told.insert(connection, repeats);
            if is_end {
                return None;
            }
        }
        Some(event)
    }

    /// Returns the repeats whose window is over, one event for each connection, oldest first.
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

    /// Returns all repeats that are not recorded yet.
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
        } else if let EventKind::ConnectionClosed {
            remote_addr,
            protocol,
            established,
            ..
        } = event.kind
        {
            (remote_addr, RepeatKind::Closed(protocol, established))
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
    /// Counts a repeat. Returns the socket of the previous event if no event names it any more.
    fn add(&mut self, mut event: Event) -> Option<u64> {
        add_bytes(&mut event.kind, &self.event.kind);
        let before = std::mem::replace(&mut self.event, event);
        self.count += 1;
        let is_connection = matches!(before.kind, EventKind::NetworkConnection { .. });
        // The first connection has an event of its own.
        socket(&before).filter(|_| is_connection && self.count > 1)
    }

    /// Returns one event for all repeats, with the time of the latest; `None` if there are none.
    fn told(mut self) -> Option<Event> {
        if self.count == 0 {
            return None;
        }
        if let EventKind::ConnectionClosed { socket, .. } = &mut self.event.kind {
            // No other event names this socket's connection.
            *socket = None;
        }
        if let EventKind::NetworkConnection { count, .. }
        | EventKind::ProxyBypass { count, .. }
        | EventKind::ConnectionClosed { count, .. } = &mut self.event.kind
        {
            *count = self.count;
        }
        Some(self.event)
    }
}

const fn socket(event: &Event) -> Option<u64> {
    if let EventKind::NetworkConnection { socket, .. } | EventKind::ConnectionClosed { socket, .. } =
        event.kind
    {
        socket
    } else {
        None
    }
}

/// Adds the bytes of an earlier end to those of this one.
fn add_bytes(kind: &mut EventKind, before: &EventKind) {
    if let (
        EventKind::ConnectionClosed {
            bytes_sent,
            bytes_received,
            ..
        },
        EventKind::ConnectionClosed {
            bytes_sent: sent,
            bytes_received: received,
            ..
        },
    ) = (kind, before)
    {
        for (bytes, more) in [(bytes_sent, sent), (bytes_received, received)] {
            *bytes = bytes.map(|bytes| bytes.saturating_add(more.unwrap_or_default()));
        }
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

    fn opened(number: u64) -> Event {
        let mut event = to("192.0.2.1:443");
        if let EventKind::NetworkConnection { socket, .. } = &mut event.kind {
            *socket = Some(number);
        }
        event
    }

    fn closed(number: u64) -> Event {
        let mut event = to("192.0.2.1:443");
        event.kind = EventKind::ConnectionClosed {
            remote_addr: "192.0.2.1:443".parse().expect("an address"),
            remote_name: None,
            protocol: IpProtocol::Tcp,
            socket: Some(number),
            established: true,
            duration_ms: number,
            bytes_sent: Some(10),
            bytes_received: Some(1),
            count: 1,
        };
        event
    }

    #[test]
    fn ends_of_what_was_told_are_told_and_others_are_counted() {
        let start = Instant::now();
        let mut coalescer = Coalescer::default();
        let opened: Vec<bool> = (1..=5)
            .map(|number| coalescer.admit(start, PROCESS, opened(number)).is_some())
            .collect();
        assert_eq!(opened, [true, false, false, false, false]);
        let closed: Vec<bool> = (1..=5)
            .map(|number| coalescer.admit(start, PROCESS, closed(number)).is_some())
            .collect();
        // The first and the last connection have events of their own, which name their sockets.
        assert_eq!(closed, [true, false, false, false, true]);
        let told = coalescer.over(start + WINDOW);
        let [repeats, ends] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert_eq!((socket(repeats), socket(ends)), (Some(5), None));
        let EventKind::ConnectionClosed {
            count,
            bytes_sent,
            bytes_received,
            ..
        } = ends.kind
        else {
            panic!("{ends:?}");
        };
        assert_eq!((count, bytes_sent, bytes_received), (3, Some(30), Some(3)));
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

//! Open connections: searched when rules have changed, and cut if the Monitor orders it.
//!
//! The lists of sockets are read by separate threads, which enter the network namespaces of the host.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mcpmon_common::process::ProcessEntry;
use mcpmon_engine::{ConnectionCut, Observation, refused_by_now};
use mcpmon_kernel::sockets::{self, Ending, OpenSocket, Protocol, SocketSurvey};
use mcpmon_model::{ConnectionHolder, ConnectionTraffic, CutOutcome, IpProtocol, OpenConnection, ProcessId};
use mcpmon_policy::network::table::Tables;
use mcpmon_session::clock;

use super::{Core, EngineMessage, Sender, observe::instance};
use crate::app::host;

/// The component that is degraded if connections cannot be cut.
const COMPONENT: &str = "open connections";
/// The time until a second search, for connections that were made while the tables changed.
const SECOND_LOOK: Duration = Duration::from_secs(2);
/// The time until a search or a cut that failed in part is repeated.
const RETRY: Duration = Duration::from_secs(45);
/// Most doublings of that time; it doubles with each failure in a row.
const MAX_DOUBLINGS: u32 = 6;
/// Most processes that are named as holders of one connection; any number of processes can share it.
const MAX_HOLDERS: usize = 8;

/// The state of the searches for open connections.
#[derive(Debug)]
pub(super) struct ConnectionReviews {
    sender: Sender<EngineMessage>,
    /// The times of the next searches, soonest first.
    due: Vec<Instant>,
    /// Failed searches and cuts since the rules last changed.
    failures: u32,
    /// True while a thread searches or cuts.
    is_busy: bool,
    /// The sockets of the last search, by number, as far as they may be cut.
    found: BTreeMap<u64, OpenSocket>,
    /// The cuts that the Monitor ordered.
    ordered: Vec<(ConnectionCut, OpenSocket)>,
    /// The reason why this kernel cannot cut connections, if it cannot.
    incapable: Option<String>,
}

impl ConnectionReviews {
    pub(super) fn new(sender: Sender<EngineMessage>) -> Self {
        Self {
            sender,
            due: Vec::new(),
            failures: 0,
            is_busy: false,
            found: BTreeMap::new(),
            ordered: Vec::new(),
            incapable: sockets::can_end().err().map(|error| error.to_string()),
        }
    }

    /// Schedules two searches, one now and one a little later. Called when rules changed, or which rules apply to a
    /// process.
    pub(super) fn ask(&mut self) {
        let now = Instant::now();
        self.due = vec![now, now + SECOND_LOOK];
        self.failures = 0;
    }

    /// Schedules another search after a failure, unless one is scheduled already.
    fn retry(&mut self, now: Instant) {
        if self.due.is_empty() {
            self.due.push(now + RETRY * (1 << self.failures));
            self.failures = (self.failures + 1).min(MAX_DOUBLINGS);
        }
    }

    /// Runs `work` in a thread and sends its result to the engine. Returns whether the thread was started.
    fn start(&mut self, work: impl FnOnce() -> EngineMessage + Send + 'static) -> bool {
        let sender = self.sender.clone();
        let started = thread::Builder::new()
            .name("connections".to_owned())
            // After the engine's end the result is not needed.
            .spawn(move || {
                let _closed = sender.send_blocking(work());
            });
        self.is_busy = started.is_ok();
        self.is_busy
    }
}

impl Core {
    /// Searches for open connections if it is time to, and if any address is refused.
    pub(super) fn review_connections(&mut self, now: Instant) {
        if let Some(cause) = self.reviews.incapable.clone() {
            self.troubles.note(now, COMPONENT, &cause);
        }
        if self.reviews.is_busy || self.reviews.due.first().is_none_or(|due| now < *due) {
            return;
        }
        self.reviews.due.remove(0);
        if !self.monitor.enforces_addresses() || !refuse_anything(&self.tables) {
            return;
        }
        let entries: BTreeMap<u32, ProcessEntry> = self.processes.iter().collect();
        let tables = Arc::clone(&self.tables);
        let started = self.reviews.start(move || {
            let processes: BTreeSet<u32> = entries.keys().copied().collect();
            let wanted = |socket: &OpenSocket| {
                let holder = |pid: &u32| holder(*pid, entries.get(pid).copied().unwrap_or_default());
                refused_by_now(&tables, &open(socket, holder)).is_some()
            };
            let mut survey = sockets::survey(&processes, wanted);
            for socket in &mut survey.sockets {
                let alone = |pid: u32| {
                    let holder = holder(pid, entries.get(&pid).copied().unwrap_or_default());
                    let open = OpenConnection {
                        holders: vec![holder],
                        ..open(socket, |pid| self::holder(*pid, ProcessEntry::default()))
                    };
                    refused_by_now(&tables, &open).is_some()
                };
                let kept = few(&socket.holders, alone);
                socket.holders = kept;
            }
            EngineMessage::OpenSockets(survey)
        });
        if !started {
            self.troubles
                .note(now, COMPONENT, "no thread can be started to look at them");
            self.reviews.retry(now);
        }
    }

    /// Has the Monitor judge the connections that a search found by the current rules, and cuts those that it orders.
    pub(super) fn open_sockets(&mut self, survey: SocketSurvey) {
        self.reviews.is_busy = false;
        let now = Instant::now();
        for fault in &survey.faults {
            self.troubles.note(now, COMPONENT, fault);
        }
        if !survey.faults.is_empty() {
            self.reviews.retry(now);
        }
        let mut known = BTreeMap::new();
        let mut named = |pid: &u32| -> Option<ConnectionHolder> {
            let name = || {
                let entry = self.processes.get(*pid).unwrap_or_default();
                let mut holder = holder(*pid, entry);
                holder.process = host::identify(*pid)?;
                holder.comm = host::stat(*pid)?.comm;
                holder.uid = host::uid(*pid)?;
                Some(holder)
            };
            known.entry(*pid).or_insert_with(name).clone()
        };
        let connections: Vec<OpenConnection> = survey
            .sockets
            .iter()
            .map(|socket| OpenConnection {
                holders: socket.holders.iter().filter_map(&mut named).collect(),
                ..open(socket, |pid| holder(*pid, ProcessEntry::default()))
            })
            .collect();
        self.reviews.found = survey
            .sockets
            .into_iter()
            .map(|socket| (socket.cookie, socket))
            .collect();
        let tables = Arc::clone(&self.tables);
        let seen = Observation::OpenConnections(&tables, &connections);
        let judgement = self.monitor.observe(clock::now(), seen);
        self.carry_out(judgement, None);
        self.reviews.found.clear();
        let ordered = mem::take(&mut self.reviews.ordered);
        if !ordered.is_empty() && !self.reviews.start(move || EngineMessage::Cut(cut(ordered))) {
            self.troubles
                .note(now, COMPONENT, "no thread can be started to cut them");
            self.reviews.retry(now);
        }
    }

    /// Queues an order to cut a connection; all orders of one judgement are carried out together.
    pub(super) fn order_cut(&mut self, order: ConnectionCut) {
        if let Some(socket) = self.reviews.found.remove(&order.connection.socket) {
            self.reviews.ordered.push((order, socket));
        }
    }

    /// Reports the results of cuts to the Monitor.
    pub(super) fn told_cut(&mut self, cuts: &[(ConnectionCut, CutOutcome)]) {
        self.reviews.is_busy = false;
        let now = Instant::now();
        let failed = cuts.iter().filter_map(|(_, outcome)| match outcome {
            CutOutcome::Failed(cause) => Some(cause),
            CutOutcome::Cut(_) => None,
        });
        let mut has_failed = false;
        for cause in failed {
            self.troubles.note(now, COMPONENT, cause);
            has_failed = true;
        }
        // If the kernel cannot cut, another search would only find the same connections.
        if has_failed && self.reviews.incapable.is_none() {
            self.reviews.retry(now);
        }
        let judgement = self.monitor.observe(clock::now(), Observation::Cut(cuts));
        self.carry_out(judgement, None);
    }
}

/// Cuts connections. Those that had ended before are left out of the result.
fn cut(ordered: Vec<(ConnectionCut, OpenSocket)>) -> Vec<(ConnectionCut, CutOutcome)> {
    let (orders, sockets): (Vec<_>, Vec<_>) = ordered.into_iter().unzip();
    let endings = sockets::end(&sockets);
    let outcomes = orders.into_iter().zip(endings).filter_map(|(order, ending)| {
        let outcome = match ending {
            Ending::Ended(traffic) => CutOutcome::Cut(traffic.map(|traffic| ConnectionTraffic {
                sent: traffic.sent,
                received: traffic.received,
            })),
            Ending::Gone => return None,
            Ending::Failed(error) => CutOutcome::Failed(error.to_string()),
        };
        Some((order, outcome))
    });
    outcomes.collect()
}

fn open(socket: &OpenSocket, holder: impl Fn(&u32) -> ConnectionHolder) -> OpenConnection {
    OpenConnection {
        socket: socket.cookie,
        remote: socket.remote,
        transport: match socket.protocol {
            Protocol::Tcp => IpProtocol::Tcp,
            Protocol::Udp => IpProtocol::Udp,
        },
        is_answer: socket.is_answer,
        holders: socket.holders.iter().map(holder).collect(),
    }
}

/// Returns the holder of a connection with the rules that apply to it, without its name. The lists of a process that is
/// not judged yet are left out: they apply for a moment only, and must not cut a connection.
fn holder(pid: u32, entry: ProcessEntry) -> ConnectionHolder {
    let lists = match entry.has(ProcessEntry::FLAG_PENDING) {
        true => Vec::new(),
        false => entry.egress.to_vec(),
    };
    ConnectionHolder {
        process: ProcessId { pid, start: 0 },
        comm: String::new(),
        uid: 0,
        instance: instance(entry),
        is_agent: entry.has(ProcessEntry::FLAG_AGENT),
        lists: lists
            .into_iter()
            .chain([entry.session])
            .filter(|list| *list != 0)
            .collect(),
    }
}

/// Returns at most [`MAX_HOLDERS`] of these processes. If `is_reason` holds for none of the first ones, the first one
/// is replaced by a later one for which it does.
fn few(holders: &[u32], is_reason: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut few: Vec<u32> = holders.iter().copied().take(MAX_HOLDERS).collect();
    let beyond = holders.iter().skip(MAX_HOLDERS);
    if holders.len() > MAX_HOLDERS
        && !few.iter().any(|pid| is_reason(*pid))
        && let Some(reason) = beyond.copied().find(|pid| is_reason(*pid))
    {
        few[0] = reason;
    }
    few
}

/// Returns whether any rule refuses an address.
fn refuse_anything(tables: &Tables) -> bool {
    let refusals = tables.refusals();
    refusals.host || refusals.agents || refusals.lists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_review_lead_to_one_more_look() {
        let (sender, _inbox) = crate::app::inbox::inbox(1).expect("an inbox");
        let mut reviews = ConnectionReviews::new(sender);
        let now = Instant::now();
        for _ in 0..3 {
            reviews.retry(now);
        }
        assert_eq!(reviews.due, [now + RETRY]);
        for _ in 0..9 {
            reviews.due.clear();
            reviews.retry(now);
        }
        assert_eq!(
            reviews.due,
            [now + RETRY * 64],
            "what fails for good is tried seldom"
        );
        reviews.ask();
        assert_eq!(reviews.due.len(), 2, "a change does not wait for it");
        reviews.retry(now);
        assert_eq!(reviews.due.len(), 2);
        reviews.due.clear();
        reviews.retry(now);
        assert_eq!(reviews.due, [now + RETRY], "new rules are tried soon");
    }

    #[test]
    fn few_holders_are_named_and_the_one_that_matters_among_them() {
        let many: Vec<u32> = (1..=100).collect();
        assert_eq!(few(&many[..3], |_| false), [1, 2, 3]);
        assert_eq!(few(&many, |_| false), many[..MAX_HOLDERS]);
        assert_eq!(few(&many, |pid| pid == 2), many[..MAX_HOLDERS]);
        let found = few(&many, |pid| pid == 77);
        assert!(found.contains(&77) && found.len() == MAX_HOLDERS, "{found:?}");
    }
}

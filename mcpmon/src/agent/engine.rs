//! The thread that owns the kernel sense and the Monitor: records in, judgements out, orders carried out.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mcpmon_common::{
    event::{Action, Counter},
    process::{FileKey, ProcessEntry},
    watch::RULE_CANARY,
};
use mcpmon_core::{
    decide::{Judgement, Monitor, Order, Running, pins::ServerFiles},
    inspect::starter::starter,
    model::{
        Connection, Event, EventKind, Exec, Exit, FileId, Fork, InstanceId, Layer, Outcome, ProcessId,
        ServerId, Severity, Timestamp, Transport,
    },
    policy::{Policy, network::table::Tables},
};
use nix::sys::signal::Signal;
use tokio::sync::oneshot;

use super::{
    clock,
    describe::Describer,
    hashing::{HashJob, HashQueue},
    host,
    inbox::{Inbox, Sender, inbox},
    pins,
    probe::{Probe, Sightings},
};
use crate::{
    intercept::kernel::{
        addresses::{AddressTables, Enforcement, InstallError},
        processes::{ProcessTable, RefusedFiles},
        records::{self, Record},
        rings::Rings,
        sensor::{Attached, Counters, Sensor},
    },
    record::Recorder,
};

/// Messages that wait for the engine at most.
const INBOX: usize = 1024;
/// How often time passes for the Monitor and losses are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often the members of servers are compared with the processes that live.
const RECONCILE: Duration = Duration::from_secs(30);
/// Bytes of a running process's arguments that are read.
const ARGUMENT_LIMIT: u64 = 64 << 10;

/// What other threads ask of the engine.
#[derive(Debug)]
pub(crate) enum Message {
    /// Files of a serving process were hashed.
    Hashed {
        instance: InstanceId,
        process: ProcessId,
        files: Box<ServerFiles>,
    },
    /// Another policy, or other addresses.
    Install {
        policy: Arc<Policy>,
        tables: Arc<Tables>,
        enforcement: Enforcement,
        reply: oneshot::Sender<Result<(), InstallError>>,
    },
    /// Forget the pins of a server, and let its refused files run again.
    ForgetPins {
        server: ServerId,
        reply: oneshot::Sender<()>,
    },
    /// Look out for the self-test's traces; the answer says that it does.
    Probe(Probe, oneshot::Sender<()>),
    /// Which traces were seen.
    Sightings(oneshot::Sender<Sightings>),
    /// What runs, and the counters.
    Snapshot(oneshot::Sender<Snapshot>),
    /// End, and detach.
    Stop,
}

/// The engine's state, for `status`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) running: Vec<Running>,
    pub(crate) counters: Vec<(&'static str, u64)>,
    pub(crate) missing: u64,
    pub(crate) malformed: u64,
    pub(crate) tracked: usize,
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Where messages go.
    pub(crate) sender: Sender<Message>,
    thread: JoinHandle<()>,
}

impl Engine {
    /// Starts the thread. Servers that already run are found before it takes its first record.
    ///
    /// # Errors
    /// Where no thread or socket pair can be made.
    pub(crate) fn start(sensor: Sensor, monitor: Monitor, recorder: Recorder) -> io::Result<Self> {
        let (sender, inbox) = inbox(INBOX)?;
        let hashes = HashQueue::start(sender.clone())?;
        let Sensor {
            rings,
            addresses,
            processes,
            refused,
            counters,
            attached,
        } = sensor;
        let mut core = Core {
            monitor,
            recorder,
            hashes,
            addresses,
            processes,
            refused,
            refusals: BTreeMap::new(),
            counters,
            losses: Losses::default(),
            describer: Describer::default(),
            probe: None,
            boot_to_wall: host::boot_to_wall(),
            _attached: attached,
        };
        let thread = thread::Builder::new().name("engine".to_owned()).spawn(move || {
            core.scan();
            run(core, rings, inbox);
        })?;
        Ok(Self { sender, thread })
    }

    /// Ends the thread and detaches the programs.
    pub(crate) fn stop(self) {
        let stopped = self.sender.send(Message::Stop).is_ok() && self.thread.join().is_ok();
        if !stopped {
            tracing::error!("the engine thread had ended by itself");
        }
    }

    /// Whether the thread still runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }
}

fn run(mut core: Core, mut rings: Rings, mut inbox: Inbox<Message>) {
    let mut next_tick = Instant::now() + TICK;
    let mut next_reconcile = Instant::now() + RECONCILE;
    loop {
        if let Err(error) = rings.wait(Some(inbox.wakes())) {
            tracing::error!(%error, "failed to wait for records from the kernel");
            thread::sleep(TICK);
        }
        core.boot_to_wall = host::boot_to_wall();
        rings.drain(|record| core.record(record));
        inbox.acknowledge();
        while let Some(message) = inbox.next() {
            match message {
                Message::Stop => return,
                other => core.message(other, &rings),
            }
        }
        let now = Instant::now();
        if now >= next_tick {
            next_tick = now + TICK;
            core.tick();
        }
        if now >= next_reconcile {
            next_reconcile = now + RECONCILE;
            core.reconcile();
        }
    }
}

/// Everything but the rings, which are read while this is changed.
struct Core {
    monitor: Monitor,
    recorder: Recorder,
    hashes: HashQueue,
    addresses: AddressTables,
    processes: ProcessTable,
    refused: RefusedFiles,
    /// Which files are refused on behalf of which server.
    refusals: BTreeMap<ServerId, Vec<FileKey>>,
    counters: Counters,
    losses: Losses,
    describer: Describer,
    probe: Option<Probe>,
    boot_to_wall: i64,
    _attached: Attached,
}

impl Core {
    fn record(&mut self, record: Record) {
        let now = self.wall(record.header().time);
        match record {
            Record::Exec(exec) => self.exec(now, &exec),
            Record::Fork(fork) => {
                self.monitor.fork(Fork {
                    process: host::process_id(fork.process),
                    instance: InstanceId(fork.entry.instance),
                });
            }
            Record::Exit(exit) => {
                let judgement = self.monitor.exit(
                    now,
                    Exit {
                        process: host::process_id(exit.process),
                        instance: InstanceId(exit.entry.instance),
                        status: Some(exit.status),
                    },
                );
                self.carry_out(judgement, None);
            }
            Record::Connect(connect) => self.connect(now, &connect),
        }
    }

    fn exec(&mut self, now: Timestamp, exec: &records::Exec) {
        let record = &exec.record;
        let process = host::process_id(record.process);
        if let Some(probe) = &mut self.probe {
            probe.see_exec(exec);
        }
        let observed = Exec {
            process,
            parent: host::process_id(record.parent),
            instance: instance(record.entry),
            pending: record.entry.has(ProcessEntry::FLAG_PENDING),
            // The kernel copies a bounded part; the rest is still there while the process lives.
            argv: if exec.is_cut() {
                host::arguments(process.pid, ARGUMENT_LIMIT)
            } else {
                exec.argv.clone()
            },
            filename: exec.filename.clone(),
            comm: exec.comm.clone(),
            uid: record.uid,
            file: file_id(&record.file),
        };
        let judgement = self.monitor.exec(now, &observed);
        self.carry_out(judgement, Some(record.entry));
    }

    fn connect(&mut self, now: Timestamp, connect: &records::Connect) {
        let record = &connect.record;
        if record.rule == RULE_CANARY {
            if let Some(probe) = &mut self.probe {
                probe.see_connection(connect);
            }
            return;
        }
        let process = host::process_id(record.process);
        let mut event = self.monitor.connection(
            now,
            &Connection {
                process,
                comm: connect.comm.clone(),
                uid: record.uid,
                instance: instance(record.entry),
                rule: Some(record.rule).filter(|rule| *rule != 0),
                address: connect.address,
                given: connect.given,
                port: record.port,
                transport: transport(record.protocol),
                outcome: match connect.action {
                    Action::Allow => Outcome::Passed,
                    Action::Deny => Outcome::Refused,
                    Action::WouldDeny => Outcome::WouldRefuse,
                },
            },
        );
        self.describer.describe(&mut event, process);
        self.recorder.push(event);
    }

    fn message(&mut self, message: Message, rings: &Rings) {
        match message {
            Message::Hashed {
                instance,
                process,
                files,
            } => {
                let judgement = self.monitor.hashed(clock::now(), instance, process, *files);
                self.carry_out(judgement, None);
            }
            Message::Install {
                policy,
                tables,
                enforcement,
                reply,
            } => {
                let outcome = self.addresses.install(&tables, enforcement);
                if outcome.is_ok() {
                    let orders = self.monitor.install(policy, &tables);
                    self.carry_out(
                        Judgement {
                            orders,
                            ..Judgement::default()
                        },
                        None,
                    );
                }
                answer(reply, outcome);
            }
            Message::ForgetPins { server, reply } => {
                self.monitor.set_pins(&server, None);
                for file in self.refusals.remove(&server).unwrap_or_default() {
                    self.refused.accept(&file);
                }
                answer(reply, ());
            }
            Message::Probe(probe, ready) => {
                self.probe = Some(probe);
                answer(ready, ());
            }
            Message::Sightings(reply) => {
                answer(
                    reply,
                    self.probe
                        .as_ref()
                        .map_or_else(Sightings::default, Probe::sightings),
                );
            }
            Message::Snapshot(reply) => answer(
                reply,
                Snapshot {
                    running: self.monitor.running().collect(),
                    counters: self.counters.all().unwrap_or_default(),
                    missing: rings.missing(),
                    malformed: rings.malformed(),
                    tracked: self.processes.iter().count(),
                },
            ),
            Message::Stop => {}
        }
    }

    fn tick(&mut self) {
        let now = clock::now();
        let judgement = self.monitor.tick(now);
        self.carry_out(judgement, None);
        for event in self.losses.look(now, &self.counters) {
            self.recorder.push(event);
        }
    }

    /// Processes whose end was not told (its record was lost) are taken out.
    fn reconcile(&mut self) {
        let running: Vec<Running> = self.monitor.running().collect();
        for server in running {
            for process in server
                .members
                .into_iter()
                .filter(|process| !host::is_alive(*process))
            {
                let exit = Exit {
                    process,
                    instance: server.instance,
                    status: None,
                };
                let judgement = self.monitor.exit(clock::now(), exit);
                self.carry_out(judgement, None);
            }
        }
        let tracked: Vec<u32> = self.processes.iter().map(|(pid, _)| pid).collect();
        for pid in tracked.into_iter().filter(|pid| host::stat(*pid).is_none()) {
            self.processes.remove(pid);
        }
    }

    /// Servers that were started before this daemon.
    fn scan(&mut self) {
        for process in host::all() {
            let Some(stat) = host::stat(process.pid) else {
                continue;
            };
            let entry = self.processes.get(process.pid).unwrap_or_default();
            if entry.instance != 0 {
                continue; // a descendant of one that was found
            }
            let argv = host::arguments(process.pid, ARGUMENT_LIMIT);
            if argv.is_empty() {
                continue; // a kernel thread, or gone
            }
            let exec = Exec {
                process,
                parent: host::identify(stat.parent).unwrap_or_default(),
                instance: None,
                pending: entry.has(ProcessEntry::FLAG_PENDING),
                filename: argv.first().cloned().unwrap_or_default(),
                argv,
                comm: stat.comm,
                uid: host::uid(process.pid).unwrap_or_default(),
                file: FileId::default(),
            };
            let judgement = self.monitor.exec(clock::now(), &exec);
            let launched = judgement
                .orders
                .iter()
                .any(|order| matches!(order, Order::Track { .. }));
            self.carry_out(judgement, Some(entry));
            if launched {
                self.adopt(process.pid);
            }
        }
    }

    /// Lets the Monitor see what a server that already runs has started, in order.
    fn adopt(&mut self, launcher: u32) {
        let instance = self.processes.get(launcher).and_then(instance);
        for pid in host::descendants(launcher) {
            let (Some(process), Some(stat)) = (host::identify(pid), host::stat(pid)) else {
                continue;
            };
            let exec = Exec {
                process,
                parent: host::identify(stat.parent).unwrap_or_default(),
                instance,
                argv: host::arguments(pid, ARGUMENT_LIMIT),
                comm: stat.comm,
                uid: host::uid(pid).unwrap_or_default(),
                ..Exec::default()
            };
            let judgement = self.monitor.exec(clock::now(), &exec);
            self.carry_out(judgement, None);
        }
    }

    fn carry_out(&mut self, judgement: Judgement, entry: Option<ProcessEntry>) {
        for mut event in judgement.events {
            if let Some(process) = event
                .process
                .as_ref()
                .and_then(|process| host::identify(process.pid))
            {
                self.describer.describe(&mut event, process);
            }
            self.recorder.push(event);
        }
        for order in judgement.orders {
            self.order(order, entry);
        }
    }

    fn order(&mut self, order: Order, entry: Option<ProcessEntry>) {
        match order {
            Order::Track {
                process,
                instance,
                egress,
            } => self.track(process, instance, egress),
            Order::Settle { process } => self.settle(process, entry),
            Order::MarkStarter { process } => self.mark_starter(process),
            Order::Hold { process } => signal(process, Signal::SIGSTOP),
            Order::Release { process } => signal(process, Signal::SIGCONT),
            Order::Hash {
                instance,
                process,
                stage,
            } => {
                self.hashes.push(HashJob {
                    instance,
                    process,
                    stage,
                });
            }
            Order::StorePins { server, pins } => {
                for pin in pins::to_rows(&server, &pins, clock::now(), pins::FIRST_USE) {
                    if self.recorder.put_pin(pin).is_err() {
                        tracing::error!(%server, "a pin could not be stored; it holds until the daemon ends");
                    }
                }
            }
            Order::Kill { instance } => self.kill(instance),
            Order::Refuse { server, file } => {
                let key = file_key(&file);
                match self.refused.refuse(key) {
                    Ok(()) => self.refusals.entry(server).or_default().push(key),
                    Err(error) => {
                        tracing::error!(%server, %error, "a changed executable could not be refused")
                    }
                }
            }
        }
    }

    fn track(&mut self, process: ProcessId, instance: InstanceId, egress: u32) {
        let entry = ProcessEntry {
            instance: instance.0,
            egress,
            flags: ProcessEntry::FLAG_AGENT,
            exec: 0,
        };
        if !self.set(process, entry) {
            return;
        }
        // What it started before the entry was there did not inherit it; what it starts now does.
        for pid in host::descendants(process.pid) {
            let known = self.processes.get(pid).is_some_and(|known| known.instance != 0);
            let Some(child) = host::identify(pid).filter(|_| !known) else {
                continue;
            };
            if self.set(child, entry) {
                self.monitor.fork(Fork {
                    process: child,
                    instance,
                });
            }
        }
    }

    /// Writes an entry, and takes it back where the process ended meanwhile: its number may be reused.
    fn set(&mut self, process: ProcessId, entry: ProcessEntry) -> bool {
        if let Err(error) = self.processes.set(process.pid, entry) {
            tracing::error!(%error, pid = process.pid, "a process could not be tracked");
            return false;
        }
        if !host::is_alive(process) {
            self.processes.remove(process.pid);
            return false;
        }
        true
    }

    fn settle(&mut self, process: ProcessId, entry: Option<ProcessEntry>) {
        let Some(mut current) = self.processes.get(process.pid) else {
            return;
        };
        if entry.is_some_and(|seen| seen.exec != current.exec) {
            return; // it has become another program, which is judged next
        }
        current.flags &= !ProcessEntry::FLAG_PENDING;
        if current.flags == 0 && current.instance == 0 {
            self.processes.remove(process.pid);
        } else {
            self.set(process, current);
        }
    }

    fn mark_starter(&mut self, parent: ProcessId) {
        let Some(agent) = starter(&host::ancestors(parent)) else {
            return;
        };
        let tree = host::descendants(agent.pid)
            .into_iter()
            .filter_map(host::identify);
        for process in std::iter::once(agent).chain(tree) {
            let mut entry = self.processes.get(process.pid).unwrap_or_default();
            if !entry.has(ProcessEntry::FLAG_AGENT) {
                entry.flags |= ProcessEntry::FLAG_AGENT;
                self.set(process, entry);
            }
        }
    }

    fn kill(&mut self, instance: InstanceId) {
        let doomed: Vec<u32> = self
            .processes
            .iter()
            .filter(|(_, entry)| entry.instance == instance.0)
            .map(|(pid, _)| pid)
            .collect();
        for process in doomed.into_iter().filter_map(host::identify) {
            signal(process, Signal::SIGKILL);
        }
    }

    fn wall(&self, boot: u64) -> Timestamp {
        Timestamp(
            i64::try_from(boot)
                .unwrap_or(i64::MAX)
                .saturating_add(self.boot_to_wall),
        )
    }
}

/// What the kernel's counters said when they were last looked at.
#[derive(Debug, Default)]
struct Losses {
    last: BTreeMap<u32, u64>,
}

impl Losses {
    const WATCHED: [(Counter, &'static str); 4] = [
        (Counter::ExecLost, "kernel ring: execs"),
        (Counter::ProcessLost, "kernel ring: forks and exits"),
        (Counter::ConnectLost, "kernel ring: connections"),
        (
            Counter::DeniedLost,
            "kernel ring: refusals (the refusals themselves were carried out)",
        ),
    ];

    /// An event for each kind of record that was lost since the last look.
    fn look(&mut self, now: Timestamp, counters: &Counters) -> Vec<Event> {
        let grown = |(counter, place): (Counter, &'static str)| {
            let count = counters.get(counter).ok()?;
            let last = self.last.insert(counter as u32, count).unwrap_or(0);
            (count > last).then(|| {
                let kind = EventKind::EventsLost {
                    place: place.to_owned(),
                    count: count - last,
                };
                let mut event = Event::new(now, Layer::Kernel, kind);
                event.severity = Severity::Medium;
                event
            })
        };
        Self::WATCHED.into_iter().filter_map(grown).collect()
    }
}

/// The receiver may have given up; then nobody needs the answer.
fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    drop(reply.send(value));
}

fn signal(process: ProcessId, signal: Signal) {
    if let Err(error) = host::signal(process, signal) {
        tracing::debug!(%error, pid = process.pid, %signal, "a process was gone before its signal");
    }
}

const fn instance(entry: ProcessEntry) -> Option<InstanceId> {
    if entry.instance == 0 {
        None
    } else {
        Some(InstanceId(entry.instance))
    }
}

const fn file_id(key: &FileKey) -> FileId {
    FileId {
        device: key.device,
        inode: key.inode,
        size: key.size,
        ctime: key.ctime,
    }
}

const fn file_key(id: &FileId) -> FileKey {
    FileKey {
        device: id.device,
        inode: id.inode,
        size: id.size,
        ctime: id.ctime,
        reserved: 0,
    }
}

/// `IPPROTO_*` of the socket; MPTCP reports itself as TCP or 262, which does not fit a byte.
const fn transport(protocol: u8) -> Transport {
    match protocol {
        6 => Transport::Tcp,
        17 | 136 => Transport::Udp,
        _ => Transport::Other,
    }
}

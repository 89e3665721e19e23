//! The engine: the thread that owns the kernel sensor and the Monitor. It reads records, has them judged, and carries
//! out the effects.

mod coalesce;
mod connections;
mod crowded;
mod denials;
mod descent;
mod effects;
mod fair;
mod holding;
mod losses;
mod message;
mod observe;
mod proxied;
mod questions;
mod resume;
mod tapping;
mod troubles;
mod wrapped;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mcpmon_common::process::FileKey;
use mcpmon_engine::{Monitor, MonitoredServer, Observation, ProxiedSession};
use mcpmon_kernel::{
    addresses::AddressTables,
    notes::{Notes, Pulse},
    processes::{AgentNames, ProcessTable, RefusedFiles},
    records::Record,
    rings::Rings,
    sensor::{Attached, Counters, Sensor},
};
use mcpmon_model::{Event, EventKind, Exit, InstanceId, ProcessId, ServerId};
use mcpmon_policy::network::table::Tables;
use mcpmon_session::clock;
use mcpmon_store::Recorder;
use tokio::sync::{mpsc::error::TrySendError, oneshot, watch};

pub use self::wrapped::Coverage;
use self::{
    coalesce::Coalescer, connections::ConnectionReviews, denials::Denials, fair::FairQueue, holding::Holds,
    losses::Losses, questions::Questions, tapping::Tapping, troubles::Troubles, wrapped::Starts,
};
pub(crate) use self::{
    message::{EngineMessage, EngineSnapshot},
    questions::{FateQuestion, WrapperQuestion},
    resume::KERNEL_STATE,
    troubles::Degraded,
};
use super::{
    describe::Describer,
    handover::Handover,
    hashing::{HandedFiles, HashQueue},
    host,
    inbox::{Inbox, Sender, inbox},
    linked::LinkFollower,
    probe::{Probe, Sightings},
    runs::Group,
    status::KeptStatus,
    wrappers::Wrappers,
};

/// Most messages that wait for the engine.
const INBOX: usize = 1024;
/// The interval at which the Monitor's clock ticks and losses are checked.
const TICK: Duration = Duration::from_secs(1);
/// The interval at which the members of servers are compared with the living processes.
const RECONCILE: Duration = Duration::from_secs(30);
/// The shortest time between two scans for lost starts: a process that causes losses must not keep the engine busy with
/// scans.
const RESCAN: Duration = Duration::from_secs(10);

/// The component that is degraded if files are compared without a watch.
const FILE_WATCH: &str = "file watch";

/// The time for which the engine's end waits for the comparison of held servers.
const LAST_COMPARISONS: Duration = Duration::from_secs(2);

/// The time for which files that a wrapper held open are kept for hashing. It is longer than the two seconds after
/// which a shell counts as the server.
const HANDED: Duration = Duration::from_secs(10);
/// Most processes whose held files are kept. Each needs two descriptors.
const MAX_HANDED: usize = 256;

/// The longest time to wait for an answer of the engine. It only reads `/proc` and sends signals, so a longer time
/// means that it is stuck; others must not wait for that.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);

/// The running thread.
#[derive(Debug)]
pub(crate) struct Engine {
    /// The sender of messages.
    pub(crate) sender: Sender<EngineMessage>,
    /// The components that are degraded, as the engine reports them.
    pub(crate) degraded: watch::Receiver<Degraded>,
    /// Number of turns of the thread's loop: the thread works as long as it grows.
    turns: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Engine {
    /// Starts the thread. Running servers are searched before it reads its first record.
    ///
    /// # Errors
    /// Returns an error if a thread or socket pair cannot be made.
    pub(crate) fn start(
        sensor: Sensor,
        monitor: Monitor,
        recorder: Recorder,
        wrappers: Wrappers,
        handover: Handover,
        not_kept: Option<String>,
        tables: Arc<Tables>,
    ) -> io::Result<Self> {
        let (sender, inbox) = inbox(INBOX)?;
        let hashes = HashQueue::start(sender.clone())?;
        let Sensor {
            mut rings,
            addresses,
            processes,
            refused,
            agents,
            gate,
            starts,
            counters,
            notes,
            pulse,
            // The daemon has both.
            log: _,
            reserved: _,
            attached,
            adopted,
        } = sensor;
        let (tell_degraded, degraded) = watch::channel(Degraded::new());
        let mut core = Core {
            monitor,
            recorder,
            wrappers,
            starts: Starts::default(),
            tapping: Tapping::default(),
            groups: Vec::new(),
            hashes,
            addresses,
            processes,
            refused,
            refusals: BTreeMap::new(),
            agents,
            holds: Holds::new(gate, starts),
            doomed: BTreeSet::new(),
            handed: BTreeMap::new(),
            denials: Denials::default(),
            waiting: FairQueue::default(),
            questions: Questions::default(),
            uncompared: Vec::new(),
            counters,
            losses: Losses::since(handover.told.clone()),
            troubles: Troubles::default(),
            links: LinkFollower::default(),
            degraded: tell_degraded,
            scan: ProcessScan::done(),
            describer: Describer::new(attached.root().directory.try_clone()?),
            coalescer: Coalescer::default(),
            probe: None,
            boot_to_wall: host::boot_to_wall(),
            attached,
            notes,
            pulse,
            has_news: true,
            not_kept,
            handover,
            tables,
            reviews: ConnectionReviews::new(sender.clone()),
        };
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        let thread = thread::Builder::new().name("engine".to_owned()).spawn(move || {
            let stopped = std::mem::take(&mut core.handover.stopped);
            if let Some(adopted) = adopted {
                core.resume(adopted, stopped, &mut rings);
            }
            core.scan();
            core.restore();
            core.reviews.ask();
            run(core, rings, inbox, &counted);
        })?;
        Ok(Self {
            sender,
            degraded,
            turns,
            thread,
        })
    }

    /// Ends the thread, and detaches programs that are not kept. A thread that is stuck ends with the process.
    pub(crate) fn stop(self) {
        let mut sent = self.sender.try_send(EngineMessage::Stop);
        let deadline = Instant::now() + TIMEOUT;
        while self.is_running() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
            if matches!(sent, Err(TrySendError::Full(_))) {
                sent = self.sender.try_send(EngineMessage::Stop);
            }
        }
        if self.is_running() {
            tracing::error!(
                "the engine thread does not answer; programs that are not kept are detached when the process ends"
            );
        } else if sent.is_err() || self.thread.join().is_err() {
            tracing::error!("the engine thread had ended by itself");
        }
    }

    /// Returns the number of turns of the thread's loop.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Returns whether the thread still runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }
}

fn run(mut core: Core, mut rings: Rings, mut inbox: Inbox<EngineMessage>, turns: &AtomicU64) {
    core.beat();
    let mut next_tick = Instant::now() + TICK;
    let mut next_reconcile = Instant::now() + RECONCILE;
    let mut ends_at = None;
    loop {
        turns.fetch_add(1, Ordering::Relaxed);
        core.keep_gate(Instant::now());
        if core.questions.is_empty()
            && core.waiting.is_empty()
            && let Err(error) = rings.wait(Some(inbox.wakes()))
        {
            tracing::error!(%error, "failed to wait for records from the kernel");
            thread::sleep(TICK);
        }
        core.boot_to_wall = host::boot_to_wall();
        let connections = core.read(&mut rings);
        core.judge_waiting();
        // Connections are not reported before the starts that precede them, unless there is a backlog.
        for record in connections {
            core.record(record);
        }
        core.expire_candidates(Instant::now());
        core.answer_questions();
        // Written before answers are sent, so that after a crash the next daemon knows every server that was reported.
        core.write_handover();
        inbox.acknowledge();
        while let Some(message) = inbox.next() {
            if let EngineMessage::Stop = message {
                core.holds.close();
                ends_at.get_or_insert_with(|| Instant::now() + LAST_COMPARISONS);
            }
            core.message(message, &rings);
        }
        if ends_at.is_some_and(|end| !core.holds.is_any_held() || Instant::now() >= end) {
            // Records that the kernel wrote since the last read are from before the end, too.
            core.judge_rest(&mut rings);
            return core.end();
        }
        core.answer_compared();
        core.write_handover();
        let now = Instant::now();
        core.tell_repeats(now);
        core.review_connections(now);
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

/// The engine's state without the rings, which are read while the state changes.
struct Core {
    monitor: Monitor,
    recorder: Recorder,
    wrappers: Wrappers,
    starts: Starts,
    tapping: Tapping,
    /// Control groups of sessions with a proxy.
    groups: Vec<(ProxiedSession, Group)>,
    hashes: HashQueue,
    addresses: AddressTables,
    processes: ProcessTable,
    refused: RefusedFiles,
    /// The refused files of each server.
    refusals: BTreeMap<ServerId, Vec<FileKey>>,
    agents: AgentNames,
    /// Processes that are held until their files are compared.
    holds: Holds,
    /// Servers that are being stopped.
    doomed: BTreeSet<InstanceId>,
    /// The files of started processes, as far as they are known without them, until these are hashed.
    handed: BTreeMap<ProcessId, HandedFiles>,
    denials: Denials,
    /// Records of processes that are not judged yet.
    waiting: FairQueue<Record>,
    questions: Questions,
    /// The wrappers' questions about servers that are held until they are compared.
    uncompared: Vec<FateQuestion>,
    counters: Counters,
    losses: Losses,
    troubles: Troubles,
    links: LinkFollower,
    degraded: watch::Sender<Degraded>,
    scan: ProcessScan,
    describer: Describer,
    coalescer: Coalescer,
    probe: Option<Probe>,
    boot_to_wall: i64,
    attached: Attached,
    notes: Notes,
    pulse: Pulse,
    handover: Handover,
    /// True if the notes in the kernel are not up to date with the handover.
    has_news: bool,
    /// The reason why the state in the kernel ends with this process, if it does.
    not_kept: Option<String>,
    /// The tables in force.
    tables: Arc<Tables>,
    reviews: ConnectionReviews,
}

/// The time of the last scan of processes, and whether another one is needed.
#[derive(Debug)]
struct ProcessScan {
    done: Instant,
    wanted: bool,
}

impl ProcessScan {
    fn done() -> Self {
        Self {
            done: Instant::now(),
            wanted: false,
        }
    }
}

impl Core {
    fn message(&mut self, message: EngineMessage, rings: &Rings) {
        match message {
            EngineMessage::Hashed {
                instance,
                attempt,
                files,
                environment,
            } => {
                let now = clock::now();
                let hashed = Observation::Hashed {
                    instance,
                    attempt,
                    files,
                    environment,
                };
                let judgement = self.monitor.observe(now, hashed);
                self.carry_out_about(Some(instance), judgement, None);
            }
            EngineMessage::Touched {
                instance,
                attempt,
                path,
            } => {
                let touched = Observation::Touched {
                    instance,
                    attempt,
                    path,
                };
                let judgement = self.monitor.observe(clock::now(), touched);
                self.carry_out_about(Some(instance), judgement, None);
            }
            EngineMessage::Unwatched { cause } => {
                self.troubles.note(Instant::now(), FILE_WATCH, &cause);
            }
            EngineMessage::Crowded {
                instance,
                uid,
                is_crowded,
            } => self.crowded(instance, uid, is_crowded),
            EngineMessage::Install {
                policy,
                tables,
                enforcement,
                agents,
                kills,
                numbering,
                resolved,
                reply,
            } => {
                if reply.is_closed() {
                    return; // the sender has given up, and the previous policy stays in force
                }
                let outcome = self.addresses.install(&tables, enforcement);
                if outcome.is_ok() {
                    self.handover.numbering = numbering;
                    self.handover.set_resolved(&resolved);
                    self.has_news = true;
                    if let Err(error) = self.agents.replace(&agents) {
                        tracing::error!(%error, "not every name of an agent fits the kernel's table");
                    }
                    let changed = !Arc::ptr_eq(self.monitor.policy(), &policy);
                    let judgement = self.monitor.install(clock::now(), policy, &tables);
                    self.carry_out(judgement, None);
                    let judgement = self.monitor.stop(kills);
                    self.carry_out(judgement, None);
                    self.tables = tables;
                    self.reviews.ask();
                    if changed {
                        self.troubles.crowded.clear();
                        self.scan(); // servers that only this policy recognises may be running
                    }
                }
                answer(reply, outcome);
            }
            EngineMessage::ForgetPins { server, reply } => {
                let had_pins = self.monitor.forget_pins(&server);
                self.accept_files(&server);
                answer(reply, had_pins);
            }
            EngineMessage::TrustRefused { server, reply } => {
                let added = self.monitor.trust_refused(&server);
                if added.is_some() {
                    self.accept_files(&server);
                }
                answer(reply, added);
            }
            EngineMessage::TrustExecutable { executable, reply } => {
                let added = self.monitor.trust_executable(&executable);
                for added in &added {
                    self.accept_files(&added.set.key.server);
                }
                answer(reply, added);
            }
            EngineMessage::EnterSession {
                proxied,
                group,
                reply,
            } => {
                self.enter(proxied, group);
                answer(reply, ());
            }
            EngineMessage::IsWatched { process, reply } => answer(reply, self.is_watched(process)),
            EngineMessage::SessionOver(session) => self.session_over(session),
            EngineMessage::OpenSockets(survey) => self.open_sockets(survey),
            EngineMessage::Cut(cuts) => self.told_cut(&cuts),
            EngineMessage::AfterRecords(question) => self.ask(question),
            EngineMessage::Probe(probe, ready) => {
                self.probe = Some(probe);
                answer(ready, ());
            }
            EngineMessage::Sightings(reply) => {
                answer(
                    reply,
                    self.probe
                        .as_ref()
                        .map_or_else(Sightings::default, Probe::sightings),
                );
            }
            EngineMessage::Keep => self.keep(),
            EngineMessage::Tap(handle) => self.use_tap(handle),
            EngineMessage::Snapshot(reply) => answer(
                reply,
                EngineSnapshot {
                    running: self.monitor.running().collect(),
                    without_room: self.monitor.without_room(),
                    counters: self.all_counters(),
                    missing: rings.missing(),
                    malformed: rings.malformed(),
                    tracked: self.processes.iter().count(),
                    coverage: self.starts.coverage,
                    kept: self.attached.kept_in().map(|pins| KeptStatus {
                        directory: pins.path().to_owned(),
                        since: self.handover.since.clone(),
                    }),
                },
            ),
            EngineMessage::Stop => {}
        }
    }

    /// Gives the kernel programs a sign of life. Without one they stop enforcing rules that would cut off the whole
    /// host.
    fn beat(&mut self) {
        if let Err(error) = self.pulse.beat() {
            let cause = format!("no sign of life can be given: {error}");
            self.troubles.note(Instant::now(), KERNEL_STATE, &cause);
        }
    }

    fn tick(&mut self) {
        self.beat();
        self.look_for_ended_clients();
        let now = clock::now();
        let judgement = self.monitor.observe(now, Observation::Tick);
        self.carry_out(judgement, None);
        if !self.doomed.is_empty() {
            self.kill_doomed();
        }
        self.look_at_holds();
        self.look_again(Instant::now());
        self.tell_waiting(Instant::now());
        self.handed.retain(|_, handed| handed.since.elapsed() < HANDED);
        let monitor = &self.monitor;
        self.starts.descent.retain(|instance| monitor.follows(instance));
        self.release_tapped();
        self.look_for_losses();
        if self.scan.wanted && self.scan.done.elapsed() >= RESCAN {
            self.scan();
            self.scan = ProcessScan::done();
        }
        let now = Instant::now();
        for gap in self.attached.gaps() {
            self.troubles.note(now, gap.component, &gap.to_string());
        }
        let mut degraded = self.troubles.at(now);
        if let Some(cause) = &self.not_kept {
            degraded.insert(KERNEL_STATE.to_owned(), cause.clone());
        }
        self.degraded.send_if_modified(|told| {
            let changed = *told != degraded;
            *told = degraded;
            changed
        });
    }

    /// Ends everything that is held or waiting, and writes the last notes.
    fn end(&mut self) {
        self.end_holds();
        self.lift_pending();
        self.tell_all_waiting();
        for event in self.coalescer.finish() {
            self.recorder.push(event);
        }
        self.handover.stopped = true;
        self.has_news = true;
        self.write_handover();
    }

    /// Records an event of the Monitor. A degraded component is reported by the daemon's health instead, once and not
    /// for every process.
    fn tell(&mut self, event: Event) {
        if let EventKind::EnforcementDegraded { component, cause } = &event.kind {
            self.troubles.note(Instant::now(), component, cause);
        } else {
            self.recorder.push(event);
        }
    }

    /// Removes processes whose end was not reported because its record was lost.
    fn reconcile(&mut self) {
        let running: Vec<MonitoredServer> = self.monitor.running().collect();
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
                let judgement = self.monitor.observe(clock::now(), Observation::Exit(exit));
                self.carry_out(judgement, None);
            }
        }
        let tracked: Vec<u32> = self.processes.iter().map(|(pid, _)| pid).collect();
        for pid in tracked.into_iter().filter(|pid| host::is_gone(*pid)) {
            self.forget(pid);
        }
        self.judge_pending();
        self.look_into_groups();
        if self.not_kept.is_some() {
            self.keep();
        }
    }
}

/// Sends an answer. If the receiver has given up, the answer is dropped.
fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    drop(reply.send(value));
}

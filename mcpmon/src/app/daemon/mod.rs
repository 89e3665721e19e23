//! `mcpmon daemon`: starts every part in order, applies changes of policy and names to all of them, and stops them.

pub(crate) mod bundle;
mod kill;
mod llm;
mod policy;
mod report;
mod returning;
mod sensing;
mod standby;
mod tap;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use mcpmon_config::{ConfigError, LoadedConfiguration, Reloader, Search, Trust};
use mcpmon_engine::Monitor;
use mcpmon_kernel::{
    addresses::InstallError,
    links::{LinkState, Links},
    preflight,
    sensor::SensorError,
    starts::{StartCanary, Unproved},
};
use mcpmon_model::{EventKind, InstanceId, Kills, Timestamp};
use mcpmon_policy::{
    HostName,
    network::table::{CompileError, Numbering, ResolvedNames, Tables},
};
use mcpmon_session::{Policies, clock, models::Models};
use mcpmon_store::{
    Access, DAEMON_STORE, OpenError, QueryError, Recorder, RecorderSettings, SinkSettings, Sole, SoleError,
    Span, StoreEntry, StoreError, StoreLocation, Urgency, WATCH_INTERVAL, metrics::Metrics,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval},
};

use self::{
    policy::{agent_names, enforcement, wants},
    returning::{STORE_FILE, StoreReturn},
    standby::{ReturnError, ReturnedStore},
};
use super::{
    bundle::{FetchedBundle, HostBundle, WantedBundle, keep_fetched},
    control::{self, ControlRequest, ControlServer, DaemonAnswer, ListenError, SocketFile},
    declared::declare,
    engine::{Degraded, Engine, EngineMessage, KERNEL_STATE, TIMEOUT},
    group,
    health::Health,
    metrics::{DaemonMetrics, MetricsEndpoint},
    names::{self, NameNews, ResolvedTable, WantedNames},
    notify::{Notifier, NotifyError},
    proxy::{Tokens, host_options},
    runs::Runs,
    selftest::SelfTestCheck,
    status::Status,
    wrappers::Wrappers,
};

/// The default store.
pub const DEFAULT_STORE: &str = DAEMON_STORE;
/// The interval at which the policy's files are checked.
const POLICY_INTERVAL: Duration = Duration::from_secs(2);
/// The interval of the self-test.
const SELF_TEST_INTERVAL: Duration = Duration::from_secs(60);
/// The interval at which the store and the engine are checked.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

/// The options of the command line.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The places of the policy.
    pub search: Search,
    /// The store; if unset, the policy's `record.path` or [`DEFAULT_STORE`].
    pub store: Option<PathBuf>,
    /// The control socket.
    pub socket: PathBuf,
    /// The directory for the state that stays in the kernel when the daemon ends.
    pub bpffs: PathBuf,
    /// True if the log lines of the kernel programs are shown.
    pub kernel_log: bool,
}

/// The reason why the daemon cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The network rules do not fit the kernel's tables.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another daemon uses the store, or it cannot be locked.
    #[error(transparent)]
    Sole(#[from] SoleError),
    /// The store cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store's pins cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The kernel programs cannot be started.
    #[error(transparent)]
    Sensor(#[from] SensorError),
    /// The log of the kernel programs was asked for, and they were built without it.
    #[error("the kernel programs were built without a log")]
    NoKernelLog,
    /// The address lists cannot be installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The control socket cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A thread, a signal handler or the runtime cannot be started.
    #[error("failed to start")]
    Start(#[source] io::Error),
    /// The thread that owns the kernel sensor has ended.
    #[error("the engine thread ended by itself: nothing is watched any more")]
    EngineEnded,
    /// The engine thread runs and does not answer.
    #[error("the engine thread does not answer: starts of servers are not judged; restart the daemon")]
    EngineStuck,
}

/// Runs until a signal ends the daemon.
///
/// # Errors
/// Returns an error if a part cannot start; only what an earlier daemon left in the kernel is enforced then.
pub fn run(options: DaemonOptions) -> Result<(), DaemonError> {
    mcpmon_http::take_listeners();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::Start)?;
    let (outcome, sole) = runtime.block_on(async {
        let (mut daemon, inputs) = Daemon::start(options)?;
        let outcome = daemon.serve(inputs).await;
        Ok::<_, DaemonError>((outcome, daemon.stop()))
    })?;
    // Remaining tasks may use the store until they end.
    drop(runtime);
    drop(sole);
    outcome
}

struct Daemon {
    started: Instant,
    /// The time since which the kernel programs are attached.
    watching_since: Timestamp,
    loaded: LoadedConfiguration,
    rejected: Vec<String>,
    reloader: Reloader,
    numbering: Numbering,
    resolved: ResolvedNames,
    failures: BTreeMap<HostName, String>,
    /// Addresses that could not be put in force, and the time of the attempt.
    late: Option<(ResolvedTable, Instant)>,
    tables: Arc<Tables>,
    kills: Kills,
    wanted: watch::Sender<WantedNames>,
    bundle: HostBundle,
    wanted_bundle: watch::Sender<WantedBundle>,
    engine: Engine,
    recorder: Recorder,
    wrappers: Wrappers,
    runs: Runs,
    proxy: llm::DaemonProxy,
    tap: tap::DaemonTap,
    location: StoreLocation,
    /// The lock by which no other daemon uses the store.
    sole: Sole,
    /// The return to the own store, while a standby store is in use.
    returning: Option<StoreReturn>,
    socket: SocketFile,
    bpffs: PathBuf,
    cgroup: PathBuf,
    health: Health,
    engine_degraded: Degraded,
    /// The links that hold the kernel programs, and their state at the latest check.
    links: Links,
    /// The proof that starts are checked; the reason if there can be none.
    canary: Arc<Mutex<Result<StartCanary, Unproved>>>,
    link_states: Vec<LinkState>,
    checks: Vec<SelfTestCheck>,
    checked_at: Option<String>,
    testing: bool,
    /// The end of the latest self-test; before the first one, the start of the daemon.
    tested: Instant,
    waiting: Vec<oneshot::Sender<DaemonAnswer>>,
    checked: mpsc::Sender<Vec<SelfTestCheck>>,
    returned: mpsc::Sender<Result<ReturnedStore, ReturnError>>,
    notifier: Option<Notifier>,
    metrics: MetricsEndpoint,
    /// Receives whether everything works; the value is exported as an attribute of the resource.
    effective: Metrics,
    /// Number of turns of the engine when the service manager was last notified.
    engine_turns: u64,
    /// The latest state that users who see only their own were shown, and its time.
    shown: Option<(Instant, Status)>,
}

/// The inputs of the main task.
struct Inputs {
    asked: mpsc::Receiver<ControlRequest>,
    asked_by_root: mpsc::Receiver<ControlRequest>,
    found: mpsc::Receiver<NameNews>,
    fetched: mpsc::Receiver<FetchedBundle>,
    checked: mpsc::Receiver<Vec<SelfTestCheck>>,
    returned: mpsc::Receiver<Result<ReturnedStore, ReturnError>>,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Daemon {
    /// Starts all parts. Must be called within a runtime, because it spawns tasks and catches signals.
    fn start(options: DaemonOptions) -> Result<(Self, Inputs), DaemonError> {
        sensing::check_log(options.kernel_log)?;
        // Checked first: without privileges everything else fails too, with less helpful errors.
        let missing = preflight::missing();
        if !missing.is_empty() {
            return Err(SensorError::Missing(missing).into());
        }
        let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
        let own = mcpmon_config::load(&options.search, trust)?;
        let (listener, socket) = control::listen(&options.socket)?;
        let store = options
            .store
            .or_else(|| own.settings.record.path.clone())
            .unwrap_or_else(|| DEFAULT_STORE.into());
        let mut reloader = Reloader::new(options.search.clone(), trust, &own);
        let (loaded, bundle) = bundle::resume(&store, own, &mut reloader);
        let record = &loaded.settings.record;
        let access = Access { group: group::find() };
        let directory = options.socket.parent().unwrap_or_else(|| Path::new("."));
        let standby::OpenedStore {
            location,
            writer,
            kills,
            pins: known_pins,
            standby,
            sole,
        } = standby::open(&store, access, directory)?;
        let metrics = Metrics::default();
        let recorder = Recorder::start(RecorderSettings {
            access,
            sinks: SinkSettings {
                metrics: Some(metrics.clone()),
                ..record.sinks.clone()
            },
            retention: record.retention,
            max_size: record.max_size,
            location: location.clone(),
            ..RecorderSettings::new(&store)
        })?;
        let forgotten = recorder.put(StoreEntry::ForgetRunning, Urgency::InOrder);
        if forgotten.is_err() {
            tracing::warn!("the store may list servers of an earlier run as running");
        }
        let (mut sensor, not_kept) = sensing::start(&options.bpffs, &agent_names(&loaded))?;
        if options.kernel_log {
            sensing::show_log(&mut sensor);
        }
        let reservation = llm::Reservation::new(sensor.reserved.take(), not_kept.is_none());
        let mut handover = sensing::read_handover(&sensor);
        let resolved = handover.resolved();
        // The tables of an earlier daemon are in force until these are complete; the handover keeps the meaning of its
        // numbers.
        let mut numbering = handover.numbering.clone();
        let tables = Arc::new(policy::tables(&loaded, &kills, &resolved, &mut numbering)?);
        sensor.addresses.install(&tables, enforcement(&loaded, &kills))?;
        let cgroup = sensor.attached.root().path.clone();
        let links = sensor.attached.links().clone();
        let canary = Arc::new(Mutex::new(sensor.attached.start_canary()));
        let mut monitor = Monitor::new(Arc::clone(&loaded.policy), &tables, known_pins);
        drop(monitor.stop(kills.clone())); // no process is known yet
        if sensor.adopted.is_some() {
            let last = sensor.processes.iter().map(|(_, entry)| entry.instance).max();
            // The handover still has the rules that the policy no longer contains.
            let rules = handover.numbering.rules().collect();
            monitor.remember(handover.instances(), rules, InstanceId(last.unwrap_or(0)));
        }
        handover.numbering = numbering.clone();
        declare(&recorder, &loaded);
        let wrappers = Wrappers::new(recorder.clone(), writer, loaded.hash, Arc::clone(&loaded.text))
            .map_err(DaemonError::Start)?;
        handover.version = env!("CARGO_PKG_VERSION").to_owned();
        let engine = Engine::start(
            sensor,
            monitor,
            recorder.clone(),
            wrappers.clone(),
            handover,
            not_kept,
            Arc::clone(&tables),
        )
        .map_err(DaemonError::Start)?;
        wrappers.tell(engine.sender.clone());

        let host = host_options(
            options.search.clone(),
            trust,
            options.socket.clone(),
            Some(store.clone()),
        );
        let policies = Policies::of_host(loaded.clone(), recorder.clone(), clock::now);
        let models = Models::of_daemon(
            policies.clone(),
            recorder.clone(),
            &host,
            Arc::new(wrappers.clone()),
        );
        let tokens = Tokens::default();
        let settings = RecorderSettings {
            access,
            location: location.clone(),
            ..RecorderSettings::new(&store)
        };
        let hosting = llm::hosting(&wrappers, settings, &host)?;
        let tap = tap::DaemonTap::new(hosting.clone(), policies.clone());
        let remotes = llm::remotes(policies, hosting, tokens.clone());
        let (proxy, offered) = llm::DaemonProxy::new(models, remotes, reservation);
        let runs = Runs::new(
            wrappers.clone(),
            tokens,
            engine.sender.clone(),
            offered,
            location.clone(),
            cgroup.clone(),
        );
        let (wanted, wants) = watch::channel(wants(&loaded));
        let (tell_found, found) = mpsc::channel(4);
        names::start(wants, resolved.sightings(), tell_found);
        let (wanted_bundle, wants_bundle) = watch::channel(bundle::wanted(&loaded));
        let (tell_fetched, fetched) = mpsc::channel(1);
        tokio::spawn(keep_fetched(wants_bundle, tell_fetched));
        let (tell_checked, checked) = mpsc::channel(4);
        let (tell_returned, returned) = mpsc::channel(1);
        let (ask, asked) = mpsc::channel(16);
        let (ask_by_root, asked_by_root) = mpsc::channel(16);
        let server = ControlServer::new(ask.clone(), ask_by_root, wrappers.clone(), runs.clone());
        tokio::spawn(server.serve(listener));
        let inputs = Inputs {
            asked,
            asked_by_root,
            found,
            fetched,
            checked,
            returned,
            terminate: signal(SignalKind::terminate()).map_err(DaemonError::Start)?,
            interrupt: signal(SignalKind::interrupt()).map_err(DaemonError::Start)?,
            hangup: signal(SignalKind::hangup()).map_err(DaemonError::Start)?,
        };
        let effective = metrics.clone();
        let metrics = DaemonMetrics::new(metrics, ask);
        if loaded
            .settings
            .record
            .sinks
            .otlp
            .as_ref()
            .is_some_and(|otlp| otlp.signals.metrics)
        {
            tokio::spawn(metrics.clone().keep_fresh());
        }
        let mut daemon = Self {
            started: Instant::now(),
            watching_since: clock::now(),
            reloader,
            rejected: Vec::new(),
            numbering,
            resolved,
            failures: BTreeMap::new(),
            late: None,
            tables,
            kills,
            wanted,
            bundle,
            wanted_bundle,
            engine,
            recorder,
            wrappers,
            runs,
            proxy,
            tap,
            location,
            sole,
            returning: standby.clone().map(StoreReturn::new),
            socket,
            bpffs: options.bpffs,
            cgroup,
            health: Health::default(),
            engine_degraded: Degraded::new(),
            link_states: links.states().map(|(_, state)| state).collect(),
            links,
            canary,
            checks: Vec::new(),
            checked_at: None,
            testing: false,
            tested: Instant::now(),
            waiting: Vec::new(),
            checked: tell_checked,
            returned: tell_returned,
            notifier: notifier(),
            metrics: MetricsEndpoint::new(metrics),
            effective,
            engine_turns: 0,
            shown: None,
            loaded,
        };
        if daemon.engine.sender.try_send(EngineMessage::Keep).is_err() {
            return Err(DaemonError::EngineEnded);
        }
        daemon.look_after_tap();
        daemon.tell_policy();
        daemon.note_bundle();
        daemon.note(STORE_FILE, standby.map(|standby| standby.trouble));
        Ok((daemon, inputs))
    }

    async fn serve(&mut self, mut inputs: Inputs) -> Result<(), DaemonError> {
        let mut policy = ticker(POLICY_INTERVAL);
        let mut self_test = ticker(SELF_TEST_INTERVAL);
        let mut health = ticker(HEALTH_INTERVAL);
        let mut watch = ticker(WATCH_INTERVAL);
        tracing::info!(store = %self.location.path().display(), socket = %self.socket.path().display(), "started");
        loop {
            tokio::select! {
                // In this order, so that no user's requests delay root's.
                biased;
                _ = inputs.terminate.recv() => return Ok(()),
                _ = inputs.interrupt.recv() => return Ok(()),
                Some(asked) = inputs.asked_by_root.recv() => self.answer(asked).await,
                _ = inputs.hangup.recv() => {
                    self.poll_policy(mcpmon_config::ReloadOccasion::ByPerson).await;
                    self.want_bundle(true);
                }
                _ = policy.tick() => self.poll_policy(mcpmon_config::ReloadOccasion::ByClock).await,
                _ = self_test.tick() => self.start_self_test(),
                _ = watch.tick() => self.tell_watch(),
                _ = health.tick() => {
                    self.look_after()?;
                    self.catch_up().await;
                }
                Some(found) = inputs.found.recv() => self.take_names(found).await,
                Some(fetched) = inputs.fetched.recv() => self.take_fetched(fetched).await,
                Some(checks) = inputs.checked.recv() => self.take_checks(checks),
                Some(returned) = inputs.returned.recv() => self.take_returned(returned),
                Some(asked) = inputs.asked.recv() => self.answer(asked).await,
            }
        }
    }

    /// Stops every part. Returns the lock of the store, which must be dropped last.
    fn stop(self) -> Sole {
        self.notify(Notifier::stopping);
        self.tell_watch();
        drop(self.tap);
        self.proxy.stop();
        self.engine.stop();
        let status = self.recorder.close();
        if let Some(error) = status.last_error {
            tracing::error!(error, lost = status.lost, "the last events could not be written");
        }
        match self.health.degraded().contains_key(KERNEL_STATE) {
            true => tracing::info!("stopped; nothing is enforced any more"),
            false => tracing::info!(
                directory = %self.bpffs.display(),
                "stopped; the kernel goes on refusing what it refuses now, until `mcpmon detach`"
            ),
        }
        self.sole
    }

    /// Records that the host is watched now. Reports derive from this when it was not watched.
    fn tell_watch(&self) {
        let watch = Span {
            since: self.watching_since,
            until: clock::now(),
        };
        // If the queue is full, reports show a time in which the host was not watched.
        let put = self.recorder.put(StoreEntry::Watch(watch), Urgency::Soon);
        if put.is_err() {
            tracing::warn!("the store does not hear that the host is watched");
        }
    }

    fn look_after(&mut self) -> Result<(), DaemonError> {
        if !self.engine.is_running() {
            return Err(DaemonError::EngineEnded);
        }
        let store = self.recorder.status().last_error;
        self.note(
            "store",
            store.map(|error| format!("events cannot be written: {error}")),
        );
        self.hear_engine();
        self.look_after_return();
        self.look_after_links();
        self.look_after_self_test();
        self.tell_progress();
        self.look_after_proxy();
        self.look_after_tap();
        self.look_after_metrics();
        self.note_bundle();
        Ok(())
    }

    /// Notifies the service manager that the daemon works, if its engine does. A daemon whose engine hangs is
    /// restarted.
    fn tell_progress(&mut self) {
        let turns = self.engine.turns();
        if std::mem::replace(&mut self.engine_turns, turns) != turns {
            self.notify(Notifier::watchdog);
        }
    }

    /// Notes the engine's report about its parts in the daemon's health.
    fn hear_engine(&mut self) {
        let degraded = self.engine.degraded.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.engine_degraded, degraded.clone());
        for component in before
            .keys()
            .filter(|component| !degraded.contains_key(*component))
        {
            self.note(component, None);
        }
        for (component, cause) in degraded {
            self.note(&component, Some(cause));
        }
    }

    /// Sends a message to the engine thread and waits for its answer.
    async fn ask<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>) -> EngineMessage,
    ) -> Result<T, DaemonError> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.engine.sender.send(message(reply)).await.ok()?;
            answer.await.ok()
        };
        match tokio::time::timeout(TIMEOUT, asked).await {
            Ok(answer) => answer.ok_or(DaemonError::EngineEnded),
            Err(_elapsed) => Err(DaemonError::EngineStuck),
        }
    }

    fn note(&mut self, component: &str, cause: Option<String>) {
        self.note_with(component, cause, None);
    }

    fn note_with(&mut self, component: &str, cause: Option<String>, reason: Option<String>) {
        let Some(mut event) = self.health.note(clock::now(), component, cause) else {
            return;
        };
        event.reason = reason;
        self.tell_effective();
        if let EventKind::EnforcementDegraded { cause, .. } = &event.kind {
            tracing::warn!(component, cause, "degraded");
        } else {
            tracing::info!(component, "restored");
        }
        self.recorder.push(event);
    }

    fn notify(&self, tell: impl Fn(&Notifier) -> Result<(), NotifyError>) {
        if let Some(Err(error)) = self.notifier.as_ref().map(tell) {
            tracing::warn!(%error, "the service manager was not told");
        }
    }
}

fn notifier() -> Option<Notifier> {
    match Notifier::new(std::env::var_os("NOTIFY_SOCKET").as_deref()) {
        Ok(notifier) => Some(notifier),
        Err(error) => {
            tracing::warn!(%error, "the service manager cannot be told");
            None
        }
    }
}

/// Makes a timer that does not catch up on missed ticks.
fn ticker(period: Duration) -> tokio::time::Interval {
    let mut ticker = interval(period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}

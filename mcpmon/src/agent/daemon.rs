//! `mcpmon daemon`: starts every part in order, keeps them in step with policy and names, stops them.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_core::{
    decide::Monitor,
    model::{Event, EventKind, Layer, ServerId, ServerType, Severity},
    policy::{
        Gate, Mode, OnChange, Transport,
        network::table::{self, CompileError, Numbering, Resolved, Tables},
    },
};
use tokio::{
    net::UnixListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval},
};

use super::{
    clock,
    control::{self, Answer, Asked, ListenError, Request},
    engine::{Engine, Message, Snapshot},
    group,
    health::Health,
    names::{Found, Wanted, keep_resolved},
    notify::{Notifier, NotifyError},
    pins,
    selftest::{self, Check, Component},
    status::{NetworkStatus, PolicyStatus, RunningServer, State, Status, StoreStatus},
};
use crate::{
    config::{self, ConfigError, Loaded, Reloader, Search, Trust},
    intercept::kernel::{
        addresses::{Enforcement, InstallError},
        sensor::{Sensor, SensorError},
    },
    record::{
        Access, DeclaredServer, OpenError, QueryError, Reader, Recorder, Settings, StoreError, command_line,
    },
};

/// The store unless told otherwise.
pub const DEFAULT_STORE: &str = "/var/lib/mcpmon/mcpmon.db";
/// How often the policy's files are looked at.
const POLICY_INTERVAL: Duration = Duration::from_secs(2);
/// How often the self-test runs.
const SELF_TEST_INTERVAL: Duration = Duration::from_secs(60);
/// How often the store and the engine are looked at.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the policy is.
    pub search: Search,
    /// The store; the policy's `record.path` or [`DEFAULT_STORE`] where unset.
    pub store: Option<PathBuf>,
    /// The control socket.
    pub socket: PathBuf,
}

/// Why the daemon cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The policy.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its network rules.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store's pins cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The kernel sense.
    #[error(transparent)]
    Sensor(#[from] SensorError),
    /// The address lists.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The control socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Threads, signals or the runtime.
    #[error("failed to start")]
    Start(#[source] io::Error),
    /// The thread that owns the kernel sense is gone.
    #[error("the engine thread ended by itself: nothing is watched any more")]
    EngineEnded,
}

/// Runs until a signal ends it.
///
/// # Errors
/// Where a part cannot start; nothing stays attached then.
pub fn run(options: Options) -> Result<(), DaemonError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::Start)?;
    runtime.block_on(async {
        let (mut daemon, inputs) = Daemon::start(options).await?;
        let outcome = daemon.serve(inputs).await;
        daemon.stop();
        outcome
    })
}

struct Daemon {
    started: Instant,
    loaded: Loaded,
    rejected: Vec<String>,
    reloader: Reloader,
    numbering: Numbering,
    resolved: Resolved,
    failures: std::collections::BTreeMap<mcpmon_core::policy::HostName, String>,
    tables: Arc<Tables>,
    wanted: watch::Sender<Wanted>,
    engine: Engine,
    recorder: Recorder,
    store: PathBuf,
    socket: PathBuf,
    cgroup: PathBuf,
    health: Health,
    checks: Vec<Check>,
    checked_at: Option<String>,
    testing: bool,
    waiting: Vec<oneshot::Sender<Answer>>,
    checked: mpsc::Sender<Vec<Check>>,
    notifier: Option<Notifier>,
}

/// What the main task waits for.
struct Inputs {
    asked: mpsc::Receiver<Asked>,
    found: mpsc::Receiver<Found>,
    checked: mpsc::Receiver<Vec<Check>>,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Daemon {
    async fn start(options: Options) -> Result<(Self, Inputs), DaemonError> {
        let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
        let loaded = config::load(&options.search, trust)?;
        let mut numbering = Numbering::default();
        let resolved = Resolved::new();
        let tables = Arc::new(table::compile(&loaded.policy, &resolved, &mut numbering)?);

        let listener = control::listen(&options.socket, group::find())?;
        let record = &loaded.settings.record;
        let store = options
            .store
            .or_else(|| record.path.clone())
            .unwrap_or_else(|| DEFAULT_STORE.into());
        let recorder = Recorder::start(Settings {
            access: Access { group: group::find() },
            retention: record.retention,
            max_size: record.max_size,
            ..Settings::new(&store)
        })?;
        if recorder.forget_running().is_err() {
            tracing::warn!("the store may list servers of an earlier run as running");
        }
        let known_pins = pins::from_rows(Reader::open(&store)?.pins()?);

        let mut sensor = Sensor::start(&agent_names(&loaded))?;
        sensor.addresses.install(&tables, enforcement(&loaded))?;
        let cgroup = sensor.attached.root().path.clone();
        let monitor = Monitor::new(Arc::clone(&loaded.policy), &tables, known_pins);
        declare(&recorder, &loaded);
        let engine = Engine::start(sensor, monitor, recorder.clone()).map_err(DaemonError::Start)?;

        let (wanted, wants) = watch::channel(wants(&loaded));
        let (tell_found, found) = mpsc::channel(4);
        tokio::spawn(keep_resolved(wants, tell_found));
        let (tell_checked, checked) = mpsc::channel(4);
        let asked = serve_clients(listener);
        let inputs = Inputs {
            asked,
            found,
            checked,
            terminate: signal(SignalKind::terminate()).map_err(DaemonError::Start)?,
            interrupt: signal(SignalKind::interrupt()).map_err(DaemonError::Start)?,
            hangup: signal(SignalKind::hangup()).map_err(DaemonError::Start)?,
        };
        let daemon = Self {
            started: Instant::now(),
            reloader: Reloader::new(options.search, trust, &loaded),
            rejected: Vec::new(),
            numbering,
            resolved,
            failures: std::collections::BTreeMap::new(),
            tables,
            wanted,
            engine,
            recorder,
            store,
            socket: options.socket,
            cgroup,
            health: Health::default(),
            checks: Vec::new(),
            checked_at: None,
            testing: false,
            waiting: Vec::new(),
            checked: tell_checked,
            notifier: notifier(),
            loaded,
        };
        daemon.tell_policy();
        Ok((daemon, inputs))
    }

    async fn serve(&mut self, mut inputs: Inputs) -> Result<(), DaemonError> {
        let mut policy = ticker(POLICY_INTERVAL);
        let mut self_test = ticker(SELF_TEST_INTERVAL);
        let mut health = ticker(HEALTH_INTERVAL);
        tracing::info!(store = %self.store.display(), socket = %self.socket.display(), "started");
        loop {
            tokio::select! {
                _ = inputs.terminate.recv() => return Ok(()),
                _ = inputs.interrupt.recv() => return Ok(()),
                _ = inputs.hangup.recv() => self.poll_policy().await,
                _ = policy.tick() => self.poll_policy().await,
                _ = self_test.tick() => self.start_self_test(),
                _ = health.tick() => self.look_after()?,
                Some(found) = inputs.found.recv() => self.take_addresses(found).await,
                Some(checks) = inputs.checked.recv() => self.take_checks(checks),
                Some(asked) = inputs.asked.recv() => self.answer(asked).await,
            }
        }
    }

    fn stop(self) {
        self.notify(Notifier::stopping);
        self.engine.stop();
        let status = self.recorder.close();
        if let Some(error) = status.last_error {
            tracing::error!(error, lost = status.lost, "the last events could not be written");
        }
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::debug!(%error, "the control socket was gone already");
        }
        tracing::info!("stopped; nothing is enforced any more");
    }

    /// A changed file takes effect as a whole, or not at all.
    async fn poll_policy(&mut self) {
        let Some(news) = self.reloader.poll() else { return };
        let source = self.sources().join(", ");
        let errors = match news {
            Ok(loaded) => match self.adopt(loaded).await {
                Ok(()) => {
                    self.rejected.clear();
                    self.note("policy", None);
                    return;
                }
                Err(error) => vec![error.to_string()],
            },
            Err(ConfigError::Invalid(invalid)) => {
                invalid.problems().iter().map(ToString::to_string).collect()
            }
            Err(error) => vec![error.to_string()],
        };
        tracing::error!(
            "the changed policy is refused, the one before stays in force:\n{}",
            errors.join("\n")
        );
        let mut event = Event::new(
            clock::now(),
            Layer::Agent,
            EventKind::PolicyRejected {
                path: source,
                errors: errors.clone(),
            },
        );
        event.severity = Severity::High;
        event.reason = Some(
            "the policy before stays in force; check the new one with `mcpmon policy check FILE`".to_owned(),
        );
        self.recorder.push(event);
        self.note(
            "policy",
            Some(format!("the changed policy is refused: {}", errors.join("; "))),
        );
        self.rejected = errors;
    }

    async fn adopt(&mut self, loaded: Loaded) -> Result<(), DaemonError> {
        let before = std::mem::replace(&mut self.loaded, loaded);
        if let Err(error) = self.install().await {
            self.loaded = before;
            return Err(error);
        }
        self.wanted.send_replace(wants(&self.loaded));
        declare(&self.recorder, &self.loaded);
        self.tell_policy();
        Ok(())
    }

    /// Compiles policy and addresses, and puts them in force.
    async fn install(&mut self) -> Result<(), DaemonError> {
        let tables = table::compile(&self.loaded.policy, &self.resolved, &mut self.numbering)?;
        let tables = Arc::new(tables);
        let (reply, installed) = oneshot::channel();
        let message = Message::Install {
            policy: Arc::clone(&self.loaded.policy),
            tables: Arc::clone(&tables),
            enforcement: enforcement(&self.loaded),
            reply,
        };
        self.engine
            .sender
            .send(message)
            .map_err(|_| DaemonError::EngineEnded)?;
        installed.await.map_err(|_| DaemonError::EngineEnded)??;
        self.tables = tables;
        Ok(())
    }

    async fn take_addresses(&mut self, found: Found) {
        let Found { resolved, failures } = found;
        self.failures = failures;
        if resolved == self.resolved {
            return;
        }
        let before = std::mem::replace(&mut self.resolved, resolved);
        let outcome = self.install().await;
        let cause = outcome.as_ref().err().map(ToString::to_string);
        if outcome.is_err() {
            self.resolved = before;
        }
        self.note("address lists", cause);
    }

    fn start_self_test(&mut self) {
        if self.testing {
            return;
        }
        self.testing = true;
        let (engine, checked) = (self.engine.sender.clone(), self.checked.clone());
        tokio::task::spawn_blocking(move || {
            // The receiver is gone when the daemon stops; then nobody needs the result.
            drop(checked.blocking_send(selftest::run(&engine)));
        });
    }

    fn take_checks(&mut self, checks: Vec<Check>) {
        let first = self.checked_at.is_none();
        self.testing = false;
        self.checked_at = Some(jiff::Timestamp::now().to_string());
        self.note("network gate", selftest::cause(&checks, Component::NetworkGate));
        self.note("exec sensor", selftest::cause(&checks, Component::ExecSensor));
        for reply in self.waiting.drain(..) {
            drop(reply.send(Answer::Checks(checks.clone())));
        }
        self.checks = checks;
        if first {
            tracing::info!(state = self.state().as_str(), "self-test done");
            self.notify(Notifier::ready);
        }
        let state = self.state().as_str();
        self.notify(|notifier| notifier.status(state));
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
        Ok(())
    }

    async fn answer(&mut self, asked: Asked) {
        let answer = match asked.request {
            Request::Status => match self.status().await {
                Ok(status) => Answer::Status(Box::new(status)),
                Err(error) => Answer::Error(error.to_string()),
            },
            Request::SelfTest => {
                self.waiting.push(asked.reply);
                self.start_self_test();
                return;
            }
            Request::ResetPins { server } => self.reset_pins(&server).await,
        };
        // The client may have left.
        drop(asked.reply.send(answer));
    }

    async fn reset_pins(&self, server: &str) -> Answer {
        let server = match ServerId::new(server) {
            Ok(server) => server,
            Err(error) => return Answer::Error(error.to_string()),
        };
        let (reply, forgotten) = oneshot::channel();
        if self
            .engine
            .sender
            .send(Message::ForgetPins {
                server: server.clone(),
                reply,
            })
            .is_err()
        {
            return Answer::Error(DaemonError::EngineEnded.to_string());
        }
        if forgotten.await.is_err() {
            return Answer::Error(DaemonError::EngineEnded.to_string());
        }
        for part in pins::PARTS {
            if self.recorder.delete_pin(server.clone(), part).is_err() {
                return Answer::Error("the store takes no more changes: see `mcpmon status`".to_owned());
            }
        }
        Answer::Done
    }

    async fn status(&self) -> Result<Status, DaemonError> {
        let (reply, snapshot) = oneshot::channel();
        self.engine
            .sender
            .send(Message::Snapshot(reply))
            .map_err(|_| DaemonError::EngineEnded)?;
        let Snapshot {
            running,
            counters,
            missing,
            malformed,
            tracked,
        } = snapshot.await.map_err(|_| DaemonError::EngineEnded)?;
        let store = self.recorder.status();
        let unresolved = self.tables.unresolved.iter().map(|name| {
            let cause = self.failures.get(name).map_or("not resolved yet", String::as_str);
            (name.to_string(), cause.to_owned())
        });
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: self.started.elapsed().as_secs(),
            state: self.state(),
            degraded: self.health.degraded().clone(),
            policy: PolicyStatus {
                sources: self.sources(),
                hash: self.loaded.hash.to_string(),
                not_in_force: self.loaded.not_in_force.iter().map(ToString::to_string).collect(),
                rejected: self.rejected.clone(),
            },
            network: NetworkStatus {
                rules: self.tables.rules.len(),
                entries: self.tables.v4.len() + self.tables.v6.len(),
                egress_lists: self.tables.egress.len(),
                unresolved: unresolved.collect(),
            },
            checks: self.checks.clone(),
            checked_at: self.checked_at.clone(),
            exec_gate: exec_gate(&self.loaded).to_owned(),
            servers: running
                .into_iter()
                .map(|server| RunningServer {
                    server_id: server.server.to_string(),
                    pid: server.process.pid,
                    serving: server.serving,
                    processes: server.members.len(),
                })
                .collect(),
            tracked_processes: tracked,
            counters: counters
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            missing_records: missing,
            malformed_records: malformed,
            store: StoreStatus {
                path: self.store.clone(),
                written: store.written,
                lost: store.lost,
                queued: store.queued,
                last_error: store.last_error,
            },
            cgroup: self.cgroup.clone(),
        })
    }

    fn state(&self) -> State {
        match enforcement(&self.loaded) {
            _ if !self.health.degraded().is_empty() => State::Degraded,
            Enforcement::Enforce => State::Enforcing,
            Enforcement::Observe => State::Observing,
        }
    }

    fn sources(&self) -> Vec<String> {
        self.loaded.sources.iter().map(ToString::to_string).collect()
    }

    fn tell_policy(&self) {
        let path = self.sources().join(", ");
        tracing::info!(policy = path, "policy in force");
        let kind = EventKind::PolicyLoaded {
            path,
            hash: self.loaded.hash,
        };
        self.recorder.push(Event::new(clock::now(), Layer::Agent, kind));
    }

    fn note(&mut self, component: &str, cause: Option<String>) {
        let Some(event) = self.health.note(clock::now(), component, cause) else {
            return;
        };
        match &event.kind {
            EventKind::EnforcementDegraded { cause, .. } => tracing::warn!(component, cause, "degraded"),
            _ => tracing::info!(component, "restored"),
        }
        self.recorder.push(event);
    }

    fn notify(&self, tell: impl Fn(&Notifier) -> Result<(), NotifyError>) {
        if let Some(Err(error)) = self.notifier.as_ref().map(tell) {
            tracing::warn!(%error, "the service manager was not told");
        }
    }
}

fn serve_clients(listener: UnixListener) -> mpsc::Receiver<Asked> {
    let (ask, asked) = mpsc::channel(16);
    tokio::spawn(control::serve(listener, ask));
    asked
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

/// A timer that skips what it missed.
fn ticker(period: Duration) -> tokio::time::Interval {
    let mut ticker = interval(period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}

fn enforcement(loaded: &Loaded) -> Enforcement {
    match (loaded.policy.mode, loaded.policy.network.enforce) {
        (Mode::Enforce, true) => Enforcement::Enforce,
        (Mode::Enforce, false) | (Mode::Observe, _) => Enforcement::Observe,
    }
}

fn exec_gate(loaded: &Loaded) -> &'static str {
    let policy = &loaded.policy;
    let blocks = policy.pinning.enabled && policy.pinning.on_change == OnChange::Block;
    match (policy.mode, policy.exec.gate, blocks) {
        (_, Gate::Off, _) => "off (exec.gate)",
        (Mode::Observe, _, _) => "observing",
        (Mode::Enforce, Gate::Auto, false) => "off (nothing blocks on change)",
        (Mode::Enforce, Gate::Auto, true) => {
            "pinned servers are stopped at start, compared, and killed if changed; changed programs are killed at exec"
        }
    }
}

fn agent_names(loaded: &Loaded) -> Vec<&str> {
    let configured = loaded.policy.network.agents.iter().map(String::as_str);
    mcpmon_core::inspect::agents::AGENT_NAMES
        .iter()
        .copied()
        .chain(configured)
        .collect()
}

fn wants(loaded: &Loaded) -> Wanted {
    Wanted {
        names: table::names(&loaded.policy),
        interval: loaded.policy.network.resolve_interval,
    }
}

/// Tells the store which servers there are. The queue is empty at these times; a refusal shows in its status.
fn declare(recorder: &Recorder, loaded: &Loaded) {
    if recorder.declare(declared(loaded)).is_err() {
        tracing::warn!("the store does not know the declared servers");
    }
}

fn declared(loaded: &Loaded) -> Vec<DeclaredServer> {
    let servers = loaded.policy.servers.iter().map(|server| {
        let (server_type, command) = match &server.transport {
            Transport::Stdio { command, args } => (
                ServerType::Stdio,
                command_line(command, &mcpmon_core::inspect::mask::mask_arguments(args)),
            ),
            Transport::Remote { server_type, url, .. } => {
                (*server_type, mcpmon_core::inspect::mask::mask_text(url))
            }
        };
        DeclaredServer {
            server_id: server.id.clone(),
            server_type,
            command,
        }
    });
    servers.collect()
}

//! `mcpmon wrap`: runs one MCP server behind a relay. Connects the configuration, the session and the stdio transport.

mod certificates;
mod enclosure;
mod files;
mod identity;
mod isolation;
mod nested;
mod own;
mod refused;
mod remote;
mod wrapped;

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mcpmon_config::Search;
use mcpmon_detect::{session::is_name, starter::Ancestor};
use mcpmon_http::mcp::Caps;
use mcpmon_model::{Denial, Event, ServerFiles, ServerId, Verdict};
use mcpmon_pins::{Hasher, PLACE_VARIABLES};
use mcpmon_policy::{EnvironmentRules, Limits, Policy, SandboxMode, VariableVerdict, variable_names};
use mcpmon_protocol::{
    decode,
    filter::stdio::{OwnLists, StdioFilter},
};
use mcpmon_session::{ComparisonOutcome, LaunchEnd, Session, clock, files::places_of};
use mcpmon_stdio::{
    CheckStart, HoldUntil, OpenProgram, ProcessEnd, ProgramError, Relay, RelayError, RelayOutcome,
    RelayProcess, RunningChild, ServerStderr, StartError, StderrCopies, Verification, WrapperProcess,
};
use mcpmon_store::RecorderStatus;
use nix::sys::prctl;

pub use self::remote::RemoteServer;
use self::{
    certificates::Certificates,
    enclosure::Enclosure,
    files::Begun,
    isolation::{Isolation, IsolationPolicy},
    own::{judged, name, own_policy},
    refused::Refusal,
    remote::Stand,
    wrapped::{ConversationEnd, WrappedServer},
};
use super::{
    host,
    remote::DestinationError,
    run::shim_target,
    sandbox::{self, Draft, Sandboxed, TemporaryDirectory},
    server_log::{self, LogKeeper, ServerRun},
};

/// Variable that contains the name of a session.
pub(super) const SESSION: &str = "MCPMON_SESSION";

/// Returns the session name from the environment, if it is valid.
pub(super) fn session_name() -> Option<String> {
    let name = env::var_os(SESSION)?;
    let usable = name.to_str().filter(|name| is_name(name));
    if usable.is_none() {
        tracing::warn!(
            ?name,
            "{SESSION} does not name the session: a name has 1 to 64 letters, digits, `-`, `_` and `.`"
        );
    }
    usable.map(str::to_owned)
}
/// File of remembered digests, beside the store.
const HASHES: &str = "hashes";

/// The server to wrap, and its policy.
#[derive(Clone, Debug)]
pub struct WrapOptions {
    /// The places of the configuration.
    pub search: Search,
    /// The daemon's socket; without a daemon the user's own store is used.
    pub socket: PathBuf,
    /// Store to write to, instead of the user's own.
    pub store: Option<PathBuf>,
    /// The server's name; if `None`, it is derived from the command.
    pub server: Option<ServerId>,
    /// The server's program.
    pub program: OsString,
    /// The arguments of that program.
    pub arguments: Vec<OsString>,
    /// A remote server; it has no program on this host.
    pub remote: Option<RemoteServer>,
    /// The sandbox it starts in, unless its declaration has a stricter one.
    pub sandbox: Option<SandboxMode>,
}

/// The reason why a server was not served to its end.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// The remote server cannot be used.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// The session cannot be set up.
    #[error(transparent)]
    Judge(#[from] mcpmon_session::JudgeError),
    /// The server may not run.
    #[error("the MCP server {server} was refused by {rule}: {reason}", rule = .denial.rule, reason = .denial.reason)]
    Denied {
        /// The server.
        server: ServerId,
        /// The denial.
        denial: Denial,
    },
    /// The server cannot be judged because of a fault.
    #[error("the MCP server {server} cannot be used: {reason}", reason = .denial.reason)]
    Unjudged {
        /// The server.
        server: ServerId,
        /// The denial.
        denial: Denial,
    },
    /// The program cannot be found or opened.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The relay failed.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// A process or descriptor for the wrapper's own use cannot be made.
    #[error("cannot start the wrapper")]
    Setup(#[source] io::Error),
    /// The program of a server that has another wrapper already cannot be executed.
    #[error("cannot execute {program:?}")]
    Execute {
        /// The program.
        program: OsString,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Returns whether there is a wrapper between this process and its client.
pub(super) fn is_wrapped() -> bool {
    nested::is_wrapped(&host::above())
}

/// Returns advice for a wrapper that cannot work in the sandbox around it; `None` if it is in no sandbox.
pub fn remedy_in_sandbox() -> Option<String> {
    Enclosure::find(&host::above()).map(|enclosure| enclosure.remedy())
}

/// Serves one client: starts the server, relays its messages, and exits with the server's status. If the server cannot
/// be served, `report` gets the reason and returns the exit status, and each request of the client is answered with the
/// reason.
pub fn run(options: WrapOptions, report: fn(WrapError) -> ExitCode) -> ExitCode {
    let ancestors = host::above();
    if nested::is_wrapped(&ancestors) {
        tracing::warn!("the server is wrapped already: this wrapper steps aside");
        let noted = judged(&options, &ancestors)
            .and_then(|options| Ok(mcpmon_session::note(&options, nested::stepped_aside())?));
        if let Err(error) = noted {
            tracing::warn!(%error, "that is not recorded");
        }
        let policy = own_policy(&options).1;
        return report(remote::become_wrapped(options, &policy));
    }
    let name = name(&options);
    match mcpmon_stdio::divide() {
        Ok(WrapperProcess::Watcher(Ok(end))) => end.repeat(),
        Ok(WrapperProcess::Watcher(Err(error))) => report(WrapError::Setup(error)),
        Ok(WrapperProcess::Relay(process)) => relay(options, &ancestors, process, report),
        Err(error) => Refusal::new(WrapError::Setup(error), name).answer(report),
    }
}

fn relay(
    options: WrapOptions,
    ancestors: &[Ancestor],
    process: Box<RelayProcess>,
    report: fn(WrapError) -> ExitCode,
) -> ExitCode {
    let prepared = prepare(&options, ancestors);
    let judge = match prepared {
        Ok(judge) => judge,
        Err(error) => {
            return Refusal::new(error, name(&options))
                .of_process(process)
                .answer(report);
        }
    };
    serve(options, ancestors, process, judge).unwrap_or_else(|refusal| refusal.answer(report))
}

fn prepare(options: &WrapOptions, ancestors: &[Ancestor]) -> Result<Session, WrapError> {
    // Other processes of the same user must not read its memory or attach to it.
    prctl::set_dumpable(false).map_err(|errno| WrapError::Setup(errno.into()))?;
    Ok(Session::prepare(clock::now(), judged(options, ancestors)?)?)
}

fn serve(
    options: WrapOptions,
    ancestors: &[Ancestor],
    process: Box<RelayProcess>,
    mut judge: Session,
) -> Result<ExitCode, Box<Refusal>> {
    let started = clock::now();
    let running = start(&options, &mut judge, &process);
    // Joins while the server starts. A start that failed is recorded, too.
    let joined = judge.join(clock::now()).map_err(WrapError::from);
    let refusal = |error, judge: Session| {
        let name = judge.server().to_string();
        let limits = limits(judge.policy().limits);
        report_losses(&judge.close(clock::now()));
        Refusal::new(error, name).limited(limits)
    };
    let LaunchedServer {
        server: running,
        launch,
        mut verification,
        certificates,
        told,
        log,
        temporary: _temporary,
    } = match (running, joined) {
        (Ok(running), Ok(())) => running,
        (Err(error), _) | (Ok(_), Err(error)) => return Err(refusal(error, judge).of_process(process)),
    };
    judge.serves(clock::now(), launch.process.clone());
    if let Some(comparison) = judge.comparison() {
        let wait = || FilesChecked::ByDaemon(comparison.wait());
        verification = Some(Verification::new(
            CheckStart::WithFirstWord,
            HoldUntil::FirstMessage,
            wait,
        ));
    }
    let enclosure = Enclosure::find(ancestors).filter(|_| judge.is_without_daemon());
    let lonely = enclosure.map(|enclosure| enclosure.without_daemon());
    for event in told.into_iter().chain(lonely) {
        judge.tell(event);
    }
    let relay = match Relay::new(process, running, verification) {
        Ok(relay) => relay,
        Err((error, process)) => return Err(refusal(error.into(), judge).of_process(process)),
    };
    let mut filter = StdioFilter::new(limits(judge.policy().limits));
    if options.remote.is_some() {
        filter = filter.asking_itself(own_lists());
    }
    let is_told = options.remote.is_some();
    if is_told {
        // A remote server has no files to be measured, so its start can be recorded now.
        let _verdict = judge.started(clock::now(), &launch);
    }
    let mut wrapped = WrappedServer {
        judge,
        launch,
        is_told,
        certificates,
    };
    let conversation_end = wrapped.relay(relay, &mut filter);
    log.finish();
    let (server, recorded) = wrapped.end(started, ended(conversation_end.as_ref().ok()));
    report_losses(&recorded);
    match conversation_end {
        Ok(ConversationEnd::Closed(RelayOutcome::Ended(end))) => Ok(end.repeat()),
        Ok(ConversationEnd::Closed(RelayOutcome::Abandoned | RelayOutcome::Unwatched)) => {
            Ok(ExitCode::SUCCESS)
        }
        Ok(ConversationEnd::Refused(denial, client)) => {
            let name = server.to_string();
            Err(Refusal::new(WrapError::Denied { server, denial }, name).of_client(client, filter))
        }
        // The client's ends were closed with the relay.
        Err(error) => Err(Refusal::new(error, server.to_string()).without_client()),
    }
}

/// Logs how much of the record is lost.
fn report_losses(recorded: &RecorderStatus) {
    let lost = recorded.lost + recorded.queued as u64;
    if lost > 0 {
        tracing::error!(lost, cause = recorded.cause(), "not everything was recorded");
    }
}

/// Returns the limits for listing a remote server's tools, which are the same as the proxy's.
fn own_lists() -> OwnLists {
    let caps = Caps::default();
    OwnLists {
        pages: caps.own_pages,
        time: caps.own_time,
        pause: caps.own_pause,
    }
}

/// The result of checking a server's files.
enum FilesChecked {
    /// The files that it runs from.
    Files(Box<ServerFiles>),
    /// The daemon's answer about them.
    ByDaemon(ComparisonOutcome),
}

/// A server that was started.
struct LaunchedServer {
    server: RunningChild,
    launch: mcpmon_session::StartedServer,
    verification: Option<Verification<FilesChecked>>,
    /// The reports about a remote server's certificate.
    certificates: Option<Certificates>,
    /// The events about its isolation and sandbox.
    told: Vec<Event>,
    log: LogKeeper,
    /// The directory for its own temporary files.
    temporary: Option<TemporaryDirectory>,
}

/// Starts the server, if it may run.
fn start(
    options: &WrapOptions,
    judge: &mut Session,
    process: &RelayProcess,
) -> Result<LaunchedServer, WrapError> {
    let server = judge.server().clone();
    let refused = |denial: Denial| {
        let server = server.clone();
        if denial.is_fault() {
            WrapError::Unjudged { server, denial }
        } else {
            WrapError::Denied { server, denial }
        }
    };
    let derived = identity::derived(judge.policy(), options)?;
    allowed(judge.admit(clock::now(), &derived)).map_err(refused)?;
    let derived = derived.id;
    if let Some(remote) = &options.remote {
        return stand_in(options, remote, judge, process);
    }
    let mut environment = passed_environment(judge.policy(), &server, &derived);
    let search_path = sandbox::variable(&environment, "PATH");
    let program = OpenProgram::resolve(&options.program, &options.arguments, search_path)?;
    let program = shim_target(&program, search_path).unwrap_or(program);
    let (isolation, temporary) = match isolated(options, judge, &derived, &program, &mut environment) {
        Ok(isolated) => isolated,
        Err(denial) => {
            let denial = judge.refuse(clock::now(), denial);
            return Err(refused(denial));
        }
    };
    let mut launch = files::launch(options, program.path.clone());
    let names = environment.iter().filter_map(|(name, _)| name.to_str());
    launch.environment = variable_names(names);
    let hasher = Arc::new(Mutex::new(hasher(options.store.as_deref())));
    let compares_first = judge.compares_first();
    let begun = files::begun(&program, &environment).map_err(WrapError::Setup)?;
    if compares_first {
        let verdict = match &begun {
            Begun::Server(planned) => {
                launch.files = planned.measure(&mut lock(&hasher));
                judge.compare_first(clock::now(), &launch)
            }
            Begun::Launcher(launcher) => {
                files::measure_launcher(&mut lock(&hasher), launcher, &mut launch.files);
                judge.compare_launcher(clock::now(), &launch)
            }
        };
        allowed(verdict).map_err(refused)?;
    }
    judge.starts(clock::now(), &program.file, &environment, &PLACE_VARIABLES);
    let Isolation {
        domain,
        sandbox,
        events: mut told,
    } = isolation;
    let (stderr, copies) = ServerStderr::open().map_err(WrapError::Setup)?;
    let mut running = RunningChild::start(program, environment, stderr, process.mask(), domain)?;
    let unconfined = running.unconfined.take();
    told.extend(unconfined.map(|error| isolation::lost(&server, &error)));
    let log = logged(options, judge, running.pid(), copies);
    let pid = running.pid();
    launch.process.pid = pid;
    told.extend(sandbox.map(|kind| isolation::sandboxed(kind, &launch.process)));
    let holds = match compares_first {
        true => HoldUntil::FirstMessage,
        false => HoldUntil::Nothing,
    };
    let begins = match begun {
        Begun::Server(_) => CheckStart::AtOnce,
        Begun::Launcher(_) => CheckStart::WithFirstWord,
    };
    let measure = move || {
        let files = match begun {
            Begun::Server(planned) => planned.measure(&mut lock(&hasher)),
            Begun::Launcher(launcher) => files::running(&mut lock(&hasher), pid, &launcher),
        };
        FilesChecked::Files(Box::new(files))
    };
    let verification = judge
        .compares()
        .then(|| Verification::new(begins, holds, measure));
    Ok(LaunchedServer {
        server: running,
        launch,
        verification,
        certificates: None,
        told,
        log,
        temporary,
    })
}

/// Prepares the isolation that a server starts in. If it has its own temporary directory, this is put into
/// `environment`.
fn isolated(
    options: &WrapOptions,
    judge: &Session,
    derived: &ServerId,
    program: &OpenProgram,
    environment: &mut Vec<(OsString, OsString)>,
) -> Result<(Isolation, Option<TemporaryDirectory>), Denial> {
    let policy = judge.policy();
    let isolation = IsolationPolicy::new(policy, judge.server(), derived, judge.is_without_daemon());
    let (sandbox, egress) = (isolation.sandbox(options.sandbox), isolation.unenforced_egress());
    let temporary = TemporaryDirectory::for_mode(sandbox.mode);
    let draft = match sandbox.is_open() && egress.is_none() {
        true => Draft::default(),
        false => {
            let store = options.store.clone().or_else(mcpmon_store::own_store);
            let protected = places_of(&options.search, store.as_deref(), Some(&options.socket));
            let sandboxed = Sandboxed {
                program,
                environment,
                temporary: temporary.as_ref().map(TemporaryDirectory::path),
                protected: &protected,
                extra: &policy.guard.extra_paths,
            };
            sandboxed.draw(&sandbox, egress)
        }
    };
    if let Some(directory) = &temporary {
        sandbox::with_temporary(environment, directory);
    }
    Ok((isolation.isolate(program, &sandbox, draft)?, temporary))
}

/// Starts the bridge in place of a remote server. The bridge is this program, so no files are pinned; the server's
/// definitions are.
fn stand_in(
    options: &WrapOptions,
    remote: &RemoteServer,
    judge: &Session,
    process: &RelayProcess,
) -> Result<LaunchedServer, WrapError> {
    let policy = judge.policy();
    let found = remote.destination(policy)?;
    let stand = Stand::of(remote, &found, policy.limits.max_line).map_err(WrapError::Setup)?;
    let mut launch = files::launch(options, stand.program.path.clone());
    // The event names the remote server as what is started.
    (launch.command, launch.arguments) = (found.name, Vec::new());
    let (stderr, copies) = ServerStderr::open().map_err(WrapError::Setup)?;
    let running = RunningChild::start(stand.program, stand.environment, stderr, process.mask(), None)?;
    drop(stand.told);
    let log = logged(options, judge, running.pid(), copies);
    launch.process.pid = running.pid();
    Ok(LaunchedServer {
        server: running,
        launch,
        verification: None,
        certificates: stand.certificates,
        told: Vec::new(),
        log,
        temporary: None,
    })
}

/// Starts to keep the server's standard error beside the user's store.
fn logged(options: &WrapOptions, judge: &Session, pid: u32, copies: Option<StderrCopies>) -> LogKeeper {
    let store = options.store.clone().or_else(mcpmon_store::own_store);
    let run = ServerRun {
        server: judge.server().clone(),
        session: judge.session_id().cloned(),
        pid,
        started: clock::now(),
    };
    LogKeeper::start(copies, store.as_deref().map(server_log::beside), run)
}

/// Returns this process's environment without the variables that the server may not have.
fn passed_environment(policy: &Policy, server: &ServerId, derived: &ServerId) -> Vec<(OsString, OsString)> {
    let declared = policy.declaration(server, derived);
    let rules = declared.map(EnvironmentRules::of).unwrap_or_default();
    let passes = |name: &OsStr| match rules.judge(&name.to_string_lossy()) {
        VariableVerdict::Pass => true,
        VariableVerdict::NotAllowed | VariableVerdict::Sensitive | VariableVerdict::Denied => {
            tracing::info!(variable = ?name, %server, "a variable is not passed to the server");
            false
        }
    };
    env::vars_os().filter(|(name, _)| passes(name)).collect()
}

fn allowed(verdict: Verdict) -> Result<(), Denial> {
    match verdict {
        Verdict::Block(denial) => Err(denial),
        Verdict::Allow
        | Verdict::Hide(_)
        | Verdict::StripInstructions
        | Verdict::Redact(_)
        | Verdict::Ask(_) => Ok(()),
    }
}

/// Makes a hasher that keeps digests beside the store.
fn hasher(store: Option<&Path>) -> Hasher {
    let store = store.map(Path::to_owned).or_else(mcpmon_store::own_store);
    store.map_or_else(Hasher::default, |store| {
        Hasher::keeping(&store.with_file_name(HASHES))
    })
}

fn lock(hasher: &Mutex<Hasher>) -> MutexGuard<'_, Hasher> {
    hasher.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended(conversation_end: Option<&ConversationEnd>) -> LaunchEnd {
    match conversation_end {
        Some(ConversationEnd::Closed(RelayOutcome::Ended(ProcessEnd::Exited(code)))) => {
            LaunchEnd::Exited(i32::from(*code))
        }
        Some(ConversationEnd::Closed(RelayOutcome::Ended(ProcessEnd::Killed(signal)))) => {
            LaunchEnd::Killed(*signal as i32)
        }
        Some(
            ConversationEnd::Closed(RelayOutcome::Abandoned | RelayOutcome::Unwatched)
            | ConversationEnd::Refused(..),
        )
        | None => LaunchEnd::Unseen,
    }
}

/// Returns the limits for decoding, from those of a policy.
pub(in crate::app) const fn limits(limits: Limits) -> decode::DecodeLimits {
    decode::DecodeLimits {
        max_line: limits.max_line,
        max_depth: limits.max_schema_depth,
        max_batch: limits.max_batch,
        max_pending: limits.max_pending,
        request_timeout: limits.request_timeout,
    }
}

//! `mcpmon run`: runs one agent with its models behind a proxy; all processes that it starts belong to one session.

mod address;
mod cgroup;
mod child;
mod codex;
pub(super) mod daemon;
mod environment;
pub(super) mod gateways;
mod shims;

use std::{
    env,
    ffi::OsString,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{ExitCode, ExitStatus},
};

use mcpmon_config::Search;
use mcpmon_detect::{agents::RUN_NAME, session::session};
use mcpmon_http::Token;
use mcpmon_model::SessionId;
use nix::sys::prctl;

pub use mcpmon_detect::session::is_name as is_session_name;

pub(crate) use self::{
    cgroup::GROUP_PREFIX,
    shims::{is_this, shim_target},
};
use self::{
    cgroup::OwnGroup,
    daemon::{DaemonAvailability, DaemonUseError, Keep},
    environment::{AgentStart, ModelRoutes, NamedProviders},
    gateways::{AgentCircumstances, Gateway},
    shims::Shims,
};
pub use self::{
    gateways::GatewayError,
    shims::{
        InheritedSettings, InstallError, InstalledShims, ShimError, ShimSettings, inherited,
        install as install_shims, remove as remove_shims, run as run_shim, usual_directory as usual_shims,
    },
};
use super::{
    host,
    proxy::{HostError, ProxyError, Standalone, StandaloneOptions, Tokens},
    runs::protocol::{Reach, RunHello},
    wrap::{SESSION, session_name},
};

/// Variable with the directories of programs.
const PATH: &str = "PATH";

/// The agent to run, and its policy.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The places of the policy.
    pub search: Search,
    /// The store; if unset, the policy's `record.path`, or the user's own.
    pub store: Option<PathBuf>,
    /// The socket of a daemon.
    pub socket: PathBuf,
    /// The configuration file of the command line, for the wrappers of the agent's servers.
    pub config: Option<PathBuf>,
    /// True if wrappers may use a configuration in the working directory.
    pub allow_local_config: bool,
    /// True if shims for launchers of servers are put in front of `PATH`.
    pub shims: bool,
    /// The name of the session.
    pub name: Option<String>,
    /// The agent's program.
    pub program: OsString,
    /// The agent's arguments.
    pub arguments: Vec<OsString>,
}

/// The reason why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The proxy cannot be started.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The agent's own configuration cannot be followed.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// This process cannot be found in `/proc`.
    #[error("cannot tell which session this is: is /proc mounted?")]
    NoSession,
    /// Random bytes, a runtime or signals are not available.
    #[error("failed to prepare the session")]
    Prepare(#[source] io::Error),
    /// The program does not exist or cannot be executed.
    #[error("cannot start {program:?}")]
    Agent {
        /// The program.
        program: OsString,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The result of a run, after the agent has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// The session.
    pub session: SessionId,
    /// The exit status for `mcpmon run`, derived from the agent's.
    pub code: u8,
    /// Number of requests to models, if the session had its own proxy.
    pub asked: Option<u64>,
    /// The reason why the agent had no control group of its own.
    pub no_group: Option<String>,
    /// The daemon's store, if the daemon's proxy was used.
    pub store: Option<PathBuf>,
}

impl RunOutcome {
    /// Returns the exit status for this process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

/// The proxy between an agent and its models.
enum AgentProxy {
    /// The daemon's proxy.
    Daemon(Box<Reach>),
    /// The session's own proxy, and its token.
    Own(Box<Standalone>, String),
}

impl AgentProxy {
    /// Returns the URLs at which models are reached.
    fn reached(&self) -> ModelRoutes {
        let (address, token, providers) = match self {
            Self::Daemon(reach) => {
                let offer = &reach.offer;
                (offer.address, &reach.token, offer.providers.clone())
            }
            Self::Own(proxy, token) => (proxy.status().listen, token, proxy.providers()),
        };
        ModelRoutes {
            base: format!("http://{address}/s/{token}"),
            providers,
        }
    }
}

/// Runs an agent to its end.
///
/// # Errors
/// Returns an error if it does not start, or no proxy would be between it and its models.
pub fn run(options: RunOptions) -> Result<RunOutcome, RunError> {
    prctl::set_name(c"mcpmon-run").map_err(|errno| RunError::Prepare(errno.into()))?;
    let name = options.name.clone().or_else(session_name);
    let directory = env::current_dir().unwrap_or_default();
    let gateways = AgentCircumstances::here(&options.program, &options.arguments, &directory).gateways()?;
    let (group, no_group) = match OwnGroup::make() {
        Ok(group) => (Some(group), None),
        Err(error) => (None, Some(chain(&error))),
    };
    let named = NamedProviders::of(|name| env::var_os(name));
    for warning in &named.warnings {
        tracing::warn!("{warning}");
    }
    let hello = RunHello {
        name: name.clone(),
        group: group.as_ref().and_then(OwnGroup::name),
        providers: named
            .providers
            .iter()
            .map(|(name, url)| ((*name).to_owned(), url.clone()))
            .collect(),
        ..RunHello::default()
    };
    let keep = Keep::default();
    let (proxy, session) = behind(&options, &named, &gateways, &hello, &keep)?;
    let shims = match options.shims {
        true => shims(&options, &proxy.reached(), &named),
        false => None,
    };
    let start = start(
        &options,
        &proxy.reached(),
        &named,
        &gateways,
        name,
        shims.as_ref(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Prepare)?;
    let store = match &proxy {
        AgentProxy::Daemon(reach) => Some(reach.store.clone()),
        AgentProxy::Own(..) => None,
    };
    let entrance = group.as_ref().map(OwnGroup::entrance);
    let ended = runtime.block_on(served(&options, proxy, &start, entrance, hello, &keep));
    // The task that reconnects to the daemon may still be running.
    runtime.shutdown_background();
    keep.leave();
    let (ended, asked) = ended?;
    Ok(RunOutcome {
        session,
        code: child::code(ended),
        asked,
        no_group,
        store,
    })
}

/// Uses the daemon's proxy if possible, or else starts one. Returns it with the session.
fn behind(
    options: &RunOptions,
    named: &NamedProviders,
    gateways: &[Gateway],
    hello: &RunHello,
    keep: &Keep,
) -> Result<(AgentProxy, SessionId), RunError> {
    let session = own_session(hello.name.as_deref()).ok_or(RunError::NoSession)?;
    let unknown = |reach: &Reach| {
        let known = |gateway: &Gateway| {
            let mut urls = reach.offer.providers.values();
            urls.any(|url| *url == gateway.url)
        };
        let is_known = |gateway: &&Gateway| gateway.url.is_empty() || known(gateway);
        gateways.iter().find(|gateway| !is_known(gateway)).cloned()
    };
    match daemon::introduce(&options.socket, hello) {
        Ok(DaemonAvailability::Behind(_, reach)) if unknown(&reach).is_some() => {
            let url = unknown(&reach).map(|gateway| gateway.url).unwrap_or_default();
            tracing::warn!(
                "the daemon's LLM proxy is not used: it does not speak to {url}, which the agent's configuration names (`proxy.providers`); the agent has one of its own, which knows only what wrappers without a daemon saw"
            );
        }
        Ok(DaemonAvailability::Behind(stream, reach)) => {
            keep.put(Some(stream));
            let session = reach.session.clone();
            return Ok((AgentProxy::Daemon(reach), session));
        }
        Ok(DaemonAvailability::NoProxy(cause)) => {
            tracing::warn!(
                "the daemon's LLM proxy is not used: {cause}; the agent has one of its own, which knows only what wrappers without a daemon saw"
            );
        }
        Ok(DaemonAvailability::Known(_)) | Err(DaemonUseError::NotRunning) => {}
        Err(error) => tracing::warn!(
            "{error}; the agent has an LLM proxy of its own, and what goes round it is neither reported nor refused"
        ),
    }
    let tokens = Tokens::default();
    let uid = nix::unistd::getuid().as_raw();
    let token = tokens.issue(session.clone(), uid).map_err(RunError::Prepare)?;
    let proxy = Standalone::start(
        StandaloneOptions {
            search: options.search.clone(),
            store: options.store.clone(),
            socket: options.socket.clone(),
            // Any port, because several agents can run at a time.
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            token: Some(
                Token::new(&token)
                    .map_err(HostError::from)
                    .map_err(ProxyError::from)?,
            ),
            providers: named.providers.clone(),
            gateways: gateways
                .iter()
                .filter(|gateway| !gateway.url.is_empty())
                .map(|gateway| (gateway.name.clone(), gateway.url.clone()))
                .collect(),
        },
        tokens,
    )?;
    Ok((AgentProxy::Own(Box::new(proxy), token), session))
}

/// Returns the variables and arguments to start the agent with.
fn start(
    options: &RunOptions,
    reached: &ModelRoutes,
    named: &NamedProviders,
    gateways: &[Gateway],
    name: Option<String>,
    shims: Option<&Shims>,
) -> AgentStart {
    let variable = |name: &str| env::var_os(name);
    let mut start = environment::start(
        reached,
        named,
        &options.program,
        &options.arguments,
        gateways,
        variable,
    );
    if let Some(name) = name {
        start.variables.insert(SESSION, name.into());
    }
    if let Some(shims) = shims {
        start.variables.insert(PATH, shims.in_front_of(env::var_os(PATH)));
    }
    start
}

/// Starts the agent and serves it to its end. Returns its exit status, and the number of requests to models through its
/// own proxy.
async fn served(
    options: &RunOptions,
    proxy: AgentProxy,
    start: &AgentStart,
    entrance: Option<PathBuf>,
    mut hello: RunHello,
    keep: &Keep,
) -> Result<(ExitStatus, Option<u64>), RunError> {
    let agent = child::start(&options.program, &start.arguments, &start.variables, entrance);
    let agent = agent.map_err(|source| RunError::Agent {
        program: options.program.clone(),
        source,
    });
    let reach = match &proxy {
        AgentProxy::Daemon(reach) => Some((**reach).clone()),
        // `mcpmon run` connects to models itself, so only the agent is held to the session's list.
        AgentProxy::Own(..) => {
            let pid = agent.as_ref().ok().and_then(tokio::process::Child::id);
            hello.agent = pid.and_then(host::identify).map(Into::into);
            None
        }
    };
    if reach.is_some() || hello.agent.is_some() {
        tokio::spawn(daemon::stay(options.socket.clone(), hello, reach, keep.clone()));
    }
    match proxy {
        AgentProxy::Daemon(_) => {
            let ended = child::wait(agent?).await.map_err(RunError::Prepare)?;
            Ok((ended, None))
        }
        AgentProxy::Own(mut proxy, _) => {
            let ended = match agent {
                Ok(agent) => proxy
                    .serve_until(child::wait(agent))
                    .await
                    .map_err(RunError::Prepare),
                Err(error) => Err(error),
            };
            let asked = proxy.asked();
            proxy.stop();
            Ok((ended?, Some(asked)))
        }
    }
}

/// Makes shims that wrap the servers which the agent starts. If they cannot be made, the agent runs without them.
fn shims(options: &RunOptions, reached: &ModelRoutes, named: &NamedProviders) -> Option<Shims> {
    let inherited = InheritedSettings {
        openai: reached.openai(named),
        config: options.config.clone(),
        db: options.store.clone(),
        socket: options.socket.clone(),
        allow_local_config: options.allow_local_config,
    };
    match Shims::make(&inherited) {
        Ok(shims) => Some(shims),
        Err(error) => {
            tracing::warn!(%error, "servers that the agent starts are not wrapped by themselves");
            None
        }
    }
}

/// Returns the session of this process: one that it starts, or one above it.
fn own_session(name: Option<&str>) -> Option<SessionId> {
    let own = host::identify(std::process::id())?;
    let ancestors = host::ancestors(own);
    debug_assert!(ancestors.iter().any(|ancestor| ancestor.comm == RUN_NAME));
    Some(session(&ancestors, name, &host::boot())?.id)
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

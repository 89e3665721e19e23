//! `mcpmon run`: one agent, its models behind a proxy of its own, all that it starts one session.

mod cgroup;
mod child;
mod environment;

use std::{
    env,
    ffi::OsString,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{ExitCode, ExitStatus},
};

use mcpmon_core::{
    inspect::{agents::RUN_NAME, session::session},
    model::SessionId,
};
use nix::sys::prctl;

use self::cgroup::OwnGroup;
use super::{
    host,
    proxy::{HostError, ProxyError, Standalone, StandaloneOptions, Tokens},
};
use crate::{config::Search, intercept::http::Token};

/// Variable that names a session.
const SESSION: &str = "MCPMON_SESSION";

/// What is to be run, and by which rules.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the policy is.
    pub search: Search,
    /// The store; the policy's `record.path` or the user's own where unset.
    pub store: Option<PathBuf>,
    /// Where a daemon would listen.
    pub socket: PathBuf,
    /// What the session is called.
    pub name: Option<String>,
    /// The agent's program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// This process cannot be found in `/proc`.
    #[error("cannot tell which session this is: is /proc mounted?")]
    NoSession,
    /// No randomness, no runtime, no signals.
    #[error("failed to prepare the session")]
    Prepare(#[source] io::Error),
    /// There is no such program, or it cannot be executed.
    #[error("cannot start {program:?}")]
    Agent {
        /// The program.
        program: OsString,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What there is to say once an agent is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The session.
    pub session: SessionId,
    /// What the agent's exit status becomes.
    pub code: u8,
    /// Why the agent had no control group of its own, where it had none.
    pub no_group: Option<String>,
}

impl Outcome {
    /// The exit status of this process.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

/// Runs an agent to its end.
///
/// # Errors
/// Where it does not start, or nothing would stand between it and its models.
pub fn run(options: Options) -> Result<Outcome, RunError> {
    prctl::set_name(c"mcpmon-run").map_err(|errno| RunError::Prepare(errno.into()))?;
    let name = options.name.clone().or_else(|| env::var(SESSION).ok());
    let session = own_session(name.as_deref()).ok_or(RunError::NoSession)?;
    let tokens = Tokens::default();
    let token = tokens.issue(session.clone()).map_err(RunError::Prepare)?;
    let mut proxy = Standalone::start(
        StandaloneOptions {
            search: options.search.clone(),
            store: options.store.clone(),
            socket: options.socket.clone(),
            // Any port: several agents run side by side.
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            token: Some(
                Token::new(&token)
                    .map_err(HostError::from)
                    .map_err(ProxyError::from)?,
            ),
            providers: environment::providers_of(|name| env::var_os(name)),
        },
        tokens,
    )?;
    let status = proxy.status();
    let base = format!("http://{}/s/{token}", status.listen);
    let providers: Vec<&str> = status.providers.iter().map(String::as_str).collect();
    let mut start = environment::start(&base, &providers, &options.program, &options.arguments, |name| {
        env::var_os(name)
    });
    if let Some(name) = name {
        start.variables.insert(SESSION, name.into());
    }
    let (group, no_group) = match OwnGroup::make() {
        Ok(group) => (Some(group), None),
        Err(error) => (None, Some(chain(&error))),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Prepare)?;
    let ended: Result<ExitStatus, RunError> = runtime.block_on(async {
        let entrance = group.as_ref().map(OwnGroup::entrance);
        let agent = child::start(&options.program, &start.arguments, &start.variables, entrance);
        let agent = agent.map_err(|source| RunError::Agent {
            program: options.program.clone(),
            source,
        })?;
        let ended = child::wait(agent);
        proxy.serve_until(ended).await.map_err(RunError::Prepare)
    });
    proxy.stop();
    Ok(Outcome {
        session,
        code: child::code(ended?),
        no_group,
    })
}

/// The session whose root this process is, or is below.
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

//! The proxy for models and for remote MCP servers, as a part of its process: `mcpmon proxy`, `mcpmon run` or the
//! daemon.

mod judging;
mod servers;
mod standalone;
mod tokens;

use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use mcpmon_config::{BodyStorageSettings, LoadedConfiguration, ProxySettings, Search, Trust};
use mcpmon_http::{HttpSettings, Provider, RunningProxy, StartError, Token, TokenError, mcp::McpSettings};
use mcpmon_model::{Conversation, Layer, PinKey, ServerId, ServerType, Timestamp};
use mcpmon_policy::ProxyMode;
use mcpmon_session::{clock, models::Models};
use mcpmon_store::{BodySettings, BodyStorage, Keeper};
use serde::{Deserialize, Serialize};

use self::judging::Judges;
pub use self::{
    servers::RemoteServers,
    standalone::{ProxyError, Standalone, StandaloneOptions, run},
    tokens::Tokens,
};

/// The name used in place of a server's name.
const NAME: &str = "proxy";

/// The reason why the proxy does not run.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The token that clients must present cannot be read.
    #[error("the token of the LLM proxy (`proxy.token_file`) cannot be used")]
    Token(#[from] TokenError),
    /// A provider's URL cannot be used.
    #[error("the URL of the provider `{0}` cannot be asked")]
    Provider(String),
    /// The proxy cannot listen.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A proxy, its judges and its sessions.
#[derive(Debug)]
pub struct HostedProxy {
    running: RunningProxy,
    settings: ProxySettings,
    models: Models,
    remotes: RemoteServers,
    keeper: Option<Keeper>,
    bodies: Option<BodyStorage>,
    asked: Arc<AtomicU64>,
}

/// The state of the proxy, for `mcpmon status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyStatus {
    /// The TCP address it listens on.
    pub listen: SocketAddr,
    /// The Unix socket on which it listens as well.
    pub listen_unix: Option<PathBuf>,
    /// `proxy.mode`.
    pub mode: String,
    /// True if clients must present a token.
    pub token: bool,
    /// True if only root can listen on the address while the daemon is away; `None` for a proxy without a daemon.
    #[serde(default)]
    pub reserved: Option<bool>,
    /// Names of providers.
    pub providers: Vec<String>,
    /// The state of body storage, if it is configured.
    #[serde(default)]
    pub bodies: Option<BodyStorage>,
    /// Number of known sessions.
    pub sessions: usize,
    /// Ids of the remote MCP servers, each at `/mcp/ID`.
    #[serde(default)]
    pub servers: Vec<ServerId>,
    /// Number of conversations with them.
    #[serde(default)]
    pub conversations: usize,
}

impl fmt::Display for ProxyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.listen)?;
        if let Some(path) = &self.listen_unix {
            write!(f, " and {}", path.display())?;
        }
        let token = if self.token { ", with a token" } else { "" };
        let (mode, providers) = (&self.mode, self.providers.join(", "));
        write!(f, ", {mode}{token}, for {providers}")?;
        if self.reserved == Some(false) {
            write!(f, "; any user can take its port while the daemon is away")?;
        }
        match &self.bodies {
            Some(bodies) => write!(f, "; {bodies}"),
            None => Ok(()),
        }
    }
}

impl ProxyStatus {
    /// Returns how the proxy is reached, without what its sessions and its storage do.
    pub(super) fn without_sessions(&self) -> Self {
        Self {
            bodies: None,
            sessions: 0,
            conversations: 0,
            ..self.clone()
        }
    }
}

impl HostedProxy {
    /// Starts the proxy. `group` may use its Unix socket. `models` judges requests to models, `remotes` conversations
    /// with servers. Clients must present `token`, or if it is `None`, the token in the settings' file, if one is set.
    ///
    /// # Errors
    /// Returns an error if it cannot listen, or the token cannot be read.
    pub fn start(
        settings: &ProxySettings,
        group: Option<u32>,
        models: Models,
        remotes: RemoteServers,
        token: Option<Token>,
    ) -> Result<Self, HostError> {
        let token = match token {
            Some(token) => Some(token),
            None => settings.token_file.as_deref().map(Token::at).transpose()?,
        };
        let providers = settings.providers.iter().map(|provider| {
            Provider::new(&provider.name, &provider.url)
                .map_err(|_invalid| HostError::Provider(provider.name.clone()))
        });
        let http = HttpSettings {
            listen_unix: settings.listen_unix.clone(),
            group,
            token,
            mcp: Some(McpSettings::new(Arc::new(remotes.clone()), clock::now)),
            ..HttpSettings::new(settings.listen, providers.collect::<Result<_, _>>()?)
        };
        let (keeper, bodies) = keeper(settings.bodies.as_ref(), &models);
        let asked = Arc::<AtomicU64>::default();
        let judges = Arc::new(Judges {
            models: models.clone(),
            tokens: remotes.tokens(),
            callers: remotes.callers(),
            keeper: keeper.clone(),
            asked: Arc::clone(&asked),
        });
        let running = RunningProxy::start(http, judges)?;
        if let Some(bodies) = &bodies {
            bodies.tell(clock::now(), models.recorder());
        }
        Ok(Self {
            running,
            keeper,
            bodies,
            settings: settings.clone(),
            models,
            remotes,
            asked,
        })
    }

    /// Returns the address that the proxy listens on.
    pub const fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// Returns whether the proxy still serves.
    pub fn is_running(&self) -> bool {
        self.running.is_running()
    }

    /// Returns the number of requests to models so far.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the settings that the proxy was started with.
    pub const fn settings(&self) -> &ProxySettings {
        &self.settings
    }

    /// Puts another policy in force.
    pub fn install(&self, now: Timestamp, loaded: &LoadedConfiguration) {
        self.models.install(now, loaded);
        self.remotes.follow();
    }

    /// Does what is due at this time; called at an interval.
    pub fn tick(&self, now: Timestamp) {
        self.models.tick(now);
    }

    /// Returns the proxy's state.
    pub fn status(&self) -> ProxyStatus {
        ProxyStatus {
            listen: self.address(),
            listen_unix: self.settings.listen_unix.clone(),
            mode: mode(self.models.policy().llm.mode).to_owned(),
            token: self.settings.token_file.is_some(),
            reserved: None,
            providers: self
                .settings
                .providers
                .iter()
                .map(|provider| provider.name.clone())
                .collect(),
            bodies: self.bodies.clone(),
            sessions: self.models.len(),
            servers: self.remotes.ids(),
            conversations: self.remotes.len(),
        }
    }

    /// Stops listening; responses in flight continue for a while.
    pub fn retire(self) {
        self.running.retire();
    }

    /// Stops listening, and waits for responses in flight.
    pub fn stop(self) {
        self.running.stop();
        self.remotes.close();
        if let Some(keeper) = self.keeper {
            keeper.finish();
        }
    }
}

/// Returns the keeper of bodies, and the state of body storage if it is configured.
fn keeper(settings: Option<&BodyStorageSettings>, models: &Models) -> (Option<Keeper>, Option<BodyStorage>) {
    let Some(settings) = settings else {
        return (None, None);
    };
    let settings = BodySettings {
        key_file: settings.key_file.clone(),
        max_body: settings.max_body,
        retention: settings.retention,
    };
    match Keeper::start(&settings, models.recorder().clone()) {
        Ok(keeper) => {
            let storage = keeper.storage();
            (Some(keeper), Some(storage))
        }
        Err(error) => {
            tracing::warn!(%error, "no bodies of requests to models are kept");
            let cause = error.to_string();
            (None, Some(BodyStorage::NotKept { cause }))
        }
    }
}

/// Returns the name in the configuration.
const fn mode(mode: ProxyMode) -> &'static str {
    match mode {
        ProxyMode::Embedded => "embedded",
        ProxyMode::McpOnly => "mcp-only",
        ProxyMode::Disabled => "disabled",
    }
}

/// Returns the options of sessions that this process hosts: its configuration and its store.
pub(super) fn host_options(
    search: Search,
    trust: Trust,
    socket: PathBuf,
    db: Option<PathBuf>,
) -> mcpmon_session::Options {
    mcpmon_session::Options {
        search,
        trust,
        loaded: None,
        socket: Some(socket),
        db,
        conversation: Conversation {
            identity: PinKey {
                server: ServerId::new(NAME).expect("a plain word is an id"),
                name: NAME.to_owned(),
                uid: nix::unistd::getuid().as_raw(),
            },
            server_type: ServerType::Http,
            session: None,
            layer: Layer::Llm,
        },
        agent: None,
    }
}

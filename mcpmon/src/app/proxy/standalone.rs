//! `mcpmon proxy`: the LLM proxy without a daemon, with the user's own policy and store.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant},
};

use mcpmon_config::{
    ConfigError, LoadedConfiguration, ProviderSettings, ProxySettings, Reloader, Search, Trust,
};
use mcpmon_http::{ScrapeError, ScrapeListener, Token};
use mcpmon_model::{Event, EventKind, Layer, Severity};
use mcpmon_session::{HostedParts, JudgeError, Policies, clock, models::Models};
use mcpmon_store::{Recorder, metrics::Metrics};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use super::{HostError, HostedProxy, ProxyStatus, RemoteServers, Tokens, host_options};
use crate::app::{
    declared::declare,
    metrics::{now_seconds, of_proxy, serve_own},
};

/// The interval at which the policy's files and the sessions are checked.
const INTERVAL: Duration = Duration::from_secs(2);

/// The options of `mcpmon proxy`.
#[derive(Clone, Debug)]
pub struct StandaloneOptions {
    /// The places of the policy.
    pub search: Search,
    /// The store; if unset, the policy's `record.path`, or the user's own.
    pub store: Option<PathBuf>,
    /// The socket of a daemon; a running daemon has its own proxy.
    pub socket: PathBuf,
    /// The address to listen on, instead of `proxy.listen`.
    pub listen: Option<SocketAddr>,
    /// The token that clients must present; `None` for the one in `proxy.token_file`.
    pub token: Option<Token>,
    /// URLs of providers, by name. They replace default URLs, but not configured ones.
    pub providers: BTreeMap<&'static str, String>,
    /// URLs of further providers, with their names. A name that is taken gets a number.
    pub gateways: Vec<(String, String)>,
}

/// The reason why the proxy does not run.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The proxy is switched off.
    #[error("the LLM proxy is switched off (`proxy.mode: disabled`)")]
    Disabled,
    /// The address can be reached by others, and no token is set.
    #[error(
        "{0} is no loopback address, and whoever reaches it could use it: name a file with a token in `proxy.token_file`"
    )]
    Open(SocketAddr),
    /// The store cannot be used.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The proxy cannot listen, or its token cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The endpoint for Prometheus cannot be started.
    #[error(transparent)]
    Scrape(#[from] ScrapeError),
    /// Signals or the runtime cannot be set up.
    #[error("failed to start")]
    Start(#[source] io::Error),
}

/// A proxy without a daemon.
#[derive(Debug)]
pub struct Standalone {
    hosted: HostedProxy,
    loaded: LoadedConfiguration,
    reloader: Reloader,
    recorder: Recorder,
    metrics: Metrics,
    /// The time of its start, in seconds since the epoch.
    started: u64,
}

impl Standalone {
    /// Starts the proxy with these sessions' tokens.
    ///
    /// # Errors
    /// Returns an error if it cannot start.
    pub fn start(options: StandaloneOptions, tokens: Tokens) -> Result<Self, ProxyError> {
        let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
        let loaded = mcpmon_config::load(&options.search, trust)?;
        let settings = settings(&loaded, &options)?;
        let search = options.search.clone();
        let judged = host_options(options.search, trust, options.socket, options.store);
        let mut record = mcpmon_session::own_settings(&judged, &loaded.settings.record)?;
        let metrics = Metrics::default();
        record.sinks.metrics = Some(metrics.clone());
        let recorder = mcpmon_session::recorder(record).map_err(JudgeError::from)?;
        declare(&recorder, &loaded);
        let policies = Policies::of_one(loaded.clone());
        let models = Models::new(policies.clone(), recorder.clone(), &judged);
        let hosting = HostedParts::alone(recorder.clone(), &judged);
        let remotes = RemoteServers::new(policies, hosting, tokens);
        remotes.discover();
        let hosted = HostedProxy::start(&settings, None, models, remotes, options.token)?;
        Ok(Self {
            hosted,
            reloader: Reloader::new(search, trust, &loaded),
            loaded,
            recorder,
            metrics,
            started: now_seconds(),
        })
    }

    /// Listens for Prometheus if the policy has an address for that.
    fn listen_for_scrapes(&self) -> Result<Option<ScrapeListener>, ScrapeError> {
        self.loaded.settings.metrics.map(ScrapeListener::bind).transpose()
    }

    /// Returns the proxy's state.
    pub fn status(&self) -> ProxyStatus {
        self.hosted.status()
    }

    /// Returns the number of requests to models so far.
    pub fn asked(&self) -> u64 {
        self.hosted.asked()
    }

    /// Returns the URLs of the configured providers, by name.
    pub fn providers(&self) -> BTreeMap<String, String> {
        let providers = self.hosted.settings().providers.iter();
        let urls = providers.map(|provider| (provider.name.clone(), provider.url.clone()));
        urls.collect()
    }

    /// Serves until `end`.
    pub async fn serve_until<T>(&mut self, end: impl Future<Output = T>) -> T {
        let mut end = pin!(end);
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ended = &mut end => return ended,
                _ = ticks.tick() => {
                    self.hosted.tick(clock::now());
                    let hash = self.loaded.hash.to_string();
                    self.metrics.set_state(of_proxy(&self.hosted.status(), &hash, self.started));
                    if let Some(news) = self.reloader.poll(Instant::now(), mcpmon_config::ReloadOccasion::ByClock) {
                        self.recorder.push(adopt(&self.hosted, &mut self.loaded, news));
                        declare(&self.recorder, &self.loaded);
                    }
                }
            }
        }
    }

    /// Stops the proxy when responses in flight are done and everything is recorded.
    pub fn stop(self) {
        self.hosted.stop();
        let recorded = self.recorder.close();
        if recorded.lost > 0 {
            tracing::error!(
                lost = recorded.lost,
                cause = recorded.cause(),
                "not everything was recorded"
            );
        }
    }
}

/// Serves until a signal ends it. `tell` is called once with the state after the start.
///
/// # Errors
/// Returns an error if it cannot start.
pub fn run(options: StandaloneOptions, tell: impl FnOnce(&ProxyStatus)) -> Result<(), ProxyError> {
    let is_second = UnixStream::connect(&options.socket).is_ok();
    let mut proxy = Standalone::start(options, Tokens::default())?;
    let scrapes = proxy.listen_for_scrapes()?;
    if is_second {
        tracing::warn!(
            "a daemon runs here and has a proxy of its own: this one knows only what wrappers without a daemon saw"
        );
    }
    tell(&proxy.status());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ProxyError::Start)?;
    let outcome = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        if let Some(listener) = scrapes {
            tracing::info!(address = %listener.address(), "metrics are served");
            tokio::spawn(serve_own(listener, proxy.metrics.clone()));
        }
        let ended = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        proxy.serve_until(ended).await;
        Ok(())
    });
    proxy.stop();
    outcome.map_err(ProxyError::Start)
}

/// Builds the settings: addresses, providers and their options.
fn settings(loaded: &LoadedConfiguration, options: &StandaloneOptions) -> Result<ProxySettings, ProxyError> {
    let mut settings = loaded.settings.proxy.clone().ok_or(ProxyError::Disabled)?;
    if let Some(listen) = options.listen {
        settings.listen = listen;
    }
    if options.token.is_some() {
        // The proxy is for one agent only.
        settings.listen_unix = None;
        settings.token_file = None;
    }
    for provider in &mut settings.providers {
        let is_usual = mcpmon_config::default_provider_url(&provider.name).as_ref() == Some(&provider.url);
        if let Some(url) = options.providers.get(provider.name.as_str())
            && is_usual
        {
            provider.url.clone_from(url);
        }
    }
    for (name, url) in &options.gateways {
        let is_taken = |name: &str| settings.providers.iter().any(|known| known.name == name);
        if settings.providers.iter().all(|known| known.url != *url) {
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            let mut names = std::iter::once(name.clone()).chain(numbered);
            let name = names.find(|name| !is_taken(name)).unwrap_or_default();
            let url = url.clone();
            settings.providers.push(ProviderSettings { name, url });
        }
    }
    let is_open = !settings.listen.ip().to_canonical().is_loopback();
    match is_open && settings.token_file.is_none() && options.token.is_none() {
        true => Err(ProxyError::Open(settings.listen)),
        false => Ok(settings),
    }
}

/// Adopts a changed configuration, as a whole or not at all. Returns the event about it.
fn adopt(
    hosted: &HostedProxy,
    loaded: &mut LoadedConfiguration,
    news: Result<LoadedConfiguration, ConfigError>,
) -> Event {
    match news {
        Ok(new) => {
            if new.settings != loaded.settings {
                tracing::warn!(
                    "`proxy` or `record` changed: it takes effect when the proxy is started again"
                );
            }
            hosted.install(clock::now(), &new);
            *loaded = new;
            loaded.event(clock::now())
        }
        Err(error) => {
            let errors = mcpmon_session::mistakes(&error);
            let told = errors.join("; ");
            tracing::error!("the changed policy is refused, the one before stays in force: {told}");
            let path = loaded.path();
            let kind = EventKind::PolicyRejected { path, errors };
            let mut event = Event::new(clock::now(), Layer::Agent, kind);
            event.severity = Severity::High;
            event
        }
    }
}

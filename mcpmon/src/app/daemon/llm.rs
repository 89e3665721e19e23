//! The LLM proxy of the daemon: started, restarted and stopped as the policy says.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_config::ProxySettings;
use mcpmon_kernel::reserved::ReservedAddresses;
use mcpmon_session::{HostedParts, Policies, clock, models::Models};
use mcpmon_store::{Recorder, RecorderSettings, StoreError};
use tokio::sync::watch;

use super::Daemon;
use crate::app::{
    group, listener,
    proxy::{HostedProxy, ProxyStatus, RemoteServers, Tokens},
    runs::{Offered, protocol::ProxyOffer},
    wrappers::{HostedRecords, Wrappers},
};

/// The interval at which the start of a failed proxy is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// The name of this component in events and `mcpmon status`.
const COMPONENT: &str = "LLM proxy";

/// The proxy, if it runs, and what it needs.
pub(super) struct DaemonProxy {
    models: Models,
    remotes: RemoteServers,
    /// Records conversations with remote servers.
    recorder: Recorder,
    hosted: Option<HostedProxy>,
    /// The time of the last attempt to start it.
    tried: Option<Instant>,
    /// The address of the proxy, for sessions of `mcpmon run`.
    offer: watch::Sender<Offered>,
    reservation: Reservation,
}

/// The addresses that only root may listen on, also while the daemon is away.
#[derive(Debug)]
pub(super) struct Reservation {
    /// The kernel's table, if the kernel has the programs for it.
    table: Option<ReservedAddresses>,
    /// True if the table stays in the kernel when the daemon ends.
    is_kept: bool,
    /// The addresses that are reserved; `None` if they are those of an earlier daemon, or a part of the table could not be
    /// written.
    reserved: Option<Vec<SocketAddr>>,
    /// The time of the last attempt that failed.
    failed: Option<Instant>,
}

impl Reservation {
    pub(super) const fn new(table: Option<ReservedAddresses>, is_kept: bool) -> Self {
        Self {
            table,
            is_kept,
            reserved: None,
            failed: None,
        }
    }

    /// Reserves these addresses, and no others.
    fn reserve(&mut self, addresses: Vec<SocketAddr>) {
        let is_due = self.failed.is_none_or(|failed| failed.elapsed() >= RETRY);
        if self.reserved.as_ref() == Some(&addresses) || !is_due {
            return;
        }
        match self.table.as_mut().map(|table| table.replace(&addresses)) {
            Some(Err(error)) => {
                tracing::warn!(
                    error = with_causes(&error),
                    "cannot reserve the daemon's addresses: other users can listen there while the daemon is down"
                );
                (self.reserved, self.failed) = (None, Some(Instant::now()));
            }
            Some(Ok(())) | None => (self.reserved, self.failed) = (Some(addresses), None),
        }
    }

    /// Returns whether only root can listen at an address while the daemon is away.
    fn holds(&self, address: SocketAddr) -> bool {
        let is_reserved = self
            .reserved
            .as_ref()
            .is_some_and(|reserved| reserved.contains(&address));
        self.is_kept && self.table.is_some() && is_reserved && !listener::is_chosen_by_kernel(address.port())
    }
}

impl DaemonProxy {
    /// Prepares the proxy in front of models and of remote servers. Returns its offer to sessions, too.
    pub(super) fn new(
        models: Models,
        (remotes, recorder): (RemoteServers, Recorder),
        reservation: Reservation,
    ) -> (Self, watch::Receiver<Offered>) {
        let (offer, offered) = watch::channel(None);
        let proxy = Self {
            models,
            remotes,
            recorder,
            hosted: None,
            tried: None,
            offer,
            reservation,
        };
        (proxy, offered)
    }

    pub(super) fn status(&self) -> Option<ProxyStatus> {
        let status = self.hosted.as_ref()?.status();
        Some(ProxyStatus {
            reserved: Some(self.reservation.holds(status.listen)),
            ..status
        })
    }

    /// Reserves the address at which the proxy listens, and that of the metrics. While the proxy is wanted and cannot listen, what
    /// was reserved stays: another program may have the address.
    fn reserve(&mut self, wanted: Option<&ProxySettings>, metrics: Option<SocketAddr>) {
        let listens = self.hosted.as_ref().map(HostedProxy::address);
        if wanted.is_some() && listens.is_none() {
            return;
        }
        let addresses = [listens, metrics].into_iter().flatten();
        self.reservation
            .reserve(addresses.filter(|address| address.port() != 0).collect());
    }

    /// Starts, restarts or stops the proxy to match `wanted`. Returns `None` if nothing changed, else the reason why it
    /// does not run, if any.
    fn follow(&mut self, wanted: Option<&ProxySettings>) -> Option<Option<String>> {
        let is_as_wanted = |hosted: &HostedProxy| hosted.is_running() && Some(hosted.settings()) == wanted;
        let Some(wanted) = wanted else {
            self.tried = None;
            return self.hosted.take().map(|hosted| {
                hosted.retire();
                None
            });
        };
        if self.hosted.as_ref().is_some_and(is_as_wanted) {
            return None;
        }
        if let Some(hosted) = self.hosted.take() {
            hosted.retire();
        } else if self.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return None;
        }
        self.tried = Some(Instant::now());
        let (models, remotes) = (self.models.clone(), self.remotes.clone());
        match HostedProxy::start(wanted, group::find(), models, remotes, None) {
            Ok(hosted) => {
                tracing::info!(listen = %hosted.status(), "the LLM proxy listens");
                self.hosted = Some(hosted);
                Some(None)
            }
            Err(error) => Some(Some(with_causes(&error))),
        }
    }

    /// Tells sessions how the proxy is reached, or why it does not run.
    fn tell(&self, trouble: Option<&str>) {
        let offer = match (&self.hosted, trouble) {
            (Some(hosted), _) => Ok(offer(hosted)),
            (None, Some(trouble)) => Err(trouble.to_owned()),
            (None, None) => Err("it is switched off (`proxy.mode: disabled`)".to_owned()),
        };
        self.offer.send_if_modified(|told| {
            let is_news = told.as_ref() != Some(&offer);
            *told = Some(offer);
            is_news
        });
    }

    pub(super) fn stop(self) {
        if let Some(hosted) = self.hosted {
            hosted.stop();
        }
        self.remotes.close();
        let recorded = self.recorder.close();
        if let Some(error) = recorded.last_error {
            tracing::error!(
                error,
                lost = recorded.lost,
                "not everything of remote servers was recorded"
            );
        }
    }
}

/// Makes the parts that are shared by all conversations that the daemon judges itself, and by those of the wrappers.
pub(super) fn hosting(
    wrappers: &Wrappers,
    settings: RecorderSettings,
    host: &mcpmon_session::Options,
) -> Result<HostedParts, StoreError> {
    let kept = HostedRecords(wrappers.clone());
    HostedParts::of_daemon(Arc::new(wrappers.clone()), kept, settings, host)
}

/// Returns the remote servers that the host's policy declares, and the recorder of their conversations.
pub(super) fn remotes(policies: Policies, hosting: HostedParts, tokens: Tokens) -> (RemoteServers, Recorder) {
    let recorder = hosting.recorder().clone();
    let remotes = RemoteServers::new(policies, hosting, tokens);
    remotes.discover();
    (remotes, recorder)
}

impl Daemon {
    /// Starts, restarts or stops the proxy. Is called about once a second, and when the policy changed.
    pub(super) fn look_after_proxy(&mut self) {
        self.proxy.models.tick(clock::now());
        let wanted = self.loaded.settings.proxy.as_ref();
        let trouble = self.proxy.follow(wanted);
        self.proxy.reserve(wanted, self.loaded.settings.metrics);
        if trouble.is_some() || wanted.is_none() {
            self.proxy.tell(trouble.as_ref().and_then(Option::as_deref));
        }
        if let Some(trouble) = trouble {
            self.note(COMPONENT, trouble);
        }
    }

    /// Applies a new policy to the proxy.
    pub(super) fn tell_proxy(&mut self) {
        self.proxy.models.install(clock::now(), &self.loaded);
        self.proxy.remotes.follow();
        self.look_after_proxy();
    }
}

/// Returns the address at which a proxy is reached from this host, and its providers.
fn offer(hosted: &HostedProxy) -> ProxyOffer {
    let mut address = hosted.address();
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let providers = hosted.settings().providers.iter();
    ProxyOffer {
        address,
        providers: providers
            .map(|provider| (provider.name.clone(), provider.url.clone()))
            .collect(),
    }
}

/// Formats an error with its causes.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

//! The metrics of this process, and the endpoint at which Prometheus reads them.

mod encode;
mod state;

use std::{
    net::SocketAddr,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use mcpmon_http::{ScrapeError, ScrapeListener};
use mcpmon_store::metrics::{MetricFamily, Metrics};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{MissedTickBehavior, timeout},
};

pub(crate) use self::state::{of_daemon, of_proxy};
use super::control::{ControlRequest, DaemonAnswer, DaemonRequest};

/// The longest time to wait for the daemon's state. A running self-test does not delay the answer.
const STATE_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which the state is read for an exporter.
const REFRESH: Duration = Duration::from_secs(15);
/// The time after which an address that could not be listened on is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Returns the time in seconds since the epoch.
pub(crate) fn now_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Reads the daemon's state into its metrics.
#[derive(Clone, Debug)]
pub(crate) struct DaemonMetrics {
    metrics: Metrics,
    ask: mpsc::Sender<ControlRequest>,
}

impl DaemonMetrics {
    pub(crate) const fn new(metrics: Metrics, ask: mpsc::Sender<ControlRequest>) -> Self {
        Self { metrics, ask }
    }

    /// Returns the text for a scrape, with the current state.
    async fn render(self) -> Result<String, String> {
        self.refresh().await?;
        text(self.metrics.families())
    }

    /// Reads the state at an interval: for an exporter, which no scrape triggers.
    pub(crate) async fn keep_fresh(self) {
        let mut ticks = tokio::time::interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.refresh().await {
                tracing::debug!(error, "metrics are not up to date");
            }
        }
    }

    /// Reads the current state.
    async fn refresh(&self) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        let asked = ControlRequest {
            request: DaemonRequest::Status,
            own: None,
            reply,
        };
        let ended = || "the daemon ends\n".to_owned();
        let asked = async {
            self.ask.send(asked).await.map_err(|_closed| ended())?;
            answer.await.map_err(|_closed| ended())
        };
        let answered = timeout(STATE_TIMEOUT, asked)
            .await
            .map_err(|_elapsed| "the daemon does not tell its state in time\n".to_owned())?;
        let answer = answered?;
        if let DaemonAnswer::Status(status) = answer {
            self.metrics.set_state(of_daemon(&status));
            return Ok(());
        }
        Err(format!("the daemon tells no state: {answer:?}\n"))
    }
}

fn text(families: Vec<MetricFamily>) -> Result<String, String> {
    encode::text(families).map_err(|error| format!("metrics cannot be written: {error}\n"))
}

/// Serves the metrics of a process without a daemon.
pub(crate) async fn serve_own(listener: ScrapeListener, metrics: Metrics) {
    let render = move || std::future::ready(text(metrics.families()));
    if let Err(error) = listener.serve(render).await {
        tracing::error!(%error, "metrics are not served");
    }
}

/// The endpoint of the daemon, which follows the configuration.
#[derive(Debug)]
pub(crate) struct MetricsEndpoint {
    metrics: DaemonMetrics,
    /// The configured address, and the task that serves there.
    served: Option<(SocketAddr, JoinHandle<()>)>,
    /// The time of the last attempt to listen.
    tried: Option<Instant>,
}

impl MetricsEndpoint {
    pub(crate) const fn new(metrics: DaemonMetrics) -> Self {
        Self {
            metrics,
            served: None,
            tried: None,
        }
    }

    /// Starts, moves or stops the endpoint to match `wanted`. Returns `None` if nothing changed, else the reason why it
    /// does not serve, if any. Must be called within a runtime.
    pub(crate) fn follow(&mut self, wanted: Option<SocketAddr>) -> Option<Option<String>> {
        let is_as_wanted =
            |(address, task): &(SocketAddr, JoinHandle<()>)| Some(*address) == wanted && !task.is_finished();
        if self.served.as_ref().is_some_and(is_as_wanted) {
            return None;
        }
        let Some(address) = wanted else {
            self.tried = None;
            return self.served.take().map(|(_, task)| {
                task.abort();
                None
            });
        };
        if let Some((_, task)) = self.served.take() {
            task.abort();
        } else if self.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return None;
        }
        self.tried = Some(Instant::now());
        match self.start(address) {
            Ok(task) => {
                tracing::info!(%address, "metrics are served");
                self.served = Some((address, task));
                Some(None)
            }
            Err(error) => Some(Some(format!("{error}: {}", error.source))),
        }
    }

    fn start(&self, address: SocketAddr) -> Result<JoinHandle<()>, ScrapeError> {
        let listener = ScrapeListener::bind(address)?;
        let metrics = self.metrics.clone();
        Ok(tokio::spawn(async move {
            if let Err(error) = listener.serve(move || metrics.clone().render()).await {
                tracing::error!(%error, "metrics are not served");
            }
        }))
    }
}

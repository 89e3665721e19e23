//! The policy bundle of this host: fetched at an interval, judged, and kept for the next start.

mod fetch;
mod keep;

use std::{
    hash::{BuildHasher as _, RandomState},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use mcpmon_bundle::{BundleError, BundleId, Succession, VerifiedBundle};
use mcpmon_config::BundleSettings;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep,
};

pub(crate) use self::{
    fetch::{FetchOutcome, display_url},
    keep::BundleDirectory,
};

/// Intervals without an answer after which a host reports that its policy may be out of date.
const MAX_MISSED: u32 = 3;

/// The bundle to fetch. Any change of `asked` causes a fetch at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WantedBundle {
    pub(crate) settings: Option<BundleSettings>,
    pub(crate) asked: u64,
    /// True if the latest bundle was refused: it is to be sent again, even if it has not changed.
    pub(crate) afresh: bool,
}

/// The result of one fetch.
#[derive(Debug)]
pub(crate) struct FetchedBundle {
    /// The URL of the request.
    pub(crate) url: String,
    pub(crate) outcome: FetchOutcome,
}

/// Fetches the wanted bundle at once and in every interval; ends when the sender of `wanted` is dropped.
pub(crate) async fn keep_fetched(
    mut wanted: watch::Receiver<WantedBundle>,
    found: mpsc::Sender<FetchedBundle>,
) {
    // The version that was fetched last, and the settings of that request.
    let mut known: Option<(WantedBundle, String)> = None;
    loop {
        let want = wanted.borrow_and_update().clone();
        let Some(settings) = want.settings.clone() else {
            known = None;
            match wanted.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        };
        let tag = known.take().filter(|(of, _)| *of == want).map(|(_, tag)| tag);
        let (asked, before) = (settings.clone(), tag.clone());
        let outcome = fetched(move || fetch::fetch(&asked, before.as_deref())).await;
        let tag = match &outcome {
            FetchOutcome::Fetched { tag, .. } => tag.clone(),
            FetchOutcome::Unchanged | FetchOutcome::Failed(_) => tag,
        };
        known = tag.map(|tag| {
            (
                WantedBundle {
                    afresh: false,
                    ..want
                },
                tag,
            )
        });
        let url = settings.url.clone();
        if found.send(FetchedBundle { url, outcome }).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(jittered(settings.interval, RandomState::new().hash_one(()))) => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
    }
}

/// Fetches in a separate thread, so that the end of the daemon does not wait for it.
async fn fetched(fetch: impl FnOnce() -> FetchOutcome + Send + 'static) -> FetchOutcome {
    let (tell, told) = oneshot::channel();
    // If the daemon has ended, the result is dropped.
    let started = thread::Builder::new()
        .name("bundle".to_owned())
        .spawn(move || drop(tell.send(fetch())));
    match started {
        Ok(_) => told
            .await
            .unwrap_or_else(|_ended| FetchOutcome::Failed("the fetch ended without a result".to_owned())),
        Err(error) => FetchOutcome::Failed(format!("no thread can be started: {error}")),
    }
}

/// Returns `interval`, up to a tenth shorter or longer, so that hosts that start together do not keep fetching
/// together.
fn jittered(interval: Duration, random: u64) -> Duration {
    // A number from 0 to 1.
    let part = f64::from(u32::try_from(random >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX);
    interval.mul_f64(part.mul_add(0.2, 0.9))
}

/// The state of this host's bundle: the one in force, the server's latest answer, and its problems.
#[derive(Debug)]
pub(crate) struct HostBundle {
    directory: BundleDirectory,
    /// The bundle that was in force last, or the reason why it is not known.
    last: Result<Option<BundleId>, String>,
    /// The time at which the bundle in force expires.
    expires: Option<jiff::Timestamp>,
    /// The time of the server's last answer, or of the start; and the same as wall-clock time.
    heard: Instant,
    heard_at: Option<jiff::Timestamp>,
    /// The reason why the latest bundle was refused.
    refused: Option<String>,
    /// The reason why the bundle in force is not kept.
    not_kept: Option<String>,
    /// The bundle in force, if it is not kept.
    unkept: Option<(Vec<u8>, BundleId)>,
    /// The reason why the server does not answer.
    silent: Option<String>,
}

/// A bundle that an earlier daemon kept; or the reason why it cannot be used.
pub(crate) type KeptBundle = Result<Option<VerifiedBundle>, String>;

impl HostBundle {
    /// Reads the bundle that an earlier daemon kept beside its store.
    pub(crate) fn open(directory: PathBuf, settings: Option<&BundleSettings>) -> (Self, KeptBundle) {
        let directory = BundleDirectory::new(directory);
        let last = directory.last().map_err(|error| error.told());
        let mut host = Self {
            directory,
            last,
            expires: None,
            heard: Instant::now(),
            heard_at: None,
            refused: None,
            not_kept: None,
            unkept: None,
            silent: None,
        };
        let kept = match settings {
            Some(settings) => host.read(settings),
            None => Ok(None),
        };
        (host, kept)
    }

    fn read(&mut self, settings: &BundleSettings) -> KeptBundle {
        let last = self.last.clone()?;
        let Some(bytes) = self.directory.bundle().map_err(|error| error.told())? else {
            return Ok(None);
        };
        let opened = VerifiedBundle::open(&bytes, &settings.keys).and_then(|bundle| {
            bundle.check_name(settings.name.as_deref())?;
            Ok(bundle)
        });
        let bundle = opened.map_err(|error| {
            format!(
                "the bundle in {} is refused: {error}",
                self.directory.path().display()
            )
        })?;
        // It may have been written before the serial number, or restored by hand.
        bundle.check_serial(last).map_err(|error| {
            format!(
                "the bundle in {} is refused: {error}",
                self.directory.path().display()
            )
        })?;
        self.last = Ok(Some(bundle.id()));
        Ok(Some(bundle))
    }

    /// Judges a fetched bundle; `in_force` is the one in force. Returns `None` if it is the same.
    pub(crate) fn judge(
        &mut self,
        bytes: &[u8],
        settings: &BundleSettings,
        in_force: Option<BundleId>,
        now: jiff::Timestamp,
    ) -> Result<Option<VerifiedBundle>, String> {
        if self.last.is_err() {
            self.last = self.directory.last().map_err(|error| error.told());
        }
        let last = self.last.clone()?;
        let judged = || -> Result<Option<VerifiedBundle>, BundleError> {
            let bundle = VerifiedBundle::open(bytes, &settings.keys)?;
            bundle.check_name(settings.name.as_deref())?;
            let succession = bundle.check_serial(last)?;
            if succession == Succession::Same && in_force == Some(bundle.id()) {
                return Ok(None);
            }
            bundle.check_expiry(now)?;
            Ok(Some(bundle))
        };
        judged().map_err(|error| error.to_string())
    }

    /// Notes that the server answered.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
        self.heard_at = Some(jiff::Timestamp::now());
        self.silent = None;
        if let Some((bytes, id)) = self.unkept.take() {
            self.keep(&bytes, id);
        }
    }

    /// Notes that the server did not answer. This is a problem after a while; at once if no bundle is in force.
    pub(crate) fn not_heard(&mut self, settings: &BundleSettings, has_bundle: bool, cause: &str) {
        if self.silent.is_some() {
            return;
        }
        let url = display_url(&settings.url);
        if !has_bundle {
            self.silent = Some(format!(
                "no bundle is in force, and none can be fetched from {url}: {cause}; the host's own files hold"
            ));
        } else if self.heard.elapsed() > MAX_MISSED * settings.interval {
            let since = self
                .heard_at
                .map_or_else(|| "the start".to_owned(), |at| at.to_string());
            self.silent = Some(format!(
                "{url} was not heard since {since}: {cause}; the last bundle stays in force"
            ));
        }
    }

    /// Notes the reason why the latest bundle is refused. Returns whether the reason is new.
    pub(crate) fn refuse(&mut self, cause: String) -> bool {
        self.refused.replace(cause.clone()) != Some(cause)
    }

    /// Notes that the server has the bundle that is in force.
    pub(crate) fn is_current(&mut self) {
        self.refused = None;
    }

    /// Notes that a bundle is in force.
    pub(crate) fn took(&mut self, bundle: &VerifiedBundle) {
        self.last = Ok(Some(bundle.id()));
        self.expires = bundle.manifest().expires;
        self.refused = None;
    }

    /// Keeps the bundle for the next start.
    pub(crate) fn keep(&mut self, bytes: &[u8], id: BundleId) {
        let kept = self.directory.keep(bytes, id);
        self.unkept = kept.is_err().then(|| (bytes.to_vec(), id));
        self.not_kept = kept.err().map(|error| {
            format!(
                "{}; after a restart the host is without it until it is fetched again",
                error.told()
            )
        });
    }

    /// Notes that the host uses no bundle any more.
    pub(crate) fn end(&mut self) {
        self.refused = None;
        self.silent = None;
        self.expires = None;
        self.unkept = None;
        self.not_kept = None;
    }

    /// Returns the current problems.
    pub(crate) fn trouble(&self, now: jiff::Timestamp) -> Option<String> {
        let expired = self.expires.filter(|expires| *expires <= now).map(|expires| {
            format!(
                "the bundle in force expired at {expires} and stays in force: build and publish a new one"
            )
        });
        let refused = self
            .refused
            .as_ref()
            .map(|cause| format!("the latest bundle is refused: {cause}"));
        let all = [refused, self.not_kept.clone(), expired, self.silent.clone()];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns the time of the server's last answer.
    pub(crate) const fn heard_at(&self) -> Option<jiff::Timestamp> {
        self.heard_at
    }

    /// Returns the reason why the latest bundle was refused.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Returns the time at which the bundle in force expires.
    pub(crate) const fn expires(&self) -> Option<jiff::Timestamp> {
        self.expires
    }
}

#[cfg(test)]
mod tests;

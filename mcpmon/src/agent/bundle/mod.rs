//! The policy bundle of this host: fetched on an interval, judged, and kept for the next start.

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

/// Intervals without an answer after which a host says that its policy may be out of date.
const MAX_MISSED: u32 = 3;

/// The bundle to fetch. A change of `asked` asks at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WantedBundle {
    pub(crate) settings: Option<BundleSettings>,
    pub(crate) asked: u64,
    /// The latest was refused: it is to come again, even where the server has no other.
    pub(crate) afresh: bool,
}

/// The result of one fetch.
#[derive(Debug)]
pub(crate) struct FetchedBundle {
    /// The URL that was asked.
    pub(crate) url: String,
    pub(crate) outcome: FetchOutcome,
}

/// Fetches what is wanted now and then every interval; ends when nobody wants anything any more.
pub(crate) async fn keep_fetched(
    mut wanted: watch::Receiver<WantedBundle>,
    found: mpsc::Sender<FetchedBundle>,
) {
    // The name by which a server knows what it sent last, and the settings it was asked with.
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

/// Fetches in a thread of its own, which no daemon that ends waits for.
async fn fetched(fetch: impl FnOnce() -> FetchOutcome + Send + 'static) -> FetchOutcome {
    let (tell, told) = oneshot::channel();
    // Nobody hears it where the daemon has ended.
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

/// Returns `interval`, up to a tenth shorter or longer: hosts that start together do not stay together.
fn jittered(interval: Duration, random: u64) -> Duration {
    // From 0 to 1.
    let part = f64::from(u32::try_from(random >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX);
    interval.mul_f64(part.mul_add(0.2, 0.9))
}

/// The state of this host's bundle: the one in force, the latest answer of the server, and what went wrong.
#[derive(Debug)]
pub(crate) struct HostBundle {
    directory: BundleDirectory,
    /// The bundle that was in force last, or why that cannot be told.
    last: Result<Option<BundleId>, String>,
    /// The time at which the one in force ends to be valid.
    expires: Option<jiff::Timestamp>,
    /// The last time the server answered, or the start; and the same for people.
    heard: Instant,
    heard_at: Option<jiff::Timestamp>,
    /// Why the latest one was refused.
    refused: Option<String>,
    /// Why the one in force is not kept.
    not_kept: Option<String>,
    /// The one in force, where it is not kept.
    unkept: Option<(Vec<u8>, BundleId)>,
    /// Why the server is not heard.
    silent: Option<String>,
}

/// A bundle that was kept by an earlier daemon, or why there is none.
pub(crate) type KeptBundle = Result<Option<VerifiedBundle>, String>;

impl HostBundle {
    /// Reads what an earlier daemon kept beside its store.
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
        // Written before the serial was, or put back by hand.
        bundle.check_serial(last).map_err(|error| {
            format!(
                "the bundle in {} is refused: {error}",
                self.directory.path().display()
            )
        })?;
        self.last = Ok(Some(bundle.id()));
        Ok(Some(bundle))
    }

    /// Judges fetched bytes; `in_force` is the bundle in force. `None` where it is that one.
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

    /// Notes that the server did not answer, which matters after a while, and at once where no bundle is in force.
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

    /// Notes why the latest bundle is not taken; returns whether that is news.
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

    /// Keeps it for the next start.
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

    /// Notes that none is wanted any more.
    pub(crate) fn end(&mut self) {
        self.refused = None;
        self.silent = None;
        self.expires = None;
        self.unkept = None;
        self.not_kept = None;
    }

    /// Returns what is not as it should be.
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

    /// Returns when the server answered last.
    pub(crate) const fn heard_at(&self) -> Option<jiff::Timestamp> {
        self.heard_at
    }

    /// Returns why the latest one was refused.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Returns when the one in force expires.
    pub(crate) const fn expires(&self) -> Option<jiff::Timestamp> {
        self.expires
    }
}

#[cfg(test)]
mod tests;

//! The policy bundle in the daemon: adopted as a whole, or not at all.

use std::path::{Path, PathBuf};

use mcpmon_bundle::VerifiedBundle;
use mcpmon_config::{BundleSettings, LoadedConfiguration, Reloader};
use mcpmon_model::{Event, EventKind, Layer, Severity};
use mcpmon_session::clock;

use super::Daemon;
use crate::app::{
    bundle::{FetchOutcome, FetchedBundle, HostBundle, WantedBundle, display_url},
    status::BundleStatus,
};

/// The name of this component in events and `mcpmon status`.
const COMPONENT: &str = "policy bundle";
/// The directory beside the store in which the last good bundle is kept.
const DIRECTORY: &str = "bundle";

/// Returns the directory for bundles that belongs to this store.
fn directory(store: &Path) -> PathBuf {
    store.parent().unwrap_or_else(|| Path::new(".")).join(DIRECTORY)
}

/// Adopts the bundle that an earlier daemon kept. Returns the resulting configuration, and the state of the bundle,
/// with the reason if it was not adopted.
pub(crate) fn resume(
    store: &Path,
    own: LoadedConfiguration,
    reloader: &mut Reloader,
) -> (LoadedConfiguration, HostBundle) {
    let settings = own.settings.bundle.as_ref();
    let (mut host, kept) = HostBundle::open(directory(store), settings);
    let composed = kept.and_then(|bundle| {
        let Some(bundle) = bundle else { return Ok(None) };
        match reloader.compose(&bundle) {
            Ok(loaded) => Ok(Some((bundle, loaded))),
            Err(error) => Err(mcpmon_session::mistakes(&error).join("; ")),
        }
    });
    match composed {
        Ok(Some((bundle, mut loaded))) => {
            // No configuration was in force before, so the bundle turns nothing off.
            (loaded.lost, loaded.switched_off) = (Vec::new(), Vec::new());
            host.took(&bundle);
            reloader.take_bundle(bundle, &loaded);
            (loaded, host)
        }
        Ok(None) => (own, host),
        Err(cause) => {
            tracing::error!("the kept policy bundle is not in force: {cause}");
            host.refuse(cause);
            (own, host)
        }
    }
}

/// Returns the bundle that is to be fetched.
pub(super) fn wanted(loaded: &LoadedConfiguration) -> WantedBundle {
    WantedBundle {
        settings: loaded.settings.bundle.clone(),
        asked: 0,
        afresh: false,
    }
}

impl Daemon {
    /// Updates what the fetching task is to fetch. If a person asked for it, the task fetches at once.
    pub(super) fn want_bundle(&mut self, by_person: bool) {
        let settings = self.loaded.settings.bundle.clone();
        if settings.is_none() {
            self.bundle.end();
        }
        self.wanted_bundle.send_if_modified(|wanted| {
            let is_other = wanted.settings != settings;
            if is_other {
                wanted.settings.clone_from(&settings);
            }
            if by_person {
                wanted.asked += 1;
            }
            is_other || by_person
        });
        self.note_bundle();
    }

    pub(super) async fn take_fetched(&mut self, fetched: FetchedBundle) {
        // A bundle that was requested before the configuration changed is ignored.
        let settings = self.loaded.settings.bundle.clone();
        let Some(settings) = settings.filter(|settings| settings.url == fetched.url) else {
            return;
        };
        match fetched.outcome {
            FetchOutcome::Unchanged => self.bundle.heard(),
            FetchOutcome::Failed(cause) => {
                tracing::warn!(cause, "the policy bundle cannot be fetched");
                let has_bundle = self.reloader.bundle().is_some();
                self.bundle.not_heard(&settings, has_bundle, &cause);
            }
            FetchOutcome::Fetched { bytes, .. } => {
                self.bundle.heard();
                self.take_bundle(&bytes, &settings).await;
            }
        }
        // The next request must not be answered with "unchanged": a bundle that was refused may be acceptable later,
        // and is judged again.
        let afresh = self.bundle.refused().is_some();
        self.wanted_bundle.send_if_modified(|wanted| {
            wanted.afresh = afresh;
            false
        });
        self.note_bundle();
    }

    async fn take_bundle(&mut self, bytes: &[u8], settings: &BundleSettings) {
        let (in_force, now) = (self.reloader.bundle(), jiff::Timestamp::now());
        match self.bundle.judge(bytes, settings, in_force, now) {
            Ok(None) => self.bundle.is_current(),
            Ok(Some(bundle)) => match self.adopt_bundle(bundle).await {
                Ok(id) => self.bundle.keep(bytes, id),
                Err(errors) => self.refuse_bundle(settings, errors),
            },
            Err(error) => self.refuse_bundle(settings, vec![error]),
        }
    }

    async fn adopt_bundle(&mut self, bundle: VerifiedBundle) -> Result<mcpmon_bundle::BundleId, Vec<String>> {
        if self.reloader.is_being_dropped(&bundle) {
            let cause = "the host's own file was changed and does not take bundles of this key any more";
            return Err(vec![cause.to_owned()]);
        }
        let loaded = self
            .reloader
            .compose(&bundle)
            .map_err(|error| mcpmon_session::mistakes(&error))?;
        self.adopt(loaded)
            .await
            .map_err(|error| vec![error.to_string()])?;
        let id = bundle.id();
        self.bundle.took(&bundle);
        self.reloader.take_bundle(bundle, &self.loaded);
        Ok(id)
    }

    fn refuse_bundle(&mut self, settings: &BundleSettings, errors: Vec<String>) {
        if !self.bundle.refuse(errors.join("; ")) {
            return;
        }
        tracing::error!(
            "the policy bundle is refused, what was in force stays so:\n{}",
            errors.join("\n")
        );
        let path = display_url(&settings.url).to_owned();
        let mut event = Event::new(
            clock::now(),
            Layer::Agent,
            EventKind::PolicyRejected { path, errors },
        );
        event.severity = Severity::High;
        event.reason = Some(
            "what was in force before stays so; check the bundle with `mcpmon bundle verify FILE --key KEY`"
                .to_owned(),
        );
        self.recorder.push(event);
    }

    /// Notes the state of the bundle in the daemon's health.
    pub(super) fn note_bundle(&mut self) {
        let trouble = self.bundle.trouble(jiff::Timestamp::now());
        self.note(COMPONENT, trouble);
    }

    /// Returns the state of the bundle; `None` if the host uses no bundle.
    pub(super) fn bundle_status(&self) -> Option<BundleStatus> {
        let settings = self.loaded.settings.bundle.as_ref()?;
        let in_force = self.loaded.text.bundle();
        Some(BundleStatus {
            url: display_url(&settings.url).to_owned(),
            serial: in_force.map(|id| id.serial),
            digest: in_force.map(|id| id.digest.to_string()),
            expires: self.bundle.expires().map(|at| at.to_string()),
            heard_at: self.bundle.heard_at().map(|at| at.to_string()),
            refused: self.bundle.refused().map(str::to_owned),
        })
    }
}
